"""How far a metric is from the best one there is: a bound from convexity, whatever solver made it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from samekind.kernels.spectral import Matrix, eigh
from samekind.solvers.projected import ProjectedProblem, lower_bound


class ConvexMetricProblem(ProjectedProblem, Protocol):
    """min f(A) over A >= 0, tr A <= trace_bound."""

    @property
    def trace_bound(self) -> float: ...


@dataclass(frozen=True)
class Certificate:
    """`value - gap` is below the optimum of the convex problem, so `optimal` means within `tol` of it."""

    value: float
    gap: float
    tol: float
    smallest_eigenvalue: float  # of the gradient plus the trace multiplier; below 0 there is a direction left to fall
    trace_multiplier: float
    rank: int

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.value), np.finfo(float).tiny)

    @property
    def optimal(self) -> bool:
        return self.relative_gap <= self.tol


def certify(problem: ConvexMetricProblem, A: Matrix, rank: int, tol: float) -> tuple[Certificate, Matrix]:
    """The certificate of A, and the eigenvectors (columns) along which f still falls, steepest first."""
    value, G = problem.value_and_gradient(A)
    values, vectors = eigh(G)
    trace, slope = float(np.trace(A)), float(np.vdot(G, A))
    active = np.isfinite(problem.trace_bound) and trace >= problem.trace_bound * (1 - 1e-6)
    multiplier = max(0.0, -slope / trace) if active else 0.0
    gap = _gap(problem, A, value, G, slope, float(values[0]))
    certificate = Certificate(value, gap, tol, float(values[0]) + multiplier, multiplier, rank)
    return certificate, vectors[:, values + multiplier < 0]


def _gap(problem: ConvexMetricProblem, A: Matrix, value: float, G: Matrix, slope: float, smallest: float) -> float:
    if problem.strong_convexity > 0:
        return max(value - lower_bound(problem, A, value, G), 0.0)
    # Without a ridge: <G, A - A*> with the worst A* that the trace bound allows.
    return max(slope - min(smallest, 0.0) * problem.trace_bound, 0.0) if smallest < 0 else max(slope, 0.0)
