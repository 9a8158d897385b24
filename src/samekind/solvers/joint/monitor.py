"""After each iteration of step 2: report it, keep its state, and end a stage whose gains are within the noise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samekind.events import Event, Observer
from samekind.kernels.spectral import Matrix
from samekind.kernels.statistics import standard_error
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.schedule import CHECK_EVERY, NEARLY, SETTLED, expected_gain, within_noise
from samekind.solvers.joint.stage_solvers import StageSolver
from samekind.solvers.joint.state import JointState, SolverState
from samekind.solvers.optimise import factored, projected

LATER_ITERATIONS = 4  # expected in each stage after the first


@dataclass
class Reporter:
    """Turns a solver's progress into events, and remembers whether it was asked to stop."""

    observe: Observer
    keep: Callable[[JointState], None]
    max_iter: int
    stages: list[JointProblem]
    tol: float
    keep_every: int  # iterations
    stopped: bool = False

    def report(
        self,
        problem: JointProblem,
        state: JointState,
        iteration: int,
        objective: float,
        rank: int,
        factor: Callable[[], Matrix],
        **details: Any,
    ) -> bool:
        """`factor` computes L (D, r) of the present metric."""
        iteration += state.earlier_iterations
        left = self._left(problem, state, iteration)
        details = {"n_anchors": problem.objective.n_anchors} | details
        event = Event(
            "joint", iteration, self.max_iter, objective, rank, details, left=left, components=lambda: factor().T
        )
        self.stopped = bool(self.observe(event))
        return self.stopped

    def _left(self, problem: JointProblem, state: JointState, iteration: int) -> float | None:
        """Iterations left, in units of an iteration of this stage.

        Extrapolated from how gains shrink; iterations of later stages are weighted by the cost of their pairs.
        """
        gains = -np.diff(state.values)
        if len(gains) < 2 or not (gains > 0).all():
            return None
        shrink = float(min(0.95, (gains[-1] / gains[0]) ** (1 / (len(gains) - 1))))
        goal = SETTLED * self.tol * abs(state.values[-1])
        here = max(0.0, float(np.log(goal / gains[-1]) / np.log(shrink))) if gains[-1] > goal else 0.0
        later = LATER_ITERATIONS * sum(map(_cost, self.stages[state.stage + 1 :])) / _cost(problem)
        return min(here + later, float(self.max_iter - iteration))


class StageMonitor:
    """Observes a stage's solver, and ends it when gains are within the noise of the sample, or have become small."""

    def __init__(
        self,
        stage: JointProblem,
        stage_solver: StageSolver,
        reporter: Reporter,
        state: JointState,
        *,
        settles: bool,
        held_out: JointProblem | None,
    ):
        self.stage = stage
        self.stage_solver = stage_solver
        self.reporter = reporter
        self.state = state
        self.settles = settles  # whether small gains end the stage, where no gap is known
        self.held_out = held_out  # anchors on which a gain must show, or it counts as noise
        if held_out is not None and state.noise is None:
            self.state = replace(state, noise=stage_solver.batch_values(held_out, state.start))
        self.settled = False
        self._leg = state.run.leg if isinstance(state.run, factored.FactoredState) else "free"

    def safe_end(self, point: Matrix) -> Matrix:
        """The solver's last point if it is a gain on the held-out anchors, else the last point that was."""
        if self.settled or not self._is_gain(point):
            return self.state.start if self.state.safe is None else self.state.safe
        return point

    def observe(self, now: projected.Progress[SolverState]) -> bool:
        """Report an iteration of the stage's solver; True ends the stage."""
        point, details = self._point_and_details(now)
        values = (*self.state.values, now.value)[-8:]
        ends = self.settles and self._little_is_gained(values)
        if self.held_out is not None and now.iteration % CHECK_EVERY == 0:
            ends |= not self._is_gain(point)
            assert self.state.noise is not None
            details |= {"estimated_error": standard_error(self.state.noise)}
        self.settled |= ends
        self.state = replace(self.state, run=now.state, values=values)
        solver = self.stage_solver
        stop = self.reporter.report(
            self.stage,
            self.state,
            now.iteration,
            now.value,
            solver.rank(point),
            lambda: solver.factor(point),
            **details,
        )
        if now.iteration % self.reporter.keep_every == 0 and not ends:
            self.reporter.keep(self.state)
        return ends or stop

    def _point_and_details(self, now: projected.Progress[SolverState]) -> tuple[Matrix, dict[str, Any]]:
        """The point (A or L) and what to report of it; L within the trace bound where the stage may end there."""
        if not isinstance(now.state, factored.FactoredState):
            return now.x, {"gap": now.gap}
        if self._leg != now.state.leg:  # another leg starts elsewhere
            self._leg = now.state.leg
            self.state = replace(self.state, values=())
        return now.x if self.held_out is None else factored.within_trace(now.x, self.held_out.trace_bound), {}

    def _is_gain(self, point: Matrix) -> bool:
        """Whether f falls on held-out anchors too, by more than their noise; if so it is safe to end there."""
        assert self.held_out is not None
        assert self.state.noise is not None
        estimates = self.stage_solver.batch_values(self.held_out, point)
        if within_noise(self.state.noise - estimates):
            return False
        self.state = replace(self.state, noise=estimates, safe=point)
        return True

    def _little_is_gained(self, values: tuple[float, ...]) -> bool:
        """Whether the last iteration gained little, or all further ones are expected to."""
        tol = self.reporter.tol * abs(values[-1])
        little = len(values) > 1 and values[-2] - values[-1] <= SETTLED * tol
        return little or expected_gain(values) <= NEARLY * tol


def _cost(problem: JointProblem) -> float:
    """Pairs visited by an evaluation; over all rows each pair is visited once."""
    pairs = problem.objective.n_anchors * problem.objective.relation.n_samples
    return pairs / (1 if problem.objective.is_sample else 2)
