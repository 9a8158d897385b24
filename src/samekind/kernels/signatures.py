"""Signatures: bits that say on which side of random hyperplanes a vector lies.

The share of bits in which two signatures differ estimates the angle between the vectors, over pi (Charikar, 2002,
"Similarity estimation techniques from rounding algorithms").
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.compiled import compiled_exactly
from samekind.kernels.types import Array

N_BITS = 128
N_WORDS = N_BITS // 64


def signatures_of(vectors: Array, directions: Array) -> NDArray[np.uint64]:
    """(n, N_WORDS) of vectors (n, d), by the normals (d, N_BITS) of hyperplanes."""
    bits = np.packbits(vectors @ directions > 0, axis=1, bitorder="little")
    return np.ascontiguousarray(bits).view(np.uint64)


@compiled_exactly
def _n_ones(word: Any) -> Any:
    """Bits that are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled_exactly
def differing_bits(cells: Any, starts: Any, signatures: Any, own: Any, found: Any, counts: Any) -> Any:
    """Of the members of some cells, one after the other, into `found` (uint8); `counts` (N_BITS + 1,) are added to.

    Members of cell c are `starts[c]` to `starts[c + 1]`; `own` (N_WORDS,) is the query's. Returns how many there are.
    """
    n = 0
    first, second = own[0], own[1]
    for cell in cells:
        for at in range(starts[cell], starts[cell + 1]):
            bits = _n_ones(signatures[at, 0] ^ first) + _n_ones(signatures[at, 1] ^ second)
            found[n] = bits
            n += 1
    for i in range(n):
        counts[found[i]] += 1
    return n


@compiled_exactly
def members_within(cells: Any, starts: Any, members: Any, found: Any, limit: Any, rows: Any) -> Any:
    """Those members that differ in at most `limit` bits, into `rows`; -1 is no row. Returns how many there are."""
    n, place = 0, 0
    for cell in cells:
        for at in range(starts[cell], starts[cell + 1]):
            if found[place] <= limit and members[at] >= 0:
                rows[n] = members[at]
                n += 1
            place += 1
    return n
