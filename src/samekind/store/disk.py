"""Feature groups in a folder: float16 shards of some images each, memory-mapped, under one manifest.

    manifest.json       families, front end, the plan: which images, cut into which shards
    NAME-00000.npy      one family's descriptors of one shard: (K, n, d), float16
    shard-00000.json    which images have a row, what was skipped or noted, checksums; written last

A shard counts once its JSON is there, so whatever stops a writer costs one shard at most.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind._version import __version__
from samekind.kernels.types import IntArray

FORMAT = "samekind.store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
STORED = np.dtype("<f2")

_PANEL = np.dtype(np.float32)
_MOST_MAPS = 256  # each keeps a file open, and a process may have about a thousand
_WORTH_THREADS = 1 << 22  # bytes of a panel
_ADVICE = "Give a folder that `samekind extract` wrote, or copy this one again from where it came."

Item = TypeVar("Item")
Parsed = TypeVar("Parsed")


class StoreError(ValueError):
    """A folder is no store that can be used so: foreign, damaged, of a newer version, or made otherwise."""


@dataclass(frozen=True)
class Family:
    """Groups of one kind: `size` numbers each."""

    name: str
    size: int
    groups: Sequence[str]  # names

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", self.name):
            raise ValueError(f"{self.name!r} names files: give letters, digits, '-' and '_' only.")
        if self.size < 1 or not self.groups:
            raise ValueError(f"Family {self.name!r} has {len(self.groups)} groups of {self.size} numbers: give both.")

    def file(self, number: int) -> str:
        return f"{self.name}-{number:05d}.npy"

    def shape(self, n_rows: int) -> tuple[int, int, int]:
        return len(self.groups), n_rows, self.size


def shard_file(number: int) -> str:
    return f"shard-{number:05d}.json"


@dataclass(frozen=True)
class Manifest:
    """What a store is to hold: `shards` are ranges over `images`, which are (id, label)."""

    families: tuple[Family, ...]
    front_end: dict[str, Any]
    shard_rows: int
    images: tuple[tuple[str, str], ...]
    shards: tuple[range, ...]
    version: str = __version__

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """The manifest of `to_text`; anything else is a KeyError, TypeError or ValueError."""
        notes = _object(json.loads(text))
        if notes.get("format") != FORMAT:
            raise ValueError(f"it holds {notes.get('format')!r}, not {FORMAT!r}")
        _check_version(notes.get("format_version"))
        made = cls(
            tuple(
                Family(_text(family["name"]), _count(family["size"]), tuple(map(_text, family["groups"])))
                for family in notes["families"]
            ),
            _object(notes["front_end"]),
            _count(notes["shard_rows"]),
            tuple((_text(image), _text(label)) for image, label in notes["images"]),
            tuple(range(_count(start), _count(stop)) for start, stop in notes["shards"]),
            _text(notes["samekind"]),
        )
        bounds = [0, *(shard.stop for shard in made.shards)]
        if [shard.start for shard in made.shards] != bounds[:-1] or bounds[-1] != len(made.images):
            raise ValueError("its shards do not cover its images")
        return made

    def to_text(self) -> str:
        return as_json(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "samekind": self.version,
                "families": [vars(family) for family in self.families],
                "front_end": self.front_end,
                "shard_rows": self.shard_rows,
                "images": self.images,
                "shards": [(shard.start, shard.stop) for shard in self.shards],
            }
        )


@dataclass(frozen=True)
class ShardRecord:
    """What became of a shard's images: `rows` are positions in the manifest, one per row of the arrays."""

    rows: list[int]
    skipped: list[dict[str, str]]  # id, reason
    notes: list[dict[str, str]]  # id, note
    digests: list[str]  # one per row, or none at all
    sha256: dict[str, str]  # of each family's file

    @classmethod
    def parse(cls, text: str) -> ShardRecord:
        notes = _object(json.loads(text))
        return cls(
            [_count(row) for row in notes["rows"]],
            [{key: _text(entry[key]) for key in ("id", "reason")} for entry in notes["skipped"]],
            [{key: _text(entry[key]) for key in ("id", "note")} for entry in notes["notes"]],
            [_text(digest) for digest in notes["digests"]],
            {_text(name): _text(checksum) for name, checksum in _object(notes["sha256"]).items()},
        )

    def to_text(self) -> str:
        return as_json(vars(self))

    def check(self, shard: range, families: Sequence[Family]) -> None:
        """A ValueError, unless this can be the record of that shard."""
        if any(after <= before for before, after in zip([shard.start - 1, *self.rows], self.rows, strict=False)):
            raise ValueError("its rows do not rise")
        if self.rows and self.rows[-1] >= shard.stop:
            raise ValueError(f"row {self.rows[-1]} is none of its images")
        if len(self.digests) not in (0, len(self.rows)):
            raise ValueError(f"it has {len(self.digests)} digests for {len(self.rows)} rows")
        if set(self.sha256) != {family.name for family in families}:
            raise ValueError(f"it has checksums of {sorted(self.sha256)}")


