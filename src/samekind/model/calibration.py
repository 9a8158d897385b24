"""Calibration of squared distances, measured on classes left out of the learning.

The probability that a pair is of one kind is a monotone map of its distance: isotonic regression (Zadrozny and Elkan,
2002) reduced to a few knots, linear in the log-odds between and beyond them. Thresholds at false match rates are
quantiles of the distances of other-class pairs, with intervals by a bootstrap over classes. Needs NumPy alone;
`samekind.evaluation.calibrate` fits it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.schema import LARGEST_COUNT, short

FloatArray = NDArray[np.float64]

# With k false matches a rate is uncertain by 1 / sqrt(k) of itself at the least: by a third at 10.
LEAST_FALSE_MATCHES = 10
# Pairs that share a class vary together: with fewer classes a rate on other classes can be anything.
LEAST_CLASSES = 4
LARGEST = 1e150  # distance or log-odds: their differences and products stay finite
FEW_CLASSES = 30  # below it, `describe` warns that figures may change with the classes


def smallest_supported_rate(n_other: int, n_classes: int) -> float | None:
    """The lowest false match rate that so many other-class pairs can support; None where there is none."""
    rate = LEAST_FALSE_MATCHES / max(n_other, 1)
    return rate if n_classes >= LEAST_CLASSES and rate <= 0.5 else None


@dataclass(frozen=True)
class OperatingPoint:
    """The threshold of a false match rate, with 95 % intervals of the rates it would have on other classes."""

    false_match_rate: float
    threshold: float
    true_match_rate: float
    false_match_interval: tuple[float, float]
    true_match_interval: tuple[float, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", _floats((self.threshold,), "threshold")[0])
        for name in ("false_match_rate", "true_match_rate"):
            object.__setattr__(self, name, _rates((getattr(self, name),), name)[0])
        for name in ("false_match_interval", "true_match_interval"):
            interval = _rates(getattr(self, name), name)
            if len(interval) != 2 or interval[0] > interval[1]:
                raise ValueError(f"{name} must be two rates, the lower one first; got {interval!r}.")
            object.__setattr__(self, name, interval)


@dataclass(frozen=True)
class Calibration:
    """Probabilities and thresholds of squared distances, and what they rest on.

    Parameters
    ----------
    distances, log_odds : tuples of float
        Knots of log P(same) / P(other) for equally likely kinds: distances rise, log-odds fall from at least 0 to at
        most 0. A single knot has log-odds 0: the distance does not tell the kinds apart.
    tail_rates, tail_thresholds : tuples of float
        Rising false match rates, and the largest thresholds that keep them; empty where the pairs support no rate.
    thresholds : tuple of OperatingPoint
        The usual false match rates, as far as the pairs support them.
    n_classes, n_samples, n_same, n_other : int
        Classes, samples, same-class pairs and other-class pairs that all of it rests on.
    source : str
        "held-out classes" or "cross-fitting over classes".

    Probabilities weigh same-class pairs so that a large class does not decide for all
    (`samekind.evaluation.class_pairs.BothKinds.same_weights`); rates count every pair.
    """

    distances: tuple[float, ...]
    log_odds: tuple[float, ...]
    tail_rates: tuple[float, ...]
    tail_thresholds: tuple[float, ...]
    thresholds: tuple[OperatingPoint, ...]
    n_classes: int
    n_samples: int
    n_same: int
    n_other: int
    source: str

    def __post_init__(self) -> None:
        for name in ("distances", "log_odds", "tail_thresholds"):
            object.__setattr__(self, name, _floats(getattr(self, name), name))
        object.__setattr__(self, "tail_rates", _rates(self.tail_rates, "tail_rates"))
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        for name in ("n_classes", "n_samples", "n_same", "n_other"):
            object.__setattr__(self, name, _count(getattr(self, name), name))
        if not isinstance(self.source, str):
            raise ValueError(f"source must be text; got {short(self.source)}.")
        if not all(isinstance(point, OperatingPoint) for point in self.thresholds):
            raise ValueError("thresholds must be OperatingPoint records.")
        _check_knots(self.distances, self.log_odds)
        _check_tail(self.tail_rates, self.tail_thresholds)

    def probability(self, distances: ArrayLike, prior: float = 0.5) -> FloatArray:
        """P(same kind) of squared distances, where a share `prior` of all pairs is of one kind (Bayes on the odds)."""
        if not 0 < prior < 1:
            raise ValueError(f"prior must lie between 0 and 1, both left out; got {prior!r}.")
        d = np.asarray(distances, dtype=np.float64)
        if np.isnan(d).any():
            raise ValueError("distances hold NaN. Leave those pairs out first.")
        odds = self.log_odds_at(d) + math.log(prior / (1 - prior))
        return np.asarray(np.exp(-np.logaddexp(0, -odds)))

    @property
    def threshold(self) -> float:
        """Two things are called same up to this squared distance: `probability` is 0.5 there."""
        if len(self.distances) == 1:
            return self.distances[0]
        return float(np.interp(0.0, self.log_odds[::-1], self.distances[::-1]))

    @property
    def smallest_rate(self) -> float | None:
        """The lowest false match rate that the pairs support; None where they support none."""
        return self.tail_rates[0] if self.tail_rates else None

    def threshold_at(self, rate: float) -> float:
        """The threshold of a false match rate, interpolated in the logarithm of the rate."""
        self._check_supported()
        if not 0 < rate <= 1:
            raise ValueError(f"A false match rate is above 0 and at most 1; got {rate!r}.")
        if rate < self.tail_rates[0]:
            raise ValueError(
                f"A false match rate of {rate:g} was asked for, but {self.n_other:,} other-class pairs of "
                f"{self.n_classes} classes support rates from {self.tail_rates[0]:.2g}, where {LEAST_FALSE_MATCHES} "
                "false matches are expected. Leave out more classes, or ask for a higher rate."
            )
        return float(np.interp(math.log(rate), np.log(self.tail_rates), self.tail_thresholds))

    def false_match_rate(self, threshold: float) -> float:
        """The false match rate of a threshold: the inverse of `threshold_at`, and never below the smallest rate."""
        self._check_supported()
        if math.isnan(threshold):
            raise ValueError("threshold is NaN. Give a squared distance.")
        # Of rates with one and the same threshold, the highest.
        last = np.append(np.diff(self.tail_thresholds) > 0, True)
        thresholds, rates = np.array(self.tail_thresholds)[last], np.array(self.tail_rates)[last]
        return float(np.exp(np.interp(threshold, thresholds, np.log(rates))))

    def describe(self) -> list[str]:
        """What it rests on, and what its thresholds mean, in plain sentences."""
        lines = [
            f"Calibrated on {self.n_samples:,} samples of {self.n_classes:,} labels ({self.source}): "
            f"{self.n_same:,} same-class and {self.n_other:,} other-class pairs. "
            "In probabilities, pairs of labels with many samples weigh less."
        ]
        if self.n_classes < FEW_CLASSES:
            lines.append(
                f"Only {self.n_classes} labels were left out, so probabilities and rates may be quite different for "
                "other labels. Leave out more for better ones."
            )
        if len(self.distances) == 1:
            lines.append("On these labels the distance does not tell same-class from other-class pairs.")
        lines += [_sentence(point) for point in self.thresholds]
        if self.smallest_rate is None:
            lines.append(
                f"No false match rate is stated: that takes {LEAST_CLASSES} labels and "
                f"{2 * LEAST_FALSE_MATCHES} other-class pairs at least."
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """All of it in plain lists, numbers and texts; `from_json` gives an equal calibration back."""
        plain = asdict(self)
        for point in plain["thresholds"]:
            point.update({name: list(value) for name, value in point.items() if isinstance(value, tuple)})
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, mapping: Mapping[str, Any]) -> Calibration:
        """What `to_json` gave; ValueError that names what is missing, unknown or not as it must be."""
        _check_keys(mapping, cls, "A calibration")
        points = mapping["thresholds"]
        if not isinstance(points, list | tuple):
            raise ValueError(f"thresholds must be a list of records; got {type(points).__name__}.")
        for point in points:
            _check_keys(point, OperatingPoint, "An operating point")
        return cls(**{**mapping, "thresholds": tuple(OperatingPoint(**point) for point in points)})

    def log_odds_at(self, distances: ArrayLike) -> FloatArray:
        """log P(same) / P(other) of squared distances, for equally likely kinds; linear beyond the knots."""
        d = np.asarray(distances, np.float64)
        knots, values = np.array(self.distances), np.array(self.log_odds)
        odds = np.interp(d, knots, values)
        if len(knots) > 1:
            slopes = _slopes(knots, values)
            odds += slopes[0] * np.minimum(d - knots[0], 0) + slopes[-1] * np.maximum(d - knots[-1], 0)
        return np.asarray(odds)

    def _check_supported(self) -> None:
        if not self.tail_rates:
            raise ValueError(
                f"{self.n_other:,} other-class pairs of {self.n_classes} classes support no false match rate: "
                f"{2 * LEAST_FALSE_MATCHES} pairs of {LEAST_CLASSES} classes are needed. Leave out more classes."
            )


def _sentence(point: OperatingPoint) -> str:
    low, high = point.false_match_interval
    return (
        f"At a threshold of {point.threshold:.4g}, {100 * point.false_match_rate:g} % of other-class pairs are called "
        f"same (95 % interval {100 * low:.2g} to {100 * high:.2g} %), and {100 * point.true_match_rate:.1f} % of "
        "same-class pairs."
    )


def _check_keys(mapping: Any, cls: type, what: str) -> None:
    if not isinstance(mapping, Mapping):
        raise ValueError(f"{what} must be a mapping of names to values; got {type(mapping).__name__}.")
    names = {field.name for field in fields(cls)}
    missing, unknown = sorted(names - set(mapping)), sorted(map(str, set(mapping) - names))
    if missing or unknown:
        raise ValueError(f"{what} has the fields {sorted(names)}; missing {missing}, unknown {unknown}.")


def _floats(values: Any, name: str) -> tuple[float, ...]:
    """Finite numbers as floats of Python."""
    if not isinstance(values, list | tuple | np.ndarray):
        raise ValueError(f"{name} must be a list of numbers; got {type(values).__name__}.")
    numbers: tuple[Any, ...] = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
    for number in numbers:
        real = isinstance(number, int | float | np.number) and not isinstance(number, bool)
        if not real or not -LARGEST <= number <= LARGEST:
            raise ValueError(f"{name} must hold finite numbers; got {short(number)}.")
    return tuple(map(float, numbers))


def _rates(values: Any, name: str) -> tuple[float, ...]:
    rates = _floats(values, name)
    if any(not 0 <= rate <= 1 for rate in rates):
        raise ValueError(f"{name} must lie between 0 and 1; got {short(rates)}.")
    return rates


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= LARGEST_COUNT:
        raise ValueError(f"{name} must be a positive integer; got {short(value)}.")
    return int(value)


def _slopes(distances: ArrayLike, log_odds: ArrayLike) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.diff(log_odds) / np.diff(distances))


def _check_knots(distances: tuple[float, ...], log_odds: tuple[float, ...]) -> None:
    if len(distances) != len(log_odds) or not distances:
        raise ValueError(
            f"distances and log_odds must be as many, one at least; got {len(distances)}, {len(log_odds)}."
        )
    if any(a >= b for a, b in pairwise(distances)):
        raise ValueError("distances must rise strictly from knot to knot.")
    if any(a <= b for a, b in pairwise(log_odds)):
        raise ValueError("log_odds must fall strictly: a larger distance never makes the same kind likelier.")
    if len(distances) > 1 and not np.isfinite(_slopes(distances, log_odds)).all():
        raise ValueError("distances of two knots are so close that the log-odds between them fall without bounds.")
    if not log_odds[0] >= 0 >= log_odds[-1]:
        raise ValueError(f"log_odds must fall from at least 0 to at most 0; got {log_odds[0]:g} to {log_odds[-1]:g}.")


def _check_tail(rates: tuple[float, ...], thresholds: tuple[float, ...]) -> None:
    if len(rates) != len(thresholds):
        raise ValueError(f"tail_rates and tail_thresholds must be as many; got {len(rates)} and {len(thresholds)}.")
    if (rates and rates[0] <= 0) or any(a >= b for a, b in pairwise(rates)):
        raise ValueError("tail_rates must be above 0 and rise strictly.")
    if any(a > b for a, b in pairwise(thresholds)):
        raise ValueError("tail_thresholds must not fall as the rates rise.")
