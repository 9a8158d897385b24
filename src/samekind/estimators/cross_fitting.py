"""Cross-fitting over classes: settings are chosen, and distances calibrated, on classes left out of the learning.

    CrossFitting.choose   each candidate on each fold  ->  the best of them
      Fold                step 1 on the other classes  ->  codes of the classes left out, under a candidate
    CrossFitting.codes_to_calibrate_on                 ->  the same codes, in the scale of the final metric

`tuning` says what a candidate is, how folds are made and which trial is the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from samekind.estimators.two_steps import TwoSteps
from samekind.estimators.use import codes_in_use, plain_score
from samekind.kernels.lengths import Normalise, normalised
from samekind.kernels.types import Array, IntArray
from samekind.model.basis import Basis
from samekind.model.metric import Metric

Split = tuple[IntArray, IntArray]  # places to learn from, places left out


class CrossFitting:
    """Candidates tried on classes left out."""

    def __init__(self, steps: TwoSteps, splits: Sequence[Split]):
        self.steps = steps
        self.splits = splits
        self.candidates = steps.candidates
        self.folds: list[Fold] = []
        self.trials: list[Trial] = []
        self.plain: list[tuple[float, float]] = []  # of each fold: AUC, mAP
        self._n_judged = 0

    def choose(self) -> tuple[Trial, LeftOut | None]:
        """What is to be learned on all classes, and the codes of classes left out that calibrate it."""
        folds = [Fold(self.steps, number, *split) for number, split in enumerate(self.splits, 1)]
        self.folds = [fold for fold in folds if fold.basis is not None]
        if not self.folds or self.steps.stopped:
            return Trial(self.candidates.by_rule(), self.candidates.normalise[0], np.nan, ()), None
        if n_paired_classes(self.steps.data.y) < FEWEST_TO_CHOOSE:
            only, self.trials = self._try(self.candidates.by_rule(), self.candidates.normalise[:1])
            return self.trials[0], only
        return self._best()

    def _best(self) -> tuple[Trial, LeftOut]:
        tried: dict[Candidate, LeftOut] = {}
        alone: list[Trial] = []
        for candidate in self.candidates.step1_alone():
            tried[candidate], trials = self._try(candidate, self.candidates.normalise)
            alone += trials
        self.trials = alone if self.candidates.may_skip_step2 else []
        for candidate in self.candidates.with_step2(best_of(alone).candidate):
            if self.steps.stopped:
                break
            tried[candidate], trials = self._try(candidate, self.candidates.normalise)
            self.trials += trials
        best = best_of(self.trials)
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

    @property
    def fallback(self) -> Basis | None:
        """What step 1 chose on a fold."""
        return next((fold.basis for fold in self.folds), None)

    def codes_to_calibrate_on(
        self, left_out: LeftOut, normalise: Normalise, final: Metric
    ) -> list[tuple[Array, NDArray[Any]]]:
        """Codes of the classes left out in each fold, in the scale of the final metric, normalised.

        The metric of a fold has a scale of its own: codes are brought to where the samples that each metric has learned
        from have the same root mean square length.
        """
        data, parts = self.steps.data, []
        length = root_mean_square(codes_in_use(replace(final, normalise="none"), data.X, data.rows))
        for (codes, labels), own in zip(left_out.parts, left_out.lengths, strict=True):
            parts.append((normalised(codes * codes.dtype.type(length / own), normalise), labels))
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

    def judge(self, candidate: Candidate, left_out: LeftOut) -> None:
        """Add the codes of the samples left out, as they would be used, not normalised."""
        assert self.basis is not None
        path = replace(candidate, ridge=None, times=1.0, n_components=None)
        key = (path, candidate.n_components if candidate.target == "zero" else None)
        learned = self.steps.go_on(self.basis, self.data, candidate, self.resources, self.start.get(key))
        if learned.joint is not None:
            self.start[key] = learned.joint.state
        codes, own = (codes_in_use(learned.metric, self.data.X, rows) for rows in (self.held, self.data.rows))
        left_out.add(codes, self.labels, root_mean_square(own))

    def plain_score(self) -> tuple[float, float]:
        return plain_score(self.data.X, self.held, self.labels, self.resources.memory_budget)


def root_mean_square(codes: Array) -> float:
    """Of the lengths of codes; 1 where all are zero."""
    return float(np.sqrt(np.mean(np.sum(codes.astype(np.float64) ** 2, axis=1)))) or 1.0
