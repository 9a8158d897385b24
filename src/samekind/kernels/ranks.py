"""How many entries are nearer to a query than each of its relevant ones: counted, not sorted.

The relevant distances of a query, in order and each once, cut the line into gaps. An entry that is not relevant falls
into a gap, or is tied with a cut. Its distance comes from a matrix product with a bound on its error (`nearest`); where
the bound reaches a cut, the distance is computed again in float64, as those of the cuts were, so that the counts are
those of exact comparisons.
"""

from typing import Any, NamedTuple

import numpy as np

from samekind.kernels.compiled import compiled_exactly
from samekind.kernels.nearest import _ROUNDING, _distance


class Entries(NamedTuple):
    """Rows that are searched: vectors (n, r), and an offset, a class and an id of each (n,)."""

    vectors: Any
    offsets: Any
    classes: Any
    ids: Any


class Queries(NamedTuple):
    """Vectors (q, r) in float64, and a class and an id of each (q,)."""

    vectors: Any
    classes: Any
    ids: Any


class Counts(NamedTuple):
    """Entries between the cut before and this one (`gaps`), or at it (`ties`).

    The cuts of query i are `cuts[starts[i] : starts[i + 1]]`.
    """

    cuts: Any
    starts: Any
    gaps: Any
    ties: Any


@compiled_exactly
def relevant_distances(codes: Any, offsets: Any, relevant: Any, starts: Any, queries: Any, found: Any) -> None:
    """`||u - q||^2 + s` of the relevant rows of each query: relevant[starts[i] : starts[i + 1]] are rows of codes."""
    lanes = np.empty(8)
    for i in range(len(queries)):
        for at in range(starts[i], starts[i + 1]):
            found[at] = _distance(codes, relevant[at], queries[i], lanes) + offsets[relevant[at]]


@compiled_exactly
def count_in_products(
    products: Any, least: Any, spread: Any, error: Any, entries: Any, asked: Any, counts: Any
) -> None:
    """The `Entries` of a tile, for each of some `Queries`, into `Counts`.

    `products` (m, n) = -2 <q, u>; `least` and `spread` as of `nearest.batch_norms`. Entries of a query's class or id
    are passed over: relevant ones have been dealt with, others are left out. Those beyond the last cut do not count.
    """
    codes, offsets, classes, ids = entries
    queries, query_classes, query_ids = asked
    cuts, starts, gaps, ties = counts
    lanes, n = np.empty(8), len(codes)
    middle, width = np.empty(n), np.empty(n)
    for i in range(len(queries)):
        first, last = starts[i], starts[i + 1]
        if first == last:
            continue
        length = 0.0
        for d in range(queries.shape[1]):
            length += queries[i, d] * queries[i, d]
        scaled = 2.0 * error * np.sqrt(length) * (1 + _ROUNDING)
        for j in range(n):
            product = np.float64(products[i, j])
            middle[j] = least[j] + product + length
            margin = spread[j] * scaled + 4 * _ROUNDING * (length + spread[j] * spread[j] + abs(offsets[j])) + 2.0**-100
            width[j] = margin if abs(product) < np.inf else np.inf
        farthest = cuts[last - 1]
        for j in range(n):
            if middle[j] - width[j] > farthest or classes[j] == query_classes[i] or ids[j] == query_ids[i]:
                continue
            low, high = middle[j] - width[j], middle[j] + width[j]
            if not width[j] < np.inf:
                low, high = -np.inf, np.inf
            at = first + np.searchsorted(cuts[first:last], low)
            if at < last and cuts[at] <= high:
                distance = _distance(codes, j, queries[i], lanes) + offsets[j]
                at = first + np.searchsorted(cuts[first:last], distance)
                if at < last and cuts[at] == distance:
                    ties[at] += 1
                    continue
            if at < last:
                gaps[at] += 1
