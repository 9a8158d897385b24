"""Statistics of samples of numbers, and what the values of a descent lead to expect."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WITHIN = 2.0  # standard errors; smaller gains are within the noise
SLOWEST = 0.95  # factor by which gains are taken to shrink, at the most


def standard_error(estimates: NDArray[Any]) -> float:
    """The standard error of the mean of the estimates; 0 for a single one."""
    n = len(estimates)
    return float(np.std(estimates, ddof=1) / n**0.5) if n > 1 else 0.0


def within_noise(gains: NDArray[Any]) -> bool:
    """Whether a gain is within the noise, given estimates of it from independent batches."""
    return bool(gains.mean() <= WITHIN * standard_error(gains))


def expected_gain(values: Sequence[float]) -> float:
    """The gain still to come if gains keep shrinking as from the three iterations before to the last three."""
    if len(values) < 7:
        return np.inf
    before, last = values[-7] - values[-4], values[-4] - values[-1]
    return last**2 / (before - last) if 0 <= last < before else np.inf


def iterations_left(values: Sequence[float], tol: float) -> float | None:
    """Until one gains less than a share `tol` of the value, if gains keep shrinking as they do; None if they do not."""
    gains = -np.diff(values)
    if len(gains) < 2 or not (gains > 0).all():
        return None
    shrink = float(min(SLOWEST, (gains[-1] / gains[0]) ** (1 / (len(gains) - 1))))
    goal = tol * abs(values[-1])
    return max(0.0, float(np.log(goal / gains[-1]) / np.log(shrink))) if gains[-1] > goal else 0.0
