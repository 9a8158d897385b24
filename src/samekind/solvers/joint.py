"""Algorithm 2: one joint metric on the intermediate features, convex or factored, on all rows or growing samples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeGuard

import numpy as np

from samekind.kernels.spectral import Matrix, with_fixed_signs
from samekind.solvers import factored, projected
from samekind.solvers.certificate import Certificate, certify
from samekind.solvers.coordinates import Coordinates
from samekind.solvers.events import Event, Observer, unobserved
from samekind.solvers.growth import (
    CHECK_EVERY,
    JUDGING_ANCHORS,
    LITTLE,
    LOOKS_SETTLED,
    MOST_IN_VAIN,
    MOST_LOOKS,
    NEARLY,
    SETTLED,
    class_shares,
    drowns,
    sample_sizes,
    standard_error,
    tilted_anchors,
    to_come,
)
from samekind.solvers.jointproblem import JointProblem
from samekind.solvers.jointstate import JointState, Run
from samekind.solvers.preconditioner import Preconditioner
from samekind.solvers.span import has_span, in_span
from samekind.solvers.tilts import Sight, TiltedProblem
from samekind.solvers.ways import Convex, Factored, Found, Look, Problem, Solver, Way

LARGEST_CONVEX = 600  # dimensions: beyond them an eigendecomposition per step is what a convex step costs, unless
SAMPLES_PER_DIMENSION = 5  # there are so many samples that their pairs cost more
LATER_ITERATIONS = 4  # expected of a stage after the first, and looks at all rows
KEEP_EVERY = 5  # iterations between two states to resume from
CERTIFIED_ON = 1024  # anchors, where a certificate over all rows would be by far the dearest evaluation


@dataclass(frozen=True)
class JointResult:
    """`A = L L^T`; where `outside` is not 0, `A = L L^T + outside (I - span span^T)`."""

    L: Matrix  # (D, r), columns by falling length
    certificate: Certificate
    objective: float  # f at L L^T as returned, after any truncation
    objective_error: float  # its standard error; 0 where it is over all rows
    n_anchors: int  # of the last stage
    solver: str
    n_iter: int
    n_evaluations: int
    converged: bool  # the gap was closed, before any cut to n_components; on samples, as far as their noise lets it;
    # over L of bounded rank, where no gap closes, at a stationary point
    stopped: bool  # by the observer
    outside: float = 0.0  # what A is, times the identity, outside of the span: the ridge's centre
    span: Matrix | None = None  # (D, p), orthonormal: of the samples, where it was solved in their span


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
    """Algorithm 2; `keep` is given what to `resume` from.

    `anchors="grow"`: on samples of the rows first, on all of them in the end; a number: on samples of so many at most.
    With more features than samples it is solved in the span of the samples, and states are in its coordinates.
    """
    whole, V = problem, None
    if has_span(problem):
        problem, V = in_span(problem)
    n_samples = problem.objective.relation.n_samples
    chosen = choose_solver(problem.n_features, n_components, n_samples) if solver == "auto" else solver
    way = _way(problem, chosen, n_components, tol)
    stages = _stages(problem, anchors, seed, way)
    state = JointState(0, way.first(stages[0], seed)) if resume is None else resume
    fixed_rank = way.name == "factored" and n_components is not None
    shift = _lost_outside(whole, V) if fixed_rank and V is not None else 0.0
    listener = _Listener(observe, keep, max_iter, stages, tol, shift)
    course = _Course(problem, way, stages, listener, tol, max_iter, seed)
    while True:
        keep(state)
        stage, last = stages[state.stage], state.stage == len(stages) - 1
        if last and course.tilts(state):
            found, state = course.tilted(state)
        else:
            found, state = course.descended(state)
        if found.complete or course.over(state):
            break
    if not stage.objective.is_sample:  # but some classes, perhaps, whose f is not to be told
        stage = stages[-1]
    result = _finished(problem, way, stage, found, state, stopped=listener.stopped, seed=seed)
    return result if V is None else _out_of_span(result, V, whole, n_components)


def _lost_outside(problem: JointProblem, V: Matrix) -> float:
    """What a centred ridge costs outside of the span, where a metric of few components is 0."""
    return problem.ridge / 2 * problem.centre**2 * float(V.shape[0] - V.shape[1])


def _out_of_span(result: JointResult, V: Matrix, problem: JointProblem, n_components: int | None) -> JointResult:
    """The result in the coordinates of Z; its gap is that to the best metric of any rank."""
    certificate = result.certificate
    lost = 0.0 if n_components is None else _lost_outside(problem, V)
    if lost:
        slope = min(certificate.smallest_eigenvalue, -problem.ridge * problem.centre)
        value, gap = certificate.value + lost, certificate.gap + lost
        certificate = replace(certificate, value=value, gap=gap, smallest_eigenvalue=slope)
    return replace(
        result,
        L=with_fixed_signs(V @ result.L),
        certificate=certificate,
        objective=result.objective + lost,
        outside=problem.centre if n_components is None else 0.0,
        span=V,
    )


def _way(problem: JointProblem, solver: Solver, n_components: int | None, tol: float) -> Way:
    preconditioner = Preconditioner.of(problem.Z, problem.ridge)
    if solver == "convex":
        return Convex(n_components, tol, preconditioner)
    objective = problem.objective
    coordinates = Coordinates.of(problem.Z, objective.relation.class_sizes, objective.executor.map, preconditioner)
    return Factored(n_components, tol, coordinates, preconditioner)


def choose_solver(n_features: int, n_components: int | None, n_samples: int) -> Solver:
    """Factored where the factor is narrow (its gradient is then the cheaper one) or the matrix is large."""
    rank = n_features if n_components is None else n_components
    large = n_features > LARGEST_CONVEX and n_samples < SAMPLES_PER_DIMENSION * n_features
    return "factored" if 2 * rank < n_features or large else "convex"


def _stages(problem: JointProblem, anchors: int | Literal["all", "grow"], seed: int, way: Way) -> list[JointProblem]:
    if anchors == "all":
        return [problem]
    shares = class_shares(problem.objective.relation.n_joined) if way.tilts and anchors == "grow" else []
    if shares:
        draws = [np.random.RandomState([seed, at]) for at in range(len(shares))]
        return [*map(problem.among_classes, shares, draws), problem]
    sizes = sample_sizes(problem.objective.n_candidates, None if anchors == "grow" else anchors, way.tilts)
    return [
        problem if size is None else problem.on_sample(size, np.random.RandomState([seed, at]))
        for at, size in enumerate(sizes)
    ]


@dataclass(frozen=True)
class _Course:
    """From stage to stage: on samples, then on all rows, for which a tilted sample stands as long as that helps."""

    problem: JointProblem
    way: Way
    stages: list[JointProblem]
    listener: "_Listener"
    tol: float
    max_iter: int
    seed: int

    def tilts(self, state: JointState) -> bool:
        """Whether a sample stands for all rows still."""
        several = self.way.tilts and len(self.stages) > 1 and not self.stages[-1].objective.is_sample
        return several and state.looks.n < MOST_LOOKS and state.looks.n_in_vain < MOST_IN_VAIN

    @cached_property
    def sample(self) -> JointProblem:
        """It stands for all rows once it is tilted: the samples of some classes, where those came before."""
        *_, before, whole = self.stages
        if not before.objective.is_sample:
            return before
        rng = np.random.RandomState([self.seed, len(self.stages)])
        return whole.on_sample(tilted_anchors(whole.objective.n_candidates), rng)

    def over(self, state: JointState) -> bool:
        return self.listener.stopped or state.earlier_iterations >= self.max_iter

    def descended(self, state: JointState) -> tuple[Found, JointState]:
        """To where a stage has no more to give: on a sample that is its noise."""
        stage, last = self.stages[state.stage], state.stage == len(self.stages) - 1
        settles = len(self.stages) > 1 and (self._few_columns if last else not stage.objective.is_sample)
        began = stage.value(state.start) if settles and not last else None
        others = self._others(stage, state) if not settles and _is_sample(stage) else None
        watch = _Watch(stage, self.way, self.listener, state, settles=settles, tol=self.tol, began=began, others=others)
        found = self._found(stage, state, watch, certified=len(self.stages) == 1 or (last and not settles))
        found = replace(found, converged=found.converged or watch.settled, complete=last)
        if others is not None:
            found = replace(found, point=watch.safe_end(found.point))
        if not last and settles:
            found = replace(found, bound=-np.inf)
        return found, _after(state, found, state.stage + (not last))

    @property
    def _few_columns(self) -> bool:
        """Whether no gap says how near the end is: the rank is bounded."""
        return self.way.name == "factored" and self.way.n_components is not None

    def _others(self, stage: JointProblem, state: JointState) -> JointProblem:
        """Anchors that are not learned from, to tell what is gained from what only its own anchors see."""
        n_anchors = min(stage.objective.n_anchors, JUDGING_ANCHORS)
        return self.problem.on_sample(n_anchors, np.random.RandomState([self.seed, state.stage, 2]), without=stage)

    def tilted(self, state: JointState) -> tuple[Found, JointState]:
        """A look at all rows, and descent on a sample that is set right by it and by those before."""
        if state.run is None:  # or else that look was taken before
            end, state = self._looked(state)
            if end is not None:
                return end, _after(state, end, state.stage)
            if not self.tilts(state):
                return self.descended(state)
        best = state.looks.best
        assert best is not None
        problem = TiltedProblem.to(state.looks, self.sample)
        watch = _Watch(problem, self.way, self.listener, state, settles=True, tol=self.tol, began=best.value)
        found = self._found(problem, state, watch, certified=False)
        state = replace(state, looks=replace(state.looks, promise=best.value - found.value))
        return replace(found, bound=-np.inf), _after(state, found, state.stage)

    def _looked(self, state: JointState) -> tuple[Found | None, JointState]:
        """The end, if a look at all rows says so; and the state to descend from."""
        whole, point = self.stages[-1], state.start
        look = Look(*whole.value_and_gradient(point))
        bound = whole.lower_bound(point, *look)
        gap, gain, little = look.value - bound, state.looks.level - look.value, self.tol * abs(look.value)
        close = gap <= max(self.tol, whole.rounding) * abs(look.value)
        stopped = self.listener.tell(whole, state, 1, look.value, self.way.rank(point), gap=gap)
        settled = max(abs(gain), state.looks.promise) <= LOOKS_SETTLED * little
        if close or stopped:
            return Found(point, 1, 1, bool(close), None, state.hint, bound, look, complete=bool(close)), state
        looks = state.looks.with_one(Sight(point, *look, *self.sample.value_and_gradient(point)))
        if settled:  # the sample has no more to say, but the gap is open: on all rows from here
            looks = replace(looks, n_in_vain=MOST_IN_VAIN)
        assert looks.best is not None
        return None, replace(
            state,
            start=looks.best.A,
            looks=looks,
            earlier_iterations=state.earlier_iterations + 1,
            earlier_evaluations=state.earlier_evaluations + 1,
        )

    def _found(self, problem: Problem, state: JointState, watch: "_Watch", *, certified: bool) -> Found:
        left = self.max_iter - state.earlier_iterations
        return self.way.descend(problem, state, left, watch, certified=certified)


def _after(state: JointState, found: Found, stage: int) -> JointState:
    """The start of the next stage, or of this one again."""
    return replace(
        state,
        stage=stage,
        start=found.point,
        earlier_iterations=state.earlier_iterations + found.n_iter,
        earlier_evaluations=state.earlier_evaluations + found.n_evaluations,
        run=None,
        noise=None,
        safe=None,
        values=(),
        hint=found.hint,
    )


def _is_sample(problem: Problem) -> TypeGuard[JointProblem]:
    """Whether its noise can be estimated from its anchors."""
    return isinstance(problem, JointProblem) and problem.objective.is_sample


def _cost(problem: Problem) -> float:
    """Pairs that are visited; over all rows, each once."""
    pairs = problem.objective.n_anchors * problem.objective.relation.n_samples
    return pairs / (1 if problem.objective.is_sample else 2)


@dataclass
class _Listener:
    """Turns a solver's progress into events, and remembers whether it was asked to stop."""

    observe: Observer
    keep: Callable[[JointState], None]
    max_iter: int
    stages: list[JointProblem]
    tol: float
    shift: float = 0.0  # what f has beyond that of the problem solved
    stopped: bool = False

    def tell(
        self, problem: Problem, state: JointState, iteration: int, objective: float, rank: int, **details: Any
    ) -> bool:
        iteration += state.earlier_iterations
        left = self._left(problem, state, iteration)
        details = {"n_anchors": problem.objective.n_anchors} | details
        event = Event("joint", iteration, self.max_iter, objective + self.shift, rank, details, left=left)
        self.stopped = bool(self.observe(event))
        return self.stopped

    def _left(self, problem: Problem, state: JointState, iteration: int) -> float | None:
        """Iterations to come, in units of one of this stage: as the gains shrink now, and as dear as their pairs."""
        gains = -np.diff(state.values)
        if len(gains) < 2 or not (gains > 0).all():
            return None
        shrink = float(min(0.95, (gains[-1] / gains[0]) ** (1 / (len(gains) - 1))))
        goal = SETTLED * self.tol * abs(state.values[-1])
        here = max(0.0, float(np.log(goal / gains[-1]) / np.log(shrink))) if gains[-1] > goal else 0.0
        if state.looks.n:
            later = max(0, LATER_ITERATIONS - state.looks.n) * _cost(self.stages[-1])
        else:
            later = LATER_ITERATIONS * sum(map(_cost, self.stages[state.stage + 1 :]))
        later /= _cost(problem)
        return min(here + later, float(self.max_iter - iteration))


