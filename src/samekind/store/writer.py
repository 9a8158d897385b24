"""Make a store shard by shard, so that it can be stopped at any moment, gone on with, and added to."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.files import LEFTOVERS, lock_folder, whole_file, write_whole
from samekind.store.disk import DiskStore
from samekind.store.manifest import (
    MANIFEST,
    MOST_SHARD_BYTES,
    STORED,
    Family,
    Manifest,
    ShardRecord,
    StoreError,
    shard_file,
)
from samekind.store.verifying import is_finite

if TYPE_CHECKING:
    from filelock import FileLock

MOST_SHARD_ROWS = 1024
LOCK = ".lock"


class Shard(NamedTuple):
    """Images to be written together: (id, label) each."""

    number: int
    images: tuple[tuple[str, str], ...]


def shard_rows_for(bytes_per_row: int, budget: int) -> int:
    """How many rows fit a budget of bytes: 1 to 1024."""
    return max(1, min(MOST_SHARD_ROWS, min(budget, MOST_SHARD_BYTES) // max(1, bytes_per_row)))


class StoreWriter:
    """The one that may write to a store now; a context manager."""

    def __init__(self, path: Path, manifest: Manifest, lock: FileLock) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        families: Sequence[Family],
        front_end: Mapping[str, Any],
        images: Sequence[tuple[str, str]],
        shard_rows: int,
        retry: bool = False,
    ) -> StoreWriter:
        """Make a store, go on with one, or add images to it.

        What is planned stays as it is planned, `shard_rows` included; images (id, label) that are new come behind it
        in shards of their own, and so do, with `retry`, those that were skipped.
        """
        folder = Path(path)
        empty = Manifest(tuple(families), json.loads(json.dumps(dict(front_end))), shard_rows, (), ())
        _check_new(empty, images)

        def plan(store: DiskStore | None) -> Manifest:
            if store:
                _check_same(folder, store.manifest, empty)
            again = _skipped_for_good(store) if store and retry else set()
            return _extended(folder, store.manifest if store else empty, images, again)

        return cls._planned(folder, plan)

    @classmethod
    def following(cls, path: str | os.PathLike[str], manifest: Manifest) -> StoreWriter:
        """Make a store by a plan, or go on with one that was begun by the same plan."""
        folder = Path(path)

        def plan(store: DiskStore | None) -> Manifest:
            if store and store.manifest != manifest:
                raise StoreError(
                    f"{folder}: there is another store in this folder, or one that was begun with shards of another "
                    "size. Choose another folder, or the size of before."
                )
            return manifest

        return cls._planned(folder, plan)

    @classmethod
    def _planned(cls, folder: Path, plan: Callable[[DiskStore | None], Manifest]) -> StoreWriter:
        """With the manifest that is planned for what is in the folder, if anything."""
        _make_folder(folder)
        lock = _locked(folder)
        try:
            for leftover in folder.glob(LEFTOVERS):
                leftover.unlink(missing_ok=True)
            store = DiskStore.open(folder) if (folder / MANIFEST).exists() else None
            manifest = plan(store)
            if not store or manifest != store.manifest:
                write_whole(folder / MANIFEST, manifest.to_text())
        except BaseException:
            lock.release()
            raise
        return cls(folder, manifest, lock)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another writer in."""
        self._lock.release()

    def pending(self) -> list[Shard]:
        """The shards still to be written."""
        return [
            Shard(number, self.manifest.images[shard.start : shard.stop])
            for number, shard in enumerate(self.manifest.shards)
            if not self._is_written(number)
        ]

    def check_room(self) -> None:
        """An `OSError` before the work if what is pending cannot all be kept."""
        per_image = STORED.itemsize * sum(family.size * len(family.groups) for family in self.manifest.families)
        needed = per_image * sum(len(shard.images) for shard in self.pending())
        free = shutil.disk_usage(self.path).free
        if needed > free:
            problem = (
                f"The disk has too little room: the store needs up to {needed / 1e9:,.2f} GB more, and "
                f"{free / 1e9:,.2f} GB are free. Make room, choose a folder on another disk, or ask `samekind extract` "
                "for fewer regions"
            )
            raise OSError(errno.ENOSPC, problem, str(self.path))

    def write(
        self,
        shard: Shard,
        arrays: Mapping[str, NDArray[np.float16]],
        *,
        rows: ArrayLike,
        skipped: Mapping[str, str] | None = None,
        notes: Mapping[str, Sequence[str]] | None = None,
        digests: Sequence[str] = (),
    ) -> None:
        """Write a shard whole: each family's (K, n, d) float16, for the images at positions `rows` of the shard.

        Every other image of the shard is to be in `skipped`, id -> reason. `digests` of the images' contents, one per
        row, let the store tell which are the same.
        """
        kept = np.asarray(rows, dtype=np.intp).tolist()
        skipped, notes = skipped or {}, notes or {}
        self._check_images(shard, kept, skipped, digests)
        self._check_arrays(arrays, [shard.images[row][0] for row in kept])
        start = self.manifest.shards[shard.number].start
        record = ShardRecord(
            [start + row for row in kept],
            [{"id": image, "reason": reason} for image, reason in skipped.items()],
            [{"id": image, "note": note} for image, several in notes.items() for note in several],
            list(digests),
            {},
        )
        self._write(shard.number, arrays, record)

    def write_joined(self, number: int, arrays: Mapping[str, NDArray[np.float16]], record: ShardRecord) -> None:
        """Write a shard whole, of which everything is known but the checksums."""
        if self._is_written(number):
            raise ValueError(f"Shard {number} is written already: write those of pending() only.")
        self._check_arrays(arrays, [self.manifest.images[row][0] for row in record.rows])
        self._write(number, arrays, record)

    def _write(self, number: int, arrays: Mapping[str, NDArray[np.float16]], record: ShardRecord) -> None:
        try:
            record = replace(record, sha256=self._write_arrays(number, arrays))
            write_whole(self.path / shard_file(number), record.to_text())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._full(arrays) from error
            raise

    def _is_written(self, number: int) -> bool:
        return (self.path / shard_file(number)).exists()

    def _write_arrays(self, number: int, arrays: Mapping[str, NDArray[np.float16]]) -> dict[str, str]:
        """The checksum of each family's file."""
        files = {family.name: self.path / family.file(number) for family in self.manifest.families}
        for path in files.values():
            path.unlink(missing_ok=True)  # of a run that ended before the record: its room is needed
        if shutil.disk_usage(self.path).free < sum(array.nbytes for array in arrays.values()):
            raise self._full(arrays)
        return {name: _write_array(path, arrays[name]) for name, path in files.items()}

    def _full(self, arrays: Mapping[str, NDArray[np.float16]]) -> OSError:
        needed, free = sum(array.nbytes for array in arrays.values()), shutil.disk_usage(self.path).free
        problem = (
            f"The disk is full: the next shard needs {needed / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are free. "
            "Nothing written so far is lost: make room, then run the same command again and it goes on"
        )
        return OSError(errno.ENOSPC, problem, str(self.path))

    def _check_images(self, shard: Shard, rows: list[int], skipped: Mapping[str, str], digests: Sequence[str]) -> None:
        if self._is_written(shard.number):
            raise ValueError(f"Shard {shard.number} is written already: write those of pending() only.")
        if rows != sorted(set(rows)) or not all(0 <= row < len(shard.images) for row in rows):
            raise ValueError(f"rows={rows} must rise, within the {len(shard.images)} images of shard {shard.number}.")
        left = {image for at, (image, _) in enumerate(shard.images) if at not in set(rows)}
        if left != set(skipped):
            wrong = sorted(left ^ set(skipped))[0]
            raise ValueError(f"Image {wrong!r} must have either a row or a reason in skipped.")
        if len(digests) not in (0, len(rows)):
            raise ValueError(f"{len(digests)} digests for {len(rows)} rows: give one per row, or none.")

    def _check_arrays(self, arrays: Mapping[str, NDArray[np.float16]], ids: list[str]) -> None:
        names = [family.name for family in self.manifest.families]
        if sorted(arrays) != sorted(names):
            raise ValueError(f"arrays has {sorted(arrays)}, but the store's families are {sorted(names)}.")
        for family in self.manifest.families:
            array = arrays[family.name]
            if array.shape != family.shape(len(ids)) or array.dtype != STORED:
                raise ValueError(
                    f"Family {family.name!r} comes as {array.dtype} of shape {array.shape}, but {STORED} of shape "
                    f"{family.shape(len(ids))} is needed: groups, rows, numbers."
                )
            _check_finite(array, family, ids)


