"""Step 2 as an estimator."""

import warnings
from collections.abc import Callable
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from samekind.compute.executor import Executor
from samekind.estimators.base import MetricLearner
from samekind.estimators.data import TrainingData, is_store
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import snapshots_for
from samekind.estimators.steps import (
    LossSettings,
    Resources,
    convergence_message,
    limited,
    run_joint,
    warn_of_zero,
)
from samekind.estimators.validation import (
    anchors_from,
    check_callback,
    check_choice,
    check_count,
    ridge_from,
    trace_bound_from,
)
from samekind.events import Event
from samekind.kernels.lengths import NORMALISATIONS, Normalise
from samekind.losses.pairwise import Balance
from samekind.relation import Relation
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
    target : "auto", "zero" or "identity"
        The centre of the ridge: `ridge/2 ||A||^2`, as in the paper, or `ridge/2 ||A - I||^2` with the features scaled
        to fit the loss. A large ridge around the identity keeps Euclidean distance; the convex
        solver is used, and codes are as long as the features unless `n_components` cuts them to the directions in
        which they vary most. "auto": "zero".
    trace_bound : float or None
        The paper's nu: tr(A) at the most; lower values give lower rank. None and infinity: no bound.
    loss, threshold, pair_balance, beta, n_neighbors, min_per_class, normalise, memory_budget, n_jobs, verbose,
    callback, compute
        As in `SparseBlockMetric`.
    ridge : "auto" or float
        "auto": min(1, n_features / 1600) around zero, 0.1 around the identity.
    whiten : "auto", bool, int or None
        As in `SparseBlockMetric`; an array counts as one group.
    max_iter, tol : int, float
        Iterations at most, and the relative distance from the optimum at which the solver ends.
    anchors : "auto", "all", "grow" or int
        "all": every evaluation goes over all pairs. "grow": starts on the pairs of few random samples with all others,
        takes more as soon as progress is within their noise, and finishes on all; the convex solver takes all from the
        start. A number: stops at so many, with an estimated error (`objective_error_`). "auto": "grow" from 8,000
        samples on.
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
        of f. Where `n_anchors` is the number of samples, the objective is f over all pairs.
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
        target: Literal["auto", "zero", "identity"] = "zero",
        trace_bound: float | None = None,
        ridge: float | Literal["auto"] = "auto",
        threshold: float = 14.0,
        pair_balance: Balance = "equal",
        beta: float = 1e6,
        n_neighbors: int | None = None,
        min_per_class: int = 1,
        whiten: bool | int | Literal["auto"] | None = "auto",
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
        compute: Executor | None = None,
    ):
        self.n_components = n_components
        self.loss = loss
        self.solver = solver
        self.target = target
        self.trace_bound = trace_bound
        self.ridge = ridge
        self.threshold = threshold
        self.pair_balance = pair_balance
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.min_per_class = min_per_class
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
        self.compute = compute

    def fit(self, X: ArrayLike | FeatureStore, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """Learn from X, (n_samples, n_features) or a store, and class labels y; of some `rows`, or all.

        All features of a store are read into memory at once: for more than fit, `EnsembleMetric` picks groups first.
        """
        X, y, rows = self._checked_data(X, y, rows)
        self.check_settings()
        check_callback(self.callback)
        if self.n_components is not None:
            check_count("n_components", self.n_components, self.n_features_in_, ", the number of features")
        data = TrainingData.from_samples(X, y, rows, 1 if is_store(X) else [slice(None)])
        data = data.part(limited(data.y, self.min_per_class, None))
        relation = Relation.from_labels(data.y)
        with Listeners(self.verbose, self.callback) as listeners, single_threaded_blas():
            resources = Resources.from_estimator(self, listeners).kept_in(snapshots_for(self, data, None))
            data = data.whitened(data.whitened_dims(self.whiten), self.n_jobs, executor=resources.executor)
            made = run_joint(data.everything(relation.order, resources.memory_budget), relation, self, resources)
        result, components = made.result, made.components
        if not len(components):
            warn_of_zero()
            components = np.zeros((1, components.shape[1]))
        if not result.converged and not result.stopped:
            warnings.warn(convergence_message("The joint metric", result), ConvergenceWarning, stacklevel=2)
        self.metric_ = self._metric(
            data.plain_basis(), components.astype(data.dtype), data, self.normalise, ridge=made.ridge, loss=self.loss
        )
        self._set_threshold(data.X, data.rows, data.y)
        self.history_ = listeners.history
        self.certificate_ = result.certificate
        self.converged_ = result.converged
        self.solver_ = result.solver
        self.objective_ = result.objective
        self.objective_error_ = result.objective_error
        self.ridge_ = made.ridge
        return self

    def check_settings(self) -> None:
        """The parameters that need no data to be checked."""
        LossSettings.from_estimator(self)
        check_choice("normalise", self.normalise, NORMALISATIONS)
        check_choice("solver", self.solver, ["auto", "convex", "factored"])
        check_choice("target", self.target, ["auto", "zero", "identity"])
        anchors_from(self.anchors, 1)
        ridge_from(self.ridge, 1)
        trace_bound_from(self.trace_bound)
