"""What the benchmarks on LFW make of the distances of pairs: figures, and paired differences of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from samekind.evaluation import accuracy, best_threshold, roc_curve

Floats = NDArray[np.float32]


class Difference(NamedTuple):
    mean: float
    error: float  # standard error, both having judged the same pairs; pairs of one person are taken together

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}"


@dataclass(frozen=True, eq=False)
class Judged:
    """Distances of test pairs, and the threshold that is best on pairs to choose it from; all figures in percent."""

    distances: Floats
    same: NDArray[np.bool_]
    people: NDArray[Any]  # of each pair, one
    threshold: float

    def figures(self) -> dict[str, float]:
        roc = roc_curve(self.distances, self.same)
        return {
            "best": 100 * accuracy(self.distances, self.same, best_threshold(self.distances, self.same)),
            "chosen": 100 * accuracy(self.distances, self.same, self.threshold),
            "auc": 100 * roc.auc,
            "eer": 100 * roc.eer,
        }

    def accuracy_over(self, other: Judged) -> Difference:
        """Of accuracies, each at the best threshold for these pairs: which pairs does only one of the two get right?"""
        return _mean(100 * (self._right().astype(float) - other._right()), self.people)

    def auc_over(self, other: Judged) -> Difference:
        """Of areas under the ROC curve, after DeLong: by how often each pair is on the right side of the other kind."""
        (ours, theirs) = (each._sides() for each in (self, other))
        people = self.people[self.same], self.people[~self.same]
        parts = [_mean(100 * (mine - its), each) for mine, its, each in zip(ours, theirs, people, strict=True)]
        return Difference(parts[0].mean, float(np.hypot(parts[0].error, parts[1].error)))

    def _right(self) -> NDArray[np.bool_]:
        threshold = best_threshold(self.distances, self.same)
        return (self.distances.astype(np.float64) <= threshold) == self.same

    def _sides(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each same pair the share of the others that are farther; for each of these that of the nearer same."""
        same, others = self.distances[self.same], self.distances[~self.same]
        ranks = rankdata(np.concatenate([same, others]))
        nearer_others = (ranks[: len(same)] - rankdata(same)) / len(others)
        return 1 - nearer_others, (ranks[len(same) :] - rankdata(others)) / len(same)


def _mean(values: NDArray[np.float64], people: NDArray[Any]) -> Difference:
    """With the standard error of a mean over people drawn at random, each with all their pairs."""
    _, numbers = np.unique(people, return_inverse=True)
    deviations = np.bincount(numbers, weights=values - values.mean())
    n = len(deviations)
    return Difference(float(values.mean()), float(np.sqrt(n / (n - 1) * np.sum(deviations**2)) / len(values)))
