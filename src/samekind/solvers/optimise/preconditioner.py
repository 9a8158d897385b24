"""Coordinates in which the scale of features does not matter: `A = W M W^T`, W from the scatter within classes.

Along a principal axis of variance s within classes, f curves in A by about `c (2 s)^2 + ridge`; W makes that 1. The
positive semi-definite cone stays what it is under a congruence, and the trace bound becomes one on `<W^T W, M>`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.scatters import principal_deviations
from samekind.kernels.spectral import (
    Matrix,
    estimated_gap,
    leading_factor,
    principal_axes,
    project_weighted_trace_ball,
    symmetrised,
)
from samekind.kernels.types import Array, IntArray
from samekind.solvers.optimise.problem import MetricProblem

CURVATURE = 0.1  # c: second derivative of either loss by a squared distance, for an undecided pair


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """`W = axes * scales`: principal axes, each scaled."""

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
        """The scatter within classes, plus BETWEEN^2 times that of class means."""
        return (self.axes * self.deviations**2) @ self.axes.T

    @property
    def inverse(self) -> Matrix:
        return (self.axes / self.scales).T

    @property
    def trace_weights(self) -> NDArray[np.float64]:
        """tr A is the sum of M's diagonal with these weights."""
        return self.scales**2

    def metric(self, M: Matrix) -> Matrix:
        """A of M: `W M W^T`"""
        return symmetrised(self.W @ M @ self.W.T)

    def matrix(self, A: Matrix) -> Matrix:
        """M of A."""
        return symmetrised(self.inverse @ A @ self.inverse.T)

    def factor(self, A: Matrix) -> Matrix:
        """L of `A = L L^T`, orthogonal columns by falling length; by way of M, so that small units lose no digits."""
        return principal_axes(self.W @ leading_factor(self.matrix(A), share=0.0), scatter=self.scatter)

    def pulled(self, G: Matrix) -> Matrix:
        """The gradient by M, from that by A."""
        return symmetrised(self.W.T @ G @ self.W)

    def pushed(self, G: Matrix) -> Matrix:
        """The gradient by A, from that by M."""
        return symmetrised(self.inverse.T @ G @ self.inverse)

    def estimated_gap(self, A: Matrix, G: Matrix) -> float:
        """The estimated gap in these coordinates, where it does not depend on the features' scale."""
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
