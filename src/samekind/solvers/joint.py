"""Algorithm 2: one joint metric on the intermediate features, convex or factored."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from samekind.compute.sources import FactoredDistances
from samekind.kernels.laplacian import GramForm, ProductForm
from samekind.kernels.spectral import Matrix, eigh, leading_factor, project_trace_ball, rank_of
from samekind.kernels.types import Array
from samekind.objective import Objective
from samekind.solvers import factored, projected
from samekind.solvers.certificate import Certificate, certify
from samekind.solvers.events import Event, Observer, unobserved

LARGEST_CONVEX = 600  # dimensions: beyond them an eigendecomposition per step is what a convex step costs
FIRST_RANK = 16  # where the staircase begins at the least
FILLING = 0.01  # length of random first columns, relative to the others


@dataclass(frozen=True)
class JointProblem:
    """min ridge/2 ||A||_F^2 + loss(D(A; Z)) over A >= 0, tr A <= trace_bound; Z (N, D) in class order, centred."""

    objective: Objective
    Z: Array
    ridge: float
    trace_bound: float = np.inf

    @property
    def rounding(self) -> float:
        return float(10 * np.finfo(self.Z.dtype).eps)

    @property
    def n_features(self) -> int:
        return int(self.Z.shape[1])

    def value(self, A: Matrix) -> float:
        return self.objective.value(self._distances(A)) + self.ridge / 2 * float(np.vdot(A, A))

    def value_and_gradient(self, A: Matrix) -> tuple[float, Matrix]:
        loss, G = self.objective.value_and_form(self._distances(A), GramForm(self.Z))
        return loss + self.ridge / 2 * float(np.vdot(A, A)), G + self.ridge * A

    def project(self, A: Matrix) -> Matrix:
        return project_trace_ball(A, self.trace_bound)

    def lower_bound(self, A: Matrix, value: float, G: Matrix) -> float:
        """By the ridge's strong convexity; without a ridge `f + <G, A* - A>`, A* the worst within the trace bound."""
        if self.ridge > 0:
            return projected.strongly_convex_bound(self, self.ridge, A, value, G)
        steepest = float(eigh(G)[0][0])
        return value - float(np.vdot(G, A)) + (steepest * self.trace_bound if steepest < 0 else 0.0)

    def factored_value_and_gradient(self, L: Matrix) -> tuple[float, Matrix]:
        """f(L L^T) and its gradient `2 (G + ridge L L^T) L`, by way of `(S - W - W^T) Z L` when L is narrow."""
        Y = self._times(L)
        distances = FactoredDistances.euclidean(Y)
        if 2 * L.shape[1] < self.n_features:
            loss, LapY = self.objective.value_and_form(distances, ProductForm(Y))
            GL = self._transposed_times(LapY)
        else:
            loss, G = self.objective.value_and_form(distances, GramForm(self.Z))
            GL = G @ L
        return loss + self._factored_ridge(L), 2 * (GL + self.ridge * L @ (L.T @ L))

    def _distances(self, A: Matrix) -> FactoredDistances:
        return FactoredDistances.quadratic(self.Z, self._times(A))

    def _times(self, M: Matrix) -> Array:
        """Z M"""
        M = M.astype(self.Z.dtype)
        return np.concatenate(list(self.objective.over_blocks(lambda rows: self.Z[rows] @ M)))

    def _transposed_times(self, V: Matrix) -> Matrix:
        """Z^T V"""
        V = V.astype(self.Z.dtype)
        product = np.zeros((self.n_features, V.shape[1]))
        for part in self.objective.over_blocks(lambda rows: self.Z[rows].T @ V[rows]):
            product += part
        return product

    def _factored_ridge(self, L: Matrix) -> float:
        inner = L.T @ L
        return self.ridge / 2 * float(np.vdot(inner, inner))


