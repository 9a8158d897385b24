"""Both steps as one estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from samekind.estimators.base import MetricLearner
from samekind.estimators.block import SparseBlockMetric
from samekind.estimators.data import TrainingData, is_store
from samekind.estimators.joint import JointMetric
from samekind.estimators.progress import Listeners, Stage
from samekind.estimators.resume import snapshots_for
from samekind.estimators.steps import (
    Joined,
    Resources,
    Selected,
    convergence_message,
    joined,
    limited,
    selected,
    shortened,
    stages_of_selection,
    warn_of_zero,
)
from samekind.estimators.tuning import (
    FEWEST_TO_CHOOSE,
    PATH,
    Candidate,
    GroupsBy,
    LeftOut,
    Target,
    Trial,
    best_of,
    class_folds,
    judged_rows,
    n_joined_classes,
)
from samekind.estimators.use import codes_in_use, groups_with_mirror, plain_score
from samekind.estimators.validation import check_callback, check_choice, check_count, check_cv, check_number, ridge_from
from samekind.kernels.lengths import Normalise, normalised
from samekind.kernels.types import MIRRORS, Array, IntArray, Mirror
from samekind.model.basis import Basis
from samekind.model.metric import Metric
from samekind.relation import Relation
from samekind.solvers.events import Event
from samekind.store import FeatureStore, centred
from samekind.store.groups import GroupSpec
from samekind.threads import single_threaded_blas

GROUPS = ("none", "scale", "root", "unit")
SHORT_CODE = 150  # numbers, as in the paper
PRINCIPAL = {"zero": 600, "identity": 300}  # directions that step 2 learns on at the most, by its ridge's target
MANY_SAMPLES = 2_000  # from so many on, fewer ridges are tried
GUESSED_ITERATIONS = 25  # of step 2, for the time left
JUDGING = 1_000.0  # flops of judging a candidate for each pair of samples, as a guess
FOLD_TOL, FOLD_ITERATIONS = 1e-2, 100  # of both steps, of step 2 on a fold: enough to choose by


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
        takes 150, or all where classes left out are told apart clearly better by longer codes.
    selection : SparseBlockMetric, Basis or None
        Step 1: its settings (`selection__ridge` and so on), a fitted one or its `basis_` to go on from, or None for the
        defaults. Its `memory_budget`, `random_state`, `checkpoint`, `n_jobs`, `verbose`, `callback` and `normalise` are
        not used: those of this estimator are.
    joint : JointMetric or None
        Step 2: its settings (`joint__ridge` and so on). With `target="auto"` and `ridge="auto"` they are chosen on
        classes left out: how strongly step 2 is held to step 1's metric (`"identity"`), a free joint metric of low rank
        (`"zero"`), or step 1 alone; without classes left out, step 1 alone unless a ridge
        is given.
    normalise_groups : "auto", "none", "scale", "root" or "unit"
        What becomes of the features of each group between the steps: as they are; divided by the square root of their
        root mean square length over the training samples; or divided by (the square root of) their length in
        each sample, so that no group counts for too much where a sample is odd. With "root" and "unit" the metric has
        no `components_` over the features. "auto": chosen on classes left out, or "none" ("unit" for pictures).
    weigh : "auto" or float
        Power of step 1's standard deviations, Lambda^(1/2), that features are multiplied by between the steps. 0: the
        paper's U^T x; 1: step 1's own codes. "auto": chosen on classes left out, or 0.5.
    principal : "auto", int or None
        Step 2 learns on so many principal directions of the features. "auto": 600, or 300 around step 1's metric, which
        stays as it is in all other directions. None: on all features.
    normalise : "auto", "none", "root" or "unit"
        What becomes of the codes, measured from the mean of the samples to learn from; see `Metric`. "auto": chosen on
        classes left out, or "none" ("root" for pictures).
    mirror : "none", "mean" or "distances"
        How the mirror image of a picture counts where a store of pictures is learned from; see `Metric`. Step 1 then
        chooses among the regions whose mirror image is in the store too.
    cv : "auto", int, float or None
        Cross-fitting over classes: settings that are "auto" are chosen, and `metric_.calibration` is learned, on
        classes that took no part in the learning of the metric that judges them. An int: so many folds of classes; a
        share: one fold; None: neither is done. "auto": three folds, one fold of a fifth of the classes for more than
        2,000 samples, none for fewer than four classes; for fewer than six nothing is chosen, only calibrated. What is
        returned is learned from all classes.
    memory_budget, random_state, checkpoint, n_jobs, verbose, callback
        As in `SparseBlockMetric`, for both steps. A callback that returns True ends the running step; where that is
        step 1, step 2 is left out and the metric is that of step 1, or of step 1 on a fold where nothing else is there.

    Attributes
    ----------
    metric_ : Metric
        What was learned, to be saved and used without the estimator: it reads the selected columns only.
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
    ):
        self.feature_groups = feature_groups
        self.families = families
        self.loss = loss
        self.max_groups = max_groups
        self.n_components = n_components
        self.selection = selection
        self.joint = joint
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

    def set_params(self, **params: Any) -> Self:
        """As of any estimator; `selection__...` and `joint__...` make the step where it is None."""
        for name, step in (("selection", SparseBlockMetric()), ("joint", JointMetric(target="auto"))):
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
        data = TrainingData.of(X, y, rows, self.feature_groups)
        families = self._families(data)
        with Listeners(self.verbose, self.callback) as listeners, single_threaded_blas():
            resources = Resources.of(self, listeners).kept_in(snapshots_for(self, data, families))
            learning = _Learning(self, data, families, resources)
            listeners.plan(learning.stages())
            chosen, left_out = learning.chosen()
            learned = learning.learned(chosen.candidate)
        if listeners.stopped and learned.joined is None:  # codes of another metric cannot calibrate that of step 1
            left_out = None
        self._keep(data, learning, learned, chosen, left_out)
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

    def step1(self) -> SparseBlockMetric:
        """Step 1 alone, with the settings that it has here."""
        shared = ("memory_budget", "random_state", "checkpoint", "n_jobs", "verbose", "callback")
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

    def _families(self, data: TrainingData) -> dict[Hashable, list[int]]:
        """The groups of each family that may be chosen."""
        families = data.families(self.families)
        if self.mirror == "none":
            return families
        usable = set(groups_with_mirror(data.X))
        left = {family: [k for k in members if k in usable] for family, members in families.items()}
        return {family: members for family, members in left.items() if members}

    def _keep(
        self, data: TrainingData, learning: _Learning, learned: _Learned, chosen: Trial, left_out: LeftOut | None
    ) -> None:
        """The fitted attributes."""
        step1, joint = learning.step1, learned.joined
        self.basis_ = learned.metric.basis
        self.step1_metric_ = learning.step1_metric()
        self.trials_ = learning.trials
        self.history_ = [*learning.resources.listeners.history, *(trial.record() for trial in learning.trials)]
        self.certificate_ = None if joint is None else joint.result.certificate
        self.converged_ = joint is None or joint.result.converged
        self.objective_ = step1.objective if joint is None else joint.result.objective
        self.objective_error_ = 0.0 if joint is None else joint.result.objective_error
        self.ridge_ = (step1.ridge, *(() if joint is None else (joint.ridge,)))
        self.selected_groups_ = np.array(step1.groups, dtype=np.intp)
        self.selected_group_names_ = list(learned.metric.groups)
        self.stopped_because_ = {family: result.stopped_because for family, result in step1.results.items()}
        self.metric_ = replace(learned.metric, normalise=chosen.normalise)
        self._warn(joint, learning)
        if left_out is None:
            self._set_threshold(data.X, data.rows, data.y)
        else:
            self._calibrate(learning.calibrating(left_out, chosen.normalise, self.metric_))

    def _warn(self, joint: Joined | None, learning: _Learning) -> None:
        if joint is not None and not joint.result.converged and not learning.resources.listeners.stopped:
            warnings.warn(convergence_message("Step 2", joint.result), ConvergenceWarning, stacklevel=4)
        asked = self._joint.n_components
        if isinstance(asked, int) and self.metric_.n_components < asked:
            warnings.warn(
                f"Codes have {self.metric_.n_components} numbers, fewer than the {asked} that were asked for: the "
                "samples and groups learned from show no more directions.",
                UserWarning,
                stacklevel=4,
            )
        beaten = learning.beaten_by_plain
        if beaten is not None:
            warnings.warn(beaten, UserWarning, stacklevel=4)


@dataclass
class _Learned:
    metric: Metric
    joined: Joined | None


class _Learning:
    """One fit: candidates, folds of classes left out, and the final fit on all."""

    def __init__(
        self,
        estimator: EnsembleMetric,
        data: TrainingData,
        families: dict[Hashable, list[int]],
        resources: Resources,
    ):
        self.estimator = estimator
        self.data = data
        self.families = families
        self.resources = resources
        self.trials: list[Trial] = []
        self.plain: list[tuple[float, float]] = []  # of each fold: AUC, mAP
        self.folds: list[_Fold] = []
        self.joint = estimator._joint
        self.rank: int | Literal["auto"] | None = self.joint.n_components
        self._step1: Selected | None = None
        self.splits = class_folds(data.y, estimator.cv, resources.seed)
        self.judged = 0

    def stages(self) -> list[Stage]:
        """All that is to be done, with estimates of the work."""
        given, step = self.estimator._given_basis(), self.estimator._selection
        stages: list[Stage] = []
        for number, (places, _) in enumerate(self.splits, 1):
            if given is None:
                stages += stages_of_selection(self.data.part(places), step, self.families, f"fold {number}")
        if self.splits:
            candidates = self._candidates()
            total = len(candidates) * len(self.splits)
            for number in range(total):
                at, fold = divmod(number, len(self.splits))
                n = len(self.splits[fold][0])
                work = self._work(candidates[at], n)
                stages.append(Stage("choice", f"fold {fold + 1}", None, work, number + 1, total))
        if given is None:
            stages += stages_of_selection(self.data, step, self.families, "")
        return [*stages, Stage("joint", work=self._work(self._by_rule(), len(self.data.y)))]

    def _candidates(self) -> list[Candidate]:
        """As many as will be tried, one or two aside; those of step 2 go on from the best of step 1."""
        firsts = self._firsts()
        return firsts + self._of_step2(firsts[0])

    def _work(self, candidate: Candidate, n: int) -> float:
        """Flops of going on from step 1 on n samples, roughly."""
        if candidate.target == "none":
            return JUDGING * n**2
        dims = min(self._principal(candidate.target) or n, n)
        return JUDGING * n**2 + GUESSED_ITERATIONS * (4 * n**2 * dims + 10 * dims**3)

    # Choosing

    def chosen(self) -> tuple[Trial, LeftOut | None]:
        """What is to be learned on all classes, and the codes of classes left out that calibrate it."""
        folds = self.splits
        if not folds or self.resources.listeners.stopped:
            return Trial(self._by_rule(), self._normalisations()[0], np.nan, ()), None
        parts = [_Fold(self, number, *fold) for number, fold in enumerate(folds, 1)]
        parts = self.folds = [part for part in parts if part.basis is not None]
        if not parts or self.resources.listeners.stopped:
            return Trial(self._by_rule(), self._normalisations()[0], np.nan, ()), None
        self.plain = [part.plain() for part in parts]
        if n_joined_classes(self.data.y) < FEWEST_TO_CHOOSE:
            only = self._judged(self._by_rule())
            self.trials = only.trials(self._normalisations()[:1])
            return self.trials[0], only
        tried: list[LeftOut] = []
        for candidate in self._firsts():
            tried.append(self._judged(candidate))
        bases = [trial for each in tried for trial in each.trials(self._normalisations())]
        base = best_of(bases).candidate
        self.trials = bases if self._may_skip_step2() else []
        for candidate in self._of_step2(base):
            if self.resources.listeners.stopped:
                break
            tried.append(self._judged(candidate))
            self.trials += tried[-1].trials(self._normalisations())
        best = best_of(self.trials)
        if self.rank == "auto" and best.candidate.n_components is None:
            best = self._shorter(best, tried)
        return best, next(each for each in tried if each.candidate == best.candidate)

    def _firsts(self) -> list[Candidate]:
        """Step 1 alone."""
        rank = self._rank()
        return [Candidate(by, weigh, "none", n_components=rank) for by in self._groups() for weigh in self._weighs()]

    def _shorter(self, best: Trial, tried: list[LeftOut]) -> Trial:
        """The same candidate with short codes, unless these are clearly worse."""
        tried.append(self._judged(replace(best.candidate, n_components=SHORT_CODE)))
        (short,) = tried[-1].trials([best.normalise])
        self.trials.append(short)
        return best_of([short, best])

    def _judged(self, candidate: Candidate) -> LeftOut:
        made = LeftOut(candidate)
        for fold in self.folds:
            self.judged += 1
            total = max(len(self.splits) * len(self._candidates()), self.judged)
            self.resources.listeners.begin(Stage("choice", fold.resources.part, None, 1.0, self.judged, total))
            fold.judge(candidate, made)
        return made

    def _by_rule(self) -> Candidate:
        """Where nothing can be left out."""
        groups, weigh = self._groups()[0], self._weighs()[0]
        ridge = None if self.joint.ridge == "auto" else self.joint.ridge
        by_ridge: Target = "none" if ridge is None else "identity"
        target: Target = by_ridge if self.joint.target == "auto" else self.joint.target
        return Candidate(groups, weigh, target, ridge, n_components=self._rank(target))

    def _groups(self) -> list[GroupsBy]:
        """What seems best before anything is tried comes first: regions of pictures may be covered."""
        given = self.estimator.normalise_groups
        if given != "auto":
            return [given]
        return ["unit", "scale", "none"] if is_store(self.data.X) else ["scale", "none", "unit"]

    def _weighs(self) -> list[float]:
        given = self.estimator.weigh
        return [0.5, 1.0, 0.0] if given == "auto" else [float(given)]

    def _normalisations(self) -> list[Normalise]:
        given, pictures = self.estimator.normalise, is_store(self.data.X)
        if given != "auto":
            return [given]
        if self.estimator.mirror == "distances":
            return ["none"]
        return ["root", "unit", "none"] if pictures else ["none", "root", "unit"]

    def _rank(self, target: str = "none") -> int | None:
        """How long codes may be."""
        asked = self.rank
        if asked == "auto" or (asked is None and target == "zero" and self.joint.target == "auto"):
            return SHORT_CODE if target == "zero" else None
        return asked

    def _may_skip_step2(self) -> bool:
        return bool(self.joint.target == "auto")

    def _of_step2(self, base: Candidate) -> list[Candidate]:
        """Along paths of ridges, the largest first; simpler ones first."""
        given, target = self.joint.ridge, self.joint.target
        many = len(self.data.y) > MANY_SAMPLES
        made: list[Candidate] = []
        if target in ("auto", "identity"):
            path = (PATH[1::2] if many else PATH) if given == "auto" else (given,)
            made += [replace(base, target="identity", ridge=ridge, n_components=self._rank()) for ridge in path]
        if target in ("auto", "zero"):
            ridges = [(None, 8.0), (None, 1.0)] if given == "auto" else [(given, 1.0)]
            # A free metric weighs regions itself: how they count in step 1's own metric says little about it.
            free = replace(base, normalise_groups=self._groups()[0], weigh=self._weighs()[0])
            made += [
                replace(free, target="zero", ridge=ridge, times=times, n_components=self._rank("zero"))
                for ridge, times in ridges
            ]
        return made

    # Learning

    @property
    def step1(self) -> Selected:
        assert self._step1 is not None
        return self._step1

    def learned(self, candidate: Candidate) -> _Learned:
        """Both steps on all samples."""
        given = self.estimator._given_basis()
        # Stopped while choosing: what a fold chose is better than nothing.
        if given is None and self.resources.listeners.stopped:
            given = next((fold.basis for fold in self.folds), None)
        if given is None:
            self._step1 = selected(self.data, self.estimator._selection, self.families, self.resources)
        else:
            numbers = {name: k for k, name in enumerate(self.data.groups.names)}
            self._step1 = Selected(given, [numbers[name] for name in given.groups if name in numbers], {}, {}, 0.0)
        if self._step1.basis is None:
            warn_of_zero()
            return _Learned(self.step1_metric(), None)
        if self.resources.listeners.stopped:
            candidate = Candidate("none", 1.0, "none", n_components=candidate.n_components)
        return self.continued(self._step1.basis, self.data, candidate, self.resources)

    def step1_metric(self) -> Metric:
        """What step 1 alone gives: zero where it chose nothing."""
        if self.step1.basis is None:
            empty = Basis.plain(np.arange(1), self.data.n_features, mean=np.zeros(1))
            return self.metric(empty, np.zeros((1, 1)), "none")
        return self.metric(replace(self.step1.basis, normalise="none", weigh=1.0), None, "none")

    def continued(
        self, basis: Basis, data: TrainingData, candidate: Candidate, resources: Resources, start: Any = None
    ) -> _Learned:
        """From a basis to a metric, on some samples."""
        step = clone(self.joint)
        if resources.part:  # a fold, to choose by
            step.set_params(tol=max(step.tol, FOLD_TOL), max_iter=min(step.max_iter, FOLD_ITERATIONS))
        places = limited(data.y, step.min_per_class, None)
        rows, y = data.rows[places], data.y[places]
        basis = between(basis, data.X, rows, candidate)
        relation = Relation.from_labels(y)
        if not resources.part:
            resources.listeners.begin(Stage("joint"))
        if candidate.target == "none":
            return _Learned(self.metric(basis, self._short(basis, data, rows, candidate), "none"), None)
        dims = min(self._principal(candidate.target) or basis.n_codes, basis.n_codes)
        by_rule = candidate.times * ridge_from("auto", dims, candidate.target == "identity")
        step.set_params(
            target=candidate.target,
            ridge=by_rule if candidate.ridge is None else candidate.ridge,
            n_components=None if candidate.n_components is None else min(candidate.n_components, basis.n_codes),
        )
        Z = basis.transform(data.X, rows[relation.order])
        made = joined(
            Z,
            relation,
            step,
            resources,
            name="step2" if not resources.part else f"step2-{candidate}",
            principal=self._principal(candidate.target),
            weights=basis.weights,
            start=start,
        )
        if not len(made.components):
            warn_of_zero()
            made = replace(made, components=np.zeros((1, basis.n_codes)))
        return _Learned(self.metric(basis, made.components, "none", ridge=[self._ridge1(), made.ridge]), made)

    def _short(self, basis: Basis, data: TrainingData, rows: IntArray, candidate: Candidate) -> Array | None:
        """Step 1's own codes, as short as asked for."""
        n = candidate.n_components
        if n is None or n >= basis.n_codes:
            return None
        return shortened(None, centred(basis.transform(data.X, rows)), basis.weights, n)

    def _principal(self, target: str) -> int | None:
        given = self.estimator.principal
        return PRINCIPAL[target] if given == "auto" else given

    def _ridge1(self) -> float:
        return 0.0 if self._step1 is None else self._step1.ridge

    def metric(self, basis: Basis, components: Array | None, normalise: Normalise, **notes: Any) -> Metric:
        dtype = self.data.dtype
        return self.estimator._metric(
            basis, None if components is None else components.astype(dtype), self.data, normalise, **notes
        )

    def calibrating(self, left_out: LeftOut, normalise: Normalise, final: Metric) -> list[tuple[Array, NDArray[Any]]]:
        """Codes of the classes left out in each fold, in the scale of the final metric, normalised.

        The metric of a fold has a scale of its own: codes are brought to where the samples that each metric has learned
        from have the same root mean square length.
        """
        parts = []
        length = root_mean_square(codes_in_use(replace(final, normalise="none"), self.data.X, self.data.rows))
        for (codes, labels), own in zip(left_out.parts, left_out.lengths, strict=True):
            parts.append((normalised(codes * codes.dtype.type(length / own), normalise), labels))
        return parts

    @property
    def beaten_by_plain(self) -> str | None:
        """What to say where plain distance tells classes left out apart better than all that was tried."""
        if not self.plain or not self.trials:
            return None
        auc, precision = np.mean(self.plain, axis=0)
        best = best_of(self.trials)
        if best.score >= (auc + precision) / 2:
            return None
        return (
            f"On classes left out, plain Euclidean distance of all features (AUC {auc:.3f}, mAP {precision:.3f}) is "
            f"better than what was learned (AUC {best.auc:.3f}, mAP {best.mean_average_precision:.3f}): with so few "
            "classes to learn from, use it, or add classes."
        )


