"""Projected quasi-Newton, for convex problems whose projection is cheap next to f: few evaluations, many projections.

Schmidt, van den Berg, Friedlander and Murphy's method: a quadratic model of f, by L-BFGS from the last steps, is
minimised over the set by spectral projected gradient, and a line search goes towards its minimiser. f never rises.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

import numpy as np

from samekind.checkpoint import Resumable
from samekind.kernels.types import Array
from samekind.objective import Objective
from samekind.solvers.optimise.certificate import Certificate
from samekind.solvers.optimise.problem import Point, ProjectedProblem, State

PATIENCE = 10  # f is at rest when it falls by no more than its rounding in this many iterations
REMEMBERED = 8  # steps that the model is made from
SMALLEST_COSINE = 1e-8  # of a step and the change of the gradient: below it the step is not used
MOST_PROJECTIONS = 12  # when a model is minimised
FEWEST_PROJECTIONS = 3
PAIRS_PER_PROJECTION = 2  # times D^2: measured with D = 240 and 1,000 samples, on one core
CHEAP_DIMENSIONS = 200  # up to here projections are cheap, and fewer of them only cost more iterations
CLOSE = 0.01  # a model is minimised until a step is this share of the first one
SUFFICIENT = 1e-4  # share of the model's slope by which f must fall
SHORTEST = 1e-10  # step of a line search


@dataclass(frozen=True)
class Solution:
    """Where a descent ended."""

    x: Point
    value: float
    gap: float  # an upper bound of value - minimum; inf where none is known
    n_iter: int
    n_evaluations: int
    converged: bool  # the gap is closed
    hint: float  # its last estimate of the curvature, or of a scale: a similar problem may start from it
    certificate: Certificate | None = None  # where one was asked for


@dataclass(frozen=True)
class ProjectedState(Resumable):
    """The state of a run between two iterations; its arrays are never written to."""

    x: Point
    gradient: Point
    value: float
    lower: float  # a lower bound of f
    curvature: float
    steps: Point  # (m, size of x) last steps, oldest first
    changes: Point  # of the gradient along them
    recent: tuple[float, ...]  # values of the last iterations, oldest first
    iteration: int = 0
    n_evaluations: int = 1
    converged: bool = False  # the gap is at most tol of f, or within its rounding
    at_rest: bool = False  # no step is found, or f hardly falls any more


@dataclass(frozen=True)
class Progress(Generic[State]):
    """What is known after an iteration of a descent; `state` is what to resume from."""

    x: Point
    value: float
    iteration: int
    state: State
    gap: float = np.inf  # an upper bound of value - minimum


def minimise(
    problem: ProjectedProblem,
    x0: Point,
    *,
    tol: float,
    max_iter: int,
    observe: Callable[[Progress[ProjectedState]], bool | None] = lambda progress: None,
    resume: ProjectedState | None = None,
    curvature: float | None = None,
) -> Solution:
    """Descend until the gap is at most `tol * f` (converged), or f is at rest (not converged).

    Where nothing bounds f from below, the problem's `estimated_gap` is used. A gap within the rounding of f counts as
    closed. `curvature` is a first estimate, from a similar problem. With `resume` neither it nor x0 is used.
    """
    now = _begun(problem, x0, curvature) if resume is None else resume
    while now.iteration < max_iter and not (now.converged or now.at_rest):
        now, moved = _stepped(problem, now, tol)
        if moved and observe(Progress(now.x, now.value, now.iteration, now, now.value - now.lower)):
            break
    gap = max(now.value - now.lower, 0.0)
    return Solution(now.x, now.value, gap, now.iteration, now.n_evaluations, now.converged, now.curvature)


@dataclass(frozen=True)
class PairsProblem:
    """What problems over pairs of samples Z (N, D) share: how exact f is, and what an evaluation costs."""

    objective: Objective
    Z: Array

    @property
    def rounding(self) -> float:
        return float(10 * np.finfo(self.Z.dtype).eps)

    @property
    def n_projections(self) -> int:
        """Of a D x D matrix, for one evaluation: its eigenvalues cost as much as some D^2 pairs."""
        n_dimensions, n_pairs = self.Z.shape[1], self.objective.n_anchors * self.objective.relation.n_samples
        if n_dimensions <= CHEAP_DIMENSIONS:
            return MOST_PROJECTIONS
        affordable = n_pairs // (PAIRS_PER_PROJECTION * n_dimensions**2)
        return int(np.clip(affordable, FEWEST_PROJECTIONS, MOST_PROJECTIONS))


def strongly_convex_bound(problem: ProjectedProblem, m: float, y: Point, value: float, g: Point) -> float:
    """`min_z f(y) + <g, z - y> + m/2 ||z - y||^2` over the convex set, f - m/2 ||x||^2 being convex; -inf for m = 0."""
    if m <= 0:
        return -np.inf
    step = problem.project(y - g / m) - y
    return value + float(np.vdot(g, step)) + m / 2 * float(np.vdot(step, step))


@dataclass(frozen=True)
class _Model:
    """`<g, step> + 1/2 <step, B step>`, `B = curvature I - N^T M^-1 N`: L-BFGS in its compact form."""

    curvature: float
    steps: Point
    changes: Point

    def times(self, v: Point) -> Point:
        """B v"""
        if not len(self.steps):
            return self.curvature * v
        N, solved = self._compact
        product: Point = self.curvature * v - (N @ v) @ solved
        return product

    @cached_property
    def _compact(self) -> tuple[Point, Point]:
        """N and `M^-1 N`."""
        S, Y, c = self.steps, self.changes, self.curvature
        crossing = S @ Y.T
        below = np.tril(crossing, -1)
        M = np.block([[c * (S @ S.T), below], [below.T, -np.diag(np.diag(crossing))]])
        N = np.vstack([c * S, Y])
        return N, np.linalg.solve(M, N)


def _begun(problem: ProjectedProblem, x0: Point, curvature: float | None) -> ProjectedState:
    """The state before the first iteration."""
    x = np.asarray(problem.project(x0), order="C")
    value, g = problem.value_and_gradient(x)
    if not (np.isfinite(value) and np.isfinite(g).all()):
        raise ValueError(
            "The objective is not finite: the features are too large for their precision. Scale them down."
        )
    halving = max(float(np.vdot(g, g)) / max(value, 1e-300), 1e-300)  # the first step would, if f fell as it starts
    curvature, none = halving if curvature is None else curvature, np.zeros((0, x.size))
    return ProjectedState(x, g, value, problem.lower_bound(x, value, g), curvature, none, none, recent=(value,))


def _stepped(problem: ProjectedProblem, now: ProjectedState, tol: float) -> tuple[ProjectedState, bool]:
    """The state after an iteration, and whether it moves x."""
    found = _searched(problem, now, _minimiser_of_model(problem, now) - now.x)
    if found is None:
        return _without_a_step(problem, now, tol), False
    x, value, g, tries = found
    curvature, steps, changes = _learned(now, (x - now.x).ravel(), (g - now.gradient).ravel())
    lower = max(now.lower, problem.lower_bound(x, value, g))
    recent = (*now.recent, value)[-(PATIENCE + 1) :]
    close = _is_close(problem, x, value, g, lower, tol)
    at_rest = len(recent) > PATIENCE and recent[0] - value <= problem.rounding * abs(value)
    n_evaluations = now.n_evaluations + tries
    state = ProjectedState(
        x, g, value, lower, curvature, steps, changes, recent, now.iteration + 1, n_evaluations, close, bool(at_rest)
    )
    return state, True


def _is_close(problem: ProjectedProblem, x: Point, value: float, g: Point, lower: float, tol: float) -> bool:
    gap = problem.estimated_gap(x, g) if np.isinf(lower) else value - lower
    return bool(gap <= max(tol, problem.rounding) * abs(value))


def _without_a_step(problem: ProjectedProblem, now: ProjectedState, tol: float) -> ProjectedState:
    """Where no step was found: forget the model and try steepest descent next, or, if that was it, stop."""
    if len(now.steps):
        none = now.steps[:0]
        return replace(now, steps=none, changes=none)
    close = _is_close(problem, now.x, now.value, now.gradient, now.lower, tol)
    return replace(now, converged=close, at_rest=True)


def _minimiser_of_model(problem: ProjectedProblem, now: ProjectedState) -> Point:
    """An approximate minimiser of the model over the set."""
    model = _Model(now.curvature, now.steps, now.changes)
    shape, z, slope, step_length = now.x.shape, now.x.ravel(), now.gradient.ravel(), 1 / now.curvature
    first = 0.0
    for at in range(problem.n_projections if len(now.steps) else 1):
        step = problem.project((z - step_length * slope).reshape(shape)).ravel() - z
        length = float(np.linalg.norm(step))
        first = first or length
        falls, B_step = float(slope @ step), model.times(step)
        curving = float(step @ B_step)
        if falls >= 0 or (at and length <= CLOSE * first):
            break
        share = min(1.0, -falls / curving) if at or len(now.steps) else 1.0
        z, slope = z + share * step, slope + share * B_step
        step_length = length**2 / curving
    return z.reshape(shape)


def _searched(problem: ProjectedProblem, now: ProjectedState, step: Point) -> tuple[Point, float, Point, int] | None:
    """The first point along a step where f falls enough, f and its gradient there, and the points tried."""
    slope = float(np.vdot(now.gradient, step))
    if not slope < 0:
        return None
    share, tries = 1.0, 0
    while share >= SHORTEST:
        tries += 1
        x = np.ascontiguousarray(now.x + share * step)
        value, g = problem.value_and_gradient(x)
        if value <= now.value + SUFFICIENT * share * slope + problem.rounding * abs(now.value):
            return x, value, g, tries
        least = -(share**2) * slope / (2 * (value - now.value - share * slope)) if np.isfinite(value) else 0.0
        share = min(max(least, share / 10), share / 2)
    return None


def _learned(now: ProjectedState, step: Point, change: Point) -> tuple[float, Point, Point]:
    """Curvature, steps and changes with one more, if it is curved enough."""
    curving = float(step @ change)
    if curving <= SMALLEST_COSINE * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return now.curvature, now.steps, now.changes
    steps = np.vstack([now.steps, step])[-REMEMBERED:]
    changes = np.vstack([now.changes, change])[-REMEMBERED:]
    return float(change @ change) / curving, steps, changes
