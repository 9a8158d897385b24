"""The k nearest rows of a view, exactly: one query by quantised copies, many by matrix products, few rows directly.

Threads share blocks of rows. Each has lists of its own, which are merged; equal distances are ordered by place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.cells import Cells
from samekind.gallery.view import Segment, View
from samekind.kernels.types import BoolArray, IntArray
from samekind.threads import ThreadPool, single_threaded_blas

if TYPE_CHECKING:
    from samekind.kernels.nearest import NearestSoFar

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Allowed = dict[int, IntArray] | None

FEW = 1 / 16  # share of a segment's rows up to which they are computed directly
TILE_ROWS = 2048  # of codes in a matrix product
MOST_QUERIES = 256  # in one product
_EVERY: BoolArray = np.zeros(0, bool)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Of one query: distances less the query's own number, places, and how many rows were searched and computed."""

    distances: Floats
    places: Places
    n_searched: int
    n_computed: int


class _Lists:
    """The k nearest of m queries so far."""

    def __init__(self, m: int, k: int) -> None:
        self.distances = np.full((m, k), np.inf)
        self.places = np.full((m, k), np.iinfo(np.int64).max)
        self.computed = 0


def nearest(
    view: View, query: Floats, k: int, allowed: Allowed, n_jobs: int | None, cells: Cells | None = None
) -> Nearest:
    """One query (width,); with cells, only the candidates that these give, and the rows in no cell."""
    from samekind.kernels.nearest import NearestSoFar

    n = _n_searched(view, allowed)
    k = min(k, max(n, 1))
    shared = np.full(1, np.inf)
    near = {} if cells is None or allowed is not None else cells.candidates(query)
    tasks = [task for segment in view.segments for task in _tasks(view, segment, allowed, cells, near)]
    waiting = iter(tasks)  # taken by whichever thread is free

    def search(_: int) -> _Lists:
        lists = _Lists(1, k)
        for task in waiting:
            lists.computed += task.search(query, NearestSoFar(shared, lists.distances[0], lists.places[0]))
        return lists

    with ThreadPool(n_jobs) as pool:
        found = list(pool.map(search, range(pool.n_threads)))
    distances, places = _merged(found, 1, k)
    return _nearest(distances[0], places[0], n, sum(lists.computed for lists in found))


def nearest_of_many(view: View, queries: Floats, k: int, allowed: Allowed, n_jobs: int | None) -> list[Nearest]:
    """Many queries (m, width), float32 numbers in float64."""
    n = _n_searched(view, allowed)
    k = min(k, max(n, 1))
    answers: list[Nearest] = []
    for start in range(0, len(queries), MOST_QUERIES):
        part = queries[start : start + MOST_QUERIES]
        found = _by_products(view, part, k, allowed, n_jobs)
        computed = sum(lists.computed for lists in found)
        distances, places = _merged(found, len(part), k)
        answers += [_nearest(distances[i], places[i], n, computed / len(part)) for i in range(len(part))]
    return answers


def _by_products(view: View, queries: Floats, k: int, allowed: Allowed, n_jobs: int | None) -> list[_Lists]:
    from samekind.kernels.nearest import batch_norms, nearest_in_products

    m, width = queries.shape
    factors = (-2 * queries).astype(np.float32)
    error = 1.01 * (width + 2) * 2.0**-24
    waiting = iter(list(view.blocks_of_rows(TILE_ROWS)))
    masks = {} if allowed is None else {s.state.number: _mask(s, allowed[s.state.number]) for s in view.segments}

    def search(_: int) -> _Lists:
        lists = _Lists(m, k)
        products = np.empty((m, TILE_ROWS), np.float32)
        least, spread = np.empty(TILE_ROWS), np.empty(TILE_ROWS)
        for segment, rows in waiting:
            codes, n = segment.codes[rows], rows.stop - rows.start
            offsets = segment.offsets(rows)
            # A code that overflows float32 products, or an erased one, is dealt with by the kernel.
            with np.errstate(over="ignore", invalid="ignore"):
                tile = np.matmul(factors, codes[:, :width].T, out=products[:, :n] if n == TILE_ROWS else None)
            batch_norms(codes, offsets, width, least[:n], spread[:n])
            mask = _EVERY if not masks else masks[segment.state.number][rows]
            place = segment.first_place + rows.start
            lists.computed += nearest_in_products(
                tile, least[:n], spread[:n], codes, offsets, mask, place, queries, error, lists.distances, lists.places
            )
        return lists

    with ThreadPool(n_jobs) as pool, single_threaded_blas():
        return list(pool.map(search, range(pool.n_threads)))


