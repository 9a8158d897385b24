"""Verification: is a pair of one kind, judged by its distance alone?

Distances are squared Euclidean, small for the same kind; `same` is boolean, True for a same-class pair. A
pair is called same when distance <= threshold. A false match is an other-class pair called same.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_codes, check_far, check_labels, check_pairs, check_same_length
from samekind.evaluation.pairs import Distance, label_pairs, pair_distances

Strategy = Literal["accuracy", "balanced", "logistic", "far"]
ThresholdSource = Literal["given", "these pairs", "view 1", "training folds", "training pairs"]
FloatArray = NDArray[np.float64]

RATES = (1e-2, 1e-3)  # false match rates that tables have true match rates at


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Rates at rising thresholds, from (0, 0) at threshold -inf, where no pair is called same, to (1, 1)."""

    false_match_rate: FloatArray
    true_match_rate: FloatArray
    thresholds: FloatArray

    @property
    def auc(self) -> float:
        """Area under the curve: the chance that a same-class pair is the closer one, ties counted half."""
        heights = (self.true_match_rate[1:] + self.true_match_rate[:-1]) / 2
        return float(np.diff(self.false_match_rate) @ heights)

    @property
    def eer(self) -> float:
        """The false match rate that equals 1 - true match rate, on the line between the nearest points."""
        return float(np.interp(0.0, self.false_match_rate + self.true_match_rate - 1, self.false_match_rate))

    def true_match_rate_at(self, far: float) -> float:
        """The highest true match rate of a threshold whose false match rate is at most `far`."""
        allowed = self.false_match_rate <= check_far(far)
        return float(np.max(self.true_match_rate[allowed], initial=0.0))


@dataclass(frozen=True)
class VerificationResult:
    """`true_match_rate` is the one at false match rate `far`; `accuracy` is the one at `threshold`."""

    accuracy: float
    threshold: float
    threshold_source: ThresholdSource
    auc: float
    eer: float
    true_match_rate: float
    far: float
    n_same: int
    n_other: int
    roc: RocCurve = field(repr=False, compare=False)


def roc_curve(distances: ArrayLike, same: ArrayLike, weights: ArrayLike | None = None) -> RocCurve:
    """True against false match rate at every distinct distance; each pair counts by its weight, or as one."""
    distances, same = check_pairs(distances, same)
    weights = np.ones(len(same)) if weights is None else _check_weights(weights, same)
    values, matches, false_matches = _cumulate(distances, same, weights)
    return RocCurve(
        false_match_rate=np.concatenate([[0.0], false_matches / false_matches[-1]]),
        true_match_rate=np.concatenate([[0.0], matches / matches[-1]]),
        thresholds=np.concatenate([[-np.inf], values]),
    )


def accuracy(distances: ArrayLike, same: ArrayLike, threshold: float) -> float:
    """Share of the pairs that are called what they are."""
    distances, same = check_pairs(distances, same)
    # In float64, or a threshold would be rounded to the distances' precision before the comparison.
    return float(np.mean((distances.astype(np.float64) <= _check_threshold(threshold)) == same))


def best_threshold(
    distances: ArrayLike, same: ArrayLike, *, strategy: Strategy = "accuracy", far: float | None = None
) -> float:
    """The threshold, midway between neighbouring distances, that does best on these pairs.

    "accuracy": highest accuracy; "balanced": highest mean of true match and true non-match rate (of equally
    good thresholds, the smallest); "far": the largest threshold with a false match rate of at most `far`.

    "logistic" does not do best on these pairs, but better on others like them where these are few: the distance at
    which a logistic regression, both kinds weighing the same, finds either as likely. Where small distances do not
    speak for the same kind, it is that of "balanced".
    """
    distances, same = check_pairs(distances, same)
    if strategy == "logistic":
        even = _even_odds(distances.astype(np.float64), same)
        if even is None:
            return best_threshold(distances, same, strategy="balanced")
        return float(distances.dtype.type(even))  # so that comparisons in that precision and in float64 agree
    values, matches, false_matches = _cumulate(distances, same, np.ones(len(same), dtype=np.int64))
    matches, false_matches = np.insert(matches, 0, 0), np.insert(false_matches, 0, 0)
    n_same, n_other = int(matches[-1]), int(false_matches[-1])
    # Whole numbers throughout, so that equally good thresholds compare equal.
    if strategy == "accuracy":
        cut = int(np.argmax(matches - false_matches))
    elif strategy == "balanced":
        cut = int(np.argmax(matches * n_other - false_matches * n_same))
    elif strategy == "far":
        cut = int(np.flatnonzero(false_matches / n_other <= _required_far(far))[-1])
    else:
        raise ValueError(f"strategy must be 'accuracy', 'balanced', 'logistic' or 'far'; got {strategy!r}.")
    return _threshold_at(values, cut)


