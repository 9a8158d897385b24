"""Algorithm 1: round by round the steepest feature group, its metric and the scale of what was there before."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.compute.sources import PresentDistances
from samekind.kernels.spectral import Matrix, Norm, leading_factor
from samekind.objective import Objective, Weights
from samekind.solvers import projected
from samekind.solvers.blocks import BlockMetric, BlockProblem
from samekind.solvers.events import Event, Observer, unobserved
from samekind.solvers.growth import standard_error
from samekind.solvers.preconditioner import Preconditioner
from samekind.solvers.projected import Point
from samekind.solvers.search import ExactSearch, FastSearch, Scoring, Search
from samekind.store import FeatureStore, centred

FIRST_SAMPLE, SMALLEST_SAMPLE = 2048, 512  # rows of a sampled block solve
FEWEST_ANCHORS = 256  # where the distances of all pairs do not fit the memory budget
JUDGING_SHARE = 0.25  # of these anchors and their memory, for those that f is estimated from and not learned
NEGLIGIBLE_GAP = 0.1  # of the decrease so far: a sample is not worth solving to more digits
MOST_TILTS, SMALL_LOSS = 3, 0.01  # a sample is tilted again where more than this share of f is lost to its noise
FAITHFUL, GENEROUS = 0.6, 0.9  # shares of the decrease promised by a sample: if less comes true, later samples are
# twice as large, if more, half as large


class Step(NamedTuple):
    """One round: A <- alpha A + A_k."""

    group: int
    alpha: float
    A: Matrix


@dataclass(frozen=True)
class SelectionState:
    """Where a selection stands between two rounds: from its steps everything else is made again, to the last digit."""

    steps: tuple[Step, ...] = ()
    value: float = np.inf
    stopped_because: str = ""  # set when it is over
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of search and block solver
    facts_of_memory: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        blocks = {f"block {at}": step.A for at, step in enumerate(self.steps)}
        return blocks | {f"memory {name}": array for name, array in self.memory.items()}

    def facts(self) -> dict[str, Any]:
        """What a file keeps as JSON."""
        return {
            "groups": [step.group for step in self.steps],
            "alphas": [step.alpha for step in self.steps],
            "value": self.value,
            "stopped_because": self.stopped_because,
            "memory": dict(self.facts_of_memory),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "SelectionState":
        """From `arrays()` and `facts()`."""
        taken = zip(facts["groups"], facts["alphas"], strict=True)
        steps = tuple(Step(int(k), float(alpha), arrays[f"block {at}"]) for at, (k, alpha) in enumerate(taken))
        memory = {name.removeprefix("memory "): array for name, array in arrays.items() if name.startswith("memory ")}
        return cls(steps, float(facts["value"]), str(facts["stopped_because"]), memory, facts["memory"])


@dataclass(frozen=True)
class SelectionResult:
    metric: BlockMetric
    objective: float
    n_rounds: int
    stopped_because: str


@dataclass(frozen=True)
class Solved:
    """A block and the scale of what was there before, as a point of a `BlockProblem`; f there, over all pairs."""

    x: Point
    value: float
    details: dict[str, Any]


class BlockSolver(Protocol):
    def solve(self, problem: BlockProblem, value: float, weights: Weights, n_rounds: int) -> Solved:
        """Line 5, from the metric as it is, where f is `value` and the loss has these weights."""
        ...

    def memory(self) -> dict[str, float | None]:
        """What it has learned from earlier rounds, for `recall`."""
        ...

    def recall(self, memory: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class ExactBlocks:
    """On all pairs of the objective."""

    tol: float
    max_iter: int

    def solve(self, problem: BlockProblem, value: float, weights: Weights, n_rounds: int) -> Solved:
        solution = projected.minimise(problem, problem.start, tol=self.tol, max_iter=self.max_iter)
        return Solved(solution.x, solution.value, {"n_iter": solution.n_iter, "converged": solution.converged})

    def memory(self) -> dict[str, float | None]:
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        pass


class SampledBlocks:
    """On a sample of the pairs, drawn anew in each round; f is then looked at over all pairs.

    A sample is tilted so that its gradient where the solve starts is that over all pairs: its noise is in the curvature
    only. Where much of f is lost to that, it is tilted again where the solve ended, and goes on. Where a sample
    promised much more than came true it was too small, and later ones are larger.
    """

    def __init__(self, present: PresentDistances, tol: float, max_iter: int, seed: int):
        self.present = present
        self.exact = ExactBlocks(tol, max_iter)
        self.seed = seed
        self.n_samples = FIRST_SAMPLE
        self.curvature: float | None = None

    def solve(self, problem: BlockProblem, value: float, weights: Weights, n_rounds: int) -> Solved:
        while 2 * self.n_samples < problem.objective.n_candidates:
            gradient = problem.gradient_at_start(weights)
            solved, promised = self._on_sample(problem, value, gradient, n_rounds)
            came_true = (value - solved.value) / promised if promised > 0 else 1.0
            if came_true < FAITHFUL:
                self.n_samples *= 2
            elif came_true > GENEROUS:
                self.n_samples = max(SMALLEST_SAMPLE, self.n_samples // 2)
            if solved.value < value or promised <= 0:
                return solved
        solution = self._minimised(problem, problem.start, value)
        details = {
            "n_iter": solution.n_iter,
            "converged": solution.converged or solution.gap <= NEGLIGIBLE_GAP * (value - solution.value),
            "n_anchors": problem.objective.n_anchors,
            "estimated_error": 0.0,
        }
        return Solved(solution.x, solution.value, details)

    def memory(self) -> dict[str, float | None]:
        return {"block_sample": self.n_samples, "curvature": self.curvature}

    def recall(self, memory: Mapping[str, Any]) -> None:
        self.n_samples, self.curvature = int(memory.get("block_sample", self.n_samples)), memory.get("curvature")

    def _on_sample(self, problem: BlockProblem, value: float, gradient: Point, n_rounds: int) -> tuple[Solved, float]:
        """The solution on a fresh sample, and the decrease of f that it promised."""
        rng = np.random.RandomState([self.seed, n_rounds, self.n_samples])
        objective = problem.objective.sampled_pairs(self.n_samples, rng)
        sample = problem.on(objective, self.present.on(objective.plan, objective.executor))
        best, reached, n_iter = problem.start, value, 0
        for _ in range(MOST_TILTS):
            sample = sample.tilted_to(gradient, best)
            start = sample.value(best)
            solution = self._minimised(sample, best, start)
            over_all = problem.value(solution.x)
            n_iter += solution.n_iter
            lost = start - solution.value - (reached - over_all)
            if over_all < reached:
                best, reached = solution.x, over_all
            if lost <= SMALL_LOSS * reached or best is not solution.x:
                break
            _, gradient = problem.value_and_gradient(best)
        details = {
            "n_iter": n_iter,
            "converged": solution.converged or solution.gap <= NEGLIGIBLE_GAP * (start - solution.value),
            "n_anchors": objective.n_anchors,
            "estimated_error": max(0.0, lost),
        }
        return Solved(best, reached, details), value - reached + lost

    def _minimised(self, sample: BlockProblem, start: Point, value: float) -> projected.Solution:
        solution = projected.minimise(
            sample,
            start,
            tol=self.exact.tol,
            max_iter=self.exact.max_iter,
            curvature=self.curvature,
            observe=lambda now: now.gap <= NEGLIGIBLE_GAP * (value - now.value),
        )
        self.curvature = solution.curvature
        return solution


def select_groups(
    objective: Objective,
    store: FeatureStore,
    *,
    ridge: float,
    max_groups: int,
    candidates: Iterable[int] | None = None,
    norm: Norm = "frobenius",
    search: Literal["exact", "fast"] = "exact",
    tol: float = 1e-3,
    max_iter: int = 500,
    seed: int = 0,
    observe: Observer = unobserved,
    resume: SelectionState | None = None,
    keep: Callable[[SelectionState], None] = lambda state: None,
) -> SelectionResult:
    """Algorithm 1 from A = 0, `max_groups` rounds at the most; `keep` is given what to `resume` from."""
    groups = sorted(range(len(store.group_sizes)) if candidates is None else candidates)
    room = objective.memory.present
    judge: _Judge | None = None
    if search == "fast":
        objective, judging = _fitting(objective, room, seed)
        if judging is not None:
            share = int(room * JUDGING_SHARE)
            room, judge = room - share, _Judge(judging, PresentDistances(judging.plan, judging.dtype, share))
    selection = _Selection(objective, store, ridge, PresentDistances(objective.plan, objective.dtype, room), judge)
    scoring = Scoring(objective, store, ridge, norm)
    finder: Search = FastSearch(scoring, groups, seed) if search == "fast" else ExactSearch(scoring, groups)
    solver: BlockSolver = ExactBlocks(tol, max_iter)
    if search == "fast" and not objective.is_sample:
        solver = SampledBlocks(selection.present, tol, max_iter, seed)
    state = SelectionState(value=selection.value()) if resume is None else resume
    if resume is not None:
        selection.replay(resume.steps)
        finder.recall(resume.memory, resume.facts_of_memory)
        solver.recall(resume.facts_of_memory)
        if resume.steps and resume.facts_of_memory.get("rows") != objective.n_anchors:  # another memory budget
            state = replace(state, value=selection.value())
    weights: Weights | None = None
    while not state.stopped_because:
        n_rounds = len(state.steps)
        if n_rounds >= max_groups:
            state = replace(state, stopped_because=f"max_groups={max_groups} rounds done")
            keep(state)
            break
        weights = objective.weights(selection.present).kept(over=weights)
        choice = finder.best(weights, selection.metric, n_rounds)
        problem = selection.problem(choice.group)
        solved = solver.solve(problem, state.value, weights, n_rounds)
        if not choice.score > 0 or not solved.value < state.value * (1 - problem.rounding):
            reason = f"no group lowers the objective any more, after {n_rounds} rounds of max_groups={max_groups}"
            state = replace(state, stopped_because=reason)
            keep(state)
            break
        step = Step(choice.group, *problem.unpack(solved.x))
        selection.take(step, problem.Z)
        arrays, facts = finder.memory()
        facts |= solver.memory() | {"rows": objective.n_anchors}
        state = SelectionState((*state.steps, step), solved.value, "", arrays, facts)
        details = {"group": step.group, "score": choice.score, "alpha": step.alpha}
        details["n_groups"] = len(selection.metric.blocks)
        told, noise = selection.told(state.value)
        details |= choice.details | solved.details | noise
        left = max_groups - len(state.steps)
        event = Event("selection", n_rounds + 1, max_groups, told, selection.metric.rank(), details, left=left)
        stop = observe(event)
        keep(state)
        if stop:
            state = replace(state, stopped_because=f"stopped by the callback after {n_rounds + 1} rounds")
    told, _ = selection.told(state.value)
    return SelectionResult(selection.metric, told, len(state.steps), state.stopped_because)


@dataclass(frozen=True)
class _Judge:
    """Anchors that are not learned from: f as they see it is that of all rows, but for their noise."""

    objective: Objective
    present: PresentDistances


@dataclass
class _Selection:
    """The metric as it grows, and the distances under it."""

    objective: Objective
    store: FeatureStore
    ridge: float
    present: PresentDistances
    judge: _Judge | None = None
    metric: BlockMetric = field(default_factory=BlockMetric)

    def value(self) -> float:
        """f of the metric as it is."""
        return self.objective.value(self.present) + self.ridge / 2 * self.metric.norm() ** 2

    def problem(self, k: int) -> BlockProblem:
        """Line 5 for group k."""
        Z = self._features(k)
        block = self.metric.block(k, Z.shape[1])
        return BlockProblem(
            self.objective,
            Z,
            self.ridge,
            self.present,
            self.metric.norm(),
            block,
            Preconditioner.of(Z, self.objective.relation.class_sizes, self.ridge),
            self.metric.mean_distance(),
        )

    def take(self, step: Step, Z: NDArray[Any]) -> None:
        codes = Z @ leading_factor(step.A, share=0.0).astype(Z.dtype)
        self.present.update(step.alpha, codes, self.objective.executor)
        if self.judge is not None:
            self.judge.present.update(step.alpha, codes, self.objective.executor)
        Z = Z.astype(np.float64)
        self.metric.add(step.group, step.A, step.alpha, Z.T @ Z / len(Z))

    def replay(self, steps: Iterable[Step]) -> None:
        """One by one, as they were taken: so all sums are the same to the last digit."""
        for step in steps:
            self.take(step, self._features(step.group))

    def told(self, value: float) -> tuple[float, dict[str, Any]]:
        """f over all rows, from its value for the anchors learned from; and how far it may be off."""
        if not self.objective.is_sample:
            return value, {}
        details: dict[str, Any] = {"n_anchors": self.objective.n_anchors}
        if self.judge is None:  # every row is an anchor
            return value, details | {"estimated_error": 0.0}
        estimates = self.judge.objective.batch_values(self.judge.present) + self.ridge / 2 * self.metric.norm() ** 2
        details |= {"objective_on_anchors": value, "estimated_error": standard_error(estimates)}
        return float(estimates.mean()), details

    def _features(self, k: int) -> NDArray[Any]:
        return centred(self.store.panel([k], self.objective.relation.order))


def _fitting(objective: Objective, room: int, seed: int) -> tuple[Objective, Objective | None]:
    """The objective itself where the distances of all its pairs fit `room` bytes, or else on anchors whose do.

    With the latter goes one on other anchors, if there are any left, to estimate f from.
    """
    itemsize = np.dtype(objective.dtype).itemsize
    if sum(tile.size for tile in objective.plan.tiles()) * itemsize <= room:
        return objective, None
    fitting = room // (itemsize * objective.relation.n_samples)
    n_judging = max(FEWEST_ANCHORS, int(fitting * JUDGING_SHARE))
    learned = objective.sampled(max(FEWEST_ANCHORS, fitting - n_judging), np.random.RandomState([seed]))
    left = objective.n_candidates - learned.n_anchors
    if left < 2:
        return learned, None
    return learned, objective.sampled(min(n_judging, left), np.random.RandomState([seed, 1]), learned.anchors)
