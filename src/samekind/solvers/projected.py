"""Accelerated projected gradient with backtracking and restart, for any convex problem with a projection.

Beck and Teboulle's FISTA with O'Donoghue and Candes' restart; steps may grow again. f never rises from one accepted
point to the next.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Point: TypeAlias = NDArray[np.float64]

PATIENCE, STALLED = 10, 0.01  # f is at rest when it falls by less than STALLED * tol of itself in PATIENCE iterations
EASING = 0.9  # the curvature estimate shrinks by this much per step, so that steps may grow again


class ProjectedProblem(Protocol):
    """min f(x) over a convex set."""

    @property
    def rounding(self) -> float:
        """Relative error to be expected in a value of f."""
        ...

    def value(self, x: Point) -> float: ...

    def value_and_gradient(self, x: Point) -> tuple[float, Point]: ...

    def project(self, x: Point) -> Point: ...

    def lower_bound(self, x: Point, value: float, gradient: Point) -> float:
        """What f cannot go below, from its value and gradient at one point; -inf where nothing is known."""
        ...


@dataclass(frozen=True)
class Solution:
    x: Point
    value: float
    gap: float  # an upper bound of value - minimum; inf where none is known
    n_iter: int
    n_evaluations: int
    converged: bool


@dataclass(frozen=True)
class Progress:
    """What is known after an iteration."""

    x: Point
    value: float
    gap: float
    iteration: int


def minimise(
    problem: ProjectedProblem,
    x0: Point,
    *,
    tol: float,
    max_iter: int,
    observe: Callable[[Progress], bool | None] = lambda progress: None,
) -> Solution:
    """Until the gap is at most `tol * f` or f is at rest; where f is not strongly convex, the gradient tells."""
    x = y = problem.project(x0)
    value, g = _first_look(problem, y)
    y_value, momentum, first_norm = value, 1.0, 0.0
    recent = deque([value], maxlen=PATIENCE + 1)
    curvature = first_curvature(value, g)
    lower = problem.lower_bound(y, y_value, g)
    n_evaluations, iteration, converged = 1, 0, False
    while iteration < max_iter and not converged:
        z, z_value, stepped, tries = _step(problem, y, y_value, g, curvature)
        n_evaluations += tries
        if z_value > value + problem.rounding * abs(value):
            if momentum == 1.0:
                converged = True  # no step from x lowers f: what is left is rounding
                break
            y, momentum = x, 1.0
        else:
            iteration += 1
            norm = stepped * float(np.linalg.norm(z - y))
            first_norm = first_norm or norm
            uphill = float(np.vdot(y - z, z - x)) > 0
            momentum, pull = (1.0, 0.0) if uphill else _next_momentum(momentum)
            y, x, value = z + pull * (z - x), z, z_value
            gap = value - lower
            recent.append(value)
            at_rest = len(recent) > PATIENCE and recent[0] - value <= STALLED * tol * abs(value)
            flat = np.isinf(lower) and norm <= tol * first_norm
            converged = bool(gap <= tol * abs(value) or at_rest or flat)
            if observe(Progress(x, value, gap, iteration)):
                break
        curvature = stepped * EASING
        if not converged:
            y_value, g = problem.value_and_gradient(y)
            n_evaluations += 1
            lower = max(lower, problem.lower_bound(y, y_value, g))
    return Solution(x, value, max(value - lower, 0.0), iteration, n_evaluations, converged)


def first_step(problem: ProjectedProblem, x0: Point) -> Point:
    """One projected gradient step."""
    value, g = _first_look(problem, x0)
    return _step(problem, x0, value, g, first_curvature(value, g))[0]


def first_curvature(value: float, g: Point) -> float:
    """A guess: the first step would halve f, if f went on as it starts."""
    return max(float(np.vdot(g, g)) / max(value, 1e-300), 1e-12)


def strongly_convex_bound(problem: ProjectedProblem, m: float, y: Point, value: float, g: Point) -> float:
    """`min_z f(y) + <g, z - y> + m/2 ||z - y||^2` over the convex set, f - m/2 ||x||^2 being convex; -inf for m = 0."""
    if m <= 0:
        return -np.inf
    step = problem.project(y - g / m) - y
    return value + float(np.vdot(g, step)) + m / 2 * float(np.vdot(step, step))


def _first_look(problem: ProjectedProblem, x: Point) -> tuple[float, Point]:
    value, g = problem.value_and_gradient(x)
    if not (np.isfinite(value) and np.isfinite(g).all()):
        raise ValueError(
            "The objective is not finite: the features are too large for their precision. Scale them down."
        )
    return value, g


def _step(
    problem: ProjectedProblem, y: Point, y_value: float, g: Point, curvature: float
) -> tuple[Point, float, float, int]:
    """The first projected step that f's quadratic model allows: point, value, its curvature, values tried."""
    tries = 0
    while True:
        tries += 1
        z = problem.project(y - g / curvature)
        step = z - y
        value = problem.value(z)
        model = y_value + float(np.vdot(g, step)) + curvature / 2 * float(np.vdot(step, step))
        if value <= model + problem.rounding * abs(y_value):
            return z, value, curvature, tries
        curvature *= 2


def _next_momentum(momentum: float) -> tuple[float, float]:
    """The next t of FISTA, and how far to pull beyond the new point."""
    following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
    return following, (momentum - 1) / following
