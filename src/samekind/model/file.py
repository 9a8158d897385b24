"""The file of a metric: safetensors with its arrays and one JSON text, checksummed to the last byte.

The checksum covers every other byte of the file, so that whatever changes is noticed. All notes are one JSON text,
because safetensors shuffles several entries, and equal metrics are to give equal bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import operator
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from samekind.schema import parse_json, short

ADVICE = "Give a file that Metric.save wrote, or copy this one again from where it came."

_FORMAT = "samekind.metric"
# Up to version 4 components were over columns or normalised groups, and nothing was calibrated; 6 has similarity terms.
_FORMAT_VERSION = 6
_NOTES = "samekind"
_CHECKSUM = "sha256"
_LONGEST_HEADER = 100_000_000  # safetensors reads no longer one
LARGEST_FILE = 2_000_000_000  # bytes; 150 components over all features of 13,260 + 13,260 regions take 0.8e9


class ModelFileError(ValueError):
    """A file is not a metric that can be trusted: damaged, foreign, or of a newer version."""


def to_bytes(arrays: dict[str, NDArray[Any]], notes: dict[str, Any], *, longest_header: int = _LONGEST_HEADER) -> bytes:
    """The whole file."""
    from safetensors.numpy import save

    tensors = {**arrays, _CHECKSUM: np.zeros(hashlib.sha256().digest_size, dtype=np.uint8)}
    text = json.dumps({"format": _FORMAT, "format_version": _FORMAT_VERSION, **notes}, sort_keys=True, allow_nan=False)
    data = bytes(save(tensors, {_NOTES: text}))
    head = data[: 8 + int.from_bytes(data[:8], "little")]
    if len(head) > longest_header:
        raise ValueError(
            f"feature_names and attributes take {len(head):,} bytes, but a model file has room for "
            f"{longest_header:,}; shorten the names or leave them out."
        )
    place = _checksum_place(_parse_header(head), len(head))
    return data[: place.start] + _checksum(data, place) + data[place.stop :]


def content_digest(arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> str:
    """SHA-256 of arrays and notes, whatever the version of the file format."""
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True, allow_nan=False).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and notes, once the file is known to be as it was written; `ModelFileError` names the path."""
    with _open_model(Path(path)) as file:
        try:
            return _read(file)
        except ModelFileError as error:
            raise ModelFileError(f"{os.fspath(path)}: {error}") from error


def _open_model(path: Path) -> BinaryIO:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder; give the model file itself", str(path))
    if path.exists() and not path.is_file():  # opening a pipe would wait for a writer
        raise OSError(errno.EINVAL, "This is a device or a pipe; give the model file itself", str(path))
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        problem = "There is no such model file; check the path, or save a metric there first"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from error


def _read(file: BinaryIO) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    # The header first: a huge file of another kind is refused before it fills the memory.
    head = _read_head(file)
    header = _parse_header(head)
    notes = _checked_notes(header)
    _check_length(os.fstat(file.fileno()).st_size)
    data = head + file.read()
    _verify(data, _checksum_place(header, len(head)))
    tensors = _tensors(data)
    del tensors[_CHECKSUM]
    return tensors, notes


def _check_length(length: int) -> None:
    if length > LARGEST_FILE:
        raise ModelFileError(f"the file has {length:,} bytes, but a model has at most {LARGEST_FILE:,}. {ADVICE}")


def _read_head(file: BinaryIO) -> bytes:
    """The length of the header and the header itself, as bytes."""
    size = file.read(8)
    if not size:
        raise ModelFileError(f"the file is empty. {ADVICE}")
    length = int.from_bytes(size, "little")
    # Checked before reading: a foreign file may seem to ask for terabytes.
    if len(size) < 8 or length > _LONGEST_HEADER:
        raise ModelFileError(f"the file is not a samekind metric. {ADVICE}")
    text = file.read(length)
    if len(text) < length:
        raise ModelFileError(f"the file ends too soon, or is not a samekind metric. {ADVICE}")
    return size + text


def _parse_header(head: bytes) -> dict[str, Any]:
    try:
        header = parse_json(head[8:])
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise ModelFileError(f"the file is not a samekind metric, or its header is damaged. {ADVICE}")
    return header


def _checked_notes(header: dict[str, Any]) -> dict[str, Any]:
    try:
        notes = parse_json(header["__metadata__"][_NOTES])
        found, version = notes["format"], notes["format_version"]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"the file is not a samekind metric, or its header is damaged. {ADVICE}") from error
    if found != _FORMAT:
        raise ModelFileError(f"the file holds {short(found)}, not {_FORMAT!r}. {ADVICE}")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"the file is damaged: its format version reads {short(version)}. {ADVICE}")
    if version > _FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format version {short(version)}, but this samekind reads up to {_FORMAT_VERSION}. "
            "Upgrade samekind: pip install --upgrade samekind."
        )
    checked: dict[str, Any] = notes
    return checked


def _checksum_place(header: dict[str, Any], data_start: int) -> slice:
    try:
        start, stop = map(operator.index, header[_CHECKSUM]["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"the file is damaged: it has no checksum. {ADVICE}") from error
    if not (start >= 0 and stop == start + hashlib.sha256().digest_size):
        raise ModelFileError(f"the file is damaged: its checksum has no place. {ADVICE}")
    return slice(data_start + start, data_start + stop)


def _checksum(data: bytes, place: slice) -> bytes:
    """SHA-256 of all bytes around the place where it is kept."""
    around = hashlib.sha256(data[: place.start])
    around.update(data[place.stop :])
    return around.digest()


def _verify(data: bytes, place: slice) -> None:
    if data[place] != _checksum(data, place):
        raise ModelFileError(f"the file is damaged: it was cut short or altered after it was saved. {ADVICE}")


def _tensors(data: bytes) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:  # odd types
        raise ModelFileError(f"the file is not readable as safetensors ({error}). {ADVICE}") from error
