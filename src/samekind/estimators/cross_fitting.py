"""Cross-fitting over classes: settings are chosen, and distances calibrated, on classes left out of the learning.

    CrossFitting.choose   each candidate on each fold  ->  the best of them
      Fold                step 1 on the other classes  ->  codes of the classes left out, under a candidate
    CrossFitting.add_folds   the best one on more folds
    CrossFitting.codes_to_calibrate_on                 ->  codes of all folds, in the scale of the final metric

`tuning` says what a candidate is, how folds are made and which trial is the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.estimators.data import TrainingData
from samekind.estimators.time_left import Stage
from samekind.estimators.tuning import (
    FEWEST_TO_CHOOSE,
    Candidate,
    LeftOut,
    Trial,
    best_of,
    judged_rows,
    n_paired_classes,
)
from samekind.estimators.two_steps import TwoSteps, between_classes, spread
from samekind.estimators.use import codes_in_use, plain_score
from samekind.kernels.lengths import Normalise, normalised
from samekind.kernels.types import Array, IntArray
from samekind.model.basis import Basis
from samekind.model.metric import Metric

Split = tuple[IntArray, IntArray]  # places to learn from, places left out


class CrossFitting:
    """Candidates tried on classes left out."""

    def __init__(self, steps: TwoSteps, splits: Sequence[Split], more: Sequence[Split] = ()):
        self.steps = steps
        self.splits = splits
        self.more = more  # folds used for the calibration only
        self.candidates = steps.candidates
        self.folds: list[Fold] = []
        self.trials: list[Trial] = []
        self.plain: list[tuple[float, float]] = []  # of each fold: AUC, mAP
        self._n_judged = 0

    def choose(self) -> tuple[Trial, LeftOut | None]:
        """What is to be learned on all classes, and the codes of classes left out that calibrate it."""
        folds = [Fold(self.steps, number, *split) for number, split in enumerate(self.splits, 1)]
        self.folds = [fold for fold in folds if fold.basis is not None]
        by_rule = self.candidates.by_rule()
        normalise: Normalise = "none" if by_rule.compare_by == "similarity" else self.candidates.normalise[0]
        if not self.folds or self.steps.stopped:
            return Trial(by_rule, normalise, np.nan, ()), None
        if n_paired_classes(self.steps.data.y) < FEWEST_TO_CHOOSE:
            only, self.trials = self._try(by_rule, [normalise])
            return self.trials[0], only
        return self._best()

    def _best(self) -> tuple[Trial, LeftOut]:
        comparisons = self.candidates.comparisons
        best = [] if comparisons == ("similarity",) else [self._best_metric()]
        if comparisons != ("distance",) and not self.steps.stopped:
            similar = [self._try(candidate, ["none"]) for candidate in self.candidates.with_similarity()]
            self.trials += [trial for _, trials in similar for trial in trials]
            alone = best_of([trial for _, trials in similar for trial in trials])
            metric = best[0][0] if best else None
            both = None if metric is None else self.candidates.summed(metric.candidate, alone.candidate)
            best = best if "distance" in comparisons else []
            if "similarity" in comparisons:
                best += [(alone, made) for made, _ in similar if made.candidate == alone.candidate]
            if both is not None and metric is not None:
                made, trials = self._try(both, [metric.normalise])
                self.trials += trials
                best.append((trials[0], made))
        chosen = best_of([trial for trial, _ in best])
        return next((trial, made) for trial, made in best if trial is chosen)

    def _best_metric(self) -> tuple[Trial, LeftOut]:
        """The best candidate among those that compare codes by a distance alone."""
        tried: dict[Candidate, LeftOut] = {}
        alone: list[Trial] = []
        for candidate in self.candidates.step1_alone():
            tried[candidate], trials = self._try(candidate, self.candidates.normalise)
            alone += trials
        self.trials = alone if self.candidates.may_skip_step2 else []
        free = all(fold.may_be_free for fold in self.folds)
        for candidate in self.candidates.with_step2(best_of(alone).candidate, free=free):
            if self.steps.stopped:
                break
            tried[candidate], trials = self._try(candidate, self.candidates.normalise)
            self.trials += trials
        best = best_of(self.trials)
        longer = self.candidates.with_directions(best.candidate)
        if longer is not None and not self.steps.stopped:
            tried[longer], trials = self._try(longer, self.candidates.normalise)
            self.trials += trials
            best = best_of([best, *trials])
        short = self.candidates.shortened(best.candidate)
        if short is not None:  # chosen unless clearly worse
            tried[short], trials = self._try(short, [best.normalise])
            self.trials += trials
            best = best_of([*trials, best])
        return best, tried[best.candidate]

    def _try(self, candidate: Candidate, normalisations: Sequence[Normalise]) -> tuple[LeftOut, list[Trial]]:
        made = LeftOut(candidate, normalisations)
        for fold in self.folds:
            self._n_judged += 1
            total = max(len(self.splits) * len(self.candidates.planned()), self._n_judged)
            self.steps.resources.listeners.begin(Stage("choice", fold.resources.part, None, 1.0, self._n_judged, total))
            if len(self.plain) < len(self.folds):
                self.plain.append(fold.plain_score())
            fold.judge(candidate, made)
        return made, made.trials()

    def add_folds(self, left_out: LeftOut | None) -> None:
        """Codes of the classes left out in more folds, under the candidate that was chosen."""
        if left_out is None:
            return
        for number, split in enumerate(self.more, len(self.splits) + 1):
            fold = Fold(self.steps, number, *split)
            if fold.basis is None or self.steps.stopped:
                return
            self.steps.resources.listeners.begin(Stage("calibration", fold.resources.part))
            fold.judge(left_out.candidate, left_out)

    @property
    def fallback(self) -> Basis | None:
        """The basis of step 1 on the first fold, for a fit that is stopped early."""
        return next((fold.basis for fold in self.folds), None)

    def codes_to_calibrate_on(
        self, left_out: LeftOut, normalise: Normalise, final: Metric
    ) -> list[tuple[Array, NDArray[Any]]]:
        """Codes of the classes left out in each fold, in the scale of the final metric, normalised.

        The metric of a fold has a scale of its own: codes are multiplied so that the samples that each metric has
        learned from have the same `scale`.
        """
        data, parts = self.steps.data, []
        if final.similarity is None:
            length = scale(replace(final, normalise="none"), data)
            for (codes, labels), own in zip(left_out.parts, left_out.scales, strict=True):
                parts.append((normalised(codes * codes.dtype.type(length / own), normalise), labels))
            return parts
        spread = scale(final, data)
        for (codes, labels), own in zip(left_out.parts, left_out.scales, strict=True):
            times = np.full(codes.shape[1], (spread / own) ** 0.5, codes.dtype)
            times[-1] = spread / own  # the number of a sample counts by itself, its vector by its square
            parts.append((codes * times, labels))
        return parts

    @property
    def beaten_by_plain(self) -> str | None:
        """What to say where plain distance is better on classes left out than every candidate."""
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


class Fold:
    """Some classes left out: step 1 on the others, and codes of those left out under candidates."""

    def __init__(self, steps: TwoSteps, number: int, places: IntArray, held: IntArray):
        self.steps = steps
        self.resources = steps.resources.on(f"fold {number}")
        self.data = steps.data.part(places)
        held = judged_rows(held, steps.data.y, steps.resources.seed)
        self.held, self.labels = steps.data.rows[held], steps.data.y[held]
        self.start: dict[Any, Any] = {}
        self.basis = None if steps.stopped else steps.select_groups(self.data, self.resources)

    @property
    def may_be_free(self) -> bool:
        assert self.basis is not None
        return self.steps.candidates.may_be_free(self.basis.n_codes, len(self.data.y))

    def judge(self, candidate: Candidate, left_out: LeftOut) -> None:
        """Add the codes of the samples left out, as they would be used; not normalised where only a distance counts."""
        assert self.basis is not None
        path = replace(candidate, ridge=None, times=1.0, n_components=None, compare_by="distance", shrinkage=None)
        key = (path, candidate.n_components if candidate.target == "zero" else None)
        learned = self.steps.go_on(
            self.basis,
            self.data,
            candidate,
            self.resources,
            normalise=left_out.normalisations[0],
            start=self.start.get(key),
        )
        if learned.joint is not None:
            self.start[key] = learned.joint.state
        held = codes_in_use(learned.metric, self.data.X, self.held)
        left_out.add(held, self.labels, scale(learned.metric, self.data))

    def plain_score(self) -> tuple[float, float]:
        groups = [k for members in self.steps.families.values() for k in members]
        return plain_score(self.data.X, sorted(groups), self.held, self.labels, self.resources.memory_budget)


def scale(metric: Metric, data: TrainingData) -> float:
    """Of the codes of samples to learn from: their root mean square length, or, with a similarity term, the mean
    distance of random pairs of different classes, or its standard deviation where the mean is not positive.

    A metric learned from fewer classes fits them more closely, and puts them farther apart. That shows in the mean of
    their distances more than in the standard deviation.
    """
    codes = codes_in_use(metric, data.X, data.rows)
    if metric.similarity is not None:
        mean = float(np.mean(between_classes(codes, data.y, metric.distance_function)))
        return mean if mean > 0 else spread(codes, data.y, metric.distance_function)
    return float(np.sqrt(np.mean(np.sum(codes.astype(np.float64) ** 2, axis=1)))) or 1.0
