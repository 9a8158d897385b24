"""Whether an array on disk is as it was written: its checksum, and that all numbers are finite."""

import hashlib
from io import FileIO, RawIOBase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

EXPONENT, MAGNITUDE = 0x7C00, 0x7FFF  # bits of a float16; all of the exponent set is infinity or no number
BLOCK = 1 << 22  # bytes read at a time


def array_problem(path: Path, sha256: str) -> str | None:
    """What is wrong with the .npy file of a shard; None where it is sound. Reads all of it."""
    digest, finite = hashlib.sha256(), True
    block = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        start = file.read(10)
        header = start + file.read(int.from_bytes(start[8:10], "little"))
        digest.update(header)
        while n := _fill(file, block):
            digest.update(memoryview(block)[:n])
            finite = finite and is_finite(np.frombuffer(block, "<u2", n // 2))
    if digest.hexdigest() != sha256:
        return "it was altered after it was written"
    return None if finite else "it holds infinity or what is no number"


def stamp(path: Path, sha256: str) -> tuple[Path | str | int, ...]:
    """What changes when the file or its checksum does, and takes no reading."""
    stat = path.stat()
    return path, sha256, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def is_finite(bits: NDArray[np.uint16]) -> bool:
    """Of float16, by their bits."""
    return int((bits & MAGNITUDE).max(initial=0)) < EXPONENT


def _fill(file: RawIOBase | FileIO, block: bytearray) -> int:
    """Read until the block is full or the file ends: the number of bytes."""
    view, filled = memoryview(block), 0
    while filled < len(block):
        n = file.readinto(view[filled:])
        if not n:
            break
        filled += n
    return filled
