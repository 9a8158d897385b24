"""Where a running fit keeps what it needs to be resumed after it was stopped.

A folder with a file per snapshot: safetensors with its arrays and one JSON text, which says what fit it belongs to.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.files import LEFTOVERS, write_whole

SUFFIX = ".snapshot"  # not that of a model, so that the two are not confused

_FORMAT = "samekind.checkpoint"
_FORMAT_VERSION = 3
_NOTES, _CHECKSUM = "samekind", "blake2b"
_SURELY_LEFT = 3600.0  # seconds without a write, after which no one is writing such a file any more
_BLOCK = 1 << 24  # bytes hashed at a time


class CheckpointError(ValueError):
    """A snapshot that cannot be resumed from: of another fit or version, damaged, or foreign."""


@dataclass(frozen=True)
class Snapshot:
    """Arrays of numbers, and facts that JSON can hold: tuples come back as lists, floats to the last bit."""

    arrays: dict[str, NDArray[Any]]
    facts: dict[str, Any]


class Snapshots(Protocol):
    """What a solver asks of a checkpoint."""

    def load(self, name: str) -> Snapshot | None: ...

    def save(self, name: str, snapshot: Snapshot) -> None: ...


class NoCheckpoint:
    """Keeps nothing."""

    def load(self, name: str) -> Snapshot | None:
        return None

    def save(self, name: str, snapshot: Snapshot) -> None:
        return None


class Checkpoint:
    """Snapshots in a folder, of one fit: `identity` (JSON) tells its data and settings from those of others."""

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self._identity = json.loads(json.dumps(dict(identity)))
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "A checkpoint is a folder; this is a file", str(self.folder))
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """The file of a snapshot, whose name may be any text."""
        return self.folder / f"{_file_name(name)}{SUFFIX}"

    def load(self, name: str) -> Snapshot | None:
        """What was saved last under this name; None where nothing was, a `CheckpointError` where another fit did."""
        path = self.path(name)
        if not path.exists():
            return None
        notes, arrays = _read(path)
        _check_identity(path, notes["identity"], self._identity)
        return Snapshot(arrays, notes["facts"])

    def save(self, name: str, snapshot: Snapshot) -> None:
        """Take the place of what was saved before; a failure leaves that as it was."""
        write_whole(self.path(name), _to_bytes(snapshot, self._identity))
        _remove_leftovers(self.folder)


def fingerprint(array: NDArray[Any], block: int = _BLOCK) -> str:
    """A short hash of an array's bytes, type and shape, for identities."""
    if array.dtype.hasobject:
        raise TypeError(f"An array of {array.dtype} has no bytes of its own to hash: make it one of numbers or texts.")
    digest = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=16)
    rows = np.atleast_1d(array)
    step = max(1, block // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        digest.update(rows[start : start + step].tobytes())
    return digest.hexdigest()


def _file_name(name: str) -> str:
    """Plain names are kept; others are made plain, and distinguished by a hash after an underscore."""
    if re.fullmatch(r"[a-z0-9-]{1,60}", name):
        return name
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower())[:40]}_{_text_hash(name)}"


def _text_hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _to_bytes(snapshot: Snapshot, identity: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    # In the order of rows and of this machine's bytes: safetensors takes the bytes as they lie in memory.
    arrays = {
        name: array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
        for name, array in snapshot.arrays.items()
    }
    # Python's JSON also has infinity and what is no number, and gives every float back as it was.
    text = json.dumps(
        {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "identity": identity,
            "facts": snapshot.facts,
            "arrays": {name: fingerprint(array) for name, array in arrays.items()},
        }
    )
    return bytes(save(arrays, {_NOTES: text, _CHECKSUM: _text_hash(text)}))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Notes and arrays, once they are known to be as they were written."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "A snapshot is to be kept here, but this is a folder", str(path))
    if not path.is_file():  # opening a pipe would wait for a writer
        raise _damaged(path)
    try:
        with safe_open(path, framework="numpy") as file:
            notes = _checked_notes(path, file.metadata() or {})
            arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - no dict
    except SafetensorError as error:
        raise _damaged(path) from error
    if {name: fingerprint(array) for name, array in arrays.items()} != notes["arrays"]:
        raise _damaged(path)
    return notes, arrays


def _checked_notes(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    text = metadata.get(_NOTES, "")
    try:
        notes: dict[str, Any] = json.loads(text)
        found, version = notes["format"], notes["format_version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if found == _FORMAT and isinstance(version, int) and version > _FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: the snapshot has format version {version}, but this samekind reads up to {_FORMAT_VERSION}. "
            "Upgrade samekind (pip install --upgrade samekind), or give another folder for the checkpoint."
        )
    if found != _FORMAT or metadata.get(_CHECKSUM) != _text_hash(text):
        raise _damaged(path)
    if version != _FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: the snapshot has format version {version}, of an earlier samekind, but this one goes on from "
            f"version {_FORMAT_VERSION} only. Finish the fit with that samekind, or give another folder to begin anew."
        )
    return notes


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path}: this is no snapshot of a fit, or it was cut short or altered after it was written. Give another "
        "folder for the checkpoint, or delete this file: what it kept is then done again."
    )


def _check_identity(path: Path, kept: dict[str, Any], own: dict[str, Any]) -> None:
    before, now = dict(entries(kept)), dict(entries(own))
    for entry in [*now, *before]:
        if not _same(before.get(entry), now.get(entry)):
            raise CheckpointError(
                f"{path}: the fit that wrote this has {entry} = {before.get(entry)!r:.80}, but this fit has "
                f"{now.get(entry)!r:.80}. Give the data and settings of that fit to go on with it; or give another "
                f"folder, or delete {path.parent}, to begin a new one."
            )


def entries(identity: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested entries by their path, such as `loss.threshold`."""
    for name, value in identity.items():
        if isinstance(value, dict):
            yield from entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _same(before: Any, now: Any) -> bool:
    """By text also what is no number equals itself."""
    return bool(before == now) or json.dumps(before) == json.dumps(now)


def _remove_leftovers(folder: Path) -> None:
    """Temporary files of a writer that was killed; what may still be written stays."""
    for leftover in folder.glob(LEFTOVERS):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _SURELY_LEFT:
                leftover.unlink()
