"""The two steps as functions of data and settings; the estimators put them together.

run_selection   Algorithm 1, once per family of feature groups  -> Basis
run_joint       Algorithm 2 on the features of a basis           -> components
run_similarity  the two-covariance model on the same features   -> similarity term
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from samekind.checkpoint import NoCheckpoint, Snapshot, Snapshots
from samekind.compute.cluster import current_executor
from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget, parse_bytes
from samekind.estimators.coordinates import around_identity, fitted_scale, shortened, spanned_directions
from samekind.estimators.data import TrainingData
from samekind.estimators.on_store import StorePanels, with_neighbors_by
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import StepRecord
from samekind.estimators.time_left import Stage
from samekind.estimators.validation import (
    anchors_from,
    check_count,
    check_number,
    loss_from,
    max_groups_from,
    ridge_from,
    search_from,
    solver_from,
    trace_bound_from,
)
from samekind.estimators.work_sizes import WorkSizes
from samekind.events import Event
from samekind.kernels.principal import leading_directions, projected, weighted_mean
from samekind.kernels.similarity import similarity_directions
from samekind.kernels.spectral import Matrix
from samekind.kernels.types import Array, IntArray
from samekind.losses import Loss
from samekind.model.basis import Basis
from samekind.model.similarity import Similarity
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint import JointOptions, JointProblem, JointResult, JointState, solve_joint
from samekind.solvers.selection import SelectionOptions, SelectionResult, SelectionState, select_groups
from samekind.solvers.selection.block_solvers import SampleOptions
from samekind.solvers.two_covariance import TwoCovarianceModel, fit_two_covariance
from samekind.store import centred

NO_VARIANCE = 1e-10  # share of the largest variance of class centres: rounding


@dataclass(frozen=True)
class Resources:
    """What a fit may use, and where it notes what it does."""

    executor: Executor
    memory_budget: int
    n_jobs: int | None
    seed: int
    listeners: Listeners
    snapshots: Snapshots
    sizes: WorkSizes
    part: str = ""  # of the fit: a fold of classes left out, or all

    @classmethod
    def from_estimator(cls, estimator: Any, listeners: Listeners) -> Resources:
        """The checked parameters of an estimator; a checkpoint comes with `kept_in`."""
        return cls(
            current_executor(estimator.n_jobs, estimator.compute),
            parse_bytes(estimator.memory_budget),
            estimator.n_jobs,
            int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)),
            listeners,
            NoCheckpoint(),
            estimator._work_sizes,
        )

    def kept_in(self, snapshots: Snapshots) -> Resources:
        """With a checkpoint; the seed is that of the fit that began it."""
        began = snapshots.load("fit")
        if began is None:
            snapshots.save("fit", Snapshot({}, {"seed": self.seed}))
        return replace(self, snapshots=snapshots, seed=self.seed if began is None else int(began.facts["seed"]))

    def on(self, part: str) -> Resources:
        """For a part of the fit."""
        return replace(self, part=part)

    def record(self, name: str, family: Hashable | None = None) -> StepRecord:
        return StepRecord(
            self.snapshots, f"{self.part}-{name}" if self.part else name, self.listeners, family, self.part
        )


@dataclass(frozen=True)
class LossSettings:
    """What a step minimises, and how far."""

    loss: Loss
    n_neighbors: int | None
    tol: float
    max_iter: int

    @classmethod
    def from_estimator(cls, estimator: Any) -> LossSettings:
        """The checked parameters of an estimator of one step."""
        n_neighbors = estimator.n_neighbors
        loss = loss_from(estimator.loss, estimator.threshold, estimator.pair_balance, estimator.beta)
        checked = None if n_neighbors is None else check_count("n_neighbors", n_neighbors)
        return cls(
            loss,
            checked if estimator.loss == "triplet" else None,
            check_number("tol", estimator.tol, above=0),
            check_count("max_iter", estimator.max_iter),
        )

    def objective(
        self, relation: Relation, panels: Iterable[Array], dtype: np.dtype[Any], resources: Resources
    ) -> Objective:
        """The loss over all pairs; target neighbours, where asked for, in the space of `panels` (class order)."""
        if self.n_neighbors is not None:
            if resources.executor.is_remote and isinstance(panels, StorePanels):
                by, budget = resources.executor, resources.memory_budget
                relation = with_neighbors_by(by, panels, relation, self.n_neighbors, budget)
            else:
                relation = relation.with_neighbors(panels, self.n_neighbors, resources.memory_budget)
        executor = resources.executor if relation.n_samples > resources.sizes.few_samples else Executor(1)
        return Objective.over(self.loss, relation, executor, MemoryBudget(resources.memory_budget), dtype)


@dataclass(frozen=True)
class Selection:
    """What step 1 chose: the basis, and how it went in each family."""

    basis: Basis | None  # None where no group separates the classes
    groups: list[int]  # in the order of the basis
    blocks: dict[int, Matrix]
    results: dict[Hashable, SelectionResult]
    ridge: float  # the largest over families

    @property
    def objective(self) -> float:
        return sum(result.objective for result in self.results.values())


def run_selection(
    data: TrainingData, step: Any, families: Mapping[Hashable, Sequence[int]], resources: Resources
) -> Selection:
    """Step 1 as the estimator `step` says, on the groups of each family alone, until a callback stops it."""
    settings = LossSettings.from_estimator(step)
    data = data.part(limited(data.y, step.min_per_class, step.max_per_class))
    relation = Relation.from_labels(data.y)
    results: dict[Hashable, SelectionResult] = {}
    ridges, bases = [0.0], []
    groups: list[int] = []
    blocks: dict[int, Matrix] = {}
    for number, (family, members) in enumerate(families.items()):
        if resources.listeners.stopped:
            break
        dims = data.whitened_dims(step.whiten)
        if dims is not None:
            resources.listeners.begin(Stage("whitening", resources.part, family))
        own = data.only(members).whitened(
            dims, resources.n_jobs, resources.listeners.count, executor=resources.executor
        )
        own = own.copied(int(resources.memory_budget * resources.sizes.copy_share))
        resources.listeners.begin(Stage("selection", resources.part, family))
        rounds = max_groups_from(step.max_groups, len(members), len(data.y))
        ridges.append(ridge_from(step.ridge, rounds * float(np.mean(own.store.group_sizes))))
        record = resources.record(f"step1-{number}", family)
        snapshot = record.recalled()
        panels = StorePanels(own.store, range(len(members)), relation.order)
        options = SelectionOptions(
            ridge=ridges[-1],
            max_groups=rounds,
            norm=step.score_norm,
            search=search_from(step.search, len(members)),
            tol=settings.tol,
            max_iter=settings.max_iter,
            seed=resources.seed,
            samples=SampleOptions(first=resources.sizes.first_sample),
            fewest_anchors=resources.sizes.fewest_anchors,
        )
        result = select_groups(
            settings.objective(relation, panels, own.dtype, resources),
            own.store,
            options,
            observe=record.observer,
            resume=None if snapshot is None else SelectionState.restored(snapshot.arrays, snapshot.facts),
            keep=record.keep,
        )
        factors = result.metric.factors()
        in_order = sorted(members)
        groups += [in_order[k] for k in factors]
        blocks |= {in_order[k]: result.metric.blocks[k] for k in factors}
        if factors:
            bases.append(own.basis(factors))
        results[family] = result
    return Selection(Basis.joined(bases) if bases else None, groups, blocks, results, max(ridges))


def limited(y: NDArray[Any], least: Any, most: Any) -> IntArray:
    """Places of the samples of classes with at least `least`; of each class the first `most`, or all."""
    least = check_count("min_per_class", least)
    _, classes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    kept = sizes[classes] >= least
    if most is not None:
        most = check_count("max_per_class", most)
        order = np.argsort(classes, kind="stable")
        rank = np.empty(len(y), np.intp)
        rank[order] = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept &= rank < most
    if len(np.unique(classes[kept])) < 2 or not (np.bincount(classes[kept]) > 1).any():
        raise ValueError(
            f"min_per_class={least}, max_per_class={most} leave {int(kept.sum())} of {len(y)} samples, without two "
            "classes one of which has 2: choose a smaller min_per_class or a larger max_per_class."
        )
    return np.flatnonzero(kept)


@dataclass(frozen=True)
class JointSolution:
    """What step 2 learned: components over the features that it was given."""

    components: Matrix  # (r, D)
    result: JointResult
    ridge: float
    state: Matrix  # A or L, where a similar problem may start


def run_joint(
    Z: Array,
    relation: Relation,
    step: Any,
    resources: Resources,
    *,
    name: str = "step2",
    directions: Array | None = None,
    weights: NDArray[np.float64] | None = None,
    start: Matrix | None = None,
) -> JointSolution:
    """Step 2 as the estimator `step` says, on Z (N, D) in class order.

    `directions` (D, n): learned on Z in these, None for all that the samples span. `weights`: what the columns of Z
    were multiplied by. `start`: the `state` of a solution at another ridge.
    """
    identity = step.target == "identity"
    Z = centred(Z)
    weights = np.ones(Z.shape[1]) if weights is None else weights
    if directions is None:
        directions = spanned_directions(Z)
    Y: Array = Z if directions is None else Z @ directions
    settings = LossSettings.from_estimator(step)
    bound = trace_bound_from(step.trace_bound)
    ridge = ridge_from(step.ridge, Y.shape[1], identity)
    objective = settings.objective(relation, [Y], Y.dtype, resources)
    scale = fitted_scale(objective, Y, resources.seed) if identity else 1 / float(np.sqrt(np.mean(weights**2)))
    Y *= Y.dtype.type(scale)
    n_components = None if step.n_components is None else min(step.n_components, Z.shape[1])
    problem = JointProblem(objective, Y, ridge, bound, float(identity))
    record = resources.record(name)
    snapshot = record.recalled()
    resume = None if snapshot is None else JointState.restored(snapshot.arrays, snapshot.facts)
    if resume is None and start is not None:
        resume = JointState(0, start)
    rank = None if identity or n_components is None else min(n_components, Y.shape[1])
    options = JointOptions(
        solver="convex" if identity else solver_from(step.solver, Y.shape[1], rank, relation.n_samples),
        n_components=rank,
        tol=settings.tol,
        max_iter=settings.max_iter,
        anchors=anchors_from(step.anchors, len(Z)),
        seed=resources.seed,
        first_anchors=resources.sizes.first_anchors,
    )

    def components_of(L: Matrix) -> Matrix:
        """Over the columns of Z."""
        if not identity:
            return scale * (L if directions is None else directions @ L).T
        made = shortened(scale * around_identity(L, directions, Z.shape[1]), Z, weights, n_components)
        assert made is not None
        return made

    def observe(event: Event) -> bool:
        present = event.components
        return record.observer(replace(event, components=present and (lambda: components_of(present().T))))

    result = solve_joint(problem, options, observe=observe, resume=resume, keep=record.keep)
    state = result.L @ result.L.T if result.solver == "convex" else result.L
    return JointSolution(components_of(result.L), result, ridge, state)


def run_similarity(
    Z: Array,
    y: NDArray[Any],
    step: Any,
    sample_weight: NDArray[np.float64] | None = None,
    *,
    directions: Array | None = None,
) -> tuple[Similarity, TwoCovarianceModel]:
    """The two-covariance model as the estimator `step` says, on the features Z (N, D) of samples with labels y.

    `directions`: the principal ones of Z, at least as many as `step` asks for, where they are known.
    """
    mean, n = weighted_mean(Z, sample_weight), step.principal or Z.shape[1]
    if directions is None:
        directions = leading_directions(Z, n, mean, sample_weight)
    directions = directions[:, :n]
    _, classes = np.unique(y, return_inverse=True)
    model = fit_two_covariance(
        projected(Z, directions, mean),
        classes,
        shrinkage=step.shrinkage,
        prior_classes=step.prior_classes,
        max_iter=step.max_iter,
        tol=step.tol,
        sample_weight=sample_weight,
    )
    V, b = similarity_directions(model.between, model.within)
    n_between = int((b > NO_VARIANCE * b[0]).sum())  # without a prior of B at most K - 1 for K classes
    kept = slice(max(1, min(step.n_components or len(b), n_between)))
    over = (V * np.sqrt(b / (1 + 2 * b)))[:, kept]
    components = (directions.astype(np.float64) @ over).T
    shift = components @ mean + over.T @ model.mean
    dtype = Z.dtype
    return Similarity(components.astype(dtype), shift.astype(dtype), (1 / (1 + b[kept])).astype(dtype)), model


def warn_of_zero() -> None:
    warnings.warn(
        "The learned metric is zero: no distance on these features brings the classes apart, so every distance is 0. "
        "Check the labels, or give other features.",
        ConvergenceWarning,
        stacklevel=3,
    )


def convergence_message(step: str, result: Any) -> str:
    """What to do where a solver ended early."""
    gap = result.certificate.relative_gap
    return (
        f"{step} has not converged: after {result.n_iter} iterations the objective may be {gap:.2g} of itself above "
        "the optimum. Raise max_iter, or tol if this is close enough; a larger ridge makes the problem easier."
    )
