"""PNG pictures of 16-bit colours, which Pillow has no mode for.

opencv decodes them, of the chunks that make up the picture alone: libpng writes warnings about others to stderr. The
pixels are unpacked here to exactly as many bytes as there must be, whatever a file says.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by the kind of colour
# First column and row, and steps, of Adam7's passes.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def deep_png_pixels(data: bytes) -> NDArray[np.uint16]:
    """Grey (H, W), or RGB (H, W, 3) with or without transparency; ValueError where a file is broken."""
    import cv2

    flags = cv2.IMREAD_ANYDEPTH | cv2.IMREAD_ANYCOLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(_bare(data), np.uint8), flags)
    if pixels is None or pixels.dtype != np.uint16:
        raise ValueError("opencv cannot decode it")
    values: NDArray[np.uint16] = np.asarray(pixels, np.uint16)
    return values[..., ::-1] if values.ndim == 3 else values


def _bare(data: bytes) -> bytes:
    """The same picture without anything else."""
    chunks = list(_chunks(data))
    header = chunks[0][1]
    needed = _raw_bytes(header)
    packed = b"".join(content for name, content in chunks if name == b"IDAT")
    raw = zlib.decompressobj().decompress(packed, needed)
    if len(raw) < needed:
        raise ValueError(f"{len(raw):,} of {needed:,} bytes of pixels are there")
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 1)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _raw_bytes(header: bytes) -> int:
    """Of all rows, each with its filter; a pass without columns has no rows."""
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    passes = _PASSES if interlaced else ((0, 0, 1, 1),)
    total = 0
    for left, top, across, down in passes:
        columns, rows = -(-max(width - left, 0) // across), -(-max(height - top, 0) // down)
        total += rows * (1 + columns * _CHANNELS[kind] * depth // 8) if columns else 0
    return total
