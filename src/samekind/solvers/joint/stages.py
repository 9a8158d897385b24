"""The stages of step 2: few anchors first, more when gains are within their noise, all rows in the end.

The loss is a mean over anchors, so that a random sample of them gives an unbiased gradient (dynamic sample sizes: Byrd,
Chin, Nocedal and Wu, 2012).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samekind.events import Event, Observer
from samekind.kernels.statistics import expected_gain, iterations_left, standard_error, within_noise
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.stage_solvers import StageSolver
from samekind.solvers.joint.state import JointOptions, JointState, SolverState
from samekind.solvers.optimise.factored import SETTLED, FactoredState, within_trace
from samekind.solvers.optimise.problem import Point
from samekind.solvers.optimise.projected import Progress, Solution

CHECK_EVERY = 3  # iterations between two estimates of the noise
HELD_OUT_ANCHORS = 1024  # at most, to distinguish gains from noise
NEARLY = 0.5  # share of `tol`: the last stage ends when the relative gain still expected is below it
LATER_ITERATIONS = 4  # expected in each stage after the first


def sample_sizes(n_candidates: int, first: int, growth: int, most: int | None = None) -> list[int | None]:
    """Anchors of each stage: `first`, then `growth` times as many as before; None stands for all rows.

    Over all rows each pair is visited once, which costs as much as a sample of half the rows. `most`: end with a sample
    of so many anchors, unless all rows cost no more.
    """
    last = None if most is None or 2 * most >= n_candidates else most
    end = n_candidates / 2 if last is None else last
    sizes: list[int | None] = []
    size = first
    while 2 * size <= end:
        sizes.append(size)
        size *= growth
    return [*sizes, last]


@dataclass(frozen=True)
class Stages:
    """The problem on the rows of each stage, what solves it there, and whom to tell of it."""

    problem: JointProblem
    options: JointOptions
    solver: StageSolver
    on_rows: Sequence[JointProblem]
    observe: Observer
    keep: Callable[[JointState], None]


class Stage:
    """One stage: reports iterations, keeps states, and ends when gains are within the noise of its sample, or small."""

    def __init__(self, stages: Stages, state: JointState):
        self.stages, self.options, self.solver, self.state = stages, stages.options, stages.solver, state
        self.problem, *self.later = stages.on_rows[state.stage :]
        # The optimum of a sample need not be certified: the last stage adds what columns are missing.
        self.certified = not self.later and (self.solver.n_components is None or len(stages.on_rows) == 1)
        self.settles = not (self.later or self.certified)  # whether small gains end it, where no gap is known
        self.settled = False
        self.stopped = False  # by the observer
        self.held_out: JointProblem | None = None  # anchors on which a gain must show, or it counts as noise
        if self.problem.objective.is_sample and not self.settles:
            rng = np.random.RandomState([self.options.seed, state.stage, 2])
            n_anchors = min(self.problem.objective.n_anchors, HELD_OUT_ANCHORS)
            self.held_out = stages.problem.on_sample(n_anchors, rng, without=self.problem)
            self.noise = self.solver.batch_values(self.held_out, self._safe)  # f there, as its batches estimate it

    def descended(self) -> tuple[Solution, JointState]:
        """The solution, on a sample the last point that gained on held-out anchors too; where the next stage starts."""
        state = self.state
        left = self.options.max_iter - state.earlier_iterations
        solution = self.solver.descend(self.problem, state, left, self._observe, certified=self.certified)
        if self.held_out is not None and (self.settled or not self._is_gain(self.held_out, solution.x)):
            solution = replace(solution, x=self._safe)
        n_iter = state.earlier_iterations + solution.n_iter
        n_evaluations = state.earlier_evaluations + solution.n_evaluations
        after = JointState(state.stage + bool(self.later), solution.x, n_iter, n_evaluations, hint=solution.hint)
        return replace(solution, converged=solution.converged or self.settled), after

    def _observe(self, now: Progress[SolverState]) -> bool:
        """Report an iteration of the solver; True ends the stage."""
        point, values, before = now.x, self.state.values, self.state.run
        details: dict[str, Any] = {"n_anchors": self.problem.objective.n_anchors}
        if isinstance(now.state, FactoredState):
            if isinstance(before, FactoredState) and before.leg != now.state.leg:
                values = ()  # another leg starts elsewhere
            if self.held_out is not None:  # the stage may end here
                point = within_trace(point, self.problem.trace_bound)
        else:
            details["gap"] = now.gap
        values = (*values, now.value)[-8:]
        ends = self.settles and self._little_is_gained(values)
        if self.held_out is not None and now.iteration % CHECK_EVERY == 0:
            ends = not self._is_gain(self.held_out, point)
            details["estimated_error"] = standard_error(self.noise)
        self.settled |= ends
        self.state = replace(self.state, run=now.state, values=values)
        iteration, most = self.state.earlier_iterations + now.iteration, self.options.max_iter
        event = Event("joint", iteration, most, now.value, self.solver.rank(point), details, left=self._left(iteration))
        event = replace(event, components=lambda: self.solver.factor(point).T)
        self.stopped = bool(self.stages.observe(event))
        if now.iteration % self.options.keep_every == 0 and not ends:
            self.stages.keep(self.state)
        return ends or self.stopped

    @property
    def _safe(self) -> Point:
        return self.state.start if self.state.safe is None else self.state.safe

    def _is_gain(self, held_out: JointProblem, point: Point) -> bool:
        """Whether f falls on held-out anchors too, by more than their noise; if so it is safe to end there."""
        estimates = self.solver.batch_values(held_out, point)
        if within_noise(self.noise - estimates):
            return False
        self.noise, self.state = estimates, replace(self.state, safe=point)
        return True

    def _little_is_gained(self, values: Sequence[float]) -> bool:
        """Whether the last iteration gained little, or all further ones are expected to."""
        tol = self.options.tol * abs(values[-1])
        little = len(values) > 1 and values[-2] - values[-1] <= SETTLED * tol
        return little or expected_gain(values) <= NEARLY * tol

    def _left(self, iteration: int) -> float | None:
        """Iterations left, in units of one of this stage: those of later stages are weighted by the cost of pairs."""
        here = iterations_left(self.state.values, SETTLED * self.options.tol)
        later = LATER_ITERATIONS * sum(map(_cost, self.later)) / _cost(self.problem)
        return None if here is None else min(here + later, float(self.options.max_iter - iteration))


def _cost(problem: JointProblem) -> float:
    """Pairs visited by an evaluation; over all rows each pair is visited once."""
    pairs = problem.objective.n_anchors * problem.objective.relation.n_samples
    return pairs / (1 if problem.objective.is_sample else 2)
