"""Labels as a relation between samples: pi_ij = +1 (same class), -1 (other class), 0 (the sample itself).

Samples are taken in class order (`order`), so that a class is a run of neighbours: only the tiles near the
diagonal hold same-class pairs, and the rest need no mask at all. All pairs, and nothing of size N x N is stored.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.kernels.distances import squared_distances
from samekind.kernels.exponentials import without_runs
from samekind.kernels.reductions import smallest
from samekind.kernels.runs import NOWHERE, Places, Runs
from samekind.kernels.types import Array, IntArray, places


@dataclass(frozen=True)
class PairTile:
    """The relation on one tile: every pair is of two classes, but for a run of columns in each row."""

    runs: Runs | None = None  # the columns of each row's own class; None where no row meets its class
    chosen: tuple[Places, Places] | None = None  # targets and targets_back, where target neighbours were chosen
    count_others: float = 1.0  # how often a pair of two classes counts, where pairs are a sample
    count_same: float = 1.0  # how often a pair of one class counts

    def others(self, D: Array) -> Array:
        """The distances of pairs of two classes, ABSENT elsewhere; D itself where all are."""
        return D if self.runs is None else without_runs(D, self.runs)

    @property
    def nbytes(self) -> int:
        return 0 if self.runs is None else self.runs.nbytes

    @property
    def same(self) -> Places:
        """The pairs of the same class."""
        return NOWHERE if self.runs is None else self.runs.same

    @property
    def targets(self) -> Places:
        """Pairs whose column is a target neighbour of the row."""
        return self.same if self.chosen is None else self.chosen[0]

    @property
    def targets_back(self) -> Places:
        """Pairs whose row is a target neighbour of the column."""
        return self.same if self.chosen is None else self.chosen[1]


@dataclass(frozen=True)
class Relation:
    """Which samples are of the same kind. Rows and columns of tiles count in class order."""

    order: IntArray  # (N,) class order -> place in the labels as given
    codes: IntArray  # (N,) class of each sample, in class order, rising
    class_sizes: IntArray  # (n_classes,)
    neighbors: IntArray | None = None  # (N, k) target neighbours in class order, -1 where there are fewer

    @classmethod
    def from_labels(cls, labels: ArrayLike) -> "Relation":
        _, codes, sizes = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
        order = np.argsort(codes, kind="stable")
        return cls(order=order, codes=codes[order], class_sizes=sizes)

    @property
    def n_samples(self) -> int:
        return len(self.codes)

    @property
    def n_same(self) -> IntArray:
        """N_i^+: same-class samples of each sample, itself left out."""
        return self.class_sizes[self.codes] - 1

    @property
    def n_other(self) -> IntArray:
        """N_i^-: other-class samples of each sample."""
        return self.n_samples - self.class_sizes[self.codes]

    @property
    def n_targets(self) -> IntArray:
        """|T(i)|: target neighbours of each sample; all of its class where none were chosen."""
        return self.n_same if self.neighbors is None else (self.neighbors >= 0).sum(axis=1)

    def tile(self, rows: slice | IntArray, cols: slice | IntArray, others: float = 1.0, same: float = 1.0) -> PairTile:
        """The relation between runs of samples, or some in rising order; how often pairs count.

        Target neighbours are known for a run of columns only.
        """
        starts, ends = self._runs
        first, last = _places_in(cols, starts[rows]), _places_in(cols, ends[rows])
        if not (first < last).any():
            return PairTile(count_others=others, count_same=same)
        runs = Runs(first, last, _places_in(cols, places(rows), outside=True))
        if self.neighbors is None or not isinstance(cols, slice):
            return PairTile(runs, None, others, same)
        targets = self._targets(rows, cols)
        back, forth = self._targets(cols, rows) if isinstance(rows, slice) else NOWHERE
        return PairTile(runs, (targets, (forth, back)), others, same)

    @cached_property
    def _runs(self) -> tuple[IntArray, IntArray]:
        """Where the class of each sample begins and ends, in class order."""
        ends = np.cumsum(self.class_sizes)
        return (ends - self.class_sizes)[self.codes], ends[self.codes]

    def _targets(self, rows: slice | IntArray, cols: slice) -> Places:
        """Pairs (i, j) with j in T(i)."""
        neighbors = self.neighbors[rows]  # type: ignore[index]
        i, at = np.nonzero((neighbors >= cols.start) & (neighbors < cols.stop))
        return i, neighbors[i, at] - cols.start

    def with_neighbors(self, panels: Iterable[Array], k: int, memory_budget: int) -> "Relation":
        """T(i), the k nearest samples of i's class, in the Euclidean distance over all `panels` (N, width) together.

        `panels` is gone through once for each chunk of classes whose distances fit the budget. Rows are in class order.
        """
        return replace(self, neighbors=self.neighbors_within(panels, k, memory_budget))

    def neighbors_within(
        self, panels: Iterable[Array], k: int, memory_budget: int, classes: Iterable[int] | None = None
    ) -> IntArray:
        """T(i) of the samples of some classes, or of all; -1 for the others."""
        neighbors = np.full((self.n_samples, min(k, int(self.class_sizes.max()) - 1)), -1, dtype=np.intp)
        for blocks in self._class_chunks(memory_budget, None if classes is None else set(classes)):
            totals = [np.zeros((rows.stop - rows.start, cols.stop - cols.start)) for rows, cols in blocks]
            for panel in panels:
                for total, (rows, cols) in zip(totals, blocks, strict=True):
                    total += squared_distances(panel[rows], panel[cols])
            for total, (rows, cols) in zip(totals, blocks, strict=True):
                own = np.arange(rows.start, rows.stop)
                total[own - rows.start, own - cols.start] = np.inf
                _, places = smallest(total, min(k, cols.stop - cols.start - 1), cols.start)
                neighbors[rows, : places.shape[1]] = places
        return neighbors

    def _class_chunks(self, memory_budget: int, classes: Container[int] | None) -> Iterable[list[tuple[slice, slice]]]:
        """Runs of (rows, the class's columns) whose float64 distances fit the budget."""
        room = memory_budget // 8
        chunk: list[tuple[slice, slice]] = []
        taken = 0
        ends = np.cumsum(self.class_sizes)
        for number, (size, end) in enumerate(zip(self.class_sizes.tolist(), ends.tolist(), strict=True)):
            if size < 2 or (classes is not None and number not in classes):
                continue
            step = max(1, min(size, room // size))
            for start in range(end - size, end, step):
                rows = slice(start, min(start + step, end))
                cost = (rows.stop - rows.start) * size
                if chunk and taken + cost > room:
                    yield chunk
                    chunk, taken = [], 0
                chunk.append((rows, slice(end - size, end)))
                taken += cost
        if chunk:
            yield chunk


def _places_in(cols: slice | IntArray, samples: IntArray, outside: bool = False) -> IntArray:
    """How many columns come before each sample; with `outside`, its own column, or one that no tile has."""
    if isinstance(cols, slice):
        shifted: IntArray = samples - cols.start
        return shifted if outside else np.clip(shifted, 0, cols.stop - cols.start)
    before: IntArray = np.searchsorted(cols, samples)
    if outside:
        before[cols[np.minimum(before, len(cols) - 1)] != samples] = -1
    return before


def class_count_error(labels: NDArray[Any]) -> str | None:
    """Why no metric can be learned from these labels, or None when one can."""
    classes, sizes = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        return (
            f"y has {len(classes)} class ({', '.join(map(repr, classes.tolist()))}), and at least 2 are needed: a "
            "metric is learned from pairs of the same class and pairs of other classes. Add samples of another class."
        )
    if sizes.max() < 2:
        return (
            f"All {len(classes)} classes of y have a single sample, so no two samples are of the same class. "
            "At least one class needs 2 samples or more."
        )
    return None
