"""Bootstrap over classes: how far a figure would vary with the classes that it is measured on.

Pairs that share a class vary together, so classes are drawn, not pairs. A class drawn w times gives a same-class pair
of it the weight w, and an other-class pair the product of its two classes' weights.
"""

import numpy as np
from numpy.typing import NDArray

from samekind.evaluation.class_pairs import BothKinds, ClassPairs

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]

N_DRAWS = 500
LEVEL = 0.95


def class_weights(n_classes: int, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """How often each class is drawn when as many are drawn as there are: (n_draws, n_classes)."""
    return rng.multinomial(n_classes, np.full(n_classes, 1 / n_classes), size=n_draws).astype(np.float64)


def interval(values: FloatArray) -> Interval:
    """The middle 95 % of the defined values; both ends NaN where there are none."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        return np.nan, np.nan
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def true_match_rates(pairs: BothKinds, threshold: float, weights: FloatArray) -> FloatArray:
    """Share of the same-class pairs up to the threshold, once per draw."""
    n_classes = pairs.n_classes
    matched = np.bincount(pairs.same.first[pairs.same.distances <= threshold], minlength=n_classes)
    present = np.bincount(pairs.same.first, minlength=n_classes)
    return _shares(weights @ matched, weights @ present)


def false_match_rates(pairs: BothKinds, threshold: float, weights: FloatArray) -> FloatArray:
    """Share of the other-class pairs up to the threshold, once per draw."""
    from scipy.sparse import coo_array

    other, n_classes = pairs.other, pairs.n_classes
    below = other.distances <= threshold
    places = other.first[below], other.second[below]
    counts = coo_array((np.ones(len(places[0])), places), shape=(n_classes, n_classes)).tocsr()
    matched = np.einsum("cb,bc->b", counts @ weights.T, weights)
    # Of all other-class pairs, of which the ones here are an even draw: ((sum w n)^2 - sum (w n)^2) / 2 of each part.
    present = _n_other(pairs.sizes, weights)
    return _shares(matched, present * (len(other) / _n_other(pairs.sizes, np.ones((1, n_classes)))))


def pair_weights(pairs: ClassPairs, weights: FloatArray, same: bool) -> FloatArray:
    """Weight of each pair for one draw (n_classes,)."""
    return weights[pairs.first] if same else weights[pairs.first] * weights[pairs.second]


def _n_other(sizes: NDArray[np.int64], weights: FloatArray) -> FloatArray:
    """Weight of all other-class pairs within parts: sizes (n_parts, n_classes), weights (b, n_classes) -> (b,)."""
    squares = np.square(weights) @ np.square(sizes).sum(axis=0)
    return np.asarray((np.square(weights @ sizes.T).sum(axis=1) - squares) / 2)


def _shares(part: FloatArray, whole: FloatArray) -> FloatArray:
    """NaN where a draw has no pair; a draw of pairs may take its share slightly above one."""
    shares = np.full(len(part), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return np.minimum(shares, 1)
