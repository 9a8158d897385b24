"""Labels as a relation between samples: pi_ij = +1 (same class), -1 (other class), 0 (the sample itself).

Samples are taken in class order (`order`), so that a class is a run of neighbours: only the tiles near the
diagonal hold same-class pairs, and the rest need no mask at all. All pairs, and nothing of size N x N is stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.kernels.distances import squared_distances
from samekind.kernels.exponentials import ABSENT
from samekind.kernels.reductions import smallest
from samekind.kernels.types import Array, BoolArray, IntArray


class SameBlock(NamedTuple):
    """One class in a tile: `rows` x `cols` of it, all of the same class or the sample itself.

    `targets[i, j]` says that column j is a target neighbour of row i, `targets_back[i, j]` that row i is one of column
    j; `same` leaves out the sample itself and no other.
    """

    rows: slice
    cols: slice
    same: BoolArray
    targets: BoolArray
    targets_back: BoolArray


class PairTile(NamedTuple):
    """The relation on one tile: pairs are of two classes but for the samples themselves and the blocks of classes."""

    own: IntArray  # (2, m) places of samples paired with themselves
    blocks: list[SameBlock]

    def others(self, D: Array) -> Array:
        """The distances of pairs of two classes, ABSENT elsewhere; D itself where all are."""
        if not self.own.size and not self.blocks:
            return D
        D = D.copy()
        D[tuple(self.own)] = ABSENT
        for block in self.blocks:
            D[block.rows, block.cols] = ABSENT
        return D


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

    def tile(self, rows: slice, cols: slice) -> PairTile:
        """The relation between two runs of samples."""
        own = np.arange(max(rows.start, cols.start), min(rows.stop, cols.stop))
        first = max(self.codes[rows.start], self.codes[cols.start])
        last = min(self.codes[rows.stop - 1], self.codes[cols.stop - 1])
        shared = first + np.flatnonzero(self.class_sizes[first : last + 1] > 1)
        return PairTile(np.stack([own - rows.start, own - cols.start]), [self._block(c, rows, cols) for c in shared])

    def _block(self, c: int, rows: slice, cols: slice) -> SameBlock:
        end = int(self._class_ends[c])
        start = end - int(self.class_sizes[c])
        i = slice(max(start, rows.start), min(end, rows.stop))
        j = slice(max(start, cols.start), min(end, cols.stop))
        same = np.arange(i.start, i.stop)[:, None] != np.arange(j.start, j.stop)
        targets = same if self.neighbors is None else self._targets(i, j)
        targets_back = same if self.neighbors is None else self._targets(j, i).T
        return SameBlock(
            slice(i.start - rows.start, i.stop - rows.start),
            slice(j.start - cols.start, j.stop - cols.start),
            same,
            targets,
            targets_back,
        )

    @cached_property
    def _class_ends(self) -> IntArray:
        return np.cumsum(self.class_sizes)

    def _targets(self, rows: slice, cols: slice) -> BoolArray:
        neighbors = self.neighbors[rows]  # type: ignore[index]
        mask = np.zeros((len(neighbors), cols.stop - cols.start), dtype=bool)
        i, at = np.nonzero((neighbors >= cols.start) & (neighbors < cols.stop))
        mask[i, neighbors[i, at] - cols.start] = True
        return mask

    def with_neighbors(self, panels: Iterable[Array], k: int, memory_budget: int) -> "Relation":
        """T(i), the k nearest samples of i's class, in the Euclidean distance over all `panels` (N, width) together.

        `panels` is gone through once for each chunk of classes whose distances fit the budget. Rows are in class order.
        """
        neighbors = np.full((self.n_samples, min(k, int(self.class_sizes.max()) - 1)), -1, dtype=np.intp)
        for blocks in self._class_chunks(memory_budget):
            totals = [np.zeros((rows.stop - rows.start, cols.stop - cols.start)) for rows, cols in blocks]
            for panel in panels:
                for total, (rows, cols) in zip(totals, blocks, strict=True):
                    total += squared_distances(panel[rows], panel[cols])
            for total, (rows, cols) in zip(totals, blocks, strict=True):
                own = np.arange(rows.start, rows.stop)
                total[own - rows.start, own - cols.start] = np.inf
                _, places = smallest(total, min(k, cols.stop - cols.start - 1), cols.start)
                neighbors[rows, : places.shape[1]] = places
        return replace(self, neighbors=neighbors)

    def _class_chunks(self, memory_budget: int) -> Iterable[list[tuple[slice, slice]]]:
        """Runs of (rows, the class's columns) whose float64 distances fit the budget."""
        room = memory_budget // 8
        chunk: list[tuple[slice, slice]] = []
        taken = 0
        for size, end in zip(self.class_sizes.tolist(), self._class_ends.tolist(), strict=True):
            if size < 2:
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


def class_count_error(labels: NDArray[Any]) -> str | None:
    """Why no metric can be learned from these labels, or None when one can."""
    classes, sizes = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        return (
            f"y has {len(classes)} class ({classes[0]!r}), and at least 2 are needed: a metric is learned from pairs "
            "of the same class and pairs of other classes. Add samples of another class."
        )
    if sizes.max() < 2:
        return (
            f"All {len(classes)} classes of y have a single sample, so no two samples are of the same class. "
            "At least one class needs 2 samples or more."
        )
    return None
