"""Verification by folds: every fold is judged at a threshold that its own pairs had no part in.

Where a threshold comes from is part of the result. "view 1": from View 1's pairs. "training folds": for each fold, from
the pairs of all other folds. "given": one number for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_distances, check_far, check_labels, check_same, check_same_length
from samekind.evaluation.report import Table
from samekind.evaluation.verification import (
    RATES,
    FloatArray,
    RocCurve,
    Strategy,
    ThresholdSource,
    VerificationResult,
    best_threshold,
    roc_curve,
    verify,
)


@dataclass(frozen=True)
class FoldsResult:
    """One result for each fold, and `roc`, whose rates are the mean of the folds' rates at the same threshold."""

    folds: tuple[Any, ...]
    results: tuple[VerificationResult, ...] = field(repr=False)
    roc: RocCurve = field(repr=False, compare=False)

    @property
    def accuracies(self) -> FloatArray:
        return np.array([result.accuracy for result in self.results])

    @property
    def thresholds(self) -> FloatArray:
        return np.array([result.threshold for result in self.results])

    @property
    def threshold_source(self) -> ThresholdSource:
        return self.results[0].threshold_source

    @property
    def accuracy(self) -> float:
        """Mean over the folds."""
        return float(self.accuracies.mean())

    @property
    def standard_deviation(self) -> float:
        """Of the accuracy of a fold, with n - 1 below the sum; NaN of a single fold."""
        return float(self.accuracies.std(ddof=1)) if len(self.folds) > 1 else float("nan")

    @property
    def standard_error(self) -> float:
        """Of the mean accuracy: the standard deviation over the square root of the number of folds."""
        return self.standard_deviation / float(np.sqrt(len(self.folds)))

    @property
    def auc(self) -> float:
        return self.roc.auc

    @property
    def eer(self) -> float:
        return self.roc.eer

    @property
    def far(self) -> float:
        return self.results[0].far

    @property
    def true_match_rate(self) -> float:
        """At the mean false match rate `far`."""
        return self.roc.true_match_rate_at(self.far)

    def true_match_interval(self, far: float, *, level: float = 0.95, n_draws: int = 1000) -> tuple[float, float]:
        """Bootstrap interval over folds of the true match rate at the mean false match rate `far`.

        NaN of a single fold.
        """
        if len(self.folds) < 2:
            return float("nan"), float("nan")
        thresholds = np.unique(np.concatenate([result.roc.thresholds for result in self.results]))
        each = [_rates(result.roc, thresholds) for result in self.results]
        false, true = (np.array(rates) for rates in zip(*each, strict=True))
        n = len(self.folds)
        drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=n_draws) / n
        # Both rates rise with the threshold: the last one allowed has the highest true match rate.
        last = (drawn @ false <= check_far(far) + 1e-12).sum(axis=1) - 1
        found = (drawn @ true)[np.arange(n_draws), last]
        low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def __str__(self) -> str:
        return f"{100 * self.accuracy:.2f} ± {100 * self.standard_error:.2f} % (threshold: {self.threshold_source})"

    def table(self) -> Table:
        """A row for each fold."""
        columns = ["fold", "same pairs", "other pairs", "threshold", "accuracy (%)", "AUC", "EER (%)"]
        judged = zip(self.folds, self.results, strict=True)
        return Table(columns, [[fold, *_figures(result)] for fold, result in judged])


def verify_folds(
    distances: ArrayLike,
    same: ArrayLike,
    folds: ArrayLike,
    *,
    threshold: float | None = None,
    view1: tuple[ArrayLike, ArrayLike] | None = None,
    strategy: Literal["accuracy", "balanced", "logistic"] = "accuracy",
    tested: Sequence[Any] | None = None,
    far: float = 1e-3,
) -> FoldsResult:
    """Every fold's figures at a threshold from the training folds, from `view1` = (distances, same), or as given.

    Parameters
    ----------
    distances : (n_pairs,) or (n_folds, n_pairs)
        One metric's distance of each pair; or, for a metric learned for each fold, one row for each fold in the
        order of the sorted fold numbers: all pairs under the metric that was learned without that fold. A threshold
        from elsewhere needs of each row the fold's own pairs only, so that one row with those is enough.
    same : (n_pairs,)
        True for a pair of one kind.
    folds : (n_pairs,)
        The fold of each pair.
    strategy : "accuracy", "balanced" or "logistic"
        How thresholds are chosen, as `best_threshold` has it.
    tested : sequence of fold numbers or None
        The folds to judge, in rising order, where not all are; each row of `distances` is then of one of these. Pairs
        of the others still count among the training folds.
    """
    same, folds = check_same(same), check_labels(folds, "folds")
    present = np.unique(folds)
    _check_folds(same, folds, present)
    numbers = present if tested is None else _checked_tested(tested, present)
    rows = _row_for_each_fold(distances, len(numbers), len(same))
    source, fixed = _fixed_threshold(threshold, view1, strategy)
    results = []
    for number, row in zip(numbers, rows, strict=True):
        own = folds == number
        chosen = best_threshold(row[~own], same[~own], strategy=strategy) if fixed is None else fixed
        result = verify(row[own], same[own], threshold=chosen, far=far)
        results.append(replace(result, threshold_source=source))
    judged = np.isin(folds, numbers)
    roc = _mean_roc(rows[:, judged], same[judged], folds[judged], numbers)
    return FoldsResult(tuple(numbers.tolist()), tuple(results), roc)


