"""Algorithm 2: one joint metric on the intermediate features, convex or factored, on all rows or growing samples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.spectral import Matrix, leading_factor, rank_of
from samekind.kernels.types import Array
from samekind.solvers import factored, projected
from samekind.solvers.certificate import Certificate, certify
from samekind.solvers.events import Event, Observer, unobserved
from samekind.solvers.growth import CHECK_EVERY, Noise, sample_sizes, standard_error
from samekind.solvers.jointproblem import JointProblem

LARGEST_CONVEX = 600  # dimensions: beyond them an eigendecomposition per step is what a convex step costs
FIRST_RANK = 16  # where the staircase begins at the least
FILLING = 0.01  # length of random first columns, relative to the others
SETTLED = 0.05  # share of `tol`: samples came first, and on all rows an iteration gains less than this of f
LATER_ITERATIONS = 4  # expected of a stage after the first
KEEP_EVERY = 5  # iterations between two states to resume from
CERTIFIED_ON = 1024  # anchors, where a certificate over all rows would be by far the dearest evaluation


Solver: TypeAlias = Literal["convex", "factored"]
Run: TypeAlias = projected.State | factored.State


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


@dataclass(frozen=True)
class JointState:
    """Where step 2 stands: the stage, where it started, and the state of its solver once it is under way."""

    stage: int
    start: Matrix  # A or L
    earlier_iterations: int = 0
    earlier_evaluations: int = 0
    run: Run | None = None
    noise: NDArray[Any] | None = None  # what the batches said when they were last looked at
    values: tuple[float, ...] = ()  # f after the last iterations of this stage
    hint: float | None = None  # curvature or scale where the stage before ended

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        arrays = {"start": self.start, "values": np.array(self.values)}
        if self.noise is not None:
            arrays["noise"] = self.noise
        return arrays | ({} if self.run is None else {f"run {name}": a for name, a in self.run.arrays().items()})

    def facts(self) -> dict[str, Any]:
        """What a file keeps as JSON."""
        return {
            "stage": self.stage,
            "earlier_iterations": self.earlier_iterations,
            "earlier_evaluations": self.earlier_evaluations,
            "hint": self.hint,
            "run": None if self.run is None else self.run.facts(),
            "solver": "factored" if isinstance(self.run, factored.State) else "convex",
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "JointState":
        """From `arrays()` and `facts()`."""
        kind = factored.State if facts["solver"] == "factored" else projected.State
        inner = {name.removeprefix("run "): array for name, array in arrays.items() if name.startswith("run ")}
        return cls(
            int(facts["stage"]),
            arrays["start"],
            int(facts["earlier_iterations"]),
            int(facts["earlier_evaluations"]),
            None if facts["run"] is None else kind.restored(inner, facts["run"]),
            arrays.get("noise"),
            tuple(arrays["values"].tolist()),
            None if facts["hint"] is None else float(facts["hint"]),
        )


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
    way: _Way = (_Factored if chosen == "factored" else _Convex)(problem, n_components, tol)
    state = JointState(0, way.first(stages[0], seed)) if resume is None else resume
    costs = [stage.objective.n_anchors / (1 if stage.objective.is_sample else 2) for stage in stages]
    listener = _Listener(observe, keep, max_iter, [stage.objective.n_anchors for stage in stages], costs, tol)
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


@dataclass(frozen=True)
class _Found:
    point: Matrix
    n_iter: int
    n_evaluations: int
    converged: bool
    certificate: Certificate | None
    hint: float | None  # curvature or scale, for the next stage
    bound: float = -np.inf  # what f is known not to go below


class _Way(Protocol):
    """How a stage is solved."""

    @property
    def name(self) -> Solver: ...

    @property
    def n_components(self) -> int | None: ...

    @property
    def tol(self) -> float: ...

    def first(self, stage: JointProblem, seed: int) -> Matrix: ...

    def descend(
        self, stage: JointProblem, state: JointState, max_iter: int, observe: "_Watch", *, certified: bool
    ) -> _Found: ...

    def batch_values(self, stage: JointProblem, point: Matrix) -> Array: ...

    def factor(self, point: Matrix, n_components: int | None) -> Matrix: ...

    def value(self, stage: JointProblem, L: Matrix) -> float: ...

    def rank(self, point: Matrix) -> int: ...


@dataclass(frozen=True)
class _Convex:
    problem: JointProblem
    n_components: int | None
    tol: float
    name: Solver = "convex"

    def first(self, stage: JointProblem, seed: int) -> Matrix:
        return np.zeros((stage.n_features, stage.n_features))

    def descend(
        self, stage: JointProblem, state: JointState, max_iter: int, observe: "_Watch", *, certified: bool
    ) -> _Found:
        resume = state.run if isinstance(state.run, projected.State) else None
        solution = projected.minimise(
            stage,
            state.start,
            tol=self.tol,
            max_iter=max_iter,
            observe=observe.hear_convex,
            resume=resume,
            curvature=state.hint,
        )
        return _Found(
            solution.x,
            solution.n_iter,
            solution.n_evaluations,
            solution.converged,
            None,
            solution.curvature,
            solution.value - solution.gap,
        )

    def batch_values(self, stage: JointProblem, point: Matrix) -> Array:
        return stage.batch_values(point)

    def factor(self, point: Matrix, n_components: int | None) -> Matrix:
        return leading_factor(point, n_components)

    def value(self, stage: JointProblem, L: Matrix) -> float:
        return stage.value(L @ L.T)

    def rank(self, point: Matrix) -> int:
        return rank_of(point)


@dataclass(frozen=True)
class _Factored:
    problem: JointProblem
    n_components: int | None
    tol: float
    name: Solver = "factored"

    @property
    def most(self) -> int:
        n_features = self.problem.n_features
        return n_features if self.n_components is None else min(n_features, self.n_components)

    def first(self, stage: JointProblem, seed: int) -> Matrix:
        """The leading columns of one projected gradient step from A = 0; short random ones where it has fewer."""
        n_features = stage.n_features
        rank = self.most if self.n_components is not None else min(self.most, max(FIRST_RANK, n_features // 4))
        L = leading_factor(projected.first_step(stage, np.zeros((n_features, n_features))), rank)
        missing = rank - L.shape[1]
        length = FILLING * max(float(np.linalg.norm(L)), 1e-3) / n_features**0.5
        return np.hstack([L, length * np.random.RandomState(seed).standard_normal((n_features, missing))])

    def descend(
        self, stage: JointProblem, state: JointState, max_iter: int, observe: "_Watch", *, certified: bool
    ) -> _Found:
        """Up the staircase where the rank is open; on a sample only as far as its noise allows."""
        certified = certified or self.n_components is None
        solution = factored.minimise_factored(
            stage,
            state.start,
            max_rank=self.most,
            tol=self.tol if certified else self.tol * SETTLED / factored.STATIONARY,
            max_iter=max_iter,
            observe=observe.hear_factored,
            resume=state.run if isinstance(state.run, factored.State) else None,
            certified=certified,
            scale=state.hint,
        )
        return _Found(
            solution.L,
            solution.n_iter,
            solution.n_evaluations,
            solution.converged,
            solution.certificate,
            solution.scale,
        )

    def batch_values(self, stage: JointProblem, point: Matrix) -> Array:
        return stage.factored_batch_values(point)

    def factor(self, point: Matrix, n_components: int | None) -> Matrix:
        return point

    def value(self, stage: JointProblem, L: Matrix) -> float:
        return stage.factored_value(L)

    def rank(self, point: Matrix) -> int:
        return int(point.shape[1])


@dataclass
class _Listener:
    """Turns a solver's progress into events, and remembers whether it was asked to stop."""

    observe: Observer
    keep: Callable[[JointState], None]
    max_iter: int
    n_anchors: list[int]  # of each stage
    costs: list[float]  # of an evaluation of each stage
    tol: float
    stopped: bool = False

    def tell(self, state: JointState, iteration: int, objective: float, rank: int, details: dict[str, Any]) -> bool:
        iteration += state.earlier_iterations
        details = {"n_anchors": self.n_anchors[state.stage]} | details
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
        later = sum(self.costs[state.stage + 1 :]) / self.costs[state.stage]
        return min(here + LATER_ITERATIONS * later, float(self.max_iter - iteration))


class _Watch:
    """Listens to the solver of one stage, and ends it when its progress is within the noise of the sample."""

    def __init__(
        self, stage: JointProblem, way: _Way, listener: _Listener, state: JointState, *, settles: bool, tol: float
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

    def _hear(
        self,
        point: Matrix,
        value: float,
        iteration: int,
        run: projected.State | factored.State,
        details: dict[str, Any],
    ) -> bool:
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
    way: _Way, stage: JointProblem, found: _Found, state: JointState, watch: _Watch, *, complete: bool, seed: int
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
