"""Within-class whitening: coordinates in which descent over L starts well and converges in fewer iterations.

`L = W M` with `W = P (S + shrinkage I)^-1/2`, S being the scatter within classes of `Z P`, P a preconditioner's.
The leading directions between class means, in these coordinates, are those of linear discriminant analysis.
"""

from dataclasses import dataclass

import numpy as np

from samekind.kernels.scatters import Map, scatters
from samekind.kernels.spectral import Matrix, eigh
from samekind.kernels.types import Array, IntArray
from samekind.solvers.optimise.preconditioner import Preconditioner

COLUMNS = 256  # of a factor that are multiplied at a time
SHRINKAGE = 0.1  # times the mean variance within classes
FLAT = 1e-9  # directions below this share of the strongest are rounding errors


@dataclass(frozen=True, eq=False)
class WithinClassWhitening:
    """`W`, its inverse, and the scatter of class means in its coordinates; `map_` shares the columns of a product."""

    W: Matrix
    inverse: Matrix
    between: Matrix
    map_: Map

    @classmethod
    def of(
        cls, Z: Array, class_sizes: IntArray, map_: Map, preconditioner: Preconditioner | None = None
    ) -> "WithinClassWhitening":
        """From samples in class order, centred; of the coordinates of a preconditioner, if there is one."""
        total, between = scatters(Z, class_sizes, map_)
        if preconditioner is not None:
            total, between = preconditioner.pulled(total), preconditioner.pulled(between)
        variances, axes = eigh(total - between)
        variances = np.maximum(variances, 0)
        shrinkage = SHRINKAGE * float(variances.mean())
        deviations = np.sqrt(variances + (shrinkage or 1.0))
        W, inverse = (axes / deviations) @ axes.T, (axes * deviations) @ axes.T
        between = W @ between @ W
        if preconditioner is None:
            return cls(W, inverse, between, map_)
        return cls(preconditioner.W @ W, inverse @ preconditioner.inverse, between, map_)

    def factor(self, M: Matrix) -> Matrix:
        """`L = W M`"""
        return self._product(self.W, M)

    def point(self, L: Matrix) -> Matrix:
        """M of L."""
        return self._product(self.inverse, L)

    def pulled(self, gradient: Matrix) -> Matrix:
        """The gradient by M, from that by L."""
        return self._product(self.W.T, gradient)

    def _product(self, A: Matrix, B: Matrix) -> Matrix:
        """A B, some columns at a time, so that its bits do not depend on how many threads there are."""
        if B.shape[1] <= COLUMNS:
            return A @ B
        product = np.empty((len(A), B.shape[1]))

        def fill(first: int) -> None:
            columns = slice(first, first + COLUMNS)
            product[:, columns] = A @ B[:, columns]

        for _ in self.map_(fill, range(0, B.shape[1], COLUMNS)):
            pass
        return product

    def first_factor(self, rank: int) -> Matrix:
        """The leading directions between classes, at most `rank`; squared distances are 1 on average."""
        strengths, directions = eigh(self.between)
        strengths, directions = strengths[::-1][:rank], directions[:, ::-1][:, :rank]
        kept = strengths > FLAT * max(float(strengths[0]), np.finfo(float).tiny)
        strengths, directions = strengths[kept], directions[:, kept]
        mean = 2 * float(strengths @ (1 + strengths))
        factor: Matrix = self.W @ (directions * np.sqrt(strengths / mean)) if len(strengths) else directions
        return factor