def compare_folds(results: Mapping[str, FoldsResult]) -> Table:
    """A row for each result: mean accuracy, its standard error, and rates of the mean curve."""
    columns = ["", "threshold from", "accuracy (%)", "standard deviation", "standard error", "AUC", "EER (%)"]
    rows = [
        [
            name,
            result.threshold_source,
            *(100 * value for value in (result.accuracy, result.standard_deviation, result.standard_error)),
            result.auc,
            100 * result.eer,
            *(text for far in RATES for text in (100 * result.roc.true_match_rate_at(far), _interval(result, far))),
        ]
        for name, result in results.items()
    ]
    at = [column for far in RATES for column in (f"true match rate at {far:g} (%)", "95 % interval over folds")]
    return Table([*columns, *at], rows)


def _interval(result: FoldsResult, far: float) -> str:
    low, high = result.true_match_interval(far)
    return "–" if np.isnan(low) else f"{100 * low:.1f} to {100 * high:.1f}"


def _rates(roc: RocCurve, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """False and true match rates at some thresholds."""
    at = np.searchsorted(roc.thresholds, thresholds, side="right") - 1
    return roc.false_match_rate[at], roc.true_match_rate[at]


def _figures(result: VerificationResult) -> list[float]:
    counts = result.n_same, result.n_other
    return [*counts, result.threshold, 100 * result.accuracy, result.auc, 100 * result.eer]


def _fixed_threshold(
    threshold: float | None, view1: tuple[ArrayLike, ArrayLike] | None, strategy: Strategy
) -> tuple[ThresholdSource, float | None]:
    """Where the threshold comes from, and what it is if it is the same for all folds."""
    if threshold is not None and view1 is not None:
        raise ValueError("Give a threshold or view1, the pairs to choose it on, not both.")
    if view1 is not None:
        return "view 1", best_threshold(*view1, strategy=strategy)
    return ("training folds", None) if threshold is None else ("given", threshold)


def _row_for_each_fold(distances: ArrayLike, n_folds: int, n_pairs: int) -> NDArray[Any]:
    """(n_folds, n_pairs)."""
    array = np.asarray(distances)
    if array.shape not in ((n_pairs,), (n_folds, n_pairs)):
        raise ValueError(
            f"distances must be one for each pair, ({n_pairs},), or for each fold and pair, ({n_folds}, {n_pairs}); "
            f"got {array.shape}."
        )
    return np.broadcast_to(check_distances(array.ravel()).reshape(array.shape), (n_folds, n_pairs))


def _check_folds(same: NDArray[np.bool_], folds: NDArray[Any], numbers: NDArray[Any]) -> None:
    check_same_length(same, "same", folds, "folds")
    if len(numbers) < 2:
        raise ValueError(f"Two folds are needed at least, for a spread between them; got {len(numbers)}.")
    for number in numbers:
        n_same, n_pairs = np.count_nonzero(same[folds == number]), np.count_nonzero(folds == number)
        if n_same in (0, n_pairs):
            raise ValueError(f"Fold {number} has {n_same} same of {n_pairs} pairs. Give it at least one of each kind.")


def _checked_tested(tested: Sequence[Any], present: NDArray[Any]) -> NDArray[Any]:
    numbers = np.asarray(tested)
    if not len(numbers) or not np.isin(numbers, present).all() or not np.array_equal(numbers, np.unique(numbers)):
        raise ValueError(f"tested must be some of the folds {present.tolist()}, in rising order; got {list(tested)}.")
    return numbers


def _mean_roc(rows: NDArray[Any], same: NDArray[np.bool_], folds: NDArray[Any], numbers: NDArray[Any]) -> RocCurve:
    """The curve of every fold's own pairs, in which all folds weigh the same, whatever their size."""
    place = np.searchsorted(numbers, folds)
    own = rows[place, np.arange(len(same))]
    weights = np.empty(len(same))
    for kind in (same, ~same):
        counts = np.bincount(place[kind])
        # Folds of one size weigh exactly 1, so that rates such as 3 of 3,000 are not rounded past 1e-3.
        weights[kind] = (counts.max() / counts)[place[kind]]
    return roc_curve(own, same, weights)
