"""Arrays as stores on disk, for tests."""

import numpy as np

from samekind.store import DiskStore, Family, StoreWriter


def disk_store(folder, X, y, families, shard_rows=11):
    """X (N, D), as float16, in families (name -> size of a group), each of as many columns as the next."""
    widths = X.shape[1] // len(families)
    columns = [slice(at * widths, (at + 1) * widths) for at in range(len(families))]
    described = [Family(name, size, [f"group {k}" for k in range(widths // size)]) for name, size in families.items()]
    images = [(f"{i:04d}", str(label)) for i, label in enumerate(y)]
    with StoreWriter.open(folder, families=described, front_end={}, images=images, shard_rows=shard_rows) as writer:
        for shard in writer.pending():
            ids = [int(i) for i, _ in shard.images]
            half = X[ids].astype(np.float16)
            writer.write(
                shard,
                {
                    family.name: half[:, part].reshape(len(ids), -1, family.size).transpose(1, 0, 2)
                    for family, part in zip(described, columns, strict=True)
                },
                rows=list(range(len(ids))),
                skipped={},
                notes={},
                digests=[f"{i:032d}" for i in ids],
            )
    return DiskStore.open(folder)
