"""The two steps as functions of data and settings; the estimators put them together."""

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from samekind._version import __version__
from samekind.compute.executor import Executor
from samekind.compute.memory import parse_bytes
from samekind.estimators.data import TrainingData, codes_of
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import Record
from samekind.estimators.validation import (
    anchors_from,
    check_choice,
    check_count,
    check_number,
    loss_from,
    max_groups_from,
    ridge_from,
    search_from,
)
from samekind.evaluation.pairs import label_pairs, pair_distances
from samekind.evaluation.verification import best_threshold
from samekind.groupcodes import GroupCodes
from samekind.kernels.lengths import NORMALISATIONS, Normalise, normalised_blocks
from samekind.kernels.spectral import Matrix, Norm
from samekind.kernels.types import Array, IntArray
from samekind.losses import Loss
from samekind.metric import Metric
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.checkpoint import NoCheckpoint, Snapshot, Snapshots
from samekind.solvers.joint import JointResult, solve_joint
from samekind.solvers.jointproblem import JointProblem
from samekind.solvers.jointstate import JointState
from samekind.solvers.selection import SelectionResult, SelectionState, select_groups
from samekind.store import FeatureStore, centred, panels_of

MAX_THRESHOLD_PAIRS = 100_000


@dataclass(frozen=True)
class Settings:
    """What both steps share."""

    loss: Loss
    n_neighbors: int | None
    executor: Executor
    memory_budget: int
    tol: float
    max_iter: int
    seed: int
    snapshots: Snapshots

    @classmethod
    def of(cls, estimator: Any) -> "Settings":
        """The checked parameters of an estimator; a checkpoint comes with `kept_in`."""
        check_choice("normalise", estimator.normalise, NORMALISATIONS)
        n_neighbors = estimator.n_neighbors if estimator.loss == "triplet" else None
        return cls(
            loss_from(estimator.loss, estimator.threshold, estimator.pair_balance, estimator.beta),
            None if n_neighbors is None else check_count("n_neighbors", n_neighbors),
            Executor(estimator.n_jobs),
            parse_bytes(estimator.memory_budget),
            check_number("tol", estimator.tol, above=0),
            check_count("max_iter", estimator.max_iter),
            int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)),
            NoCheckpoint(),
        )

    def kept_in(self, snapshots: Snapshots) -> "Settings":
        """With a checkpoint; the seed is that of the fit that began it."""
        began = snapshots.load("fit")
        if began is None:
            snapshots.save("fit", Snapshot({}, {"seed": self.seed}))
        return replace(self, snapshots=snapshots, seed=self.seed if began is None else int(began.facts["seed"]))

    def objective(self, relation: Relation, panels: Iterable[Array], dtype: np.dtype[Any]) -> Objective:
        """The loss over all pairs; target neighbours, where asked for, in the space of `panels` (class order)."""
        if self.n_neighbors is not None:
            relation = relation.with_neighbors(panels, self.n_neighbors, self.memory_budget)
        return Objective.over(self.loss, relation, self.executor, self.memory_budget, dtype)


@dataclass(frozen=True)
class StorePanels:
    """The panels of some groups, to be gone through as often as needed."""

    store: FeatureStore
    groups: Sequence[int]
    rows: IntArray

    def __iter__(self) -> Iterator[Array]:
        for panel in panels_of(self.store, self.groups, self.rows):
            yield panel.Z


@dataclass(frozen=True)
class Step1:
    """Algorithm 1 on one family, and the ridge it used."""

    result: SelectionResult
    ridge: float


def sparse_blocks(
    store: FeatureStore,
    relation: Relation,
    settings: Settings,
    listeners: Listeners,
    *,
    groups: list[int],
    max_groups: Any,
    ridge: Any,
    norm: Norm,
    search: Any,
    family: Hashable | None = None,
    number: int = 0,
) -> Step1:
    """Step 1 on the groups of one family, the `number`th."""
    rounds = max_groups_from(max_groups, len(groups), family)
    strength = ridge_from(ridge, rounds * float(np.mean(store.group_sizes[groups])))
    panels = StorePanels(store, groups, relation.order)
    record = Record(settings.snapshots, f"step1-{number}", listeners, family)
    snapshot = record.recalled()
    result = select_groups(
        settings.objective(relation, panels, store.dtype),
        store,
        ridge=strength,
        max_groups=rounds,
        candidates=groups,
        norm=norm,
        search=search_from(search, len(groups)),
        tol=settings.tol,
        max_iter=settings.max_iter,
        seed=settings.seed,
        observe=record.observer,
        resume=None if snapshot is None else SelectionState.restored(snapshot.arrays, snapshot.facts),
        keep=record.keep,
    )
    return Step1(result, strength)


def joint_metric(
    Z: Array,
    relation: Relation,
    settings: Settings,
    listeners: Listeners,
    *,
    n_components: Any,
    ridge: Any,
    trace_bound: Any,
    solver: Any,
    anchors: Any,
) -> tuple[JointResult, float]:
    """Step 2 on Z (N, D) in class order, and the ridge it used."""
    Z = centred(Z)
    strength = ridge_from(ridge, Z.shape[1])
    bound = np.inf if trace_bound is None else check_number("trace_bound", trace_bound, above=0)
    problem = JointProblem(settings.objective(relation, [Z], Z.dtype), Z, strength, bound)
    record = Record(settings.snapshots, "step2", listeners, None)
    snapshot = record.recalled()
    result = solve_joint(
        problem,
        solver=solver,
        n_components=n_components,
        tol=settings.tol,
        max_iter=settings.max_iter,
        anchors=anchors_from(anchors, len(Z)),
        seed=settings.seed,
        observe=record.observer,
        resume=None if snapshot is None else JointState.restored(snapshot.arrays, snapshot.facts),
        keep=record.keep,
    )
    return result, strength


