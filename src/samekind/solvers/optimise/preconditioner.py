"""WithinClassWhitening in which the scale of features does no harm: `A = W M W^T`, W from the scatter within classes.

Along a principal axis of variance s within classes, f curves in A by about `c (2 s)^2 + ridge`; W makes that 1. The
positive semi-definite cone stays what it is under a congruence, and the trace bound becomes one on `<W^T W, M>`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from samekind.kernels.spectral import (
    Matrix,
    eigh,
    estimated_gap,
    leading_factor,
    principal_axes,
    project_weighted_trace_ball,
)
from samekind.kernels.types import Array, IntArray
from samekind.solvers.optimise.projected import ProjectedProblem

CURVATURE = 0.1  # c: of either loss by a squared distance, where a pair is undecided
BETWEEN = 0.3  # how much of the deviations of class means counts: undecided pairs are as near as those of a class
ROWS_AT_ONCE = 4096


class MetricProblem(ProjectedProblem, Protocol):
    """min f(A) over A >= 0, tr A <= trace_bound."""

    @property
    def trace_bound(self) -> float: ...


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """`W = axes * scales`: principal axes, and how far to stretch each."""

    axes: Matrix  # (D, D), orthonormal columns
    scales: NDArray[np.float64]  # (D,)
    deviations: NDArray[np.float64]  # (D,) of the samples along the axes, class means counted by BETWEEN

    @classmethod
    def of(cls, Z: Array, class_sizes: IntArray, ridge: float) -> "Preconditioner":
        """From samples (N, D) in class order, centred."""
        deviations, axes = principal_deviations(Z, class_sizes)
        largest = float(deviations.max(initial=0)) or 1.0
        floor = largest * len(axes) * np.finfo(np.float64).eps
        relative = np.maximum(deviations, floor) / largest
        # In units of the largest deviation, so that no power overflows.
        strength = ridge / CURVATURE / (2 * largest**2) ** 2
        return cls(axes, (relative**4 + strength) ** -0.25 / ((2 * largest**2) ** 0.5 * CURVATURE**0.25), deviations)

    @property
    def W(self) -> Matrix:
        return self.axes * self.scales

    @property
    def scatter(self) -> Matrix:
        """Within classes, and BETWEEN^2 of that of their means."""
        return (self.axes * self.deviations**2) @ self.axes.T

    @property
    def inverse(self) -> Matrix:
        return (self.axes / self.scales).T

    @property
    def trace_weights(self) -> NDArray[np.float64]:
        """tr A is the sum of M's diagonal, so weighed."""
        return self.scales**2

    def metric(self, M: Matrix) -> Matrix:
        """A of M: `W M W^T`"""
        return _symmetric(self.W @ M @ self.W.T)

    def matrix(self, A: Matrix) -> Matrix:
        """M of A."""
        return _symmetric(self.inverse @ A @ self.inverse.T)

    def factor(self, A: Matrix) -> Matrix:
        """L of `A = L L^T`, orthogonal columns by falling length: by way of M, so that no unit is lost to rounding."""
        return principal_axes(self.W @ leading_factor(self.matrix(A), share=0.0), scatter=self.scatter)

    def pulled(self, G: Matrix) -> Matrix:
        """The gradient by M, from that by A."""
        return _symmetric(self.W.T @ G @ self.W)

    def pushed(self, G: Matrix) -> Matrix:
        """The gradient by A, from that by M."""
        return _symmetric(self.inverse.T @ G @ self.inverse)

    def estimated_gap(self, A: Matrix, G: Matrix) -> float:
        """As in these coordinates, which make it independent of the features' scale."""
        return estimated_gap(self.matrix(A), self.pulled(G))


@dataclass(frozen=True)
class Preconditioned:
    """A problem over A, as one over M."""

    problem: MetricProblem
    by: Preconditioner

    @property
    def rounding(self) -> float:
        return self.problem.rounding

    @property
    def n_projections(self) -> int:
        return self.problem.n_projections

    def value_and_gradient(self, M: Matrix) -> tuple[float, Matrix]:
        value, G = self.problem.value_and_gradient(self.by.metric(M))
        return value, self.by.pulled(G)

    def project(self, M: Matrix) -> Matrix:
        return project_weighted_trace_ball(M, self.by.trace_weights, self.problem.trace_bound)

    def lower_bound(self, M: Matrix, value: float, G: Matrix) -> float:
        return self.problem.lower_bound(self.by.metric(M), value, self.by.pushed(G))

    def estimated_gap(self, M: Matrix, G: Matrix) -> float:
        return estimated_gap(M, G)


def principal_deviations(Z: Array, class_sizes: IntArray) -> tuple[NDArray[np.float64], Matrix]:
    """Standard deviations along the principal axes of centred samples, falling, and the axes (columns).

    Class means count by `BETWEEN`. By way of the correlations of features: then deviations far below the largest are
    right too.
    """
    squares, correlations = np.zeros(Z.shape[1]), np.zeros((Z.shape[1], Z.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(Z, class_sizes):
            squares += (part**2).sum(axis=0)
    deviations = np.sqrt(squares / len(Z))
    if not np.isfinite(deviations).all():
        raise ValueError(
            "The variances of the features are not finite: they are too large for their precision. Scale them down."
        )
    units = np.where(deviations > 0, deviations, 1.0)
    for part in _parts(Z, class_sizes):
        part /= units
        correlations += part.T @ part
    shares, vectors = eigh(correlations / len(Z))
    root = np.sqrt(np.maximum(shares, 0))[:, np.newaxis] * vectors.T * deviations
    _, lengths, axes = scipy.linalg.svd(root, check_finite=False)
    return lengths, np.ascontiguousarray(axes.T)


def _parts(Z: Array, class_sizes: IntArray) -> Iterator[Matrix]:
    """Some samples at a time, in double precision, less a part of their class mean."""
    firsts = np.cumsum(class_sizes) - class_sizes
    means = np.add.reduceat(Z, firsts, axis=0, dtype=np.float64) / class_sizes[:, np.newaxis]
    codes = np.repeat(np.arange(len(class_sizes)), class_sizes)
    for start in range(0, len(Z), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        yield Z[rows].astype(np.float64) - (1 - BETWEEN) * means[codes[rows]]


def _symmetric(A: Matrix) -> Matrix:
    symmetric: Matrix = (A + A.T) / 2
    return symmetric
