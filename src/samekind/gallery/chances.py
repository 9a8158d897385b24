"""What a threshold means for a gallery: how likely is any false match among all its entries?

A false match rate f is of one pair. Of n entries that are all of other kinds than the query, one at least is within the
threshold with a probability of at most n f (whatever depends on what), and of `1 - (1 - f)^n` where they are
independent. Entries of one label are alike, so that the truth is rather less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from samekind.model.calibration import Calibration


@dataclass(frozen=True)
class FalseMatchChance:
    """The chance of any false match among `n_entries`, with an interval where the calibration has one."""

    n_entries: int
    threshold: float
    rate: float  # of one pair
    chance: float
    interval: tuple[float, float] | None
    supported: bool  # False: the rate is at most this, because the calibration knows no lower one

    def describe(self) -> str:
        most = "" if self.supported else "at most "
        of_pair = f"{most}{self.rate:.2g} of different pairs are within the threshold"
        if not self.supported:
            return (
                f"{of_pair}: the calibration knows no lower rate, so that no chance of a false match among "
                f"{self.n_entries:,} entries can be stated (it is at most {self.chance:.2g})"
            )
        between = "" if self.interval is None else f" (95 % interval {self.interval[0]:.2g} to {self.interval[1]:.2g})"
        return (
            f"{of_pair}, so that a query of a kind that is not in the gallery has a chance of "
            f"{self.chance:.2g}{between} of any false match among {self.n_entries:,} entries"
        )


def false_match_chance(calibration: Calibration | None, threshold: float, n_entries: int) -> FalseMatchChance | None:
    """None where the calibration supports no rate at all."""
    if calibration is None or calibration.smallest_rate is None:
        return None
    rate = calibration.false_match_rate(threshold)
    supported = threshold >= calibration.tail_thresholds[0]
    interval = _rate_interval(calibration, rate) if supported else None
    chances = None if interval is None else (_any_of(interval[0], n_entries), _any_of(interval[1], n_entries))
    return FalseMatchChance(n_entries, threshold, rate, _any_of(rate, n_entries), chances, supported)


def rate_for_chance(chance: float, n_entries: int) -> float:
    """The false match rate of one pair at which the chance among all entries is so large."""
    return -math.expm1(math.log1p(-chance) / max(n_entries, 1))


def _any_of(rate: float, n: int) -> float:
    """1 - (1 - rate)^n, without losing small rates."""
    return 1.0 if rate >= 1 else -math.expm1(n * math.log1p(-rate))


def _rate_interval(calibration: Calibration, rate: float) -> tuple[float, float] | None:
    """Interpolated between the intervals of the usual rates, as factors of the rate, in its logarithm."""
    points = sorted(calibration.thresholds, key=lambda point: point.false_match_rate)
    if not points or rate <= 0:
        return None
    at = np.log([point.false_match_rate for point in points])
    low, high = (
        np.interp(math.log(rate), at, [point.false_match_interval[end] / point.false_match_rate for point in points])
        for end in (0, 1)
    )
    return min(float(rate * low), 1.0), min(float(rate * high), 1.0)
