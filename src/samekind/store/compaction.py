"""The shards of a store joined into larger ones, in a new store of the same images, groups and numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from samekind.store.disk import DiskStore
from samekind.store.manifest import MOST_SHARD_BYTES, STORED, Manifest, ShardRecord, StoreError, shard_file
from samekind.store.writer import StoreWriter


def compact(
    store: DiskStore,
    out: str | os.PathLike[str],
    shard_bytes: int = MOST_SHARD_BYTES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DiskStore:
    """Write a store anew with larger shards: neighbours are joined as long as they have up to `shard_bytes` together.

    Each file is compared with its checksum when it is read, and gets a new one. `store` stays as it is; the same call
    goes on where an earlier one stopped. `progress` is called with (shards done, all).
    """
    store.check_complete()
    folder = Path(out)
    if folder.exists() and folder.samefile(store.path):
        raise ValueError(f"{folder} is the store itself: give another folder for the one with larger shards.")
    joined = list(_joined(store, _most_rows(store.manifest, shard_bytes)))
    if len(joined) == len(store.records):
        raise ValueError(
            f"No two of the {len(joined):,} shards of {store.path} have up to {shard_bytes:,} bytes together, so there "
            f"is nothing to join. Shards may be larger (--shard-bytes), up to {MOST_SHARD_BYTES:,} bytes."
        )
    with StoreWriter.following(folder, _plan(store.manifest, joined)) as writer:
        pending = {shard.number for shard in writer.pending()}
        _check_begun(store, joined, DiskStore.open(folder))
        writer.check_room()
        for number, shards in enumerate(joined):
            if number in pending:
                arrays = {
                    family.name: np.concatenate([store.shard_array(family, each) for each in shards], axis=1)
                    for family in store.manifest.families
                }
                writer.write_joined(number, arrays, _record(store, shards))
            progress(number + 1, len(joined))
    return DiskStore.open(folder, store.n_jobs, store.options)


def _most_rows(manifest: Manifest, shard_bytes: int) -> int:
    """Images of a shard of so many bytes, and of the largest there is."""
    if shard_bytes < 1:
        raise ValueError(f"shard_bytes={shard_bytes}: give the bytes of a shard, up to {MOST_SHARD_BYTES:,}.")
    per_image = STORED.itemsize * sum(family.size * len(family.groups) for family in manifest.families)
    return max(min(shard_bytes, MOST_SHARD_BYTES) // per_image, *map(len, manifest.shards), 1)


def _joined(store: DiskStore, most_rows: int) -> Iterator[list[int]]:
    """Runs of shards; digests of pictures are of all images of a shard, or of none."""
    run: list[int] = []
    for number, shard in enumerate(store.manifest.shards):
        size = sum(len(store.manifest.shards[each]) for each in run)
        if run and (size + len(shard) > most_rows or not _alike(store, [*run, number])):
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def _alike(store: DiskStore, shards: Sequence[int]) -> bool:
    records = [store.records[number] for number in shards]
    return len({bool(record.digests) for record in records if record.rows}) < 2


def _plan(manifest: Manifest, joined: Sequence[Sequence[int]]) -> Manifest:
    shards = tuple(range(manifest.shards[run[0]].start, manifest.shards[run[-1]].stop) for run in joined)
    return replace(manifest, shards=shards, shard_rows=max(map(len, shards)))


def _record(store: DiskStore, shards: Sequence[int]) -> ShardRecord:
    """Of several shards together, but for the checksums."""
    records = [store.records[number] for number in shards]
    return ShardRecord(
        list(chain.from_iterable(record.rows for record in records)),
        list(chain.from_iterable(record.skipped for record in records)),
        list(chain.from_iterable(record.notes for record in records)),
        list(chain.from_iterable(record.digests for record in records)),
        {},
    )


def _check_begun(store: DiskStore, joined: Sequence[Sequence[int]], begun: DiskStore) -> None:
    """What an earlier run has written must be of the same pictures, which their digests tell."""
    for number, written in begun.records.items():
        record = _record(store, joined[number])
        if replace(written, sha256={}) != record or (record.rows and not record.digests):
            raise StoreError(
                f"{begun.path / shard_file(number)} was not joined from shards of {store.path}, or these have no "
                "digests of pictures to compare. Delete the folder, or choose another one."
            )
