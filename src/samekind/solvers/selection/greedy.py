"""Algorithm 1: in each round the feature group of the highest score, its block, and the scale of earlier blocks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from samekind.events import Event, Observer, unobserved
from samekind.kernels.spectral import Norm
from samekind.kernels.statistics import standard_error
from samekind.model.block_metric import BlockMetric
from samekind.objective import Objective, Weights
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.selection.block_solvers import BlockSolver, ExactBlocks, SampledBlocks, SampleOptions
from samekind.solvers.selection.blocks import BlockProblem, curvature_by_scale
from samekind.solvers.selection.scoring import Scoring
from samekind.solvers.selection.search import ExactSearch, LazyOptions, LazySearch, Search
from samekind.solvers.selection.site import SelectionSite
from samekind.solvers.selection.state import SelectionResult, SelectionState, Step
from samekind.store import FeatureStore


@dataclass(frozen=True)
class SelectionOptions:
    """Settings of Algorithm 1; `seed` and what follows are used by `search="fast"` only."""

    ridge: float
    max_groups: int
    norm: Norm = "frobenius"
    search: Literal["exact", "fast"] = "exact"
    tol: float = 1e-3  # of each round's block
    max_iter: int = 500
    seed: int = 0
    lazy: LazyOptions = field(default_factory=LazyOptions)
    samples: SampleOptions = field(default_factory=SampleOptions)
    fewest_anchors: int = 256  # where the distances of all pairs do not fit into memory
    held_out_share: float = 0.25  # of the anchors and their memory: not learned from, f is estimated on them


def select_groups(
    objective: Objective,
    store: FeatureStore,
    options: SelectionOptions,
    *,
    candidates: Iterable[int] | None = None,
    observe: Observer = unobserved,
    resume: SelectionState | None = None,
    keep: Callable[[SelectionState], None] = lambda state: None,
) -> SelectionResult:
    """Algorithm 1 from A = 0, or from a state that `keep` was given."""
    groups = sorted(range(len(store.group_sizes)) if candidates is None else candidates)
    selection = _Selection.begun(objective, store, options)
    scoring, most = Scoring(selection.site, options.ridge, options.norm), options.max_groups
    exhaustive = ExactSearch(scoring, groups)
    search: Search = exhaustive
    solver: BlockSolver = ExactBlocks(options.tol, options.max_iter)
    if options.search == "fast":
        search = LazySearch(scoring, groups, options.seed, options.lazy)
        if not selection.objective.is_sample:
            solver = SampledBlocks(selection.site, options.tol, options.max_iter, options.seed, options.samples)
    state = SelectionState(value=selection.value())
    if resume is not None:
        selection.replay(resume.steps)
        search.recall(resume.search)
        solver.recall(resume.solver)
        same_rows = not resume.steps or resume.solver.get("rows") == selection.objective.n_anchors
        state = resume if same_rows else replace(resume, value=selection.value())
    weights: Weights | None = None
    while not state.stopped_because:
        n_rounds = len(state.steps)
        if n_rounds >= most:
            state = replace(state, stopped_because=f"max_groups={most} rounds done")
            keep(state)
            break
        weights = selection.objective.weights(selection.site.distances()).kept(over=weights)
        for finder in (search, exhaustive):
            choice = finder.best(weights, selection.metric, n_rounds)
            problem = selection.problem(choice.group)
            solved = solver.solve(problem, state.value, weights, n_rounds)
            falls = choice.score > 0 and solved.value < state.value * (1 - problem.rounding)
            if falls or finder is exhaustive:
                break
        if not falls:
            reason = f"no group lowers the objective any more, after {n_rounds} rounds of max_groups={most}"
            state = replace(state, stopped_because=reason)
            keep(state)
            break
        step = Step(choice.group, *problem.unpack(solved.x))
        selection.take(step, problem.Z)
        remembered = solver.memory() | {"rows": selection.objective.n_anchors}
        state = SelectionState((*state.steps, step), solved.value, "", search.memory(), remembered)
        stop = observe(selection.event(state, choice.score, choice.details | solved.details))
        keep(state)
        if stop:
            state = replace(state, stopped_because=f"stopped by the callback after {n_rounds + 1} rounds")
    value, _ = selection.over_all_rows(state.value)
    for site in selection.sites:
        site.close()
    return SelectionResult(selection.metric, value, len(state.steps), state.stopped_because)


@dataclass
class _Selection:
    """The metric as it grows, and the distances under it.

    Where the distances of all pairs do not fit into memory, both are those of some anchor rows to all others, and f is
    estimated from other anchors, which are not learned from.
    """

    site: SelectionSite
    options: SelectionOptions
    held_out: SelectionSite | None = None
    metric: BlockMetric = field(default_factory=BlockMetric)

    @classmethod
    def begun(cls, objective: Objective, store: FeatureStore, options: SelectionOptions) -> Self:
        """The selection at A = 0; `search="exact"` makes distances that do not fit anew, whenever it needs them."""
        room, itemsize = objective.memory.present, np.dtype(objective.dtype).itemsize
        if options.search == "exact" or sum(tile.size for tile in objective.plan.tiles()) * itemsize <= room:
            return cls(SelectionSite(objective, store, room), options)
        fitting = room // (itemsize * objective.relation.n_samples)
        n_held_out = max(options.fewest_anchors, int(fitting * options.held_out_share))
        n_learned = max(options.fewest_anchors, fitting - n_held_out)
        learned = objective.sampled(n_learned, np.random.RandomState([options.seed]))
        left = objective.n_candidates - learned.n_anchors
        if left < 2:  # every row is an anchor
            return cls(SelectionSite(learned, store, room), options)
        rng, share = np.random.RandomState([options.seed, 1]), int(room * options.held_out_share)
        held_out = objective.sampled(min(n_held_out, left), rng, learned.anchors)
        return cls(SelectionSite(learned, store, room - share), options, SelectionSite(held_out, store, share))

    @property
    def sites(self) -> list[SelectionSite]:
        return [site for site in (self.site, self.held_out) if site is not None]

    @property
    def objective(self) -> Objective:
        return self.site.objective

    def value(self) -> float:
        """f of the metric as it is."""
        return self.objective.value(self.site.distances()) + self._penalty()

    def _penalty(self) -> float:
        return self.options.ridge / 2 * self.metric.norm() ** 2

    def over_all_rows(self, value: float) -> tuple[float, dict[str, Any]]:
        """f over all rows, estimated from its value for the rows learned from, and details with the standard error."""
        if not self.objective.is_sample:
            return value, {}
        details: dict[str, Any] = {"n_anchors": self.objective.n_anchors}
        if self.held_out is None:  # every row is an anchor
            return value, details | {"estimated_error": 0.0}
        estimates = self.held_out.objective.batch_values(self.held_out.distances())
        estimates += self._penalty()
        details |= {"objective_on_anchors": value, "estimated_error": standard_error(estimates)}
        return float(estimates.mean()), details

    def event(self, state: SelectionState, score: float, details: dict[str, Any]) -> Event:
        """Of the last round."""
        n_rounds, most, step = len(state.steps), self.options.max_groups, state.steps[-1]
        value, noise = self.over_all_rows(state.value)
        own = {"group": step.group, "score": score, "alpha": step.alpha, "n_groups": len(self.metric.blocks)}
        rank = self.metric.rank()
        return Event("selection", n_rounds, most, value, rank, own | details | noise, left=most - n_rounds)

    def problem(self, k: int) -> BlockProblem:
        """Line 5 for group k."""
        Z, ridge, scale = self.site.features(k), self.options.ridge, self.metric.norm()
        block = self.metric.block(k, Z.shape[1])
        by = Preconditioner.of(Z, self.objective.relation.class_sizes, ridge)
        curvature, present = self._curvature_by_scale(), self.site.distances()
        return BlockProblem(self.objective, Z, ridge, present, scale, block, by, curvature, group=k)

    def _curvature_by_scale(self) -> float:
        """The curvature of the loss by alpha; from a sample of many rows, as the order of magnitude is enough."""
        if not self.metric.blocks:
            return 0.0
        samples = self.options.samples
        if self.objective.is_sample or self.objective.n_candidates <= samples.first:
            return curvature_by_scale(self.objective, self.site.distances())
        rng = np.random.RandomState(len(self.metric.blocks))
        sample = self.objective.sampled_pairs(samples.smallest, rng)
        return curvature_by_scale(sample, self.site.on(sample.plan))

    def take(self, step: Step, Z: NDArray[Any]) -> None:
        for site in self.sites:
            site.log.append(step)
        Z = Z.astype(np.float64)
        self.metric.add(step.group, step.A, step.alpha, Z.T @ Z / len(Z))

    def replay(self, steps: Iterable[Step]) -> None:
        """Take the steps one by one, in their order, so that all sums are the same to the last digit."""
        for step in steps:
            self.take(step, self.site.features(step.group))
