"""Fit a `Calibration` on codes of classes left out of the learning.

Both kinds of pairs weigh one half. In probabilities, same-class pairs of large classes weigh less
(`BothKinds.same_weights`), so that they are those of many classes and not of the largest one; in rates every pair of a
kind weighs the same, as `label_pairs` draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation.class_bootstrap import (
    N_DRAWS,
    class_weights,
    false_match_rates,
    interval,
    true_match_rates,
)
from samekind.evaluation.class_pairs import MAX_PAIRS, BothKinds, class_pairs
from samekind.evaluation.pairs import Distance
from samekind.model.calibration import Calibration, OperatingPoint, smallest_supported_rate

FALSE_MATCH_RATES = (1e-1, 1e-2, 1e-3, 1e-4)
MAX_KNOTS = 20
_LEAST_PAIRS = 10  # of either kind, in each bin
_ROUNDING = 1e-9  # probabilities closer than this are equal
_TAIL_POINTS = 41
_UPPER_RATES = (0.6, 0.7, 0.8, 0.9, 1.0)

FloatArray = NDArray[np.float64]


def calibrate(
    codes: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    distance: Distance | None = None,
    parts: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
    source: str | None = None,
    random_state: int = 0,
    max_pairs: int = MAX_PAIRS,
) -> Calibration:
    """Probabilities and thresholds from all pairs of the samples, or from evenly drawn ones beyond `max_pairs`.

    Parameters
    ----------
    codes, labels : (n, r) and (n,) arrays
        Of classes that the model has not learned from.
    distance : function or None
        Maps two arrays of codes (m, r), paired row by row, to squared distances (m,); None is squared Euclidean.
    parts : list of (codes, labels), instead of codes and labels
        For cross-fitting: each part has the codes of another model, so pairs are formed within a part only.
    source : str or None
        Where the classes come from; by default "held-out classes", or "cross-fitting over classes" for parts.
    random_state : int
        For the pairs drawn and for the bootstrap.
    max_pairs : int
        Of either kind.
    """
    default_source = "held-out classes" if parts is None else "cross-fitting over classes"
    rng = np.random.default_rng(random_state)
    pairs = class_pairs(_one_of(codes, labels, parts), distance=distance, max_pairs=max_pairs, random_state=rng)
    same, other = np.sort(pairs.same.distances), np.sort(pairs.other.distances)
    distances, log_odds = monotone_knots(
        Weighted.sorted(pairs.same.distances, pairs.same_weights()), Weighted.sorted(other), pairs.n_classes
    )
    tail_rates = _tail_rates(len(other), pairs.n_classes)
    return Calibration(
        distances=distances,
        log_odds=log_odds,
        tail_rates=tail_rates,
        tail_thresholds=tuple(_threshold_at(other, rate) for rate in tail_rates),
        thresholds=_operating_points(pairs, same, other, tail_rates, rng),
        n_classes=pairs.n_classes,
        n_samples=pairs.n_samples,
        n_same=len(same),
        n_other=len(other),
        source=default_source if source is None else source,
    )


def _one_of(
    codes: ArrayLike | None, labels: ArrayLike | None, parts: Sequence[tuple[ArrayLike, ArrayLike]] | None
) -> Sequence[tuple[ArrayLike, ArrayLike]]:
    if parts is not None and codes is None and labels is None:
        return parts
    if parts is None and codes is not None and labels is not None:
        return [(codes, labels)]
    raise ValueError("Give codes and labels, or parts, a list of (codes, labels): one of the two.")


@dataclass(frozen=True, eq=False)
class Weighted:
    """Distances of one kind of pairs, rising, and the weight of those up to each, one half for all."""

    distances: FloatArray
    weights: FloatArray
    cumulative: FloatArray

    @classmethod
    def sorted(cls, distances: ArrayLike, weights: ArrayLike | None = None) -> "Weighted":
        d = np.asarray(distances, dtype=np.float64)
        w = np.ones(len(d)) if weights is None else np.asarray(weights, dtype=np.float64)
        order = np.argsort(d, kind="stable")
        shares = w[order] / w.sum() / 2
        return cls(d[order], shares, np.append(0.0, np.cumsum(shares)))

    def weight_up_to(self, distances: FloatArray) -> FloatArray:
        return np.asarray(self.cumulative[self.distances.searchsorted(distances, "right")])

    def bins(self, edges: FloatArray) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """Number, weight and weighted sum of the distances up to each edge and beyond the last."""
        numbers = edges.searchsorted(self.distances, "left")
        n_bins = len(edges) + 1
        weights = np.asarray(np.bincount(numbers, self.weights, n_bins), np.float64)
        sums = np.asarray(np.bincount(numbers, self.weights * self.distances, n_bins), np.float64)
        return np.bincount(numbers, minlength=n_bins), weights, sums


def monotone_knots(same: Weighted, other: Weighted, n_classes: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Distances and log-odds of isotonic regression on bins of equal weight.

    Frequencies are shrunk to even odds as by one more class (or pair, where bins have fewer): that many independent
    cases at most are behind each.
    """
    n_bins = int(np.clip(min(len(same.distances), len(other.distances)) // _LEAST_PAIRS, 2, MAX_KNOTS))
    edges = _mixture_quantiles(same, other, np.arange(1, n_bins) / n_bins)
    (n_same, w_same, d_same), (n_other, w_other, d_other) = same.bins(edges), other.bins(edges)
    counts, weights = n_same + n_other, w_same + w_other
    filled = counts > 0
    n_cases = min(n_classes, int(counts[filled].min()))
    centres = (d_same + d_other)[filled] / weights[filled]
    likelihood = 0.5 + (w_same[filled] / weights[filled] - 0.5) * n_cases / (n_cases + 1)
    centres, likelihood = _pool_adjacent(centres, likelihood, weights[filled])
    if len(centres) == 1:
        return (float(centres[0]),), (0.0,)
    log_odds = np.log(likelihood) - np.log1p(-likelihood)
    return tuple(centres.tolist()), tuple(log_odds.tolist())


def _mixture_quantiles(same: Weighted, other: Weighted, levels: FloatArray) -> FloatArray:
    """Distances up to which these shares of the weight lie, by bisection."""
    low = np.full(len(levels), min(same.distances[0], other.distances[0]))
    high = np.full(len(levels), max(same.distances[-1], other.distances[-1]))
    for _ in range(64):
        middle = low / 2 + high / 2
        below = same.weight_up_to(middle) + other.weight_up_to(middle)
        low, high = np.where(below < levels, middle, low), np.where(below < levels, high, middle)
    return np.unique(high)


def _pool_adjacent(centres: FloatArray, values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pool adjacent violators: weighted means of neighbours until values fall, by more than rounding."""
    pooled: list[FloatArray] = []  # weight, centre, value
    for block in np.stack([weights, centres, values], axis=1):
        while pooled and not (pooled[-1][2] > block[2] + _ROUNDING and pooled[-1][1] < block[1]):
            weight = pooled[-1][0] + block[0]
            block = np.append(weight, (pooled[-1][0] * pooled[-1][1:] + block[0] * block[1:]) / weight)
            pooled.pop()
        pooled.append(block)
    _, centres, values = np.array(pooled).T
    return centres, values


def _tail_rates(n_other: int, n_classes: int) -> tuple[float, ...]:
    """A logarithmic grid down to the smallest rate supported, with the usual rates in it."""
    smallest = smallest_supported_rate(n_other, n_classes)
    if smallest is None:
        return ()
    grid = {*np.geomspace(smallest, 0.5, _TAIL_POINTS).tolist(), *_UPPER_RATES}
    return tuple(sorted(grid | {rate for rate in FALSE_MATCH_RATES if rate >= smallest}))


def _threshold_at(other: FloatArray, rate: float) -> float:
    """The largest threshold, midway between neighbours, that at most this share of the sorted distances is within."""
    n_below = int(rate * len(other) * (1 + 1e-12))
    if n_below >= len(other):
        return float(other[-1])
    above = other[n_below]
    n_below = int(other.searchsorted(above))  # of equal distances none is within
    return float(np.nextafter(above, -np.inf) if n_below == 0 else other[n_below - 1] / 2 + above / 2)


def _operating_points(
    pairs: BothKinds, same: FloatArray, other: FloatArray, supported: tuple[float, ...], rng: np.random.Generator
) -> tuple[OperatingPoint, ...]:
    weights = class_weights(pairs.n_classes, N_DRAWS, rng)
    points = []
    for rate in (rate for rate in FALSE_MATCH_RATES if rate in supported):
        threshold = _threshold_at(other, rate)
        points.append(
            OperatingPoint(
                false_match_rate=rate,
                threshold=threshold,
                true_match_rate=float(same.searchsorted(threshold, "right") / len(same)),
                false_match_interval=interval(false_match_rates(pairs, threshold, weights)),
                true_match_interval=interval(true_match_rates(pairs, threshold, weights)),
            )
        )
    return tuple(points)
