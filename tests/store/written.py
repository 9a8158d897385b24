"""A small store, and how it is written: for tests of what writes stores."""

import numpy as np

from samekind.store import Family, StoreWriter

FAMILIES = [Family("cov", 4, ["a", "b", "c"]), Family("lbp", 2, ["x", "y"])]
FRONT_END = {"crop": {"size": (110, 150), "blur": 1.0}, "align": "none"}
IMAGES = [(f"{at}.jpg", f"label {at % 3}") for at in range(10)]
SHARD_ROWS = 4


def opened(folder, **changes):
    settings = {"families": FAMILIES, "front_end": FRONT_END, "images": IMAGES, "shard_rows": SHARD_ROWS}
    return StoreWriter.open(folder, **{**settings, **changes})


def descriptors(image, family):
    rng = np.random.default_rng([int(image.removesuffix(".jpg")), family.size])
    return rng.normal(size=(len(family.groups), family.size)).astype(np.float16)


def arrays_of(shard):
    return {
        family.name: np.stack([descriptors(image, family) for image, _ in shard.images], axis=1) for family in FAMILIES
    }


def write_all(folder, **changes):
    with opened(folder, **changes) as made:
        for shard in made.pending():
            made.write(shard, arrays_of(shard), rows=range(len(shard.images)), digests=[i for i, _ in shard.images])
