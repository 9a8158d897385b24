"""Are predicted probabilities observed? Pairs by tenths of their probability (DeGroot and Fienberg, 1983)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_pairs


class Tenth(NamedTuple):
    """Mean predicted probability, observed share of same-class pairs, and number of pairs."""

    predicted: float
    observed: float
    n_pairs: int


def reliability(probabilities: ArrayLike, same: ArrayLike) -> list[Tenth]:
    """The tenths of predicted probability that have pairs, both kinds of pairs weighing one half."""
    predicted, same = check_pairs(probabilities, same)
    if (predicted < 0).any() or (predicted > 1).any():
        raise ValueError("probabilities must lie between 0 and 1. Give those of Calibration.probability.")
    weights = _balanced_weights(same)
    numbers = np.minimum((10 * predicted).astype(np.int64), 9)
    sums = [np.bincount(numbers, values, minlength=10) for values in (weights, weights * predicted, weights * same)]
    counts = np.bincount(numbers, minlength=10)
    return [
        Tenth(float(mean / weight), float(hits / weight), int(count))
        for weight, mean, hits, count in zip(*sums, counts, strict=True)
        if count
    ]


def _balanced_weights(same: NDArray[np.bool_]) -> NDArray[np.float64]:
    """One half over the pairs of either kind."""
    n_same = int(np.count_nonzero(same))
    return np.where(same, 0.5 / n_same, 0.5 / (len(same) - n_same))
