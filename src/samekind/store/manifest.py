"""The files that describe a store: its manifest, and a record for each shard.

    manifest.json       families, front end, the plan: which images, cut into which shards
    NAME-00000.npy      one family's descriptors of one shard: (K, n, d), float16
    shard-00000.json    which images have a row, what was skipped or noted, checksums; written last

A shard counts once its JSON is there, so whatever stops a writer costs one shard at most.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from samekind._version import __version__

FORMAT = "samekind.store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
STORED = np.dtype("<f2")

_ADVICE = "Give a folder that `samekind extract` wrote, or copy this one again from where it came."

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
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_@.+-]*", self.name):
            raise ValueError(f"{self.name!r} names files: give letters, digits, '-', '_', '@', '.' and '+' only.")
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


def read_manifest(folder: Path) -> Manifest:
    if not folder.exists():
        problem = "There is no such store; check the path, or make one with `samekind extract`"
        raise FileNotFoundError(errno.ENOENT, problem, str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "A store is a folder; this is a file", str(folder))
    if not (folder / MANIFEST).is_file():
        raise StoreError(f"{folder}: the folder is not a samekind store: it has no {MANIFEST}. {_ADVICE}")
    path = folder / MANIFEST
    return _parsed(path, Manifest.parse, _ADVICE)


def read_record(folder: Path, number: int, shard: range, families: Sequence[Family]) -> ShardRecord:
    path = folder / shard_file(number)
    record = _parsed(path, ShardRecord.parse, _repair(number))
    try:
        record.check(shard, families)
    except ValueError as error:
        raise damaged_shard(path, number, str(error)) from error
    for family in families:
        problem = _array_problem(folder / family.file(number), family.shape(len(record.rows)))
        if problem:
            raise damaged_shard(folder / family.file(number), number, problem)
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


def damaged_shard(path: Path, number: int, problem: str) -> StoreError:
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