def as_json(notes: Any) -> str:
    """Equal contents give equal text."""
    return json.dumps(notes, sort_keys=True, allow_nan=False) + "\n"


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


class DiskStore:
    """A store in a folder, as a `FeatureStore`: panels come in float32, whatever fits no memory stays on disk.

    Groups are numbered through all families. An unfinished store has the rows made so far. `n_jobs` threads gather
    a panel, None for every core.
    """

    dtype = _PANEL
    stored_dtype = STORED

    def __init__(
        self, path: Path, manifest: Manifest, records: Mapping[int, ShardRecord], n_jobs: int | None = None
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.records = dict(records)
        self.n_jobs = n_jobs
        planned = [manifest.images[row] for record in self.records.values() for row in record.rows]
        self.image_ids: NDArray[np.str_] = np.array([image for image, _ in planned], dtype=np.str_)
        self.labels: NDArray[np.str_] = np.array([label for _, label in planned], dtype=np.str_)
        self.group_sizes: IntArray = np.repeat(
            np.array([family.size for family in manifest.families], dtype=np.intp),
            [len(family.groups) for family in manifest.families],
        )
        self.group_names = [f"{family.name} {group}" for family in manifest.families for group in family.groups]
        self._numbers = list(self.records)
        self._starts = np.cumsum([0, *(len(record.rows) for record in self.records.values())])
        self._mapped = lru_cache(maxsize=_MOST_MAPS)(self._map)

    @classmethod
    def open(cls, path: str | os.PathLike[str], n_jobs: int | None = None) -> DiskStore:
        """The store in a folder; files that are missing, cut short or foreign are noticed, none is read whole."""
        folder = Path(path)
        manifest = _read_manifest(folder)
        records = {}
        for number, shard in enumerate(manifest.shards):
            if (folder / shard_file(number)).exists():
                records[number] = _read_record(folder, number, shard, manifest.families)
        return cls(folder, manifest, records, n_jobs)

    def __len__(self) -> int:
        return len(self.image_ids)

    def __repr__(self) -> str:
        images = f"{len(self):,} images" + ("" if self.complete else f" so far, {self.planned:,} planned")
        families = ", ".join(f"{family.name} {len(family.groups):,} x {family.size}" for family in self._families)
        return f"DiskStore({str(self.path)!r}: {images}; {families}; {self.nbytes / 1e9:.2f} GB)"

    @property
    def _families(self) -> tuple[Family, ...]:
        return self.manifest.families

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
        """How images became descriptors, as the writer was told."""
        return self.manifest.front_end

    @property
    def shard_rows(self) -> int:
        return self.manifest.shard_rows

    @property
    def planned(self) -> int:
        """How many images the store is to look at, those included that turn out unusable."""
        return len(self.manifest.images)

    @property
    def complete(self) -> bool:
        return len(self.records) == len(self.manifest.shards)

    @property
    def skipped(self) -> dict[str, str]:
        """Why an image has no row."""
        return {entry["id"]: entry["reason"] for record in self.records.values() for entry in record.skipped}

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
        chosen = _indices(groups, len(self.group_sizes), "group")
        wanted = _indices(rows, self.n_rows, "row")
        shape = (len(wanted), int(self.group_sizes[chosen].sum()))
        panel = np.empty(shape, _PANEL) if out is None else _checked_out(out, shape)
        parts, pieces = list(self._parts(chosen)), list(self._pieces(wanted))
        n_threads = 1 if panel.nbytes < _WORTH_THREADS else self.n_jobs or available_cores()
        in_threads(lambda at: self._gather(pieces[at::n_threads], parts, panel), range(n_threads), n_threads)
        return panel

    def verify(self) -> None:
        """Compare every array with its checksum; `StoreError` names the first that differs."""
        for number, record in self.records.items():
            for family in self._families:
                path = self.path / family.file(number)
                with path.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != record.sha256[family.name]:
                    raise _damaged_shard(path, number, "it was altered after it was written")

    def _parts(self, groups: IntArray) -> Iterator[_Part]:
        sizes = self.group_sizes[groups]
        starts = np.cumsum(sizes) - sizes
        for family, numbers in zip(self._families, self.families.values(), strict=True):
            here = (groups >= numbers.start) & (groups < numbers.stop)
            if here.any():
                yield _Part(family, groups[here] - numbers.start, starts[here])

    def _pieces(self, rows: IntArray) -> Iterator[_Piece]:
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
            n_rows = len(self.records[piece.number].rows)
            for part in parts:
                source = self._mapped(part.family.file(piece.number), part.family.shape(n_rows))
                gather(source, part.groups, piece.rows, piece.places, part.starts, panel)

    def _map(self, file: str, shape: tuple[int, int, int]) -> NDArray[np.uint16]:
        """The bits of an array, which ends its file."""
        # np.load would parse the header, and Python 3.11 cannot parse in several threads at once.
        path = self.path / file
        start = path.stat().st_size - math.prod(shape) * STORED.itemsize
        return np.asarray(np.memmap(path, np.dtype("<u2"), mode="r", offset=start, shape=shape))


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[Item], None], items: Iterable[Item], n_threads: int) -> None:
    if n_threads == 1:
        for item in items:
            function(item)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(function, items))