class _Watch:
    """Listens to a solver, and ends it when its progress is within the noise of the sample, or has become little."""

    def __init__(
        self,
        stage: Problem,
        way: Way,
        listener: _Listener,
        state: JointState,
        *,
        settles: bool,
        tol: float,
        began: float | None = None,
        others: JointProblem | None = None,
    ):
        self.stage = stage
        self.way = way
        self.listener = listener
        self.state = state
        self.settles = settles
        self.tol = tol
        self.began = began  # f where a stage of some classes began, or where it was tilted
        self.others = others  # what is not gained on their anchors is noise
        if others is not None and state.noise is None:
            self.state = replace(state, noise=way.batch_values(others, state.start))
        self.settled = False
        self._leg = state.run.leg if isinstance(state.run, factored.State) else "free"

    def hear_convex(self, now: projected.Progress) -> bool:
        return self._hear(now.x, now.value, now.iteration, now.state, {"gap": now.gap})

    def hear_factored(self, now: factored.Progress) -> bool:
        L = now.L if self.others is None else factored.within_trace(now.L, self.others.trace_bound)
        return self._hear(L, now.value, now.iteration, now.state, {})

    def _hear(self, point: Matrix, value: float, iteration: int, run: Run, details: dict[str, Any]) -> bool:
        if isinstance(run, factored.State) and self._leg != run.leg:  # another leg starts elsewhere
            self._leg = run.leg
            self.state = replace(self.state, values=())
        values = (*self.state.values, value)[-8:]
        ends = self._little_is_gained(values)
        if self.others is not None and iteration % CHECK_EVERY == 0:
            ends |= not self._is_gain(point)
            assert self.state.noise is not None
            details = details | {"estimated_error": standard_error(self.state.noise)}
        self.settled |= ends
        self.state = replace(self.state, run=run, values=values)
        stop = self.listener.tell(self.stage, self.state, iteration, value, self.way.rank(point), **details)
        if iteration % KEEP_EVERY == 0 and not ends:
            self.listener.keep(self.state)
        return ends or stop

    def _is_gain(self, point: Matrix) -> bool:
        """Whether other anchors see f fall too, as far as their noise lets them; if so it is safe to end there."""
        assert self.others is not None
        assert self.state.noise is not None
        estimates = self.way.batch_values(self.others, point)
        if drowns(self.state.noise - estimates):
            return False
        self.state = replace(self.state, noise=estimates, safe=point)
        return True

    def safe_end(self, point: Matrix) -> Matrix:
        """Where the solver ended, or the last point before it that was a gain."""
        if self.settled or not self._is_gain(point):
            return self.state.start if self.state.safe is None else self.state.safe
        return point

    def _little_is_gained(self, values: tuple[float, ...]) -> bool:
        """In one iteration on all rows; on the samples of some classes in three, as it is not f itself."""
        if not self.settles:
            return False
        if self.began is None and to_come(values) <= NEARLY * self.tol * abs(values[-1]):
            return True
        window, little = (1, 0.0) if self.began is None else (3, LITTLE * (self.began - values[-1]))
        if len(values) <= window:
            return False
        return values[-1 - window] - values[-1] <= max(little, SETTLED * self.tol * abs(values[-1]))


