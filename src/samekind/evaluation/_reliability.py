"""Are predicted probabilities observed? Pairs by tenths of their probability (DeGroot and Fienberg, 1983)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_pairs


class Tenth(NamedTuple):
    """Mean predicted probability, observed share of same-class pairs, number of pairs, and share of all weight."""

    predicted: float
    observed: float
    n_pairs: int
    weight: float


def reliability(probabilities: ArrayLike, same: ArrayLike, weights: ArrayLike | None = None) -> list[Tenth]:
    """The tenths of predicted probability that have pairs, both kinds of pairs weighing one half.

    `weights` says how much each pair counts among those of its kind; by default all count the same.
    """
    predicted, same = check_pairs(probabilities, same)
    if (predicted < 0).any() or (predicted > 1).any():
        raise ValueError("probabilities must lie between 0 and 1. Give those of Calibration.probability.")
    weights = _balanced(np.ones(len(same)) if weights is None else _check_weights(weights, len(same)), same)
    numbers = np.minimum((10 * predicted).astype(np.int64), 9)
    sums = [np.bincount(numbers, values, minlength=10) for values in (weights, weights * predicted, weights * same)]
    counts = np.bincount(numbers, minlength=10)
    return [
        Tenth(float(mean / weight), float(hits / weight), int(count), float(weight))
        for weight, mean, hits, count in zip(*sums, counts, strict=True)
        if count
    ]


def _check_weights(weights: ArrayLike, n_pairs: int) -> NDArray[np.float64]:
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_pairs,) or not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"weights must be one positive number for each pair, ({n_pairs},); got shape {array.shape}.")
    return array


def _balanced(weights: NDArray[np.float64], same: NDArray[np.bool_]) -> NDArray[np.float64]:
    """One half for all pairs of either kind."""
    return np.where(same, 0.5 / weights[same].sum(), 0.5 / weights[~same].sum()) * weights