def _checked_out(out: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    if out.shape != shape or out.dtype != _PANEL or not out.flags.c_contiguous:
        raise ValueError(
            f"out is {out.dtype} of shape {out.shape}, but this panel needs a C-contiguous float32 array of {shape}."
        )
    return out


def _indices(given: ArrayLike, n: int, kind: str) -> IntArray:
    indices = np.asarray(given)
    if indices.ndim != 1 or (indices.size and not np.issubdtype(indices.dtype, np.integer)):
        raise IndexError(f"{kind}s must be a list or a 1-d array of whole numbers, not {given!r:.80}.")
    outside = indices[(indices < 0) | (indices >= n)]
    if len(outside):
        raise IndexError(f"There is no {kind} {outside[0]}: the store has {n:,} {kind}s, counted from 0.")
    return indices.astype(np.intp)


def _read_manifest(folder: Path) -> Manifest:
    if not folder.exists():
        problem = "There is no such store; check the path, or make one with `samekind extract`"
        raise FileNotFoundError(errno.ENOENT, problem, str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "A store is a folder; this is a file", str(folder))
    if not (folder / MANIFEST).is_file():
        raise StoreError(f"{folder}: the folder is not a samekind store: it has no {MANIFEST}. {_ADVICE}")
    path = folder / MANIFEST
    return _parsed(path, Manifest.parse, _ADVICE)


def _read_record(folder: Path, number: int, shard: range, families: Sequence[Family]) -> ShardRecord:
    path = folder / shard_file(number)
    record = _parsed(path, ShardRecord.parse, _repair(number))
    try:
        record.check(shard, families)
    except ValueError as error:
        raise _damaged_shard(path, number, str(error)) from error
    for family in families:
        problem = _array_problem(folder / family.file(number), family.shape(len(record.rows)))
        if problem:
            raise _damaged_shard(folder / family.file(number), number, problem)
    return record


def _array_problem(path: Path, shape: tuple[int, int, int]) -> str | None:
    """What is wrong with an array's file, by its header and its length."""
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            found = np.lib.format.read_array_header_1_0(file)
            length, expected = os.fstat(file.fileno()).st_size, file.tell() + math.prod(shape) * STORED.itemsize
    except FileNotFoundError:
        return "it is missing"
    except ValueError:
        return "it is no .npy file"
    if found != (shape, False, STORED):
        return f"it holds {found[2]} of shape {found[0]}, not {STORED} of shape {shape}"
    return None if length == expected else f"it has {length:,} bytes instead of {expected:,}"


def _parsed(path: Path, parse: Callable[[str], Parsed], advice: str) -> Parsed:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise StoreError(f"{path} is damaged, or not of a store: {reason}. {advice}") from error


def _check_version(version: Any) -> None:
    """Before anything else: a later version may look like anything."""
    if type(version) is int and version > FORMAT_VERSION:
        raise StoreError(
            f"the store has format version {version}, but this samekind reads up to {FORMAT_VERSION}. "
            "Upgrade samekind: pip install --upgrade samekind."
        )
    if version != FORMAT_VERSION:
        raise ValueError(f"its format version reads {version!r}")


def _damaged_shard(path: Path, number: int, problem: str) -> StoreError:
    return StoreError(f"{path} is damaged: {problem}. {_repair(number)}")


def _repair(number: int) -> str:
    return f"Delete {shard_file(number)} beside it and run the extraction again: it makes this shard anew."


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.60} stands where an object is needed")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} stands where a text is needed")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r:.60} stands where a count is needed")
    return value
