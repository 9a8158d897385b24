"""Step 2 as an estimator."""

from collections.abc import Callable
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from samekind.estimators.base import MetricLearner
from samekind.estimators.data import TrainingData, is_store
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import snapshots_for
from samekind.estimators.steps import Settings, by_group, finished_metric, joint_metric
from samekind.estimators.validation import anchors_from, check_callback, check_choice, check_count, ridge_from
from samekind.kernels.lengths import Normalise
from samekind.losses.pairwise import Balance
from samekind.relation import Relation
from samekind.solvers.events import Event
from samekind.store import FeatureStore
from samekind.threads import single_threaded_blas


class JointMetric(MetricLearner):
    """One joint metric on all features, of low rank if asked for (Algorithm 2).

    Parameters
    ----------
    n_components : int or None
        Length of the codes, at the most: fewer come out where the optimum has a lower rank. The convex solver
        keeps the leading eigenvectors of its solution, as in the paper; the factored one optimises at this rank.
    solver : "auto", "convex" or "factored"
        "convex": projected quasi-Newton on A. "factored": L-BFGS on L, A = L L^T, whose rank grows until
        `certificate_` shows the convex optimum or `n_components` is reached. "auto" takes the cheaper one.
    trace_bound : float or None
        The paper's nu: tr(A) at the most; lower values give lower rank. None: no bound.
    loss, ridge, threshold, pair_balance, beta, n_neighbors, normalise, memory_budget, n_jobs, verbose, callback
        As in `SparseBlockMetric`; here "auto" makes the ridge min(1, n_features / 1600).
    whiten : "auto", int or None
        As in `SparseBlockMetric`; an array counts as one group.
    max_iter, tol : int, float
        Iterations at most, and the relative distance from the optimum at which the solver ends.
    anchors : "auto", "all", "grow" or int
        "all": every evaluation goes over all pairs. "grow": starts on the pairs of few random samples with all others,
        takes more as soon as progress is within their noise, and finishes on all. A number: stops at so many, with an
        estimated error (`objective_error_`). "auto": "grow" from 8,000 samples on.
    random_state : int, RandomState or None
        Draws anchors, and fills first columns of the factored solver where the gradient gives too few.
    checkpoint : path or None
        As in `SparseBlockMetric`.

    Attributes
    ----------
    metric_ : Metric
        What was learned, to be saved and used without the estimator.
    components_ : array (n_components, n_features)
        Ordered by falling length.
    certificate_ : Certificate
        How far f is from the convex optimum at the most: `gap`, `relative_gap`, `optimal`, `smallest_eigenvalue`.
    converged_ : bool
    solver_ : str
        Which solver "auto" took.
    history_ : list of dict
        One record per iteration, with `n_anchors` and, on samples, now and then `estimated_error`, the standard error
        of f. Samples that stand for all rows, being tilted, say what f over all rows is as they see it; where
        `n_anchors` is the number of samples, it is f itself.
    objective_error_ : float
        Standard error of `objective_`; 0 where it is over all pairs.
    objective_, ridge_, threshold_, n_iter_, n_features_in_

    Notes
    -----
    `fit` takes no `sample_weight`; see `SparseBlockMetric`.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        loss: Literal["pairwise", "triplet"] = "pairwise",
        solver: Literal["auto", "convex", "factored"] = "auto",
        trace_bound: float | None = None,
        ridge: float | Literal["auto"] = "auto",
        threshold: float = 14.0,
        pair_balance: Balance = "equal",
        beta: float = 1e6,
        n_neighbors: int | None = None,
        whiten: int | Literal["auto"] | None = "auto",
        normalise: Normalise = "none",
        max_iter: int = 500,
        tol: float = 1e-3,
        memory_budget: int | str = "1GB",
        anchors: int | Literal["auto", "all", "grow"] = "auto",
        random_state: int | np.random.RandomState | None = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], bool | None] | None = None,
    ):
        self.n_components = n_components
        self.loss = loss
        self.solver = solver
        self.trace_bound = trace_bound
        self.ridge = ridge
        self.threshold = threshold
        self.pair_balance = pair_balance
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.whiten = whiten
        self.normalise = normalise
        self.max_iter = max_iter
        self.tol = tol
        self.memory_budget = memory_budget
        self.anchors = anchors
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: ArrayLike | FeatureStore, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """Learn from X, (n_samples, n_features) or a store, and class labels y; of some `rows`, or all.

        All features of a store are read into memory at once: for more than fit, `EnsembleMetric` picks groups first.
        """
        X, y, rows = self._checked_data(X, y, rows)
        settings = Settings.of(self)
        check_choice("solver", self.solver, ["auto", "convex", "factored"])
        check_callback(self.callback)
        anchors_from(self.anchors, 1)
        if self.n_components is not None:
            check_count("n_components", self.n_components, self.n_features_in_, ", the number of features")
        data = TrainingData.of(X, y, rows, 1 if is_store(X) else [slice(None)])
        dims = data.whitened_dims(self.whiten)
        ridge_from(self.ridge, 1)
        settings = settings.kept_in(snapshots_for(self, data))
        relation = Relation.from_labels(y)
        with Listeners(self.verbose, self.callback) as listeners, single_threaded_blas():
            data = data.whitened(dims)
            Z = data.everything(relation.order, settings.memory_budget)
            result, ridge = joint_metric(
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
        self.metric_ = finished_metric(self, data, by_group(result.L, data.store.group_sizes), ridge=ridge)
        self.history_ = listeners.history
        self.certificate_ = result.certificate
        self.converged_ = result.converged
        self.solver_ = result.solver
        self.objective_ = result.objective
        self.objective_error_ = result.objective_error
        self.ridge_ = ridge
        return self
