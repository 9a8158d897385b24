"""Limited-memory BFGS whose whole state can be written to a file: a resumed run gives the same floats.

The two-loop recursion of Nocedal (1980), with a line search that brackets a step for the weak Wolfe conditions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.checkpoint import Resumable

Vector: TypeAlias = NDArray[np.float64]  # of any shape
Function: TypeAlias = Callable[[Vector], tuple[float, Vector]]  # value and gradient, in an array of its own

MEMORY = 20  # pairs of steps and gradient changes that are remembered,
MEMORY_BYTES = 1 << 30  # or as many as fit in here, where x is large,
FEWEST = 5  # but no fewer
FALL, FLATTENING = 1e-4, 0.9  # c1 and c2 of the weak Wolfe conditions: sufficient decrease, curvature
MAX_TRIES = 30  # evaluations of one line search
SHORTEST, LONGEST = 0.1, 0.5  # shares of a bracket between which the next trial lies
LEAST_GROWTH, MOST_GROWTH = 2.0, 10.0  # factors by which a step grows where f still falls steeply at its end
CURVED = 1e-12  # a pair is remembered when the cosine between its step and its change is above this
FIRST_REACH = 0.1  # the first step is at most this much of the length of x, if x has one


@dataclass(frozen=True)
class LBFGSState(Resumable):
    """The state of a run between two iterations; its arrays are never written to."""

    x: Vector
    value: float
    gradient: Vector
    scale: float  # of the initial inverse Hessian
    steps: tuple[Vector, ...] = ()  # oldest first
    changes: tuple[Vector, ...] = ()  # of the gradient along each step
    n_iter: int = 0
    n_evaluations: int = 1
    at_rest: bool = False  # no further step lowers f


def started(
    function: Function, x0: Vector, scale: float | None = None, n_iter: int = 0, n_evaluations: int = 0
) -> LBFGSState:
    """The state before the first iteration; scale and counts may be those of an earlier run on a similar function."""
    x = np.array(x0, dtype=np.float64)
    value, gradient = function(x)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise ValueError("The objective is not finite where the descent starts. Start closer to zero.")
    scale = _first_scale(x, value, gradient) if scale is None else scale
    return LBFGSState(x, float(value), gradient, scale, n_iter=n_iter, n_evaluations=n_evaluations + 1)


def descend(
    function: Function,
    state: LBFGSState,
    *,
    ftol: float,
    max_iter: int,
    rounding: float = float(np.finfo(np.float64).eps),
    observe: Callable[[LBFGSState], bool | None] = lambda state: None,
) -> LBFGSState:
    """Go on until a step lowers f by at most `ftol` of itself, no lower f is found, or the observer says True.

    `rounding` is the relative error to be expected in a value of f; `max_iter` counts from the first iteration of all.
    """
    while not state.at_rest and state.n_iter < max_iter:
        state, moved = _iterated(function, state, ftol, rounding)
        if moved and observe(state):
            break
    return state


def n_remembered(x: Vector) -> int:
    """Pairs that are remembered at points of this size."""
    return int(np.clip(MEMORY_BYTES // (2 * max(1, x.nbytes)), FEWEST, MEMORY))


@dataclass(frozen=True)
class _Trial:
    """A point on the line of a search."""

    length: float
    x: Vector
    value: float
    gradient: Vector
    slope: float


def _iterated(function: Function, state: LBFGSState, ftol: float, rounding: float) -> tuple[LBFGSState, bool]:
    """The state after a step that lowers f, and whether there is one; by steepest descent where the memory fails."""
    while True:
        found, tries = _search(function, state, rounding)
        state = replace(state, n_evaluations=state.n_evaluations + tries)
        if found is not None:
            return _moved(state, found, ftol), True
        if not state.steps:
            return replace(state, at_rest=True), False
        state = replace(state, steps=(), changes=())


def _moved(state: LBFGSState, found: _Trial, ftol: float) -> LBFGSState:
    step, change = found.x - state.x, found.gradient - state.gradient
    scale, steps, changes = state.scale, state.steps, state.changes
    curving, squared = _dot(step, change), _dot(change, change)
    if squared > 0 and curving > CURVED * math.sqrt(_dot(step, step)) * math.sqrt(squared):
        scale = curving / squared
        most = n_remembered(step)
        steps, changes = (*steps, step)[-most:], (*changes, change)[-most:]
    return replace(
        state,
        x=found.x,
        value=found.value,
        gradient=found.gradient,
        scale=scale,
        steps=steps,
        changes=changes,
        n_iter=state.n_iter + 1,
        at_rest=state.value - found.value <= ftol * max(abs(state.value), abs(found.value)),
    )


def _search(function: Function, state: LBFGSState, rounding: float) -> tuple[_Trial | None, int]:
    """A lower point along the direction that the memory gives, None where there is none, and the points tried."""
    direction = _direction(state)
    slope = _dot(state.gradient, direction)
    if not slope < 0:
        return None, 0
    start = previous = low = _Trial(0.0, state.x, state.value, state.gradient, slope)
    high: _Trial | None = None
    length, tries = 1.0, 0
    while tries < MAX_TRIES:
        tries += 1
        trial = _trial(function, state.x, direction, length)
        if trial.value > start.value + FALL * length * slope:
            high = trial
        elif trial.slope < FLATTENING * slope:
            previous, low = low, trial
        else:
            return trial, tries
        length = _between(low, high) if high is not None else _beyond(previous, low)
        if high is not None and -low.slope * (length - low.length) <= rounding * abs(start.value):
            break
    return (low if low is not start else None), tries


def _trial(function: Function, x: Vector, direction: Vector, length: float) -> _Trial:
    """A step of a length; one to where f is not finite counts as too high."""
    x = x + length * direction
    value, gradient = function(x)
    slope = _dot(gradient, direction)
    finite = np.isfinite(value) and np.isfinite(slope)
    return _Trial(length, x, float(value) if finite else np.inf, gradient, slope)


def _between(low: _Trial, high: _Trial) -> float:
    """Where the parabola of low's value and slope and high's value is lowest, within a part of the bracket."""
    width = high.length - low.length
    share = -low.slope * width / (2 * (high.value - low.value - low.slope * width))
    return low.length + width * min(max(share, SHORTEST), LONGEST)


def _beyond(previous: _Trial, low: _Trial) -> float:
    """Where the slope would be zero if it went on changing as it did, within limits."""
    flattening = (low.slope - previous.slope) / (low.length - previous.length)
    length = low.length - low.slope / flattening if flattening > 0 else np.inf
    return min(max(length, LEAST_GROWTH * low.length), MOST_GROWTH * low.length)


def _first_scale(x: Vector, value: float, gradient: Vector) -> float:
    """Of steepest descent: f would halve if it went on as it starts, but x does not change beyond its size."""
    squared = _dot(gradient, gradient)
    if squared == 0:
        return 1.0
    halving = value / (2 * squared) if value > 0 else squared**-0.5
    reach = FIRST_REACH * (_dot(x, x) / squared) ** 0.5
    return float(min(halving, reach) if reach > 0 else halving)


def _direction(state: LBFGSState) -> Vector:
    """The two-loop recursion: minus the gradient times the approximate inverse Hessian."""
    direction = -state.gradient
    pairs = [(step, change, _dot(step, change)) for step, change in zip(state.steps, state.changes, strict=True)]
    weights = []
    for step, change, curvature in reversed(pairs):
        weights.append(_dot(step, direction) / curvature)
        direction -= weights[-1] * change
    direction *= state.scale
    for (step, change, curvature), weight in zip(pairs, reversed(weights), strict=True):
        direction += (weight - _dot(change, direction) / curvature) * step
    return direction


def _dot(a: Vector, b: Vector) -> float:
    return float(np.vdot(a, b))
