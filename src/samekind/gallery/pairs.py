"""All pairs of many codes, in tiles: those within limits, and the nearest other of each; exact, in O(n) memory.

Float32 matrix products exclude most pairs by a bound on their rounding errors; the distances of all others are computed
in float64 (`samekind.kernels.nearest`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import GalleryError
from samekind.kernels.types import Array
from samekind.threads import ThreadPool, single_threaded_blas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[int, int], None]

_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class TileSizes:
    """Of the tiles, and of what is found in them."""

    rows: int = 2048
    queries: int = 256
    most_pairs: int = 2_000_000  # beyond that limits tell nothing apart


def pairs_within(
    vectors: Array,
    offsets: Floats,
    limits: Floats,
    progress: Progress,
    *,
    forest: bool = False,
    sizes: TileSizes = TileSizes(),
) -> tuple[Ints, Floats]:
    """Pairs (m, 2) of rows i < j with `||u_i - u_j||^2 + s_i + s_j <= min(limits_i, limits_j)`, and these distances.

    With `forest`, only as many pairs as connect all rows that any pairs connect.
    """
    from samekind.kernels.nearest import pairs_in_products

    n, width = vectors.shape
    single = np.ascontiguousarray(vectors, np.float32)
    norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    parents = np.arange(n) if forest else _NOTHING
    buffer, found = np.empty((4 * sizes.rows, 2), np.int64), np.empty(4 * sizes.rows)
    pairs, distances, n_pairs = [buffer[:0].copy()], [found[:0].copy()], 0
    starts = range(0, n, sizes.rows)
    for first in starts:
        for second in range(first, n, sizes.rows):
            with np.errstate(over="ignore", invalid="ignore"):
                products = single[first : first + sizes.rows] @ single[second : second + sizes.rows].T
            row = 0
            while row < len(products):
                row, count = pairs_in_products(
                    products, first, second, row, vectors, offsets, norms, limits, _error(width), parents, buffer, found
                )
                pairs.append(buffer[:count].copy())
                distances.append(found[:count].copy())
                n_pairs += count
                if n_pairs > sizes.most_pairs:
                    raise GalleryError(f"More than {sizes.most_pairs:,} pairs are within the limits: give lower ones.")
        progress(_n_before(first + sizes.rows, n), _n_before(n, n))
    return np.concatenate(pairs), np.concatenate(distances)


def nearest_others(
    vectors: Array, offsets: Floats, progress: Progress, n_jobs: int | None, *, sizes: TileSizes = TileSizes()
) -> tuple[Floats, Ints]:
    """Of each row the smallest `||u_i - u_j||^2 + s_i + s_j` over j != i, and its j; infinite where there is none."""
    from samekind.kernels.nearest import batch_norms, nearest_in_products

    n, width = vectors.shape
    least, spread = np.empty(n), np.empty(n)
    batch_norms(vectors, offsets, width, least, spread)
    everything = np.zeros(0, bool)

    def search(first: int) -> tuple[Floats, Ints]:
        queries = vectors[first : first + sizes.queries].astype(np.float64)
        factors = (-2 * queries).astype(np.float32)
        distances = np.full((len(queries), 2), np.inf)
        places = np.full((len(queries), 2), -1, np.int64)
        for start in range(0, n, sizes.rows):
            rows = slice(start, min(start + sizes.rows, n))
            with np.errstate(over="ignore", invalid="ignore"):
                products = factors @ vectors[rows].T
            nearest_in_products(
                products, least[rows], spread[rows], vectors[rows], offsets[rows], everything, start, queries,
                _error(width), distances, places,
            )  # fmt: skip
        own = (places[:, 0] == np.arange(first, first + len(queries))).astype(np.intp)
        chosen = np.arange(len(queries)), own
        return distances[chosen] + offsets[first : first + sizes.queries], places[chosen]

    found: list[tuple[Floats, Ints]] = [(np.zeros(0), _NOTHING)]
    with ThreadPool(n_jobs) as pool, single_threaded_blas():
        for part in pool.map(search, range(0, n, sizes.queries)):
            found.append(part)
            progress(min(sizes.queries * (len(found) - 1), n), n)
    return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])


def _error(width: int) -> float:
    """Of a float32 product of vectors that were rounded to float32, relative to their lengths."""
    return 1.01 * (width + 6) * 2.0**-24


def _n_before(row: int, n: int) -> int:
    """Pairs i < j with i below a row."""
    row = min(row, n)
    return row * (2 * n - row - 1) // 2
