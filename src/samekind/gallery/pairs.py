"""All pairs of many codes, in tiles: those within limits, and the nearest other of each; exact, in O(n) memory.

Float32 matrix products exclude most pairs by a bound on their rounding errors; the distances of all others are computed
in float64 (`samekind.kernels.nearest`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import GalleryError
from samekind.kernels.types import Array
from samekind.threads import ThreadPool, single_threaded_blas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]

TILE_ROWS = 2048
QUERIES = 256
MOST_PAIRS = 2_000_000  # beyond that limits tell nothing apart
_NOTHING = np.zeros(0, np.int64)


def pairs_within(
    vectors: Array, offsets: Floats, limits: Floats, progress: Progress, *, forest: bool = False
) -> tuple[Ints, Floats]:
    """Pairs (m, 2) of rows i < j with `||u_i - u_j||^2 + s_i + s_j <= min(limits_i, limits_j)`, and these distances.

    With `forest`, only as many pairs as connect all rows that any pairs connect.
    """
    from samekind.kernels.nearest import pairs_in_products

    n, width = vectors.shape
    single = np.ascontiguousarray(vectors, np.float32)
    norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    parents = np.arange(n) if forest else _NOTHING
    buffer, found = np.empty((4 * TILE_ROWS, 2), np.int64), np.empty(4 * TILE_ROWS)
    pairs, distances, n_pairs = [buffer[:0].copy()], [found[:0].copy()], 0
    starts = range(0, n, TILE_ROWS)
    for first in starts:
        for second in range(first, n, TILE_ROWS):
            with np.errstate(over="ignore", invalid="ignore"):
                products = single[first : first + TILE_ROWS] @ single[second : second + TILE_ROWS].T
            row = 0
            while row < len(products):
                row, count = pairs_in_products(
                    products, first, second, row, vectors, offsets, norms, limits, _error(width), parents, buffer, found
                )
                pairs.append(buffer[:count].copy())
                distances.append(found[:count].copy())
                n_pairs += count
                if n_pairs > MOST_PAIRS:
                    raise GalleryError(f"More than {MOST_PAIRS:,} pairs are within the limits: give lower ones.")
        progress(_n_before(first + TILE_ROWS, n), _n_before(n, n))
    return np.concatenate(pairs), np.concatenate(distances)


def nearest_others(vectors: Array, offsets: Floats, progress: Progress, n_jobs: int | None) -> tuple[Floats, Ints]:
    """Of each row the smallest `||u_i - u_j||^2 + s_i + s_j` over j != i, and its j; infinite where there is none."""
    from samekind.kernels.nearest import batch_norms, nearest_in_products

    n, width = vectors.shape
    least, spread = np.empty(n), np.empty(n)
    batch_norms(vectors, offsets, width, least, spread)
    everything = np.zeros(0, bool)

    def search(first: int) -> tuple[Floats, Ints]:
        queries = vectors[first : first + QUERIES].astype(np.float64)
        factors = (-2 * queries).astype(np.float32)
        distances = np.full((len(queries), 2), np.inf)
        places = np.full((len(queries), 2), -1, np.int64)
        for start in range(0, n, TILE_ROWS):
            rows = slice(start, min(start + TILE_ROWS, n))
            with np.errstate(over="ignore", invalid="ignore"):
                products = factors @ vectors[rows].T
            nearest_in_products(
                products, least[rows], spread[rows], vectors[rows], offsets[rows], everything, start, queries,
                _error(width), distances, places,
            )  # fmt: skip
        own = (places[:, 0] == np.arange(first, first + len(queries))).astype(np.intp)
        chosen = np.arange(len(queries)), own
        return distances[chosen] + offsets[first : first + QUERIES], places[chosen]

    found: list[tuple[Floats, Ints]] = [(np.zeros(0), _NOTHING)]
    with ThreadPool(n_jobs) as pool, single_threaded_blas():
        for part in pool.map(search, range(0, n, QUERIES)):
            found.append(part)
            progress(min(QUERIES * (len(found) - 1), n), n)
    return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])


def _error(width: int) -> float:
    """Of a float32 product of vectors that were rounded to float32, relative to their lengths."""
    return 1.01 * (width + 6) * 2.0**-24


def _n_before(row: int, n: int) -> int:
    """Pairs i < j with i below a row."""
    row = min(row, n)
    return row * (2 * n - row - 1) // 2
