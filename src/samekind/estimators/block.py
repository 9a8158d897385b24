"""Step 1 as an estimator."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from samekind.compute.executor import Executor
from samekind.estimators.base import MetricLearner
from samekind.estimators.data import TrainingData
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import snapshots_for
from samekind.estimators.steps import LossSettings, Resources, run_selection, warn_of_zero
from samekind.estimators.validation import (
    check_callback,
    check_choice,
    checked_groups,
    max_groups_from,
    ridge_from,
    search_from,
)
from samekind.events import Event
from samekind.kernels.lengths import NORMALISATIONS, Normalise
from samekind.losses.pairwise import Balance
from samekind.model.basis import Basis
from samekind.store import FeatureStore
from samekind.store.groups import GroupSpec
from samekind.threads import single_threaded_blas


class SparseBlockMetric(MetricLearner):
    """Sparse block diagonal metric: a few of many feature groups, each with a small metric of its own (Algorithm 1).

    Parameters
    ----------
    feature_groups : int, sequence of columns, or mapping name -> columns
        An int makes contiguous groups of that size (the last one smaller if need be); columns are index arrays or
        slices. Groups must not overlap, may be of any sizes, and need not cover all of X. A store brings its own.
    loss : "pairwise" or "triplet"
        Pairwise for verification (same or not), triplet for retrieval (nearer or not).
    max_groups : int, "auto" or None
        The paper's mu: rounds of selection. A group may be chosen again, so this bounds the number of distinct
        groups, and may be larger than theirs. None: as many as there are groups, 400 at the most. "auto": a sixth of
        the samples, from 20 to 200.
    ridge : "auto" or float
        Strength of ridge/2 ||A||_F^2. "auto" is min(1, D / 1600), D = max_groups x mean group size.
    threshold, pair_balance : float, "equal", "samples" or "literal"
        Of the pairwise loss: the squared distance that separates same-class from other-class pairs, and whether both
        kinds of pairs have half of the weight each or every pair the same. "samples" is "equal" with the weight of a
        class growing with its samples, not with its pairs.
    beta, n_neighbors : float, int or None
        Of the triplet loss: the margin is about ln(beta); only the `n_neighbors` nearest samples of its own class
        pull at a sample (None: all).
    min_per_class, max_per_class : int, int or None
        Classes with fewer samples are not learned from, and of each class only the first so many samples (None: all).
    whiten : "auto", bool, int or None
        Whiten each feature group on the samples to learn from, keeping that many of its directions at most; True: all
        that are not noise; False and None: none. "auto": for a store of descriptors 2 sqrt(n_samples), from 10 to the
        paper's 45; none for an array. The metric takes the features as they were before.
    normalise : "none", "root" or "unit"
        What becomes of the codes c of what was learned, measured from the mean of the samples to learn from: c,
        c / sqrt(||c||) or c / ||c||; see `Metric`. Learning does not depend on it.
    score_norm : "frobenius" or "spectral"
        How line 4 of Algorithm 1 measures a projected gradient.
    search : "auto", "fast" or "exact"
        "exact" scores every group over all pairs in each round and solves its block on all pairs, as the paper does.
        "fast" scores groups by a sketch of the weights, the leaders exactly, and solves blocks on samples of the pairs;
        `history_` records its errors. "auto": fast for more than 100 groups.
    max_iter, tol : int, float
        Of each round's block: iterations at most, and the relative distance from its optimum at which it ends.
    memory_budget : int or str
        Bytes for work over all pairs, beside the data themselves: "512MB", "2GiB".
    random_state : int, RandomState or None
        Of what is drawn: anchors and sketches of the fast search.
    checkpoint : path or None
        A folder to write to while fitting; a fit that was killed goes on from there when it is run again with the same
        data and parameters, and ends with the same metric.
    n_jobs : int or None
        Threads; None and -1 mean all cores. The result does not depend on it.
    verbose : int
        1 draws a progress bar.
    callback : function or None
        Called with an `Event` after each round; returning True ends the fit, and the estimator is usable.
    compute : executor or None
        Who computes: what `samekind.cluster` gives. None: the cluster around, if there is one, or else threads. The
        result does not depend on it.

    Attributes
    ----------
    metric_ : Metric
        What was learned, to be saved and used without the estimator.
    basis_ : Basis or None
        The chosen groups, their directions U_k and eigenvalues, for step 2; None where none was chosen.
    components_ : array (n_components, n_features)
    selected_groups_ : array
        Distinct groups by number, in order of first choice; `selected_group_names_` has their names.
    blocks_ : dict
        Group number -> its matrix A_k, over the whitened numbers of the group where it was whitened.
    history_ : list of dict
        One record per round: group, score, alpha, objective, rank; with the fast search also `sketched` (groups scored
        by the sketch), `rescored` (the best of these, scored exactly), `sketch_rank`, `sketch_missed` (share of the
        smooth part of the weights that the sketch misses), `sketch_error` (largest difference of the sketched and
        the exact scores, as a share of the best sketched one), `n_anchors` and `estimated_error` (of f, of the block
        solve on these anchors).
    objective_, ridge_, stopped_because_ : float, float, str
    threshold_, n_iter_, n_features_in_

    Notes
    -----
    `fit` takes no `sample_weight`: a weight of 2 would have to mean the sample twice, but a sample given twice
    forms a pair with itself at distance 0, which changes both losses in a way that no weighting of the other pairs
    does.
    """

    def __init__(
        self,
        feature_groups: GroupSpec = 1,
        *,
        loss: Literal["pairwise", "triplet"] = "pairwise",
        max_groups: int | Literal["auto"] | None = None,
        ridge: float | Literal["auto"] = "auto",
        threshold: float = 14.0,
        pair_balance: Balance = "equal",
        beta: float = 1e6,
        n_neighbors: int | None = None,
        min_per_class: int = 1,
        max_per_class: int | None = None,
        whiten: bool | int | Literal["auto"] | None = "auto",
        normalise: Normalise = "none",
        score_norm: Literal["frobenius", "spectral"] = "frobenius",
        search: Literal["auto", "fast", "exact"] = "auto",
        max_iter: int = 500,
        tol: float = 1e-3,
        memory_budget: int | str = "1GB",
        random_state: int | np.random.RandomState | None = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], bool | None] | None = None,
        compute: Executor | None = None,
    ):
        self.feature_groups = feature_groups
        self.loss = loss
        self.max_groups = max_groups
        self.ridge = ridge
        self.threshold = threshold
        self.pair_balance = pair_balance
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.min_per_class = min_per_class
        self.max_per_class = max_per_class
        self.whiten = whiten
        self.normalise = normalise
        self.score_norm = score_norm
        self.search = search
        self.max_iter = max_iter
        self.tol = tol
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.compute = compute

    def fit(
        self,
        X: ArrayLike | FeatureStore,
        y: ArrayLike,
        rows: ArrayLike | None = None,
        groups: Sequence[int] | None = None,
    ) -> Self:
        """Learn from X, (n_samples, n_features) or a store of feature groups, and class labels y.

        `rows` (sample numbers or a mask) chooses samples to learn from without copying the others away, `groups` the
        feature groups, by number, that may be chosen.
        """
        X, y, rows = self._checked_data(X, y, rows)
        self.check_settings()
        check_callback(self.callback)
        data = TrainingData.from_samples(X, y, rows, self.feature_groups)
        with Listeners(self.verbose, self.callback) as listeners, single_threaded_blas():
            resources = Resources.from_estimator(self, listeners).kept_in(
                snapshots_for(self, data, None if groups is None else {None: list(groups)})
            )
            made = run_selection(data, self, {None: checked_groups(groups, len(data.groups))}, resources)
        (result,) = made.results.values()
        self.basis_ = made.basis
        if made.basis is None:
            warn_of_zero()
            empty = Basis.plain(np.arange(1), data.n_features, mean=np.zeros(1))
            self.metric_ = self._metric(empty, np.zeros((1, 1), data.dtype), data, self.normalise, ridge=made.ridge)
        else:
            step1 = replace(made.basis, weigh=1.0)
            self.metric_ = self._metric(step1, None, data, self.normalise, ridge=made.ridge, loss=self.loss)
        self._set_threshold(data.X, data.rows, data.y)
        self.blocks_: dict[int, Any] = made.blocks
        self.selected_groups_ = np.array(made.groups, dtype=np.intp)
        self.selected_group_names_ = [data.groups.names[k] for k in made.groups]
        self.history_ = listeners.history
        self.objective_ = result.objective
        self.ridge_ = made.ridge
        self.stopped_because_ = result.stopped_because
        return self

    def check_settings(self) -> None:
        """The parameters that need no data to be checked."""
        LossSettings.from_estimator(self)
        check_choice("normalise", self.normalise, NORMALISATIONS)
        check_choice("score_norm", self.score_norm, ["frobenius", "spectral"])
        search_from(self.search, 1)
        ridge_from(self.ridge, 1)
        max_groups_from(self.max_groups, 1, 1)
