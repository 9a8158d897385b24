"""Both steps as one estimator."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from samekind.estimators.base import MetricLearner
from samekind.estimators.data import TrainingData
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import snapshots_for
from samekind.estimators.steps import (
    Settings,
    Step1,
    diagonal,
    finished_metric,
    intermediate_features,
    joined,
    joint_metric,
    metric_on_group_codes,
    orthonormal_basis,
    sparse_blocks,
)
from samekind.estimators.validation import (
    anchors_from,
    check_callback,
    check_choice,
    check_count,
    max_groups_from,
    ridge_from,
    search_from,
)
from samekind.kernels.lengths import NORMALISATIONS, Normalise
from samekind.kernels.spectral import Matrix
from samekind.losses.pairwise import Balance
from samekind.metric import Metric
from samekind.relation import Relation
from samekind.solvers.events import Event
from samekind.solvers.joint import JointResult
from samekind.store import FeatureStore
from samekind.store.groups import GroupSpec
from samekind.threads import single_threaded_blas


class EnsembleMetric(MetricLearner):
    """Ensemble metric learning: step 1 picks feature groups, step 2 learns one joint, low-rank metric on them.

    Parameters
    ----------
    feature_groups : int, sequence of columns, or mapping name -> columns
        As in `SparseBlockMetric`.
    families : None, sequence or mapping
        One label per feature group (or group name -> label): step 1 runs once per family, on its groups alone, and
        step 2 joins what all of them picked. None: the families of the store, or one family.
    max_groups : int or None
        Rounds of selection per family; as in `SparseBlockMetric`.
    n_components, solver, trace_bound
        Of step 2; as in `JointMetric`.
    ridge : "auto" or float
        "auto" is min(1, D / 1600), D being max_groups x mean group size in step 1 and the rank after step 1 in step 2;
        a number is taken for both.
    normalise_groups : "none", "root" or "unit"
        What becomes of the intermediate features of each group before step 2: as they are, or divided by (the square
        root of) their length, so that no group counts for too much where a sample is odd. The metric then keeps what
        step 1 made of each group, and has no `components_` over the features.
    search, anchors : as in `SparseBlockMetric` and `JointMetric`
        How step 1 looks for groups, and how many samples step 2 goes over.
    checkpoint : path or None
        As in `SparseBlockMetric`, for both steps.
    loss, threshold, pair_balance, beta, n_neighbors, whiten, normalise, score_norm, max_iter, tol, memory_budget,
    random_state, n_jobs, verbose, callback
        As in `SparseBlockMetric` and `JointMetric`, for both steps. A callback that returns True ends the running
        step; where that is step 1, step 2 is left out and the metric is that of step 1.

    Attributes
    ----------
    metric_ : Metric
        What was learned, to be saved and used without the estimator: it reads the selected columns only.
    components_ : array (n_components, n_features)
    selected_groups_ : array
        Distinct groups by number, in order of first choice, family after family; `selected_group_names_` has their
        names.
    step1_metric_ : Metric
        What step 1 alone would give.
    certificate_ : Certificate or None
        Of step 2; None where a callback ended the fit before it.
    converged_ : bool
    history_ : list of dict
        One record per round of step 1 ("step": "selection") and per iteration of step 2 ("step": "joint").
    objective_, objective_error_, ridge_ : float, float, tuple of float
        Of step 2; its standard error where it is of a sample, or else 0; the ridges of step 1 (the largest over
        families) and step 2.
    stopped_because_ : dict
        Family -> why its selection ended (None is the only family's name where there are none).
    threshold_, n_iter_, n_features_in_

    Notes
    -----
    `fit` takes no `sample_weight`; see `SparseBlockMetric`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from samekind import EnsembleMetric
    >>> X, y = load_digits(return_X_y=True)
    >>> model = EnsembleMetric(feature_groups=8, loss="triplet", max_groups=6, n_components=10, ridge=0.01)
    >>> model.fit(X[:300] / 16, y[:300]).transform(X / 16).shape
    (1797, 10)
    """

    def __init__(
        self,
        feature_groups: GroupSpec = 1,
        *,
        families: Sequence[Hashable] | Mapping[str, Hashable] | None = None,
        loss: Literal["pairwise", "triplet"] = "pairwise",
        max_groups: int | None = None,
        n_components: int | None = None,
        solver: Literal["auto", "convex", "factored"] = "auto",
        trace_bound: float | None = None,
        ridge: float | Literal["auto"] = "auto",
        threshold: float = 14.0,
        pair_balance: Balance = "equal",
        beta: float = 1e6,
        n_neighbors: int | None = None,
        whiten: int | Literal["auto"] | None = "auto",
        normalise: Normalise = "none",
        normalise_groups: Normalise = "none",
        score_norm: Literal["frobenius", "spectral"] = "frobenius",
        search: Literal["auto", "fast", "exact"] = "auto",
        anchors: int | Literal["auto", "all", "grow"] = "auto",
        max_iter: int = 500,
        tol: float = 1e-3,
        memory_budget: int | str = "1GB",
        random_state: int | np.random.RandomState | None = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], bool | None] | None = None,
    ):
        self.feature_groups = feature_groups
        self.families = families
        self.loss = loss
        self.max_groups = max_groups
        self.n_components = n_components
        self.solver = solver
        self.trace_bound = trace_bound
        self.ridge = ridge
        self.threshold = threshold
        self.pair_balance = pair_balance
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.whiten = whiten
        self.normalise = normalise
        self.normalise_groups = normalise_groups
        self.score_norm = score_norm
        self.search = search
        self.anchors = anchors
        self.max_iter = max_iter
        self.tol = tol
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: ArrayLike | FeatureStore, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """Learn from X, (n_samples, n_features) or a store of feature groups, and class labels y.

        `rows` (sample numbers or a mask) chooses samples to learn from without copying the others away.
        """
        X, y, rows = self._checked_data(X, y, rows)
        settings = Settings.of(self)
        check_choice("score_norm", self.score_norm, ["frobenius", "spectral"])
        check_choice("normalise_groups", self.normalise_groups, NORMALISATIONS)
        check_choice("solver", self.solver, ["auto", "convex", "factored"])
        check_callback(self.callback)
        search_from(self.search, 1)
        anchors_from(self.anchors, 1)
        if self.n_components is not None:
            check_count("n_components", self.n_components, self.n_features_in_, ", the number of features")
        data = TrainingData.of(X, y, rows, self.feature_groups)
        families, dims = data.families(self.families), data.whitened_dims(self.whiten)
        ridge_from(self.ridge, 1)
        for family, members in families.items():
            max_groups_from(self.max_groups, len(members), family)
        settings = settings.kept_in(snapshots_for(self, data, families))
        relation = Relation.from_labels(y)
        with Listeners(self.verbose, self.callback) as listeners, single_threaded_blas():
            data = data.whitened(dims)
            steps1 = self._select(data.store, relation, families, settings, listeners)
            factors = {k: L for step1 in steps1.values() for k, L in step1.result.metric.factors().items()}
            ridges = [max((step1.ridge for step1 in steps1.values()), default=0.0)]
            self.step1_metric_ = finished_metric(self, data, diagonal(factors), ridge=ridges)
            self.metric_, self.certificate_, self.converged_ = self.step1_metric_, None, False
            self.objective_ = sum(step1.result.objective for step1 in steps1.values())
            self.objective_error_ = 0.0
            if factors and not listeners.stopped:
                bases = {k: orthonormal_basis(L) for k, L in factors.items()}
                result, ridge = self._join(data.store, relation, bases, settings, listeners)
                ridges.append(ridge)
                self.metric_ = self._joined_metric(data, bases, result, ridge=ridges)
                self.certificate_, self.converged_ = result.certificate, result.converged
                self.objective_, self.objective_error_ = result.objective, result.objective_error
        self.selected_groups_ = np.array(list(factors), dtype=np.intp)
        self.selected_group_names_ = list(data.names(list(factors)))
        self.history_ = listeners.history
        self.ridge_ = tuple(ridges)
        self.stopped_because_ = {family: step1.result.stopped_because for family, step1 in steps1.items()}
        return self

    def _select(
        self,
        store: FeatureStore,
        relation: Relation,
        families: dict[Hashable, list[int]],
        settings: Settings,
        listeners: Listeners,
    ) -> dict[Hashable, Step1]:
        """Step 1, family after family, until a callback stops it."""
        steps1: dict[Hashable, Step1] = {}
        for number, (family, members) in enumerate(families.items()):
            if listeners.stopped:
                break
            steps1[family] = sparse_blocks(
                store,
                relation,
                settings,
                listeners,
                groups=members,
                max_groups=self.max_groups,
                ridge=self.ridge,
                norm=self.score_norm,
                search=self.search,
                family=family,
                number=number,
            )
        return steps1

    def _join(
        self,
        store: FeatureStore,
        relation: Relation,
        bases: dict[int, Matrix],
        settings: Settings,
        listeners: Listeners,
    ) -> tuple[JointResult, float]:
        """Step 2, on the intermediate features of all families."""
        Z = intermediate_features(store, bases, relation.order, self.normalise_groups)
        return joint_metric(
            Z,
            relation,
            settings,
            listeners,
            n_components=None if self.n_components is None else min(self.n_components, Z.shape[1]),
            ridge=self.ridge,
            trace_bound=self.trace_bound,
            solver=self.solver,
            anchors=self.anchors,
        )

    def _joined_metric(
        self, data: TrainingData, bases: dict[int, Matrix], result: JointResult, **notes: list[float]
    ) -> Metric:
        if self.normalise_groups == "none":
            return finished_metric(self, data, joined(bases, result.L), **notes)
        return metric_on_group_codes(self, data, bases, result.L, self.normalise_groups, **notes)