def verify(
    distances: ArrayLike, same: ArrayLike, *, threshold: float | None = None, far: float = 1e-3
) -> VerificationResult:
    """All figures at once; without a threshold, at the best balanced one of these very pairs."""
    roc = roc_curve(distances, same)
    chosen = best_threshold(distances, same, strategy="balanced") if threshold is None else threshold
    n_same = int(np.count_nonzero(same))
    return VerificationResult(
        accuracy=accuracy(distances, same, chosen),
        threshold=float(chosen),
        threshold_source="these pairs" if threshold is None else "given",
        auc=roc.auc,
        eer=roc.eer,
        true_match_rate=roc.true_match_rate_at(far),
        far=float(far),
        n_same=n_same,
        n_other=np.size(same) - n_same,
        roc=roc,
    )


def verify_codes(
    codes: ArrayLike,
    labels: ArrayLike,
    *,
    threshold: float | None = None,
    far: float = 1e-3,
    max_pairs: int = 200_000,
    distance: Distance | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> VerificationResult:
    """`verify` on equal numbers of same-class and other-class pairs of these codes.

    Distances are squared Euclidean, or what `distance` makes of two arrays of codes, row by row.
    """
    codes, labels = check_codes(codes), check_labels(labels)
    check_same_length(codes, "codes", labels, "labels")
    pairs, same = label_pairs(labels, max_pairs=max_pairs, random_state=random_state)
    return verify(pair_distances(codes, pairs, distance=distance), same, threshold=threshold, far=far)


def _even_odds(distances: FloatArray, same: NDArray[np.bool_]) -> float | None:
    """The distance of even odds; None where odds do not fall with the distance."""
    from sklearn.linear_model import LogisticRegression

    middle, spread = distances.mean(), distances.std()
    if not spread > 0:
        return None
    standardised = ((distances - middle) / spread)[:, np.newaxis]
    # Hardly any penalty: just enough for kinds that do not overlap.
    model = LogisticRegression(C=1e4, class_weight="balanced", solver="newton-cholesky", tol=1e-8)
    model.fit(standardised, same)
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    return float(middle - spread * intercept / slope) if slope < 0 else None


def _cumulate(
    distances: NDArray[Any], same: NDArray[np.bool_], weights: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Distinct distances in order, and the weight of same and of other pairs at or below each."""
    order = np.argsort(distances, kind="stable")
    ordered = distances[order]
    last_of_equals = np.append(ordered[1:] != ordered[:-1], True)
    matches = np.cumsum(np.where(same, weights, 0)[order])
    false_matches = np.cumsum(np.where(same, 0, weights)[order])
    return ordered[last_of_equals], matches[last_of_equals], false_matches[last_of_equals]


def _threshold_at(values: NDArray[Any], cut: int) -> float:
    """Midway between the `cut` smallest of the distinct values and the next one, in their own precision."""
    if cut == 0:
        return float(np.nextafter(values[0], -np.inf, dtype=values.dtype))
    below = values[cut - 1]
    if cut == len(values):
        return float(below)
    above = values[cut]
    middle = below / 2 + above / 2
    # Between neighbouring floats there is no room, and rounding up would let `above` in.
    return float(middle if below <= middle < above else below)


def _required_far(far: float | None) -> float:
    if far is None:
        raise ValueError("strategy='far' needs far, the false match rate to keep, such as far=1e-3.")
    return check_far(far)


def _check_threshold(threshold: float) -> float:
    if np.isnan(threshold):
        raise ValueError("threshold is NaN. Give a squared distance, or None to have one chosen.")
    return float(threshold)


def _check_weights(weights: ArrayLike, same: NDArray[np.bool_]) -> FloatArray:
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != same.shape:
        raise ValueError(f"weights and same must have the same shape; got {array.shape} and {same.shape}.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("weights must be finite and not negative.")
    if not (array[same].any() and array[~same].any()):
        raise ValueError("Same-class pairs and other-class pairs must each have some weight.")
    return array