def _check_finite(array: NDArray[np.float16], family: Family, ids: list[str]) -> None:
    for group, values in zip(family.groups, array, strict=True):
        if not is_finite(values.view(np.uint16)):
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise ValueError(
                f"Image {ids[row]!r} has infinity or no number in group {family.name!r} {group!r}: a store holds "
                "finite float16, up to 65,504. Scale the descriptor, or skip the image."
            )


class _Hashing:
    """A file's `write`, hashing what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self.file.write(data)


def _write_array(path: Path, array: NDArray[np.float16]) -> str:
    """A .npy file, and its checksum."""
    with whole_file(path) as file:
        hashing = _Hashing(file)
        np.lib.format.write_array(hashing, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return hashing.sha256.hexdigest()


def _check_new(asked: Manifest, images: Sequence[tuple[str, str]]) -> None:
    if asked.shard_rows < 1:
        raise ValueError(f"shard_rows={asked.shard_rows}: a shard holds at least one image.")
    asked.check_families()
    seen: set[str] = set()
    for image, _ in images:
        if image in seen:
            raise ValueError(f"Image {image!r} is given twice: each image has an id of its own.")
        seen.add(image)


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "A store is a folder; this is a file", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    foreign = [entry.name for entry in folder.iterdir() if entry.name != LOCK and not entry.match(LEFTOVERS)]
    if foreign and MANIFEST not in foreign:
        raise StoreError(
            f"{folder}: the folder is not empty and not a samekind store (it has {min(foreign)!r}). Choose a new or "
            "an empty folder."
        )


def _locked(folder: Path) -> FileLock:
    busy = f"{folder}: another process is writing to this store. Wait until it ends, or choose another folder."
    return lock_folder(folder, LOCK, StoreError(busy))


def _check_same(folder: Path, present: Manifest, asked: Manifest) -> None:
    """Shards of one store are made in one way."""
    old, new = (json.loads(manifest.to_text()) for manifest in (present, asked))
    for part in ("families", "front_end"):
        for key, before, now in _differences(old[part], new[part], part):
            raise StoreError(
                f"{folder}: the store was made with {key} = {before!r:.80}, and now it is {now!r:.80}. Choose "
                "another folder, or the settings of this store."
            )


def _differences(old: Any, new: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: a path, and both sides."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, now, f"{key}[{at}]")
    elif isinstance(old, list) and isinstance(new, list):
        yield f"length of {key}", len(old), len(new)
    elif old != new:
        yield key, old, new


def _skipped_for_good(store: DiskStore) -> set[str]:
    """Images that were skipped and are not planned again already."""
    waiting = {
        image
        for number, shard in enumerate(store.manifest.shards)
        if number not in store.records
        for image, _ in store.manifest.images[shard.start : shard.stop]
    }
    return set(store.skipped) - waiting


def _extended(folder: Path, manifest: Manifest, images: Sequence[tuple[str, str]], again: set[str]) -> Manifest:
    """The plan with what is new, or to be tried again, behind it."""
    planned = dict(manifest.images)
    for image, label in images:
        if planned.get(image, label) != label:
            raise StoreError(
                f"{folder}: image {image!r} is planned with label {planned[image]!r}, and now comes with {label!r}. "
                "Keep its label, or choose another folder."
            )
    new = tuple((image, label) for image, label in images if image not in planned or image in again)
    start, stop, step = len(manifest.images), len(manifest.images) + len(new), manifest.shard_rows
    shards = tuple(range(at, min(at + step, stop)) for at in range(start, stop, step))
    return replace(manifest, images=manifest.images + new, shards=manifest.shards + shards)
