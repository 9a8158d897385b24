"""A = L L^T: L-BFGS on the factor, with a staircase of ranks that ends at the convex optimum.

At a stationary L, `G + ridge A + multiplier I >= 0` makes L L^T optimal among all A; where it has a negative
eigenvalue, its eigenvector is a column that L lacks (Burer and Monteiro; Journee, Bach, Absil and Sepulchre).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.optimize

from samekind.kernels.spectral import Matrix, principal_axes
from samekind.solvers.certificate import Certificate, ConvexMetricProblem, certify

MEMORY = 20  # pairs of steps and gradient changes that L-BFGS remembers
STATIONARY = 1e-3  # L-BFGS ends when a step lowers f by less than this share of `tol`
MAX_TIGHTENINGS = 3
MAX_SHORTENINGS = 20
NEGLIGIBLE = 0.03  # length of a column, relative to the longest


class FactoredProblem(ConvexMetricProblem, Protocol):
    def factored_value_and_gradient(self, L: Matrix) -> tuple[float, Matrix]: ...


@dataclass(frozen=True)
class FactoredSolution:
    L: Matrix  # columns by falling length
    certificate: Certificate
    n_iter: int
    n_evaluations: int
    converged: bool


class _Descent:
    """L-BFGS runs that share one count of iterations and one listener."""

    def __init__(self, problem: FactoredProblem, max_iter: int, observe: Callable[[Matrix, float, int], bool | None]):
        self.problem = problem
        self.max_iter = max_iter
        self.observe = observe
        self.n_iter = 0
        self.n_evaluations = 0
        self.stopped = False
        self.on_sphere = False

    @property
    def over(self) -> bool:
        return self.stopped or self.n_iter >= self.max_iter

    def to_stationary(self, L: Matrix, ftol: float) -> Matrix:
        """A stationary factor below L: inside tr A < trace_bound, or on the sphere ||L||^2 = trace_bound."""
        bound = self.problem.trace_bound
        if not self.on_sphere:
            L = self._run(L, ftol, leave_above=bound)
            self.on_sphere = _trace(L) > bound
        if self.on_sphere and not self.over:
            L = self._run(L, ftol, radius=bound**0.5)
            self.on_sphere = not self._falls_inwards(L)
            if not self.on_sphere and not self.over:
                L = self._run(L, ftol)
        return within_trace(L, bound)

    def _falls_inwards(self, L: Matrix) -> bool:
        _, gradient = self.problem.factored_value_and_gradient(L)
        self.n_evaluations += 1
        return float(np.vdot(gradient, L)) > 0

    def _run(self, L: Matrix, ftol: float, radius: float | None = None, leave_above: float = np.inf) -> Matrix:
        """L-BFGS on the sphere of a radius, or free until the trace exceeds a bound."""
        onto = _Free(L.shape) if radius is None else _Sphere(L.shape, radius)
        scale = 0.0

        def scaled(v: Matrix) -> tuple[float, Matrix]:
            nonlocal scale
            value, gradient = self.problem.factored_value_and_gradient(onto.factor(v))
            self.n_evaluations += 1
            scale = scale or value  # L-BFGS-B's ftol is absolute below 1: make f start at 1
            return value / scale, onto.pull_back(v, gradient) / scale

        def listen(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            self.n_iter += 1
            factor = onto.factor(intermediate_result.x)
            self.stopped = bool(self.observe(factor, intermediate_result.fun * scale, self.n_iter))
            if self.over or (radius is None and _trace(factor) > leave_above):
                raise StopIteration

        result = scipy.optimize.minimize(
            scaled,
            onto.start(L),
            jac=True,
            method="L-BFGS-B",
            callback=listen,
            options={"maxcor": MEMORY, "maxiter": self.max_iter, "maxfun": 10**9, "ftol": ftol, "gtol": 0.0},
        )
        return onto.factor(result.x)


class _Free:
    """L itself."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape

    def start(self, L: Matrix) -> Matrix:
        return L.ravel()

    def factor(self, v: Matrix) -> Matrix:
        return v.reshape(self.shape)

    def pull_back(self, v: Matrix, gradient: Matrix) -> Matrix:
        return gradient.ravel()


class _Sphere(_Free):
    """`L = radius * V / ||V||`."""

    def __init__(self, shape: tuple[int, ...], radius: float):
        super().__init__(shape)
        self.radius = radius

    def factor(self, v: Matrix) -> Matrix:
        return (self.radius / np.linalg.norm(v) * v).reshape(self.shape)

    def pull_back(self, v: Matrix, gradient: Matrix) -> Matrix:
        length = float(np.linalg.norm(v))
        across = gradient.ravel() - (gradient.ravel() @ v) / length**2 * v
        return self.radius / length * across


def minimise_factored(
    problem: FactoredProblem,
    L0: Matrix,
    *,
    max_rank: int,
    tol: float,
    max_iter: int,
    observe: Callable[[Matrix, float, int], bool | None] = lambda L, value, iteration: None,
) -> FactoredSolution:
    """From L0, up the staircase to `max_rank` columns or to a relative gap of `tol`."""
    descent = _Descent(problem, max_iter, observe)
    may_be_optimal = max_rank >= L0.shape[0]
    L, ftol, tightenings = L0, tol * STATIONARY, 0
    while True:
        L = principal_axes(descent.to_stationary(L, ftol))
        certificate, falling = certify(problem, L @ L.T, L.shape[1], tol)
        if certificate.optimal or descent.over:
            break
        wider = _widened(problem, L, falling, max_rank, certificate)
        if wider is not None:
            L = wider
        elif may_be_optimal and tightenings < MAX_TIGHTENINGS:
            ftol, tightenings = ftol / 10, tightenings + 1
        else:
            break
    return FactoredSolution(
        L,
        certificate,
        descent.n_iter,
        descent.n_evaluations,
        converged=certificate.optimal or not (descent.over or may_be_optimal),
    )


def _widened(
    problem: FactoredProblem, L: Matrix, falling: Matrix, max_rank: int, certificate: Certificate
) -> Matrix | None:
    """L with columns along which f falls, at most as many as it has; None when none lowers f.

    A full L gives up its shortest columns for them: a column of almost no length cannot find its way by itself.
    """
    if L.shape[1] == max_rank:
        L = principal_axes(L, NEGLIGIBLE)
    columns = falling[:, : min(max_rank - L.shape[1], max(1, L.shape[1]))]
    if not columns.size:
        return None
    length = _trace(L) / max(1, L.shape[1]) or 1.0
    for _ in range(MAX_SHORTENINGS):
        wider = within_trace(np.hstack([L, columns * length**0.5]), problem.trace_bound)
        value, _ = problem.factored_value_and_gradient(wider)
        if value < certificate.value:
            return wider
        length /= 4
    return None


def within_trace(L: Matrix, bound: float) -> Matrix:
    """L, shortened where ||L||^2 = tr A exceeds the bound."""
    trace = _trace(L)
    return L if trace <= bound else L * (bound / trace) ** 0.5


def _trace(L: Matrix) -> float:
    """tr L L^T"""
    return float(np.vdot(L, L))