@dataclass(frozen=True)
class JointResult:
    L: Matrix  # (D, r), A = L L^T, columns by falling length
    certificate: Certificate
    objective: float  # f at L L^T as returned, after any truncation
    solver: str
    n_iter: int
    n_evaluations: int
    converged: bool
    stopped: bool  # by the observer


def solve_joint(
    problem: JointProblem,
    *,
    solver: Literal["convex", "factored", "auto"] = "auto",
    n_components: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 500,
    random_state: np.random.RandomState | None = None,
    observe: Observer = unobserved,
) -> JointResult:
    """Algorithm 2 from A = 0."""
    chosen = choose_solver(problem.n_features, n_components) if solver == "auto" else solver
    listener = _Listener(observe, max_iter)
    if chosen == "convex":
        return _solve_convex(problem, n_components, tol, max_iter, listener)
    return _solve_factored(problem, n_components, tol, max_iter, random_state, listener)


def choose_solver(n_features: int, n_components: int | None) -> Literal["convex", "factored"]:
    """Factored where the factor is narrow (its gradient is then the cheaper one) or the matrix is large."""
    rank = n_features if n_components is None else n_components
    return "factored" if 2 * rank < n_features or n_features > LARGEST_CONVEX else "convex"


@dataclass
class _Listener:
    """Turns a solver's progress into events, and remembers whether it was asked to stop."""

    observe: Observer
    max_iter: int
    stopped: bool = False

    def tell(self, iteration: int, objective: float, rank: int, **details: float) -> bool:
        event = Event("joint", iteration, self.max_iter, objective, rank, details)
        self.stopped = bool(self.observe(event))
        return self.stopped


def _solve_convex(
    problem: JointProblem, n_components: int | None, tol: float, max_iter: int, listener: _Listener
) -> JointResult:
    def tell(now: projected.Progress) -> bool:
        return listener.tell(now.iteration, now.value, rank_of(now.x), gap=now.gap)

    start = np.zeros((problem.n_features, problem.n_features))
    solution = projected.minimise(problem, start, tol=tol, max_iter=max_iter, observe=tell)
    full = leading_factor(solution.x)
    certificate, _ = certify(problem, solution.x, full.shape[1], tol, solution.value - solution.gap)
    L = leading_factor(solution.x, n_components)
    objective = certificate.value if L.shape == full.shape else problem.value(L @ L.T)
    return JointResult(
        L,
        certificate,
        objective,
        "convex",
        solution.n_iter,
        solution.n_evaluations,
        solution.converged,
        listener.stopped,
    )


def _solve_factored(
    problem: JointProblem,
    n_components: int | None,
    tol: float,
    max_iter: int,
    random_state: np.random.RandomState | None,
    listener: _Listener,
) -> JointResult:
    most = min(problem.n_features, problem.n_features if n_components is None else n_components)
    rank = most if n_components is not None else min(most, max(FIRST_RANK, problem.n_features // 4))
    start = _first_factor(problem, rank, random_state or np.random.RandomState(0))
    solution = factored.minimise_factored(
        problem,
        start,
        max_rank=most,
        tol=tol,
        max_iter=max_iter,
        observe=lambda L, value, iteration: listener.tell(iteration, value, L.shape[1]),
    )
    return JointResult(
        solution.L,
        solution.certificate,
        solution.certificate.value,
        "factored",
        solution.n_iter,
        solution.n_evaluations,
        solution.converged,
        listener.stopped,
    )


def _first_factor(problem: JointProblem, rank: int, random_state: np.random.RandomState) -> Matrix:
    """The leading columns of one projected gradient step from A = 0; short random ones where it has fewer."""
    A = projected.first_step(problem, np.zeros((problem.n_features, problem.n_features)))
    L = leading_factor(A, rank)
    missing = rank - L.shape[1]
    length = FILLING * max(float(np.linalg.norm(L)), 1e-3) / problem.n_features**0.5
    return np.hstack([L, length * random_state.standard_normal((problem.n_features, missing))])
