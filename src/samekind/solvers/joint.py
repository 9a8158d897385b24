"""Algorithm 2: one joint metric on the intermediate features, convex or factored, on all rows or growing samples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from samekind.kernels.spectral import Matrix
from samekind.solvers import factored, projected
from samekind.solvers.certificate import Certificate, certify
from samekind.solvers.events import Event, Observer, unobserved
from samekind.solvers.growth import CHECK_EVERY, SETTLED, Noise, sample_sizes, standard_error
from samekind.solvers.jointproblem import JointProblem
from samekind.solvers.jointstate import JointState, Run
from samekind.solvers.ways import Convex, Factored, Found, Solver, Way

LARGEST_CONVEX = 600  # dimensions: beyond them an eigendecomposition per step is what a convex step costs
LATER_ITERATIONS = 4  # expected of a stage after the first
KEEP_EVERY = 5  # iterations between two states to resume from
CERTIFIED_ON = 1024  # anchors, where a certificate over all rows would be by far the dearest evaluation


@dataclass(frozen=True)
class JointResult:
    L: Matrix  # (D, r), A = L L^T, columns by falling length
    certificate: Certificate
    objective: float  # f at L L^T as returned, after any truncation
    objective_error: float  # its standard error; 0 where it is over all rows
    n_anchors: int  # of the last stage
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
    anchors: int | Literal["all", "grow"] = "all",
    seed: int = 0,
    observe: Observer = unobserved,
    resume: JointState | None = None,
    keep: Callable[[JointState], None] = lambda state: None,
) -> JointResult:
    """Algorithm 2 from A = 0; `keep` is given what to `resume` from.

    `anchors="grow"`: on samples of the rows first, on all of them in the end; a number: on samples of so many at most.
    """
    chosen = choose_solver(problem.n_features, n_components) if solver == "auto" else solver
    stages = _stages(problem, anchors, seed)
    way: Way = (Factored if chosen == "factored" else Convex)(n_components, tol)
    state = JointState(0, way.first(stages[0], seed)) if resume is None else resume
    listener = _Listener(observe, keep, max_iter, stages, tol)
    while True:
        keep(state)
        stage, last = stages[state.stage], state.stage == len(stages) - 1
        watch = _Watch(stage, way, listener, state, settles=len(stages) > 1 and last, tol=tol)
        found = way.descend(stage, state, max_iter - state.earlier_iterations, watch, certified=len(stages) == 1)
        state = replace(
            state,
            stage=state.stage + 1,
            start=found.point,
            earlier_iterations=state.earlier_iterations + found.n_iter,
            earlier_evaluations=state.earlier_evaluations + found.n_evaluations,
            run=None,
            noise=None,
            values=(),
            hint=found.hint,
        )
        if last or listener.stopped or state.earlier_iterations >= max_iter:
            break
    return _finished(way, stage, found, state, watch, complete=last, seed=seed)


def choose_solver(n_features: int, n_components: int | None) -> Solver:
    """Factored where the factor is narrow (its gradient is then the cheaper one) or the matrix is large."""
    rank = n_features if n_components is None else n_components
    return "factored" if 2 * rank < n_features or n_features > LARGEST_CONVEX else "convex"


def _stages(problem: JointProblem, anchors: int | Literal["all", "grow"], seed: int) -> list[JointProblem]:
    if anchors == "all":
        return [problem]
    sizes = sample_sizes(problem.objective.n_candidates, None if anchors == "grow" else anchors)
    return [
        problem if size is None else problem.on_sample(size, np.random.RandomState([seed, at]))
        for at, size in enumerate(sizes)
    ]


@dataclass
class _Listener:
    """Turns a solver's progress into events, and remembers whether it was asked to stop."""

    observe: Observer
    keep: Callable[[JointState], None]
    max_iter: int
    stages: list[JointProblem]
    tol: float
    stopped: bool = False

    def tell(self, state: JointState, iteration: int, objective: float, rank: int, details: dict[str, Any]) -> bool:
        iteration += state.earlier_iterations
        details = {"n_anchors": self.stages[state.stage].objective.n_anchors} | details
        left = self._left(state, iteration)
        event = Event("joint", iteration, self.max_iter, objective, rank, details, left=left)
        self.stopped = bool(self.observe(event))
        return self.stopped

    def _left(self, state: JointState, iteration: int) -> float | None:
        """Iterations to come, in units of one of this stage: as the gains shrink now, and as dear as anchors are."""
        gains = -np.diff(state.values)
        if len(gains) < 2 or not (gains > 0).all():
            return None
        shrink = float(min(0.95, (gains[-1] / gains[0]) ** (1 / (len(gains) - 1))))
        goal = SETTLED * self.tol * abs(state.values[-1])
        here = max(0.0, float(np.log(goal / gains[-1]) / np.log(shrink))) if gains[-1] > goal else 0.0
        costs = [stage.objective.n_anchors / (1 if stage.objective.is_sample else 2) for stage in self.stages]
        later = sum(costs[state.stage + 1 :]) / costs[state.stage]
        return min(here + LATER_ITERATIONS * later, float(self.max_iter - iteration))


