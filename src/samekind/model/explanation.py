"""Why a pair is same or different: its squared distance as an exact sum over the chosen feature groups.

Every distance of a `Metric` is a weighted sum of squares of numbers to which the groups add up:

    d = sum_j w_j (sum_k P_kj)^2,   the term of group k:   t_k = sum_j w_j P_kj (sum_l P_lj),   d = sum_k t_k

For a plain metric P_k = L_k^T (z_k - z'_k), so that t_k = <delta_k, delta>. The other forms have the same shape:

- Normalised groups: z_k is what the basis gives, divided by its own root mean square.
- Normalised codes: P_k is divided as the whole code is. The divisor stays that of all groups, also in `without`.
- Mirror images by their mean: z is of the mean of both descriptors. By four distances: each picture adds
  P_k = L_k^T (z_k - z~_k), z~ its mirror image, with weight 1/4.
- A similarity term: u - u' with weight 1, and each u with the weights -shares. The constant shift of u is spread over
  the groups as that of the smallest features z that have it; what no z has, in equal parts.

A group speaks for "same" where its term is below its share of the threshold. Shares are in proportion to
sum_j ||L_j||^2 v_j over the features j of a group, v_j the variance that step 1 gives them (`Basis.weights` squared):
what groups would add to the distance of pairs that differ equally in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.lengths import Normalise, normalised
from samekind.model.fields import Floats
from samekind.model.similarity import Similarity

if TYPE_CHECKING:
    from samekind.model.basis import Basis
    from samekind.model.metric import Metric

Floats64 = NDArray[np.float64]
Rectangle = tuple[float, float, float, float]  # top, left, height, width


@dataclass(frozen=True)
class Without:
    """The answer when some groups are left out: the distance of the others, and their share of the threshold."""

    distance: float
    threshold: float

    @property
    def same(self) -> bool:
        return self.distance <= self.threshold


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each of K groups adds to the distance of a pair; `Metric.explain` makes one.

    Parameters
    ----------
    groups : tuple of str
        Names, in order of choice.
    parts : (K, R) array
        What each group adds to the R numbers whose squares make the distance.
    weights : (R,) array
        Of these squares.
    importances : (K,) array
        Of the groups, for their shares of the threshold; they sum to 1.
    threshold : float or None
        Up to which a pair is the same. None: groups are compared with their share of the distance itself.
    rectangles : tuple of (top, left, height, width) or None
        Of each group in the crop, in its pixels; None for groups that are no regions of a picture.
    """

    groups: tuple[str, ...]
    parts: Floats64
    weights: Floats64
    importances: Floats64
    threshold: float | None
    rectangles: tuple[Rectangle | None, ...]

    @property
    def terms(self) -> Floats64:
        """What each group adds to the distance: (K,). They sum to it."""
        terms: Floats64 = self.parts @ (self.weights * self.parts.sum(axis=0))
        return terms

    @property
    def distance(self) -> float:
        """Squared, as of `Metric.code_distance`."""
        return float(self.weights @ self.parts.sum(axis=0) ** 2)

    @property
    def same(self) -> bool | None:
        """None where there is no threshold."""
        return None if self.threshold is None else self.distance <= self.threshold

    @property
    def shares(self) -> Floats64:
        """Of the threshold: (K,). They sum to it, or without one to the distance."""
        return self.importances * (self.distance if self.threshold is None else self.threshold)

    @property
    def evidence(self) -> Floats64:
        """Shares less terms: above 0 for "same", below 0 against it. They sum to threshold less distance."""
        return self.shares - self.terms

    @property
    def strongest(self) -> NDArray[np.intp]:
        """Places of the groups, those with the most evidence for or against first."""
        return np.argsort(-np.abs(self.evidence), kind="stable")

    @property
    def supporting(self) -> NDArray[np.intp]:
        """Places of the groups that speak for the answer, the strongest first."""
        towards = self.evidence if self.same in (True, None) else -self.evidence
        order = np.argsort(-towards, kind="stable")
        return order[towards[order] > 0]

    def without(self, places: Sequence[int] | NDArray[np.intp]) -> Without:
        """The answer with some groups left out: all terms in which they occur, and their share of the threshold."""
        kept = np.delete(np.arange(len(self.groups)), np.asarray(places, dtype=np.intp))
        distance = float(self.weights @ self.parts[kept].sum(axis=0) ** 2)
        return Without(distance, float(self.shares[kept].sum()))

    @property
    def n_spare(self) -> int:
        """How many of the `supporting` groups, the strongest first, can be left out before the answer changes."""
        order = self.supporting
        left = self.parts.sum(axis=0) - np.cumsum(self.parts[order], axis=0)
        thresholds = self.shares.sum() - np.cumsum(self.shares[order])
        changed = (left**2 @ self.weights <= thresholds) != (self.same is not False)
        return int(np.argmax(changed)) if changed.any() else len(order)

    def describe(self) -> str:
        """The answer, and how many of the groups it needs, in a sentence."""
        if self.same is None:
            return "There is no threshold, so that this pair is neither same nor different."
        answer, other = ("Same", "different") if self.same else ("Different", "same")
        n, spare = len(self.supporting), self.n_spare
        of_all = f"of the {n:,} regions that speak for it" if n > 1 else "region, the only one that speaks for it"
        if not n:
            return f"{answer}, though no region speaks for it by itself."
        if not spare:
            return f"{answer}, but {other} without the strongest {of_all} ({self.groups[self.supporting[0]]})."
        return f"{answer}, even without the {'' if spare == 1 else f'{spare:,} '}strongest {of_all}."

    def to_json(self) -> dict[str, Any]:
        """All groups, the strongest first, with what was said of them."""
        terms, shares, evidence = self.terms, self.shares, self.evidence
        return {
            "distance": self.distance,
            "threshold": self.threshold,
            "same": self.same,
            "in_words": self.describe(),
            "n_regions": len(self.groups),
            "n_spare": self.n_spare,
            "regions": [
                {
                    "group": self.groups[k],
                    "rectangle": None if (rectangle := self.rectangles[k]) is None else list(rectangle),
                    "term": float(terms[k]),
                    "share": float(shares[k]),
                    "evidence": float(evidence[k]),
                }
                for k in self.strongest.tolist()
            ],
        }


