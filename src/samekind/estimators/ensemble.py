"""Both steps as one estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from samekind.compute.executor import Executor
from samekind.compute.memory import parse_bytes
from samekind.estimators.base import MetricLearner
from samekind.estimators.block import SparseBlockMetric
from samekind.estimators.candidates import CandidateGrid
from samekind.estimators.cross_fitting import CrossFitting
from samekind.estimators.data import TrainingData
from samekind.estimators.joint import JointMetric
from samekind.estimators.progress import Listeners
from samekind.estimators.resume import snapshots_for
from samekind.estimators.schedule import stages_of_final_fit, stages_of_fit
from samekind.estimators.similarity import TwoCovariance
from samekind.estimators.steps import JointSolution, Resources, convergence_message
from samekind.estimators.time_left import Stage
from samekind.estimators.tuning import LeftOut, Trial, class_folds, more_folds
from samekind.estimators.two_steps import Learned, TwoSteps
from samekind.estimators.use import as_learned_from, copied_if_small, groups_with_mirror
from samekind.estimators.validation import check_callback, check_choice, check_count, check_cv, check_number
from samekind.events import Event
from samekind.kernels.lengths import Normalise
from samekind.kernels.types import MIRRORS, Mirror
from samekind.model.basis import Basis
from samekind.store import FeatureStore
from samekind.store.groups import GroupSpec
from samekind.threads import single_threaded_blas

GROUPS = ("none", "scale", "root", "unit")


class EnsembleMetric(MetricLearner):
    """Ensemble metric learning: step 1 picks feature groups, step 2 learns one joint metric on them.

    Parameters
    ----------
    feature_groups : int, sequence of columns, or mapping name -> columns
        As in `SparseBlockMetric`.
    families : None, sequence or mapping
        One label per feature group (or group name -> label): step 1 runs once per family, on its groups alone, and
        step 2 joins what all of them picked. None: the families of the store, or one family.
    loss, max_groups, n_components
        Of both steps, of step 1 (per family), of step 2; None: as `selection` and `joint` say. `n_components="auto"`
        takes 150, or all if longer codes are clearly better on classes left out.
    selection : SparseBlockMetric, Basis or None
        Step 1: its settings (`selection__ridge` and so on), a fitted one or its `basis_` to go on from, or None for the
        defaults. Its `memory_budget`, `random_state`, `checkpoint`, `n_jobs`, `verbose`, `callback`, `compute` and
        `normalise` are not used: those of this estimator are.
    joint : JointMetric or None
        Step 2: its settings (`joint__ridge` and so on). With `target="auto"` and `ridge="auto"` they are chosen on
        classes left out: how strongly step 2 is held to step 1's metric (`"identity"`), a free joint metric of low rank
        (`"zero"`), or step 1 alone; without classes left out, step 1 alone unless a ridge is given. Where
        `n_components` sets no length and codes are linear, directions of the two-covariance model may be added.
    compare_by : "distance", "similarity", "sum" or "auto"
        What codes are compared by: the squared distance that the steps learn; the two-covariance model on the features
        that step 1 leaves, in the place of step 2; the sum of both, in which the second counts twice as much and which
        share the length that `n_components` gives; or which of these is best on classes left out. All but "distance"
        give codes of a vector and a number (`Metric.split_codes`).
    similarity : TwoCovariance or None
        Settings of the two-covariance model (`similarity__shrinkage` and so on), None for the defaults. Its
        `n_components` is that of this estimator where it has none, or half of it in a sum; `shrinkage="auto"` is chosen
        on classes left out.
    normalise_groups : "auto", "none", "scale", "root" or "unit"
        What becomes of the features of each group between the steps: as they are; divided by the square root of their
        root mean square length over the training samples; or divided by (the square root of) their length in
        each sample, so that no group counts for too much where a sample is odd. With "root" and "unit" the metric has
        no `components_` over the features. "auto": chosen on classes left out, or "scale" ("unit" for pictures).
    weigh : "auto" or float
        Power of step 1's standard deviations, Lambda^(1/2), that features are multiplied by between the steps. 0: the
        paper's U^T x; 1: step 1's own codes. "auto": chosen on classes left out, or 0.5.
    principal : "auto", int or None
        Step 2 learns on so many principal directions of the features. "auto": 600, or 300 around step 1's metric, which
        stays as it is in all other directions. None: on all features.
    normalise : "auto", "none", "root" or "unit"
        What becomes of the codes, measured from the mean of the samples to learn from; see `Metric`. "auto": chosen on
        classes left out, or "none" ("root" for pictures, and where plain distance counts too: see `cv`).
    mirror : "none", "mean" or "distances"
        How the mirror image of a picture counts where a store of pictures is learned from; see `Metric`. Step 1 then
        chooses among the regions whose mirror image is in the store too. With "mean" all is learned from the means of
        pictures and their mirror images, in which both regions of a mirror pair say the same: one of them is enough.
    cv : "auto", int, float or None
        Cross-fitting over classes: settings that are "auto" are chosen, and `metric_.calibration` is learned, on
        classes that took no part in the learning of the metric that judges them. An int: so many folds of classes; a
        share: one fold; None: neither is done. "auto": three folds, none for fewer than four classes; with more than
        2,000 samples one fold of a fifth of the classes to choose on, and two more of that size to calibrate on. With
        fewer than six classes nothing is chosen, only calibrated, and on arrays the metric is the mean of step 1's and
        of plain Euclidean distance over all features, unless `max_groups`, `normalise_groups`, `weigh` or settings of
        step 2 are given. What is returned is learned from all classes.
    memory_budget, random_state, checkpoint, n_jobs, verbose, callback, compute
        As in `SparseBlockMetric`, for both steps. A callback that returns True ends the running step; where that is
        step 1, step 2 is left out and the metric is that of step 1, or of step 1 on a fold where nothing else is there.

    Attributes
    ----------
    metric_ : Metric
        What was learned, to be saved and used without the estimator: it reads the selected columns only, or all of
        them where plain distance counts too (see `cv`).
    components_ : array (n_components, n_features)
    basis_ : Basis
        What step 1 left: chosen groups and their directions, as step 2 learned on them.
    selected_groups_ : array
        Distinct groups by number, in order of first choice, family after family; `selected_group_names_` has their
        names.
    step1_metric_ : Metric
        What step 1 alone would give.
    trials_ : list of Trial
        What was tried on classes left out: candidate, AUC of pairs, mean average precision.
    certificate_ : Certificate or None
        Of step 2; None where there was none.
    converged_ : bool
    history_ : list of dict
        One record per round of step 1 ("step": "selection") and per iteration of step 2 ("step": "joint"), with "part"
        where it was on a fold, and one per trial ("step": "choice").
    objective_, objective_error_, ridge_ : float, float, tuple of float
        Of step 2; its standard error where it is of a sample, or else 0; the ridges of step 1 (the largest over
        families) and step 2.
    stopped_because_ : dict
        Family -> why its selection ended (None is the only family's name where there are none).
    threshold_, thresholds_, n_iter_, n_features_in_

    Notes
    -----
    `fit` takes no `sample_weight`; see `SparseBlockMetric`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from samekind import EnsembleMetric
    >>> X, y = load_digits(return_X_y=True)
    >>> model = EnsembleMetric(feature_groups=8, loss="triplet", max_groups=6, n_components=10)
    >>> model.fit(X[:300] / 16, y[:300]).transform(X / 16).shape
    (1797, 10)
    """

    def __init__(
        self,
        feature_groups: GroupSpec = 1,
        *,
        families: Sequence[Hashable] | Mapping[str, Hashable] | None = None,
        loss: Literal["pairwise", "triplet"] | None = None,
        max_groups: int | Literal["auto"] | None = None,
        n_components: int | Literal["auto"] | None = None,
        selection: SparseBlockMetric | Basis | None = None,
        joint: JointMetric | None = None,
        compare_by: Literal["distance", "similarity", "sum", "auto"] = "distance",
        similarity: TwoCovariance | None = None,
        normalise_groups: Literal["auto", "none", "scale", "root", "unit"] = "auto",
        weigh: float | Literal["auto"] = "auto",
        principal: int | Literal["auto"] | None = "auto",
        normalise: Normalise | Literal["auto"] = "auto",
        mirror: Mirror = "none",
        cv: int | float | Literal["auto"] | None = "auto",
        memory_budget: int | str = "1GB",
        random_state: int | np.random.RandomState | None = None,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], bool | None] | None = None,
        compute: Executor | None = None,
    ):
        self.feature_groups = feature_groups
        self.families = families
        self.loss = loss
        self.max_groups = max_groups
        self.n_components = n_components
        self.selection = selection
        self.joint = joint
        self.compare_by = compare_by
        self.similarity = similarity
        self.normalise_groups = normalise_groups
        self.weigh = weigh
        self.principal = principal
        self.normalise = normalise
        self.mirror = mirror
        self.cv = cv
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.compute = compute

    def set_params(self, **params: Any) -> Self:
        """As of any estimator; `selection__...`, `joint__...` and `similarity__...` make the step where it is None."""
        steps = (
            ("selection", SparseBlockMetric()),
            ("joint", JointMetric(target="auto")),
            ("similarity", _similarity()),
        )
        for name, step in steps:
            nested = any(key.startswith(f"{name}__") for key in params)
            if nested and getattr(self, name) is None and name not in params:
                setattr(self, name, step)
        return super().set_params(**params)

    def fit(self, X: ArrayLike | FeatureStore, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """Learn from X, (n_samples, n_features) or a store of feature groups, and class labels y.

        `rows` (sample numbers or a mask) chooses samples to learn from without copying the others away.
        """
        X, y, rows = self._checked_data(X, y, rows)
        self._check_parameters()
        X = copied_if_small(X, rows, int(parse_bytes(self.memory_budget) * self._work_sizes.copy_share))
        data = TrainingData.from_samples(as_learned_from(X, self.mirror), y, rows, self.feature_groups)
        families = self._families(data)
        with Listeners(self.verbose, self.callback) as listeners:
            with single_threaded_blas():
                resources = Resources.from_estimator(self, listeners).kept_in(snapshots_for(self, data, families))
                steps = TwoSteps(self, data, families, resources, CandidateGrid.from_estimator(self, data))
                many = resources.sizes.many_samples
                folds, more = (of(data.y, self.cv, resources.seed, many) for of in (class_folds, more_folds))
                fitting = CrossFitting(steps, folds, more)
                listeners.plan(stages_of_fit(steps, folds, more))
                chosen, left_out = fitting.choose()
                listeners.plan(stages_of_final_fit(steps, chosen.candidate, folds, more))
                fitting.add_folds(left_out)
                learned = steps.learn(chosen.candidate, chosen.normalise, fitting.fallback)
            listeners.begin(Stage("calibration"))
            if listeners.stopped and learned.joint is None:  # codes of another metric cannot calibrate that of step 1
                left_out = None
            self._keep(fitting, learned, chosen, left_out)
        return self

    @property
    def _selection(self) -> SparseBlockMetric:
        """Step 1's settings."""
        step = clone(self.selection) if isinstance(self.selection, SparseBlockMetric) else SparseBlockMetric()
        given = {"loss": self.loss, "max_groups": self.max_groups}
        return step.set_params(**{name: value for name, value in given.items() if value is not None})

    @property
    def _joint(self) -> JointMetric:
        """Step 2's settings; its `n_components` may be "auto" here."""
        step = JointMetric(target="auto") if self.joint is None else clone(self.joint)
        given = {"loss": self.loss, "n_components": self.n_components}
        return step.set_params(**{name: value for name, value in given.items() if value is not None})

    @property
    def _similarity(self) -> TwoCovariance:
        """The settings of the two-covariance model."""
        return _similarity() if self.similarity is None else clone(self.similarity)

    def step1(self) -> SparseBlockMetric:
        """Step 1 alone, with the settings that it has here."""
        shared = ("memory_budget", "random_state", "checkpoint", "n_jobs", "verbose", "callback", "compute")
        return self._selection.set_params(**{name: getattr(self, name) for name in shared})

    def _given_basis(self) -> Basis | None:
        """That of a step 1 that was learned before."""
        if isinstance(self.selection, Basis):
            return self.selection
        return getattr(self.selection, "basis_", None)

    def _check_parameters(self) -> None:
        if not isinstance(self.selection, SparseBlockMetric | Basis | None):
            raise ValueError(f"selection={self.selection!r} must be a SparseBlockMetric, a Basis or None.")
        if not isinstance(self.joint, JointMetric | None):
            raise ValueError(f"joint={self.joint!r} must be a JointMetric or None.")
        if not isinstance(self.similarity, TwoCovariance | None):
            raise ValueError(f"similarity={self.similarity!r} must be a TwoCovariance or None.")
        check_choice("compare_by", self.compare_by, ["distance", "similarity", "sum", "auto"])
        if self.compare_by in ("similarity", "sum") and self.mirror == "distances":
            raise ValueError(f'compare_by={self.compare_by!r} takes mirror="none" or "mean", not "distances".')
        check_choice("normalise_groups", self.normalise_groups, ["auto", *GROUPS])
        check_choice("normalise", self.normalise, ["auto", "none", "root", "unit"])
        check_choice("mirror", self.mirror, MIRRORS)
        if self.weigh != "auto":
            check_number("weigh", self.weigh, at_least=0)
        if self.principal is not None and self.principal != "auto":
            check_count("principal", self.principal)
        if self.n_components is not None and self.n_components != "auto":
            check_count("n_components", self.n_components)
        check_cv(self.cv)
        check_callback(self.callback)
        self._selection.check_settings()
        self._joint.set_params(n_components=None).check_settings()
        self._similarity.check_settings()

    def _families(self, data: TrainingData) -> dict[Hashable, list[int]]:
        """The groups of each family that may be chosen."""
        families = data.families(self.families)
        if self.mirror == "none":
            return families
        usable = set(groups_with_mirror(data.X, self.mirror))
        left = {family: [k for k in members if k in usable] for family, members in families.items()}
        return {family: members for family, members in left.items() if members}

    def _keep(self, fitting: CrossFitting, learned: Learned, chosen: Trial, left_out: LeftOut | None) -> None:
        """The fitted attributes."""
        steps, joint = fitting.steps, learned.joint
        step1 = steps.selection
        assert step1 is not None
        self.basis_ = learned.metric.basis
        self.step1_metric_ = steps.step1_metric(step1)
        self.trials_ = fitting.trials
        self.history_ = [*steps.resources.listeners.history, *(trial.record() for trial in fitting.trials)]
        self.certificate_ = None if joint is None else joint.result.certificate
        self.converged_ = joint is None or joint.result.converged
        self.objective_ = step1.objective if joint is None else joint.result.objective
        self.objective_error_ = 0.0 if joint is None else joint.result.objective_error
        self.ridge_ = (step1.ridge, *(() if joint is None else (joint.ridge,)))
        self.selected_groups_ = np.array(step1.groups, dtype=np.intp)
        self.selected_group_names_ = [] if step1.basis is None else list(step1.basis.groups)
        self.stopped_because_ = {family: result.stopped_because for family, result in step1.results.items()}
        self.metric_ = replace(learned.metric, normalise=chosen.normalise)
        self._warn(joint, fitting)
        if left_out is None:
            data = steps.data
            self._set_threshold(data.X, data.rows, data.y)
        else:
            self._calibrate(fitting.codes_to_calibrate_on(left_out, chosen.normalise, self.metric_))

    def _warn(self, joint: JointSolution | None, fitting: CrossFitting) -> None:
        if joint is not None and not joint.result.converged and not fitting.steps.stopped:
            warnings.warn(convergence_message("Step 2", joint.result), ConvergenceWarning, stacklevel=4)
        asked = self._joint.n_components
        similarity, length = self.metric_.similarity, self.metric_.n_distance_components
        if similarity is not None:
            length += len(similarity.components)
        if isinstance(asked, int) and length < asked:
            warnings.warn(
                f"Codes have {length} numbers, fewer than the {asked} that were asked for: the "
                "samples and groups learned from show no more directions.",
                UserWarning,
                stacklevel=4,
            )
        beaten = fitting.beaten_by_plain
        if beaten is not None:
            warnings.warn(beaten, UserWarning, stacklevel=4)


def _similarity() -> TwoCovariance:
    """The settings that it has without any."""
    return TwoCovariance(shrinkage="auto")