class _Watch:
    """Listens to the solver of one stage, and ends it when its progress is within the noise of the sample."""

    def __init__(
        self, stage: JointProblem, way: Way, listener: _Listener, state: JointState, *, settles: bool, tol: float
    ):
        self.stage = stage
        self.way = way
        self.listener = listener
        self.state = state
        self.settles = settles
        self.tol = tol
        self.noise = Noise(state.noise)
        self.settled = False
        self._leg = state.run.leg if isinstance(state.run, factored.State) else "free"

    def hear_convex(self, now: projected.Progress) -> bool:
        return self._hear(now.x, now.value, now.iteration, now.state, {"gap": now.gap})

    def hear_factored(self, now: factored.Progress) -> bool:
        return self._hear(now.L, now.value, now.iteration, now.state, {})

    def _hear(self, point: Matrix, value: float, iteration: int, run: Run, details: dict[str, Any]) -> bool:
        if isinstance(run, factored.State) and self._leg != run.leg:  # another leg starts elsewhere
            self._leg = run.leg
            self.state, self.noise = replace(self.state, values=()), Noise()
        values = (*self.state.values, value)[-8:]
        ends = self.settles and len(values) > 1 and values[-2] - value <= SETTLED * self.tol * abs(value)
        if self.stage.objective.is_sample and iteration % CHECK_EVERY == 0:
            estimates = self.way.batch_values(self.stage, point)
            ends |= self.noise.drowns(estimates)
            details = details | {"estimated_error": standard_error(estimates)}
        self.settled |= ends
        self.state = replace(self.state, run=run, noise=self.noise.before, values=values)
        stop = self.listener.tell(self.state, iteration, value, self.way.rank(point), details)
        if iteration % KEEP_EVERY == 0 and not ends:
            self.listener.keep(self.state)
        return ends or stop


def _finished(
    way: Way, stage: JointProblem, found: Found, state: JointState, watch: _Watch, *, complete: bool, seed: int
) -> JointResult:
    """f as it is over all rows, or as anchors see it that were not learned from; the certificate likewise."""
    full = way.factor(found.point, None)
    L = way.factor(found.point, way.n_components)
    rng = np.random.RandomState([seed, state.stage, 1])
    sampled = stage.objective.is_sample
    seen = stage.on_sample(stage.objective.n_anchors, rng) if sampled else stage
    certificate, dear = found.certificate, False
    if certificate is None:
        dear = not sampled and way.name == "factored" and stage.objective.n_candidates > 2 * CERTIFIED_ON
        judge = stage.on_sample(CERTIFIED_ON, rng) if dear else seen
        certificate, _ = certify(judge, full @ full.T, full.shape[1], way.tol, -np.inf if dear else found.bound)
    if sampled:
        estimates = seen.factored_batch_values(L)
    else:
        known = L.shape == full.shape and not dear
        estimates = np.array([certificate.value if known else way.value(stage, L)])
    return JointResult(
        L,
        certificate,
        float(np.mean(estimates)),
        standard_error(estimates),
        stage.objective.n_anchors,
        way.name,
        state.earlier_iterations,
        state.earlier_evaluations,
        converged=bool(complete and (found.converged or watch.settled)),
        stopped=watch.listener.stopped,
    )
