"""PBM, PGM and PPM pictures, plain and raw, of any largest value.

Neither opencv (no scaling by the largest value) nor Pillow (8 bits for colours) reads all of them right. One function
reads headers, so that the size that is checked is the size that is decoded. Memory is that of the values, in 16 bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

LONGEST_HEADER = 65_536  # bytes, comments included
LARGEST_VALUE = 65_535
LONGEST_WORD = 9  # digits of a plain value, leading zeros included
AT_ONCE = 1 << 22  # bytes of plain text

_BLANK = rb"(?:[ \t\n\v\f\r]|#[^\n\r]*[\n\r])+"
_HEADER = re.compile(rb"P([2356])" + 3 * (_BLANK + rb"([0-9]{1,9})") + rb"[ \t\n\v\f\r]")
_BITMAP_HEADER = re.compile(rb"P([14])" + 2 * (_BLANK + rb"([0-9]{1,9})") + rb"[ \t\n\v\f\r]")
_SPACE = re.compile(rb"[ \t\n\v\f\r]")
_IS_SPACE = np.isin(np.arange(256), list(b" \t\n\v\f\r"))


class NetpbmError(ValueError):
    """A file that is not as the format has it, and why."""


@dataclass(frozen=True)
class Header:
    """What a file begins with."""

    magic: int  # 1 to 6
    width: int
    height: int
    largest: int
    length: int  # of the header, in bytes
    info: dict[str, Any] = field(default_factory=dict)  # as Pillow's headers have it: there is none

    @property
    def size(self) -> tuple[int, int]:
        return self.width, self.height

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, colours."""
        return self.height, self.width, 3 if self.magic in (3, 6) else 1

    @property
    def n_values(self) -> int:
        height, width, colours = self.shape
        return height * width * colours


def read_header(file: BinaryIO) -> Header:
    """Of an open file."""
    return header_of(file.read(LONGEST_HEADER))


def header_of(data: bytes) -> Header:
    """Of a file's bytes, or of the first of them."""
    start = data[:LONGEST_HEADER]
    if match := _HEADER.match(start):
        magic, width, height, largest = map(int, match.groups())
    elif match := _BITMAP_HEADER.match(start):
        (magic, width, height), largest = map(int, match.groups()), 1
    else:
        raise NetpbmError("has a broken header")
    if not 0 < largest <= LARGEST_VALUE:
        raise NetpbmError(f"has a broken header: the largest value is {largest}, but must be 1 to {LARGEST_VALUE}")
    return Header(magic, width, height, largest, match.end())


def decode(data: bytes) -> tuple[NDArray[Any], int]:
    """Values (height, width, 1 or 3) of a file, and the largest that they may have; in bitmaps 1 is white."""
    header = header_of(data)
    raster = memoryview(data)[header.length :]
    values = {1: _plain_bits, 2: _plain, 3: _plain, 4: _raw_bits, 5: _raw, 6: _raw}[header.magic](raster, header)
    if values.size and values.max() > header.largest:
        raise NetpbmError(f"is broken: it holds {values.max()}, above its own largest value {header.largest}")
    return values.reshape(header.shape), header.largest


def _raw(raster: memoryview, header: Header) -> NDArray[Any]:
    dtype = np.dtype(">u2" if header.largest > 255 else "u1")
    _check_length(raster, header.n_values * dtype.itemsize)
    return np.frombuffer(raster, dtype, header.n_values)


def _raw_bits(raster: memoryview, header: Header) -> NDArray[Any]:
    row_bytes = -(-header.width // 8)
    _check_length(raster, header.height * row_bytes)
    packed = np.frombuffer(raster, np.uint8, header.height * row_bytes).reshape(header.height, row_bytes)
    return 1 - np.unpackbits(packed, axis=1, count=header.width)


def _check_length(raster: memoryview, needed: int) -> None:
    if len(raster) < needed:
        raise NetpbmError(f"is cut off: {len(raster):,} of {needed:,} bytes of pixels are there")


def _plain_bits(raster: memoryview, header: Header) -> NDArray[Any]:
    """Ones and zeros, with or without blanks between them."""
    text = np.frombuffer(raster, np.uint8)
    bits = text[~_IS_SPACE[text]][: header.n_values]
    if len(bits) < header.n_values:
        raise NetpbmError(f"is cut off: {len(bits):,} of {header.n_values:,} values are there")
    if not np.isin(bits, list(b"01")).all():
        raise NetpbmError("is broken: not all of its values are numbers")
    return (ord("1") - bits).astype(np.uint8)


def _plain(raster: memoryview, header: Header, at_once: int = AT_ONCE) -> NDArray[Any]:
    if len(raster) < 2 * header.n_values - 1:  # before so many values are given room
        raise NetpbmError(f"is cut off: {len(bytes(raster).split()):,} of {header.n_values:,} values are there")
    values = np.empty(header.n_values, np.uint16)
    filled = start = 0
    while filled < len(values) and start < len(raster):
        stop = _end_of_word(raster, start + at_once)
        found = _words(np.frombuffer(raster[start:stop], np.uint8), len(values) - filled)
        values[filled : filled + len(found)] = found
        filled, start = filled + len(found), stop
    if filled < len(values):
        raise NetpbmError(f"is cut off: {filled:,} of {len(values):,} values are there")
    return values


def _end_of_word(raster: memoryview, at: int) -> int:
    """The first blank from a place on."""
    if at >= len(raster):
        return len(raster)
    found = _SPACE.search(raster, at, at + LONGEST_WORD + 1)
    return found.start() if found else min(at + LONGEST_WORD + 1, len(raster))


def _words(text: NDArray[np.uint8], most: int) -> NDArray[np.int64]:
    """The first so many values of a plain text."""
    inside = ~_IS_SPACE[text]
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    starts, lengths = edges[0::2][:most], np.diff(edges)[0::2][:most]
    if not len(starts):
        return np.zeros(0, np.int64)
    if lengths.max() > LONGEST_WORD:
        raise NetpbmError(f"is broken: one of its values has {lengths.max():,} digits")
    values = np.zeros(len(starts), np.int64)
    for place in range(int(lengths.max())):
        here = lengths > place
        digits = text[starts[here] + place] - np.uint8(ord("0"))
        if digits.max() > 9:
            raise NetpbmError("is broken: not all of its values are numbers")
        values[here] = 10 * values[here] + digits
    if values.max() > LARGEST_VALUE:
        raise NetpbmError(f"is broken: it holds {values.max()}, but values are {LARGEST_VALUE} at most")
    return values