def orthonormal_basis(factor: Matrix) -> Matrix:
    """U of `A_k = U Lambda U^T` from a factor with orthogonal columns: L_dagger of Algorithm 1, line 8."""
    return factor / np.linalg.norm(factor, axis=0)


def intermediate_features(
    store: FeatureStore, bases: dict[int, Matrix], rows: IntArray, normalise_groups: Normalise = "none"
) -> Array:
    """U_dagger^T x of each sample, Algorithm 2, line 2: (len(rows), sum of the bases' columns).

    Where groups are normalised, from the mean of these samples.
    """
    Z = np.hstack([store.panel([k], rows) @ U.astype(store.dtype) for k, U in bases.items()])
    if normalise_groups == "none":
        return Z
    widths = np.array([U.shape[1] for U in bases.values()])
    return normalised_blocks(centred(Z), np.cumsum(widths) - widths, normalise_groups)


def diagonal(factors: dict[int, Matrix]) -> dict[int, Matrix]:
    """Factors of single groups as the blocks of one block diagonal factor: each with the columns of all."""
    widths = [factor.shape[1] for factor in factors.values()]
    placed = {}
    for (k, factor), end in zip(factors.items(), np.cumsum(widths), strict=True):
        placed[k] = np.zeros((len(factor), sum(widths)))
        placed[k][:, end - factor.shape[1] : end] = factor
    return placed


def joined(bases: dict[int, Matrix], L: Matrix) -> dict[int, Matrix]:
    """`U_k L_k`: a factor over the intermediate features, as one over the chosen groups."""
    parts = by_group(L, [U.shape[1] for U in bases.values()]).values()
    return {k: U @ part for (k, U), part in zip(bases.items(), parts, strict=True)}


def by_group(L: Matrix, sizes: Sequence[int] | IntArray) -> dict[int, Matrix]:
    """The rows of L that belong to each group."""
    return dict(enumerate(np.split(L, np.cumsum(sizes)[:-1])))


def finished_metric(estimator: Any, data: TrainingData, factors: dict[int, Matrix], **notes: Any) -> Metric:
    """Factors of the chosen groups, all of one width, as a Metric with a first threshold.

    A metric of rank 0 gets one component of zeros.
    """
    columns, L = data.over_columns(factors)
    if not L.shape[1]:
        _warn_of_zero()
        columns = columns if len(columns) else np.arange(1)
        L = np.zeros((len(columns), 1))
    return _metric(estimator, data, list(factors), columns, L, None, notes)


def metric_on_group_codes(
    estimator: Any, data: TrainingData, bases: dict[int, Matrix], L: Matrix, normalise: Normalise, **notes: Any
) -> Metric:
    """A factor over the normalised intermediate features of the chosen groups, as `finished_metric`."""
    if not L.shape[1]:
        _warn_of_zero()
        L = np.zeros((len(L), 1))
    return _metric(
        estimator, data, list(bases), data.columns_of(list(bases)), L, data.group_codes(bases, normalise), notes
    )


def _warn_of_zero() -> None:
    warnings.warn(
        "The learned metric is zero: no distance on these features brings the classes apart, so every distance is 0. "
        "Check the labels, or give other features.",
        ConvergenceWarning,
        stacklevel=4,
    )


def _metric(
    estimator: Any,
    data: TrainingData,
    chosen: list[int],
    columns: IntArray,
    L: Matrix,
    group_codes: GroupCodes | None,
    notes: dict[str, Any],
) -> Metric:
    metric = Metric(
        components=L.T.astype(data.dtype),
        columns=columns,
        n_features=data.n_features,
        groups=data.names(chosen),
        feature_names=getattr(estimator, "feature_names_in_", None),
        attributes={
            "samekind": __version__,
            "estimator": type(estimator).__name__,
            "loss": estimator.loss,
            **notes,
        },
        mean=_centre(estimator, data, chosen, columns, group_codes),
        extractor=data.extractor(chosen),
        normalise=estimator.normalise,
        group_codes=group_codes,
    )
    return metric.with_threshold(first_threshold(estimator, metric, data))


def _centre(
    estimator: Any, data: TrainingData, chosen: Sequence[int], columns: IntArray, group_codes: GroupCodes | None
) -> Array | None:
    """The mean that whitening took off; without whitening, that of the samples where lengths are to be measured."""
    mean = data.whitening_mean(chosen)
    measured = estimator.normalise != "none" or group_codes is not None
    return data.mean(columns) if mean is None and measured else mean


def first_threshold(estimator: Any, metric: Metric, data: TrainingData) -> float:
    """The pairwise loss brings its own, for codes as they are; else the best one on balanced training pairs."""
    if estimator.loss == "pairwise" and metric.normalise == "none":
        return float(estimator.threshold)
    pairs, same = label_pairs(data.y, max_pairs=MAX_THRESHOLD_PAIRS)
    return best_threshold(pair_distances(codes_of(data.X, data.rows, metric), pairs), same, strategy="balanced")