def explain_features(
    metric: Metric,
    a: Floats,
    b: Floats,
    threshold: float | None = None,
    rectangles: dict[str, Rectangle] | None = None,
) -> Explanation:
    """Of features (1, n_columns), or (2, n_columns) with those of the mirror image, of two things."""
    basis = metric.basis
    first, second = (_features(metric, np.asarray(X, dtype=np.float64)) for X in (a, b))
    parts, weights = _distance_parts(metric, first, second)
    if metric.similarity is not None:
        more, their_weights = _similarity_parts(basis, metric.similarity, first[0], second[0])
        parts, weights = [*parts, *more], [*weights, *their_weights]
    names = _names(basis)
    found = rectangles or {}
    return Explanation(
        names,
        np.hstack(parts),
        np.concatenate(weights),
        _importances(metric),
        metric.threshold if threshold is None else float(threshold),
        tuple(found.get(name) for name in names),
    )


def _features(metric: Metric, X: Floats64) -> Floats64:
    """Of the basis: (1, n_codes), or two rows where the picture and its mirror image have a code each."""
    return metric.basis(X.mean(axis=0, keepdims=True) if metric.mirror == "mean" else X).astype(np.float64, copy=False)


def _distance_parts(metric: Metric, first: Floats64, second: Floats64) -> tuple[list[Floats64], list[Floats64]]:
    a, b = ([_code_parts(metric, z) for z in Z] for Z in (first, second))
    if metric.mirror != "distances" or len(a) == 1:
        return [a[0] - b[0]], [np.ones(a[0].shape[1])]
    means = (a[0] + a[1] - b[0] - b[1]) / 2
    quarter = np.full(means.shape[1], 0.25)
    return [means, a[0] - a[1], b[0] - b[1]], [np.ones(means.shape[1]), quarter, quarter]


def _code_parts(metric: Metric, z: Floats64) -> Floats64:
    """What each group adds to the code of one sample: (K, n_distance_components)."""
    components = np.eye(len(z)) if metric.components is None else metric.components.astype(np.float64)
    parts = _by_group(metric.basis, components * z)
    return parts * _factor(parts.sum(axis=0), metric.normalise)


def _factor(code: Floats64, normalise: Normalise) -> float:
    """By which a code is multiplied when it is normalised."""
    longest = int(np.argmax(np.abs(code))) if len(code) else 0
    if normalise == "none" or not len(code) or not code[longest]:
        return 1.0
    return float(normalised(code[np.newaxis], normalise)[0, longest] / code[longest])


def _similarity_parts(
    basis: Basis, similarity: Similarity, z: Floats64, other: Floats64
) -> tuple[list[Floats64], list[Floats64]]:
    components, shift = similarity.components.astype(np.float64), similarity.shift.astype(np.float64)
    centre = components.T @ np.linalg.lstsq(components @ components.T, shift, rcond=None)[0]
    rest = (components @ centre - shift) / max(len(_names(basis)), 1)
    u, v = (_by_group(basis, components * (each - centre)) + rest for each in (z, other))
    negative = -similarity.shares.astype(np.float64)
    return [u - v, u, v], [np.ones(len(shift)), negative, negative]


def _importances(metric: Metric) -> Floats64:
    """Shares of the groups in the distance of pairs that differ equally in all features of step 1."""
    basis = metric.basis
    squares = np.ones((1, basis.n_codes)) if metric.components is None else metric.components.astype(np.float64) ** 2
    if metric.similarity is not None:
        squares = np.vstack([squares, metric.similarity.components.astype(np.float64) ** 2])
    of_groups = _by_group(basis, squares * basis.weights**2).sum(axis=1)
    total = of_groups.sum()
    return of_groups / total if total else np.full(len(of_groups), 1 / max(len(of_groups), 1))


def _by_group(basis: Basis, values: Floats64) -> Floats64:
    """Sums of values (r, n_codes) over the features of each group: (K, r). Plain columns are groups of their own."""
    if basis.rows is None:
        return values.T
    sums = np.zeros((len(basis.groups), len(values)))
    starts = basis.starts
    if len(starts):
        sums[basis.rows[starts]] = np.add.reduceat(values, starts, axis=1).T
    return sums


def _names(basis: Basis) -> tuple[str, ...]:
    if basis.rows is not None:
        return basis.groups
    names = basis.feature_names
    return tuple(f"column {c}" if names is None else names[c] for c in basis.columns.tolist())