@dataclass(frozen=True, eq=False)
class _Task:
    """Blocks of a segment that are searched by their quantised copies, or some rows that are computed directly."""

    segment: Segment
    block_rows: int
    blocks: IntArray | None = None
    allowed: BoolArray | None = None
    rows: IntArray | None = None
    near: IntArray | None = None

    def search(self, query: Floats, nearest: NearestSoFar) -> int:
        """Into the lists of the nearest; returns how many distances were computed."""
        from samekind.kernels.nearest import QuantisedRows, nearest_in_blocks, nearest_in_rows, nearest_of_rows

        segment = self.segment
        quantised = QuantisedRows(segment.int8, segment.scales, self.block_rows, segment.codes, segment.first_place)
        if self.near is not None:
            return int(nearest_in_rows(self.near, quantised, query, nearest))
        if self.rows is not None:
            offsets, lists_so_far = self._offsets(self.rows), (nearest.distances, nearest.places)
            nearest_of_rows(segment.codes, offsets, self.rows, segment.first_place, query, *lists_so_far)
            return len(self.rows)
        allowed = _EVERY if self.allowed is None else self.allowed
        return int(nearest_in_blocks(self.blocks, allowed, quantised, query, nearest))

    def _offsets(self, rows: IntArray) -> Floats:
        first = len(self.segment.int8)
        if len(rows) and rows[0] >= first:
            return self.segment.tail_offsets[rows - first]
        return self.segment.form.offsets(self.segment.codes[rows])


def _tasks(
    view: View, segment: Segment, allowed: Allowed, cells: Cells | None, near: Mapping[int, IntArray]
) -> list[_Task]:
    """Work on a segment in pieces that several threads share evenly."""
    size = view.layout.block_rows
    chosen = None if allowed is None else allowed[segment.state.number]
    if chosen is not None and len(chosen) <= FEW * segment.state.rows:
        return [_Task(segment, size, rows=part) for part in _pieces(chosen, size // 8)]
    mask = None if chosen is None else _mask(segment, chosen)
    lists = None if cells is None or chosen is not None else cells.segments.get(segment.state.number)
    blocks = np.arange(0 if lists is None else lists.n_rows // size, len(segment.int8) // size)
    tail = np.arange(len(segment.int8), segment.state.rows)
    tail = tail if mask is None else tail[mask[tail]]
    by_blocks = [_Task(segment, size, part, mask) for part in _pieces(blocks, 4)]
    if lists is not None:
        by_blocks.append(_Task(segment, size, near=near[segment.state.number]))
    return by_blocks + [_Task(segment, size, rows=part) for part in _pieces(tail, size // 8)]


def _pieces(values: IntArray, size: int) -> list[IntArray]:
    size = max(size, 1)
    return [values[start : start + size] for start in range(0, len(values), size)]


def _mask(segment: Segment, rows: IntArray) -> BoolArray:
    mask = np.zeros(segment.state.rows, bool)
    mask[rows] = True
    return mask


def _n_searched(view: View, allowed: Allowed) -> int:
    return view.n_live if allowed is None else sum(len(rows) for rows in allowed.values())


def _merged(found: list[_Lists], m: int, k: int) -> tuple[Floats, Places]:
    """(m, k) in order of distance, then place."""
    if not found:
        empty = _Lists(m, k)
        return empty.distances, empty.places
    distances = np.concatenate([lists.distances for lists in found], axis=1)
    places = np.concatenate([lists.places for lists in found], axis=1)
    order = np.lexsort((places, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(places, order, axis=1)


def _nearest(distances: Floats, places: Places, n_searched: int, n_computed: float) -> Nearest:
    real = distances < np.inf
    return Nearest(distances[real], places[real], n_searched, round(n_computed))
