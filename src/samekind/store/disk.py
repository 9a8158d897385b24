"""Feature groups in a folder: float16 shards of some images each, memory-mapped, under one manifest."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.feature_store import FeatureStore
from samekind.kernels.types import IntArray
from samekind.store.manifest import (
    STORED,
    Family,
    Manifest,
    ShardRecord,
    StoreError,
    damaged_shard,
    read_manifest,
    read_record,
    shard_file,
)
from samekind.store.verifying import array_problem, stamp
from samekind.threads import ThreadPool, effective_threads

_PANEL = np.dtype(np.float32)


@dataclass(frozen=True)
class ReadOptions:
    """How files are read; what comes out does not depend on it."""

    most_maps: int = 256  # each keeps a file open, and a process may have about a thousand
    worth_threads: int = 1 << 22  # bytes of a panel from which on it is read by several threads
    few: float = 0.5  # share of a family's groups up to which they are read one by one, without what lies between them
    cache_share: float = 0.5  # of the machine's memory that groups read ahead may take
    verify: bool = True  # a file's checksum and numbers when it is first read, which reads all of it once


DEFAULT_OPTIONS = ReadOptions()


class _Piece(NamedTuple):
    """The rows of a panel that lie in one shard."""

    number: int
    rows: IntArray  # in the shard
    places: IntArray  # in the panel


class _Part(NamedTuple):
    """The groups of a panel that are of one family."""

    family: Family
    groups: IntArray  # in the family
    starts: IntArray  # columns in the panel


class _Mapped(NamedTuple):
    """An array of a file."""

    bits: NDArray[np.uint16]  # (groups, rows, size)
    file: mmap.mmap
    start: int  # of the array

    def read_ahead(self, groups: IntArray) -> None:
        """Have the system fetch these groups, and of them only what is asked for later."""
        self.file.madvise(mmap.MADV_RANDOM)
        length = self.bits[0].nbytes
        for k in groups.tolist():
            begin = self.start + k * length
            page = begin - begin % mmap.PAGESIZE
            self.file.madvise(mmap.MADV_WILLNEED, page, begin + length - page)


class DiskStore(FeatureStore):
    """A store in a folder, as a `FeatureStore`: panels come in float32, whatever fits no memory stays on disk.

    Groups are numbered through all families. An unfinished store has the rows made so far. `n_jobs` threads gather
    a panel, None for every core. A file is compared with its checksum when it is first read, which takes about a second
    for each GB (`benchmarks/store.py`); `ReadOptions(verify=False)` reads it as it is.
    """

    dtype = _PANEL
    stored_dtype = STORED
    can_stack = True

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        records: Mapping[int, ShardRecord],
        n_jobs: int | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.records = dict(records)
        self.n_jobs = n_jobs
        self.options = options
        planned = [manifest.images[row] for record in self.records.values() for row in record.rows]
        self._image_ids: NDArray[np.str_] = np.array([image for image, _ in planned], dtype=np.str_)
        self._labels: NDArray[np.str_] = np.array([label for _, label in planned], dtype=np.str_)
        self._group_sizes: IntArray = np.repeat(
            np.array([family.size for family in manifest.families], dtype=np.intp),
            [len(family.groups) for family in manifest.families],
        )
        self._group_names = [f"{family.name} {group}" for family in manifest.families for group in family.groups]
        self._numbers = list(self.records)
        self._starts = np.cumsum([0, *(len(record.rows) for record in self.records.values())])
        self._mapped = lru_cache(maxsize=options.most_maps)(self._map)
        self._sound: set[str] = set()  # files that were verified
        self._sound_before: set[tuple[Any, ...]] = set()  # as they were then, by this store or one before
        self._verifying: defaultdict[str, Lock] = defaultdict(Lock)
        self._last_pieces: tuple[IntArray, list[_Piece]] = np.zeros(0, np.intp), []

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], n_jobs: int | None = None, options: ReadOptions = DEFAULT_OPTIONS
    ) -> DiskStore:
        """The store in a folder; files that are missing, cut short or foreign are noticed, none is read whole."""
        folder = Path(path)
        manifest = read_manifest(folder)
        records = {}
        for number, shard in enumerate(manifest.shards):
            if (folder / shard_file(number)).exists():
                records[number] = read_record(folder, number, shard, manifest.families)
        return cls(folder, manifest, records, n_jobs, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (os.path.abspath(self.path), self.n_jobs, self.options, self.content_digest())

    def __len__(self) -> int:
        return len(self._image_ids)

    def __repr__(self) -> str:
        images = f"{len(self):,} images" + ("" if self.complete else f" so far, {self.planned:,} planned")
        families = ", ".join(f"{family.name} {len(family.groups):,} x {family.size}" for family in self._families)
        return f"DiskStore({str(self.path)!r}: {images}; {families}; {self.nbytes / 1e9:.2f} GB)"

    @property
    def _families(self) -> tuple[Family, ...]:
        return self.manifest.families

    @property
    def group_sizes(self) -> IntArray:
        return self._group_sizes

    @property
    def group_names(self) -> list[str]:
        return self._group_names

    @property
    def labels(self) -> NDArray[np.str_]:
        return self._labels

    @property
    def image_ids(self) -> NDArray[np.str_]:
        return self._image_ids

    @property
    def n_rows(self) -> int:
        return len(self)

    @property
    def n_features(self) -> int:
        return int(self.group_sizes.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of all descriptors on disk."""
        return self.n_rows * self.n_features * STORED.itemsize

    @property
    def families(self) -> dict[str, range]:
        """The groups of each family."""
        bounds = np.cumsum([0, *(len(family.groups) for family in self._families)]).tolist()
        return {family.name: range(*bounds[at : at + 2]) for at, family in enumerate(self._families)}

    @property
    def front_end(self) -> dict[str, Any]:
        """How images became descriptors, as given to the writer."""
        return self.manifest.front_end

    @property
    def shard_rows(self) -> int:
        return self.manifest.shard_rows

    @property
    def planned(self) -> int:
        """How many images the store is planned for, including those that turn out unusable."""
        return len(dict(self.manifest.images))

    @property
    def complete(self) -> bool:
        return len(self.records) == len(self.manifest.shards)

    def check_complete(self) -> None:
        """A `ValueError` where pictures are still to come."""
        if not self.complete:
            raise ValueError(
                f"The store {self.path} is unfinished: {len(self)} of {self.planned} pictures are in it. Run the "
                "same `samekind extract`, or `samekind compact`, again to finish it."
            )

    @property
    def skipped(self) -> dict[str, str]:
        """Why an image has no row; one that got a row when it was tried again is not among them."""
        reasons = {entry["id"]: entry["reason"] for record in self.records.values() for entry in record.skipped}
        stored_since = reasons.keys() & set(self.image_ids.tolist()) if reasons else ()
        return {image: reason for image, reason in reasons.items() if image not in stored_since}

    @property
    def notes(self) -> dict[str, list[str]]:
        """What was remarked about an image."""
        notes: dict[str, list[str]] = {}
        for record in self.records.values():
            for entry in record.notes:
                notes.setdefault(entry["id"], []).append(entry["note"])
        return notes

    def duplicates(self) -> list[tuple[str, ...]]:
        """Ids of images with the same content."""
        same: dict[str, list[str]] = {}
        for record in self.records.values():
            for row, digest in zip(record.rows, record.digests, strict=bool(record.digests)):
                same.setdefault(digest, []).append(self.manifest.images[row][0])
        return [tuple(ids) for ids in same.values() if len(ids) > 1]

    def panel(
        self, groups: Sequence[int], rows: ArrayLike, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Some groups side by side, for some rows in this order: (len(rows), sum of sizes), into `out` if given."""
        chosen = checked_indices(groups, len(self.group_sizes), "group")
        wanted = checked_indices(rows, self.n_rows, "row")
        shape = (len(wanted), int(self.group_sizes[chosen].sum()))
        panel = np.empty(shape, _PANEL) if out is None else _checked_out(out, shape)
        parts, pieces = list(self._parts(chosen)), self._pieces(wanted)
        n_threads = self.n_threads_for(panel.nbytes)
        with ThreadPool(n_threads) as pool:
            pool.run(lambda at: self._gather(pieces[at::n_threads], parts, panel), range(n_threads))
        return panel

    def n_threads_for(self, nbytes: int) -> int:
        """That gather a panel of so many bytes."""
        return 1 if nbytes < self.options.worth_threads else effective_threads(self.n_jobs)

    def stacked(
        self, groups: Sequence[int], rows: ArrayLike, means: NDArray[np.float32], out: NDArray[np.float32]
    ) -> None:
        from samekind.kernels.halves import gather_stacked

        chosen = checked_indices(groups, len(self.group_sizes), "group")
        wanted = checked_indices(rows, self.n_rows, "row")
        order = np.arange(len(chosen))
        parts = [(part, order[here]) for part, here in self._parts_and_places(chosen)]
        for piece in self._pieces(wanted):
            for part, at in parts:
                source = self._array(part.family, piece.number).bits
                gather_stacked(source, part.groups, piece.rows, piece.places, at, means, out)

    def read_ahead(self, groups: Sequence[int]) -> None:
        """Have the system fetch some groups that will be needed again and again, where they are few and fit memory.

        Else it reads whole stretches of the files, and what lies between the groups may drive them out of memory.
        """
        chosen = checked_indices(groups, len(self.group_sizes), "group")
        nbytes = self.n_rows * int(self.group_sizes[chosen].sum()) * STORED.itemsize
        if not hasattr(mmap, "MADV_WILLNEED") or nbytes > self.options.cache_share * _physical_memory():
            return
        for part in self._parts(chosen):
            if len(part.groups) <= self.options.few * len(part.family.groups):
                wanted = np.sort(part.groups)
                for number in (number for number, record in self.records.items() if record.rows):
                    self._array(part.family, number).read_ahead(wanted)

    def copied_into(self, folder: str | os.PathLike[str]) -> FeatureStore:
        from samekind.store.stripes import StripedStore

        return StripedStore(self, folder)

    def shard_array(self, family: Family, number: int) -> NDArray[np.float16]:
        """What a shard holds of a family, (K, n, d), as it is on disk."""
        return self._array(family, number).bits.view(STORED)

    def verify(self) -> None:
        """Compare every array with its checksum; `StoreError` names the first that differs, or is not finite."""
        for number in self.records:
            for family in self._families:
                self._verify(family.file(number), number, family.name)

    def _verify(self, file: str, number: int, family: str) -> None:
        """One array, once, whichever threads ask for it."""
        with self._verifying[file]:
            if file not in self._sound:
                seen = stamp(self.path / file, self.records[number].sha256[family])
                if seen not in self._sound_before:
                    problem = array_problem(self.path / file, self.records[number].sha256[family])
                    if problem:
                        raise damaged_shard(self.path / file, number, problem)
                    self._sound_before.add(seen)
                self._sound.add(file)

    def content_digest(self) -> str:
        """A hash that changes with the manifest or with any shard's checksum; the arrays themselves are not read."""
        digest = hashlib.blake2b(self.manifest.to_text().encode(), digest_size=16)
        for number, record in self.records.items():
            digest.update(f"{number} {record.to_text()}".encode())
        return digest.hexdigest()

    def _parts(self, groups: IntArray) -> Iterator[_Part]:
        for part, _ in self._parts_and_places(groups):
            yield part

    def _parts_and_places(self, groups: IntArray) -> Iterator[tuple[_Part, NDArray[np.bool_]]]:
        """The groups of each family, and which they are."""
        sizes = self.group_sizes[groups]
        starts = np.cumsum(sizes) - sizes
        for family, numbers in zip(self._families, self.families.values(), strict=True):
            here = (groups >= numbers.start) & (groups < numbers.stop)
            if here.any():
                yield _Part(family, groups[here] - numbers.start, starts[here]), here

    def _pieces(self, rows: IntArray) -> list[_Piece]:
        last_rows, last = self._last_pieces
        if not np.array_equal(rows, last_rows):
            last = list(self._pieces_of(rows))
            self._last_pieces = rows, last
        return last

    def _pieces_of(self, rows: IntArray) -> Iterator[_Piece]:
        # In rising order reading runs through a file, and writing hops over whole rows, which matters less.
        order = np.argsort(rows, kind="stable")
        rising = rows[order]
        bounds = np.searchsorted(rising, self._starts)
        for at, number in enumerate(self._numbers):
            here = slice(bounds[at], bounds[at + 1])
            if here.start < here.stop:
                yield _Piece(number, rising[here] - self._starts[at], order[here])

    def _gather(self, pieces: list[_Piece], parts: list[_Part], panel: NDArray[np.float32]) -> None:
        from samekind.kernels.halves import gather  # a compiler is loaded only by those who read

        for piece in pieces:
            for part in parts:
                source = self._array(part.family, piece.number).bits
                gather(source, part.groups, piece.rows, piece.places, part.starts, panel)

    def _array(self, family: Family, number: int) -> _Mapped:
        """What a shard has of a family."""
        return self._mapped(family.file(number), family.shape(len(self.records[number].rows)), number, family.name)

    def _map(self, file: str, shape: tuple[int, int, int], number: int, family: str) -> _Mapped:
        """The bits of an array, which ends its file."""
        if self.options.verify:
            self._verify(file, number, family)
        # np.load would parse the header, and Python 3.11 cannot parse in several threads at once.
        count = math.prod(shape)
        with (self.path / file).open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        start = len(mapped) - count * STORED.itemsize
        if start < 0:
            raise damaged_shard(self.path / file, number, "it was cut short")
        return _Mapped(np.frombuffer(mapped, np.dtype("<u2"), count, start).reshape(shape), mapped, start)


def _physical_memory() -> int:
    """Of the machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _checked_out(out: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    if out.shape != shape or out.dtype != _PANEL or not out.flags.c_contiguous:
        raise ValueError(
            f"out is {out.dtype} of shape {out.shape}, but this panel needs a C-contiguous float32 array of {shape}."
        )
    return out


def checked_indices(given: ArrayLike, n: int, kind: str) -> IntArray:
    indices = np.asarray(given)
    if indices.ndim != 1 or (indices.size and not np.issubdtype(indices.dtype, np.integer)):
        raise IndexError(f"{kind}s must be a list or a 1-d array of whole numbers, not {given!r:.80}.")
    outside = indices[(indices < 0) | (indices >= n)]
    if len(outside):
        raise IndexError(f"There is no {kind} {outside[0]}: the store has {n:,} {kind}s, counted from 0.")
    return indices.astype(np.intp)


def _reopened(path: str, n_jobs: int | None, options: ReadOptions, digest: str) -> DiskStore:
    """The same store, opened by another process or machine."""
    store = DiskStore.open(path, n_jobs, options)
    if store.content_digest() != digest:
        raise StoreError(f"{path}: the store here is not the one that is learned from. Every machine needs the same.")
    store._sound_before = _sound_before  # a worker opens it for every fit
    return store


_sound_before: set[tuple[Any, ...]] = set()
