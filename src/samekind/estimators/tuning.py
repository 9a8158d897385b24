"""Settings chosen, and distances calibrated, on classes left out: cross-fitting over classes.

    for each fold of classes:  step 1 on the other classes  ->  codes of the classes left out, for each candidate
    the candidate with the best codes of unseen classes is chosen; the same codes calibrate its distances

A candidate says what lies between the steps and what step 2 is. Step 1 is learned once per fold; step 2 goes along a
path of ridges, each solution starting the next. What was tried, and how it did, is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from samekind.estimators.work_sizes import WorkSizes
from samekind.evaluation import verify_codes
from samekind.evaluation.pairs import Distance
from samekind.evaluation.query_figures import query_figures
from samekind.kernels.lengths import Normalise, normalised
from samekind.kernels.similarity import offset_distances
from samekind.kernels.types import Array, IntArray

Target = Literal["zero", "identity", "none"]
GroupsBy = Literal["none", "scale", "root", "unit"]
CompareBy = Literal["distance", "similarity", "sum"]

FEWEST_CLASSES = 4  # of two samples or more: below, none can be left out
FEWEST_TO_CHOOSE = 6  # with fewer classes the best candidate is one by chance; from here on there are three folds
LEFT_OUT = 0.2  # share of the classes in a single fold
CALIBRATED_ON = 3  # folds of that share that calibrate distances: the classes of one are too few for probabilities
NEGLIGIBLE = 0.002  # of the score: a simpler candidate that is worse by less is taken
JUDGED = 3_000  # samples left out that are judged at the most

PATH = (0.1, 0.001)  # ridges around step 1, largest first; over two decades they differ little
SHRINKAGES = (0.6, 0.3, 0.1)  # of the two-covariance model, largest first


@dataclass(frozen=True)
class Candidate:
    """One setting of what follows step 1."""

    normalise_groups: GroupsBy
    weigh: float
    target: Target  # of step 2's ridge; "none": step 1's own metric
    ridge: float | None = None  # None: the rule of thumb, `times` over
    times: float = 1.0
    n_components: int | None = None
    plain: bool = False  # whether plain distance over all features counts as much as step 1's metric
    compare_by: CompareBy = "distance"  # what codes are compared by: this metric, the two-covariance model, or both
    shrinkage: float | None = None  # of the two-covariance model; beside a distance, its directions are added to codes

    def __str__(self) -> str:
        if self.compare_by == "sum":
            metric = replace(self, compare_by="distance", shrinkage=None)
            return f"{metric}; and two-covariance model, shrinkage {self.shrinkage:g}"
        between = f"groups {self.normalise_groups}, weigh {self.weigh:g}"
        if self.compare_by == "similarity":
            return f"two-covariance model, shrinkage {self.shrinkage:g}, {between}"
        if self.shrinkage is not None:
            alone = replace(self, shrinkage=None)
            return f"{alone}; and directions of the two-covariance model, shrinkage {self.shrinkage:g}"
        if self.target == "none":
            return f"step 1 {'and plain distance' if self.plain else 'alone'}, {between}"
        ridge = f"{self.ridge:g}" if self.ridge is not None else "auto" if self.times == 1 else f"{self.times:g} x auto"
        rank = "" if self.n_components is None else f", {self.n_components} numbers"
        return f"step 2 towards {'0' if self.target == 'zero' else 'step 1'}, ridge {ridge}, {between}{rank}"


@dataclass(frozen=True)
class Trial:
    """A candidate with codes normalised in one way, judged on classes left out."""

    candidate: Candidate
    normalise: Normalise
    auc: float  # of pairs, mean over folds
    precisions: tuple[float, ...]  # average precision of each class left out, mean over its queries

    @property
    def mean_average_precision(self) -> float:
        """Mean over classes."""
        return float(np.mean(self.precisions))

    @property
    def score(self) -> float:
        """The criterion of the choice: the mean of AUC and mAP."""
        return (self.auc + self.mean_average_precision) / 2

    def record(self) -> dict[str, Any]:
        """A row for a history."""
        return {
            "step": "choice",
            "candidate": str(self.candidate),
            "normalise": self.normalise,
            "auc": self.auc,
            "mean_average_precision": self.mean_average_precision,
            "score": self.score,
        }


@dataclass
class LeftOut:
    """Codes of the classes left out in each fold under one candidate, not yet normalised, and figures of them."""

    candidate: Candidate
    normalisations: Sequence[Normalise]
    parts: list[tuple[Array, NDArray[Any]]] = field(default_factory=list)
    scales: list[float] = field(
        default_factory=list
    )  # of the samples that were learned from: see `cross_fitting.scale`
    _figures: list[list[tuple[float, NDArray[np.float64]]]] = field(default_factory=list)  # fold, normalisation

    def add(self, codes: Array, labels: NDArray[Any], scale: float) -> None:
        """Those of a fold, judged with each normalisation; with a similarity term they are normalised already."""
        self.parts.append((codes, labels))
        self.scales.append(scale)
        if self.candidate.compare_by == "distance":
            self._figures.append([_figures(normalised(codes, each), labels) for each in self.normalisations])
        else:
            self._figures.append([_figures(codes, labels, offset_distances)])

    def trials(self) -> list[Trial]:
        """One for each normalisation, over all folds."""
        made = []
        for normalise, folds in zip(self.normalisations, zip(*self._figures, strict=True), strict=True):
            aucs, precisions = zip(*folds, strict=True)
            made.append(
                Trial(self.candidate, normalise, float(np.mean(aucs)), tuple(np.concatenate(precisions).tolist()))
            )
        return made


def _figures(codes: Array, labels: NDArray[Any], distance: Distance | None = None) -> tuple[float, NDArray[np.float64]]:
    """AUC of pairs, and the average precision of each class, mean over its queries."""
    auc = verify_codes(codes, labels, distance=distance).auc
    figures = query_figures(codes, labels, distance=distance, n_neighbors=1)
    known = ~np.isnan(figures.average_precision)
    _, classes = np.unique(figures.classes[known], return_inverse=True)
    return auc, np.bincount(classes, figures.average_precision[known]) / np.bincount(classes)


def best_of(trials: Sequence[Trial]) -> Trial:
    """The first trial that is not clearly worse than the best one: candidates come simplest first.

    Clearly is by more than a standard error of the difference over classes (the one-standard-error rule of Breiman et
    al., 1984, for paired differences), and by more than `NEGLIGIBLE`.
    """
    best = max(trials, key=lambda trial: trial.score)
    return next(trial for trial in trials if best.score - trial.score <= _margin(best, trial))


def _margin(best: Trial, other: Trial) -> float:
    differences = np.subtract(best.precisions, other.precisions) / 2  # as they count in the score
    error = float(np.std(differences, ddof=1) / len(differences) ** 0.5) if len(differences) > 1 else 0.0
    return max(NEGLIGIBLE, error)


def class_folds(
    y: NDArray[Any], cv: Any, seed: int, many: int = WorkSizes.many_samples
) -> list[tuple[IntArray, IntArray]]:
    """(places to learn from, places left out) of each fold; none where there are too few classes.

    "auto": three folds, two where classes are few, one of a fifth of the classes where samples are more than
    `many`. An int: so many folds. A share: one fold of this share of the classes.
    """
    from samekind.evaluation import ClassKFold

    several = n_paired_classes(y)
    if cv is None or (isinstance(cv, str) and several < FEWEST_CLASSES):
        return []
    if isinstance(cv, str):
        cv = LEFT_OUT if len(y) > many else 3 if several >= FEWEST_TO_CHOOSE else 2
    if isinstance(cv, float):
        folds = ClassKFold(max(2, round(1 / cv)), random_state=seed).split(y, y)
        return [next(iter(folds))]
    return list(ClassKFold(cv, random_state=seed).split(y, y))


def more_folds(
    y: NDArray[Any], cv: Any, seed: int, many: int = WorkSizes.many_samples
) -> list[tuple[IntArray, IntArray]]:
    """Folds to calibrate on beside those of `class_folds`: where "auto" chooses on one fold of several."""
    from samekind.evaluation import ClassKFold

    if cv != "auto" or len(y) <= many or len(class_folds(y, cv, seed, many)) != 1:
        return []
    return list(ClassKFold(round(1 / LEFT_OUT), random_state=seed).split(y, y))[1:CALIBRATED_ON]


def n_paired_classes(y: NDArray[Any]) -> int:
    """Classes of two samples or more."""
    return int((np.unique(y, return_counts=True)[1] > 1).sum())


def judged_rows(held: IntArray, y: NDArray[Any], seed: int, most: int = JUDGED) -> IntArray:
    """Of the samples left out, those that are judged: of whole classes, at most so many."""
    if len(held) <= most:
        return held
    classes = np.random.RandomState(seed).permutation(np.unique(y[held]))
    counts = np.array([int((y[held] == each).sum()) for each in classes])
    kept = classes[: int(np.searchsorted(np.cumsum(counts), most))]
    return held[np.isin(y[held], kept)]
