"""Accelerated projected gradient with backtracking and restart, for any convex problem with a projection.

Beck and Teboulle's FISTA with O'Donoghue and Candes' restart; steps may grow again. f never rises from one accepted
point to the next.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

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
    curvature: float  # the last estimate: a similar problem may start from it


@dataclass(frozen=True)
class State:
    """Where a run stands before it looks at f from y; its arrays are never written to."""

    x: Point  # the lowest point, found by the last step
    y: Point  # where the next step starts
    value: float  # f(x)
    lower: float  # what f cannot go below
    curvature: float
    momentum: float
    first_norm: float  # length of the first step's gradient
    recent: tuple[float, ...]  # values of the last iterations, oldest first
    iteration: int
    n_evaluations: int
    converged: bool

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        return {"x": self.x, "y": self.y, "recent": np.array(self.recent)}

    def facts(self) -> dict[str, bool | int | float | str]:
        """What a file keeps as JSON, which knows no infinity."""
        return {
            "value": self.value,
            "lower": self.lower if np.isfinite(self.lower) else str(self.lower),
            "curvature": self.curvature,
            "momentum": self.momentum,
            "first_norm": self.first_norm,
            "iteration": self.iteration,
            "n_evaluations": self.n_evaluations,
            "converged": self.converged,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "State":
        """From `arrays()` and `facts()`."""
        return cls(
            np.array(arrays["x"]),
            np.array(arrays["y"]),
            float(facts["value"]),
            float(facts["lower"]),
            float(facts["curvature"]),
            float(facts["momentum"]),
            float(facts["first_norm"]),
            tuple(np.asarray(arrays["recent"]).tolist()),
            int(facts["iteration"]),
            int(facts["n_evaluations"]),
            bool(facts["converged"]),
        )


@dataclass(frozen=True)
class Progress:
    """What is known after an iteration; `state` is what to resume from."""

    x: Point
    value: float
    gap: float
    iteration: int
    state: State


def minimise(
    problem: ProjectedProblem,
    x0: Point,
    *,
    tol: float,
    max_iter: int,
    observe: Callable[[Progress], bool | None] = lambda progress: None,
    resume: State | None = None,
    curvature: float | None = None,
) -> Solution:
    """Until the gap is at most `tol * f` or f is at rest; where f is not strongly convex, the gradient tells.

    `curvature` is a first estimate, from a similar problem. With `resume` neither it nor x0 is looked at.
    """
    if resume is not None and resume.converged:
        return _solution(resume)
    now, y_value, g = _begun(problem, x0, curvature) if resume is None else _looked(problem, resume)
    while now.iteration < max_iter and not now.converged:
        now, moved = _stepped(problem, now, y_value, g, tol)
        if moved and observe(Progress(now.x, now.value, now.value - now.lower, now.iteration, now)):
            break
        if not now.converged:
            now, y_value, g = _looked(problem, now)
    return _solution(now)


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


def _begun(problem: ProjectedProblem, x0: Point, curvature: float | None) -> tuple[State, float, Point]:
    """The state before the first iteration, and f and its gradient there."""
    x = problem.project(x0)
    value, g = _first_look(problem, x)
    state = State(
        x,
        x,
        value,
        lower=problem.lower_bound(x, value, g),
        curvature=first_curvature(value, g) if curvature is None else curvature,
        momentum=1.0,
        first_norm=0.0,
        recent=(value,),
        iteration=0,
        n_evaluations=1,
        converged=False,
    )
    return state, value, g


def _first_look(problem: ProjectedProblem, x: Point) -> tuple[float, Point]:
    value, g = problem.value_and_gradient(x)
    if not (np.isfinite(value) and np.isfinite(g).all()):
        raise ValueError(
            "The objective is not finite: the features are too large for their precision. Scale them down."
        )
    return value, g


def _looked(problem: ProjectedProblem, now: State) -> tuple[State, float, Point]:
    """f and its gradient at y, which may raise the lower bound."""
    value, g = problem.value_and_gradient(now.y)
    lower = max(now.lower, problem.lower_bound(now.y, value, g))
    return replace(now, lower=lower, n_evaluations=now.n_evaluations + 1), value, g


def _stepped(problem: ProjectedProblem, now: State, y_value: float, g: Point, tol: float) -> tuple[State, bool]:
    """The state after a step from y, and whether it moves x; if not, the next one starts from x without momentum."""
    z, z_value, curvature, tries = _step(problem, now.y, y_value, g, now.curvature)
    now = replace(now, n_evaluations=now.n_evaluations + tries)
    if z_value <= now.value + problem.rounding * abs(now.value):
        return _moved(now, z, z_value, curvature, tol), True
    if now.momentum == 1.0:
        return replace(now, converged=True), False  # no step from x lowers f: what is left is rounding
    return replace(now, y=now.x, momentum=1.0, curvature=curvature * EASING), False


def _moved(now: State, z: Point, z_value: float, curvature: float, tol: float) -> State:
    norm = curvature * float(np.linalg.norm(z - now.y))
    first_norm = now.first_norm or norm
    uphill = float(np.vdot(now.y - z, z - now.x)) > 0
    momentum, pull = (1.0, 0.0) if uphill else _next_momentum(now.momentum)
    recent = (*now.recent, z_value)[-(PATIENCE + 1) :]
    close = z_value - now.lower <= tol * abs(z_value)
    at_rest = len(recent) > PATIENCE and recent[0] - z_value <= STALLED * tol * abs(z_value)
    flat = np.isinf(now.lower) and norm <= tol * first_norm
    return replace(
        now,
        x=z,
        y=z + pull * (z - now.x),
        value=z_value,
        curvature=curvature * EASING,
        momentum=momentum,
        first_norm=first_norm,
        recent=recent,
        iteration=now.iteration + 1,
        converged=bool(close or at_rest or flat),
    )


def _solution(now: State) -> Solution:
    gap = max(now.value - now.lower, 0.0)
    return Solution(now.x, now.value, gap, now.iteration, now.n_evaluations, now.converged, now.curvature)


def _step(
    problem: ProjectedProblem, y: Point, y_value: float, g: Point, curvature: float
) -> tuple[Point, float, float, int]:
    """The first projected step that f's quadratic model allows: point, value, its curvature, values tried."""
    tries = 0
    while True:
        tries += 1
        z = np.asarray(problem.project(y - g / curvature), order="C")  # as a file gives it back: order decides bits
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