class _Fold:
    """Some classes left out: step 1 on the others, and codes of those left out under candidates."""

    def __init__(self, learning: _Learning, number: int, places: IntArray, held: IntArray):
        self.learning = learning
        self.resources = learning.resources.on(f"fold {number}")
        self.data = learning.data.part(places)
        held = judged_rows(held, learning.data.y, learning.resources.seed)
        self.held, self.labels = learning.data.rows[held], learning.data.y[held]
        self.start: dict[Any, Any] = {}
        self.basis: Basis | None = None
        if not learning.resources.listeners.stopped:
            given = learning.estimator._given_basis()
            step = learning.estimator._selection
            step.set_params(tol=max(step.tol, FOLD_TOL))
            self.basis = given or selected(self.data, step, learning.families, self.resources).basis

    def judge(self, candidate: Candidate, left_out: LeftOut) -> None:
        """Codes of the samples left out, as they would be used, not normalised."""
        assert self.basis is not None
        path = replace(candidate, ridge=None, times=1.0, n_components=None)
        key = (path, candidate.n_components if candidate.target == "zero" else None)
        learned = self.learning.continued(self.basis, self.data, candidate, self.resources, self.start.get(key))
        if learned.joined is not None:
            self.start[key] = learned.joined.state
        codes, own = (codes_in_use(learned.metric, self.data.X, rows) for rows in (self.held, self.data.rows))
        left_out.parts.append((codes, self.labels))
        left_out.lengths.append(root_mean_square(own))

    def plain(self) -> tuple[float, float]:
        return plain_score(self.data.X, self.held, self.labels, self.resources.memory_budget)


def root_mean_square(codes: Array) -> float:
    """Of the lengths of codes; 1 where all are zero."""
    return float(np.sqrt(np.mean(np.sum(codes.astype(np.float64) ** 2, axis=1)))) or 1.0


def between(basis: Basis, X: Any, rows: IntArray, candidate: Candidate) -> Basis:
    """What step 2 learns on: groups normalised and features weighed as a candidate says."""
    if candidate.normalise_groups == "scale":
        return replace(basis, normalise="none", weigh=candidate.weigh).scaled(X, rows)
    return replace(basis, normalise=candidate.normalise_groups, weigh=candidate.weigh)
