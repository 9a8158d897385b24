"""Stores whose manifest, records or arrays were tampered with, and folders and CSVs to list."""

import contextlib
import hashlib
import json
import os
import shutil

import numpy as np

from samekind.cli.described import describe_store, store_facts
from samekind.cli.frontend import FrontEnd
from samekind.extraction import extract, mirror_means, with_roots
from samekind.images.align import Frame
from samekind.images.extractor import Extractor
from samekind.images.landmarks import read_landmarks
from samekind.images.listing import ImageFile, list_images
from samekind.images.load import ImageError, load_image
from samekind.store import DiskStore, Family, StoreWriter
from tests.fuzz.mutations import check_json, spoilt_bytes, spoilt_json


class Stores:
    """Cases of the kind `stores`: manifests, records of shards, and their arrays."""

    def __init__(self, folder):
        self.original, self.folder = folder / "original", folder / "store"
        _write_store(self.original)
        self.content = {path.name: path.read_bytes() for path in self.original.iterdir()}

    def make(self, rng):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.original, self.folder)
        names = ["manifest.json"] * 3 + ["shard-00001.json", "cov-00001.npy"]
        for name in rng.sample(names, rng.choice([1, 1, 2])):
            content = self.content[name]
            if name.endswith(".json") and rng.random() < 0.85:
                content = json.dumps(spoilt_json(rng, json.loads(content))).encode()
            else:
                content = spoilt_bytes(rng, content, first=200)
            (self.folder / name).write_bytes(content)
            if name.endswith(".npy") and rng.random() < 0.7:
                record = json.loads(self.content["shard-00001.json"])
                record["sha256"]["cov"] = hashlib.sha256(content).hexdigest()
                (self.folder / "shard-00001.json").write_text(json.dumps(record))

    def use(self, rng):
        """As `info`, `fit` and `extract` do."""
        store = DiskStore.open(self.folder, n_jobs=1)
        result = describe_store(store)
        check_json(result)
        store_facts(result)
        panel = store.panel(range(len(store.group_sizes)), range(len(store)))
        assert np.isfinite(panel).all()
        with_roots(store)
        mirror_means(store).panel([0], np.arange(min(len(store), 2)))
        files = [ImageFile(name, self.folder / "none.png", label) for name, label in store.manifest.images[:50]]
        extract(files, self.folder, FrontEnd().extractor_of(store), n_jobs=1)


def _write_store(folder):
    extractor = Extractor.over(("cov", "slbp@0.5:20x28"), n_regions=4, frame=Frame(40, 56))
    rng = np.random.default_rng(0)
    images = [(f"person {at % 3}/{at}.png", f"person {at % 3}") for at in range(7)]
    families = [Family(part.name, part.family.size, part.group_names) for part in extractor.parts]
    with StoreWriter.open(
        folder, families=families, front_end=extractor.to_json(), images=images, shard_rows=3
    ) as writer:
        for shard in writer.pending():
            n = len(shard.images) - (shard.number == 1)
            writer.write(
                shard,
                {each.name: rng.uniform(0, 1, each.shape(n)).astype(np.float16) for each in families},
                rows=range(n),
                skipped={shard.images[-1][0]: "is empty"} if shard.number == 1 else {},
                notes={shard.images[0][0]: ["odd"]},
                digests=[f"{at}" for at in range(n)],
            )


class Listings:
    """Cases of the kind `listings`: folders with odd entries, CSVs with odd bytes."""

    CSV = "file,label,left_eye_x,left_eye_y,right_eye_x,right_eye_y,mouth_x,mouth_y\n" + "".join(
        f"a/{at}.png,p{at % 3},30,40,60.5,41,45,70\n" for at in range(5)
    )

    def __init__(self, folder):
        self.folder = folder / "listing"

    def make(self, rng):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "list.csv").write_bytes(spoilt_bytes(rng, self.CSV.encode()))
        base = os.fsencode(self.folder)
        folders = [base]
        for _ in range(rng.randrange(12)):
            parent = rng.choice(folders)
            name = rng.choice(
                [b"a", b"b", b"\xff", b"c.png", b"d.jpg", b".e", b"f\n", b"g\x1b[2J.png", b"h.csv", b"x" * 200]
            )
            path, kind = parent + b"/" + name, rng.random()
            if os.path.lexists(path):
                continue
            if kind < 0.4:
                os.mkdir(path)
                folders.append(path)
            elif kind < 0.7:
                os.symlink(rng.choice([*folders, b".", b"..", name, b"/nowhere"]), path)
            elif kind < 0.8:
                os.mkfifo(path)
            else:
                with open(path, "wb") as file:
                    file.write(rng.choice([b"", b"P1 1 1 1", b"no picture"]))

    def use(self, rng):
        for source in (self.folder, self.folder / "list.csv"):
            for labelled in (True, False):
                with contextlib.suppress(OSError, ValueError):
                    self._load_all(list_images(source, labelled=labelled))
        read_landmarks(self.folder / "list.csv")

    def _load_all(self, images):
        for image in images:
            image.name.encode()
            with contextlib.suppress(ImageError):
                load_image(image.path)
