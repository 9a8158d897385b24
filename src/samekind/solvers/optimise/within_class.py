"""Within-class whitening: coordinates in which descent over L starts well and converges in fewer iterations.

`L = W M` with `W = P (S + shrinkage I)^-1/2`, S being the scatter within classes of `Z P`, P a preconditioner's.
The leading directions between class means, in these coordinates, are those of linear discriminant analysis.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from samekind.kernels.spectral import Matrix, eigh
from samekind.kernels.types import Array, IntArray
from samekind.solvers.optimise.preconditioner import Preconditioner

SHRINKAGE = 0.1  # times the mean variance within classes
ROWS_AT_ONCE = 4_096  # at least, unless a class ends them: a product of D x D for each
FLAT = 1e-9  # share of the strongest direction below which one is rounding

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@dataclass(frozen=True, eq=False)
class WithinClassWhitening:
    """`W`, its inverse, and the scatter of class means as W sees it."""

    W: Matrix
    inverse: Matrix
    between: Matrix

    @classmethod
    def of(
        cls, Z: Array, class_sizes: IntArray, map_: Map, preconditioner: Preconditioner | None = None
    ) -> "WithinClassWhitening":
        """From samples in class order, centred; of the coordinates of a preconditioner, if there is one."""
        total, between = scatters(Z, class_sizes, map_)
        if preconditioner is not None:
            total, between = preconditioner.pulled(total), preconditioner.pulled(between)
        if not (np.isfinite(total).all() and np.isfinite(between).all()):
            raise ValueError(
                "The variances of the features are not finite: they are too large for their precision. Scale them down."
            )
        variances, axes = eigh(total - between)
        variances = np.maximum(variances, 0)
        shrinkage = SHRINKAGE * float(variances.mean())
        deviations = np.sqrt(variances + (shrinkage or 1.0))
        W, inverse = (axes / deviations) @ axes.T, (axes * deviations) @ axes.T
        between = W @ between @ W
        if preconditioner is None:
            return cls(W, inverse, between)
        return cls(preconditioner.W @ W, inverse @ preconditioner.inverse, between)

    def first_factor(self, rank: int) -> Matrix:
        """The leading directions between classes, at most `rank`; squared distances are 1 on average."""
        strengths, directions = eigh(self.between)
        strengths, directions = strengths[::-1][:rank], directions[:, ::-1][:, :rank]
        kept = strengths > FLAT * max(float(strengths[0]), np.finfo(float).tiny)
        strengths, directions = strengths[kept], directions[:, kept]
        mean = 2 * float(strengths @ (1 + strengths))
        factor: Matrix = self.W @ (directions * np.sqrt(strengths / mean)) if len(strengths) else directions
        return factor


def scatters(Z: Array, class_sizes: IntArray, map_: Map) -> tuple[Matrix, Matrix]:
    """`Z^T Z / N`, and the same with each sample replaced by the mean of its class."""
    ends = np.cumsum(class_sizes)

    def of_classes(classes: slice) -> tuple[Array, Array]:
        sizes = class_sizes[classes]
        start = int(ends[classes.start] - sizes[0])
        own = Z[start : int(ends[classes.stop - 1])]
        firsts = np.cumsum(sizes) - sizes
        means = np.add.reduceat(own, firsts, axis=0) / np.sqrt(sizes, dtype=Z.dtype)[:, np.newaxis]
        return own.T @ own, means.T @ means

    total, between = np.zeros((2, Z.shape[1], Z.shape[1]))
    for whole, means in map_(of_classes, _runs_of_classes(class_sizes)):
        total += whole
        between += means
    return total / len(Z), between / len(Z)


def _runs_of_classes(class_sizes: IntArray) -> list[slice]:
    """Whole classes, with just enough samples at once."""
    ends, runs, start = np.cumsum(class_sizes), [], 0
    while start < len(class_sizes):
        before = int(ends[start] - class_sizes[start])
        stop = min(int(np.searchsorted(ends, before + ROWS_AT_ONCE)) + 1, len(class_sizes))
        runs.append(slice(start, stop))
        start = stop
    return runs
