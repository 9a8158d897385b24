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
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from samekind._version import __version__
from samekind.images.description import read_description
from samekind.schema import checked_list, checked_record, checked_text, checked_whole, parse_json, short

FORMAT = "samekind.store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
STORED = np.dtype("<f2")
MOST_SHARD_BYTES = 1_000_000_000  # of descriptors; a shard is held in memory while it is made
LONGEST_FILE = 500_000_000  # bytes of JSON
MOST_NUMBERS = 1_000_000  # of a group
LONGEST_NAME = 200  # of a family, which names files
LONGEST_ARRAY_HEADER = 1024  # bytes
# As NumPy writes it. Its own reader takes any expression of Python, and fails on broken ones in many ways.
_ARRAY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([\x21-\x26\x28-\x7e]+)', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]*)\), \} *\n",
    re.DOTALL,
)
_NAMES_OF_TYPES = {"|O": "object", "<f2": "float16", "<f4": "float32", "<f8": "float64"}
_FIELDS = ("format", "format_version", "samekind", "families", "front_end", "shard_rows", "images", "shards")

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
        """The manifest of `to_text`; anything else is a ValueError."""
        notes = _object(parse_json(text))
        if notes.get("format") != FORMAT:
            raise ValueError(f"it holds {short(notes.get('format'))}, not {FORMAT!r}")
        _check_version(notes.get("format_version"))
        notes = checked_record(notes, "it", _FIELDS)
        made = cls(
            tuple(_family(family, f"families[{at}]") for at, family in _enumerated(notes, "families")),
            _object(notes["front_end"], "front_end"),
            checked_whole(notes["shard_rows"], "shard_rows", 1),
            tuple(_texts(image, f"images[{at}]") for at, image in _enumerated(notes, "images")),
            tuple(_range(shard, f"shards[{at}]") for at, shard in _enumerated(notes, "shards")),
            checked_text(notes["samekind"], "samekind"),
        )
        made.check()
        return made

    def check(self) -> None:
        """A ValueError unless the parts of it fit each other, and are within the limits of a store."""
        bounds = [0, *(shard.stop for shard in self.shards)]
        if [shard.start for shard in self.shards] != bounds[:-1] or bounds[-1] != len(self.images):
            raise ValueError("its shards do not cover its images")
        longest = max(map(len, self.shards), default=1)
        if not 1 <= min(map(len, self.shards), default=1) <= longest <= self.shard_rows:
            raise ValueError(f"its shards do not have 1 to shard_rows={self.shard_rows} images each")
        self.check_families()

    def check_families(self) -> None:
        """Of `check` what does not concern the images."""
        names = [family.name for family in self.families]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"families={short(names)}: give at least one, each with a name of its own")
        row_bytes = STORED.itemsize * sum(family.size * len(family.groups) for family in self.families)
        if self.shard_rows > 1 and self.shard_rows * row_bytes > MOST_SHARD_BYTES:
            raise ValueError(
                f"shard_rows={self.shard_rows}: a shard of so many images takes {self.shard_rows * row_bytes:,} bytes, "
                f"but at most {MOST_SHARD_BYTES:,} are held in memory"
            )
        if "families" not in self.front_end:  # descriptors that were not made of pictures by `extract`
            return
        described = {part.text: len(part.regions) for part in read_description(self.front_end).parts}
        if described != {family.name: len(family.groups) for family in self.families}:
            raise ValueError(f"its front end describes {short(described)}, which are not its families")

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
        notes = checked_record(parse_json(text), "it", ("rows", "skipped", "notes", "digests", "sha256"))
        return cls(
            [checked_whole(row, f"rows[{at}]") for at, row in _enumerated(notes, "rows")],
            [_entry(entry, f"skipped[{at}]", "reason") for at, entry in _enumerated(notes, "skipped")],
            [_entry(entry, f"notes[{at}]", "note") for at, entry in _enumerated(notes, "notes")],
            [checked_text(digest, f"digests[{at}]") for at, digest in _enumerated(notes, "digests")],
            {name: checked_text(value, "sha256") for name, value in _object(notes["sha256"], "sha256").items()},
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
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            return "it is no plain file"
        with path.open("rb") as file:
            start = file.read(LONGEST_ARRAY_HEADER)
            length = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return "it is missing"
    header = _ARRAY_HEADER.match(start)
    if header is None or header.end() != 10 + int.from_bytes(start[8:10], "little"):
        return "it is no .npy file"
    kind, order, sides = (part.decode("ascii") for part in header.groups())
    if (kind, order, sides) != (STORED.str, "False", ", ".join(map(str, shape))):
        known = _NAMES_OF_TYPES.get(kind, kind)
        return f"it holds {known} of shape ({sides}), not {STORED} of shape {shape}"
    expected = header.end() + math.prod(shape) * STORED.itemsize
    return None if length == expected else f"it has {length:,} bytes instead of {expected:,}"


def _parsed(path: Path, parse: Callable[[str], Parsed], advice: str) -> Parsed:
    try:
        return parse(_text_of(path))
    except StoreError as error:
        raise StoreError(f"{path}: {error}") from error
    except ValueError as error:
        raise StoreError(f"{path} is damaged, or not of a store: {str(error).rstrip('.')}. {advice}") from error


def _text_of(path: Path) -> str:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for a writer
        raise ValueError("it is no plain file")
    if status.st_size > LONGEST_FILE:
        raise ValueError(f"it has {status.st_size:,} bytes, but at most {LONGEST_FILE:,} are read")
    return path.read_text(encoding="utf-8")


def _check_version(version: Any) -> None:
    """Before anything else: a later version may look like anything."""
    if type(version) is int and version > FORMAT_VERSION:
        raise StoreError(
            f"the store has format version {short(version)}, but this samekind reads up to {FORMAT_VERSION}. "
            "Upgrade samekind: pip install --upgrade samekind."
        )
    if type(version) is not int or version != FORMAT_VERSION:
        raise ValueError(f"its format version reads {short(version)}")


def damaged_shard(path: Path, number: int, problem: str) -> StoreError:
    return StoreError(f"{path} is damaged: {problem}. {_repair(number)}")


def _repair(number: int) -> str:
    return f"Delete {shard_file(number)} beside it and run the extraction again: it makes this shard anew."


def _object(value: Any, where: str = "it") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object of names and values, but is {short(value)}")
    return value


def _enumerated(notes: dict[str, Any], name: str) -> Iterator[tuple[int, Any]]:
    return enumerate(checked_list(notes[name], name))


def _family(notes: Any, where: str) -> Family:
    checked_record(notes, where, ("name", "size", "groups"))
    return Family(
        checked_text(notes["name"], f"{where}.name", LONGEST_NAME),
        checked_whole(notes["size"], f"{where}.size", 1, MOST_NUMBERS),
        [checked_text(name, f"{where}.groups") for name in checked_list(notes["groups"], f"{where}.groups", 1)],
    )


def _texts(value: Any, where: str) -> tuple[str, str]:
    image, label = (checked_text(each, where) for each in checked_list(value, where, 2, 2))
    return image, label


def _range(value: Any, where: str) -> range:
    return range(*(checked_whole(bound, where) for bound in checked_list(value, where, 2, 2)))


def _entry(value: Any, where: str, said: str) -> dict[str, str]:
    return {name: checked_text(text, where) for name, text in checked_record(value, where, ("id", said)).items()}
