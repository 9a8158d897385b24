"""Files of codes: a header of one page, then rows of one size, appended and never moved.

    000001-ab12cd34.codes   float32 codes; an erased row is NaN throughout
    000001-ab12cd34.int8    their quantised blocks (`samekind.kernels.nearest`), which can be made again

Rows beyond the number that the database states do not exist. A mapped part of a file is never cut off or replaced: new
content gets a new name.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import ADVICE, GalleryError

HEADER_BYTES = 4096
CODES, INT8 = ".codes", ".int8"  # ends of file names
MODEL_END, CACHE_END = ".safetensors", ".cache"
_FORMAT = "samekind.gallery"


@dataclass(frozen=True)
class Layout:
    """Rows that are quantised together, with one scale per dimension, and blocks of them in a file."""

    block_rows: int = 16_384
    segment_blocks: int = 64

    @property
    def segment_rows(self) -> int:
        return self.block_rows * self.segment_blocks


def new_name(number: int, kind: str) -> str:
    return f"{number:06d}-{secrets.token_hex(4)}{kind}"


def create_rows_file(folder: Path, name: str, gallery: str, row_bytes: int) -> None:
    """An empty file with its header, durable."""
    header = _header(name, gallery, row_bytes)
    with open(folder / name, "xb") as file:
        file.write(header.ljust(HEADER_BYTES, b"\0"))
        file.flush()
        os.fsync(file.fileno())
    fsync_folder(folder)


def check_rows_file(folder: Path, name: str, gallery: str, row_bytes: int, rows: int) -> None:
    """`GalleryError` where the file is missing, too short, or not the one that belongs here."""
    path = folder / name
    try:
        with path.open("rb") as file:
            header, size = file.read(HEADER_BYTES), os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise GalleryError(f"{path} is missing, but belongs to this gallery. {ADVICE}") from error
    if header.rstrip(b"\0") != _header(name, gallery, row_bytes):
        raise GalleryError(f"{path} is damaged or belongs to another gallery: its header is not as written. {ADVICE}")
    needed = HEADER_BYTES + rows * row_bytes
    if size < needed:
        raise GalleryError(f"{path} has {size:,} bytes, but {rows:,} rows need {needed:,}: it was cut short. {ADVICE}")


def _header(name: str, gallery: str, row_bytes: int) -> bytes:
    content = {"format": _FORMAT, "gallery": gallery, "file": name, "row_bytes": row_bytes}
    return json.dumps(content, sort_keys=True).encode()


class RowsWriter:
    """Rows of a file, written in place; `close` makes them durable."""

    def __init__(self, path: Path, row_bytes: int) -> None:
        self.path, self.row_bytes = path, row_bytes
        self._file = os.open(path, os.O_RDWR)

    def write(self, row: int, content: bytes) -> None:
        at, left = HEADER_BYTES + row * self.row_bytes, memoryview(content)
        while left:
            written = os.pwrite(self._file, left, at)
            at, left = at + written, left[written:]

    def read(self, row: int, n_rows: int) -> bytes:
        return os.pread(self._file, n_rows * self.row_bytes, HEADER_BYTES + row * self.row_bytes)

    def sync(self) -> None:
        os.fsync(self._file)

    def cut(self, rows: int) -> None:
        """Give back the space of rows that were never committed, and that no reader maps."""
        os.ftruncate(self._file, HEADER_BYTES + rows * self.row_bytes)

    def close(self) -> None:
        os.close(self._file)


def map_rows(path: Path, dtype: Any, rows: int, columns: int) -> NDArray[Any]:
    """The first rows of a file, read only: (rows, columns)."""
    if not rows:
        return np.zeros((0, columns), dtype)
    size = rows * columns * np.dtype(dtype).itemsize
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), HEADER_BYTES + size, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype, rows * columns, HEADER_BYTES).reshape(rows, columns)


def remove_files(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
    fsync_folder(folder)


def fsync_folder(folder: Path) -> None:
    """A name is durable only when its folder is."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
