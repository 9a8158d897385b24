"""Checksums of runs of rows: CRC-32 of each run of a block, in one array of bytes.

Runs are short, so that erasing a row costs little; the last run grows with the rows that are appended.
"""

import zlib

import numpy as np

RUN_ROWS = 256


def extended(before: bytes, n_before: int, content: bytes | memoryview, row_bytes: int) -> bytes:
    """Checksums of a block that has `n_before` rows, after more rows are appended to it."""
    found = np.frombuffer(before, np.uint32).tolist()
    row, left = n_before, memoryview(content)
    while left:
        part = left[: (RUN_ROWS - row % RUN_ROWS) * row_bytes]
        if row % RUN_ROWS:
            found[-1] = zlib.crc32(part, found[-1])
        else:
            found.append(zlib.crc32(part))
        row, left = row + len(part) // row_bytes, left[len(part) :]
    return np.array(found, np.uint32).tobytes()


def matches(content: memoryview, row_bytes: int, checksums: bytes) -> bool:
    """Whether the rows of a block are as they were written."""
    return extended(b"", 0, content, row_bytes) == checksums


def renewed(before: bytes, run: int, content: bytes) -> bytes:
    """The same with the rows of one run exchanged."""
    found = np.frombuffer(before, np.uint32).copy()
    found[run] = zlib.crc32(content)
    return found.tobytes()