def _finished(
    problem: JointProblem, way: Way, stage: JointProblem, found: Found, state: JointState, *, stopped: bool, seed: int
) -> JointResult:
    """f and certificate of the metric as returned, over all rows, or as anchors see it that were not learned from."""
    L = way.factor(found.point, way.n_components)
    rng = np.random.RandomState([seed, state.stage, 1])
    sampled = stage.objective.is_sample
    seen = problem.on_sample(stage.objective.n_anchors, rng, without=stage) if sampled else problem
    certificate, dear, cut = found.certificate, False, L.shape[1] < way.factor(found.point, None).shape[1]
    if certificate is None or L.shape != found.point.shape:
        certified = certificate is not None
        dear = not (sampled or certified) and way.name == "factored" and stage.objective.n_candidates > 2 * CERTIFIED_ON
        judge = problem.on_sample(CERTIFIED_ON, rng) if dear else seen
        bound = found.bound if certificate is None else certificate.value - certificate.gap
        look = None if cut else found.look
        known = -np.inf if dear or sampled else bound  # that of these very rows
        certificate, _ = certify(judge, L @ L.T, L.shape[1], way.tol, known, look or judge.value_and_gradient_at(L))
    if sampled:
        estimates = seen.factored_batch_values(L)
    else:
        estimates = np.array([way.value(stage, L) if dear else certificate.value])
    converged = bool(found.complete and found.converged)
    if way.n_components is None and not (sampled or dear) and np.isfinite(certificate.gap):
        converged &= certificate.optimal
    return JointResult(
        L,
        certificate,
        float(np.mean(estimates)),
        standard_error(estimates),
        stage.objective.n_anchors,
        way.name,
        state.earlier_iterations,
        state.earlier_evaluations,
        converged=converged,
        stopped=stopped,
    )
