"""How far a metric is from the optimum: a bound from convexity, for any solver."""

from dataclasses import dataclass

import numpy as np

from samekind.kernels.spectral import Matrix, eigh
from samekind.solvers.optimise.problem import MetricProblem


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


def certify(
    problem: MetricProblem,
    A: Matrix,
    rank: int,
    tol: float,
    known_bound: float = -np.inf,
    known: tuple[float, Matrix] | None = None,
) -> tuple[Certificate, Matrix]:
    """The certificate of A, and the eigenvectors (columns) along which f still falls, steepest first.

    `known_bound` is a lower bound of f from the solver, if there is one; `known` are f and its gradient at A, if they
    have been evaluated. A gap within the rounding of f counts as closed.
    """
    value, G = problem.value_and_gradient(A) if known is None else known
    values, vectors = eigh(G)
    trace, slope = float(np.trace(A)), float(np.vdot(G, A))
    active = np.isfinite(problem.trace_bound) and trace >= problem.trace_bound * (1 - 1e-6)
    multiplier = max(0.0, -slope / trace) if active else 0.0
    gap = max(value - max(problem.lower_bound(A, value, G), known_bound), 0.0)
    certificate = Certificate(value, gap, max(tol, problem.rounding), float(values[0]) + multiplier, multiplier, rank)
    return certificate, vectors[:, values + multiplier < 0]
