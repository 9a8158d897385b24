"""What a threshold means for a gallery: how likely is any false match among all its people?

A false match rate f is of one pair. A query of somebody who is not in the gallery is compared with all entries of n
people. A person with one entry is matched falsely with probability f. Entries of one person are alike, so that they
often match together: a person with m entries is matched with a probability from f (all or none of them match) to
`1 - (1 - f)^m` (each matches by itself). With people taken as independent, the chance of any false match, which
ISO/IEC 19795-1 calls the false positive identification rate, lies between `1 - (1 - f)^n` and the same with the number
of entries in place of n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from samekind.gallery.records import Size
from samekind.model.calibration import Calibration


@dataclass(frozen=True)
class FalseMatchChance:
    """The chance of any false match among `n_people`, who have `n_entries`, with an interval where there is one.

    It lies between `by_people`, where the entries of a person match together, and `by_entries`, where each matches by
    itself. `interval` holds both, with the 95 % interval of the rate.
    """

    n_people: int
    n_entries: int
    threshold: float
    rate: float  # of one pair
    by_people: float
    by_entries: float
    interval: tuple[float, float] | None
    supported: bool  # False: the rate is at most this, because the calibration knows no lower one

    def describe(self) -> str:
        most = "" if self.supported else "at most "
        of_pair = f"{most}{self.rate:.2g} of different pairs are within the threshold"
        whom = "1 person" if self.n_people == 1 else f"{self.n_people:,} people"
        if self.n_entries != self.n_people:
            whom += f" with {self.n_entries:,} entries"
        if not self.supported:
            return (
                f"{of_pair}: the calibration knows no lower rate, so that no chance of any false match among {whom} "
                f"can be stated (it is at most {_share(self.by_entries)})"
            )
        somebody = f"{of_pair}, so that a query of somebody who is not in the gallery has a chance of"
        if self.n_entries == self.n_people:
            return f"{somebody} {_share(self.by_people)}{self._in_brackets()} of any false match among {whom}"
        return (
            f"{somebody} {_share(self.by_people)} to {_share(self.by_entries)}{self._in_brackets()} of any false match "
            f"among {whom}: the lower where all or none of a person's entries match, the higher where each matches by "
            "itself"
        )

    def _in_brackets(self) -> str:
        if self.interval is None:
            return ""
        low, high = self.interval
        return f" (95 % interval {_share(low)} to {_share(high)})"


def false_match_chance(calibration: Calibration | None, threshold: float, size: Size) -> FalseMatchChance | None:
    """None where the calibration supports no rate at all, or nobody is searched."""
    if calibration is None or calibration.smallest_rate is None or not size.n_entries:
        return None
    rate = calibration.false_match_rate(threshold)
    supported = threshold >= calibration.tail_thresholds[0]
    rates = _rate_interval(calibration, rate) if supported else None
    n_people, n_entries = size.n_people, size.n_entries
    interval = None if rates is None else (_any_of(rates[0], n_people), _any_of(rates[1], n_entries))
    by_people, by_entries = _any_of(rate, n_people), _any_of(rate, n_entries)
    return FalseMatchChance(n_people, n_entries, threshold, rate, by_people, by_entries, interval, supported)


def rate_for_chance(chance: float, n: int) -> float:
    """The false match rate of one pair at which the chance among n independent entries is so large."""
    return -math.expm1(math.log1p(-chance) / max(n, 1))


def _any_of(rate: float, n: int) -> float:
    """1 - (1 - rate)^n, without losing small rates."""
    return 1.0 if rate >= 1 else -math.expm1(n * math.log1p(-rate))


def _share(chance: float) -> str:
    """In two digits; what is not certain is not called 1."""
    return "over 0.99" if 0.99 < chance < 1 else f"{chance:.2g}"


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
