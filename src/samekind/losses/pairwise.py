"""Pairwise loss: same-class pairs below a threshold, other-class pairs above it (Eq. 3-5)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from samekind.kernels.reductions import LogSums
from samekind.kernels.types import Array
from samekind.losses.base import Anchors
from samekind.relation import PairTile, Relation

LN2 = float(np.log(2))


@dataclass(frozen=True)
class PairwiseLoss:
    """`1/ln 2 * sum_{i != j} c_ij softplus(pi_ij (d_ij - threshold))`.

    `balance="equal"` gives the same-class and the other-class pairs half of the weight each, `"literal"` is Eq. 3 with
    c_ij = 1 / N^2.
    """

    threshold: float = 14.0
    balance: Literal["equal", "literal"] = "equal"

    def bind(self, relation: Relation) -> "BoundPairwiseLoss":
        if self.balance == "literal":
            share_same = share_other = 1 / relation.n_samples**2
        else:
            share_same, share_other = 0.5 / relation.n_same.sum(), 0.5 / relation.n_other.sum()
        return BoundPairwiseLoss(self.threshold, share_same / LN2, share_other / LN2)


@dataclass(frozen=True)
class BoundPairwiseLoss:
    threshold: float
    share_same: float  # c_ij / ln 2 of a same-class pair
    share_other: float  # c_ij / ln 2 of an other-class pair

    n_statistics = 0
    has_tile_values = True

    def statistics(self, D: Array, pairs: PairTile, mirrored: bool) -> tuple[LogSums, LogSums | None]:
        raise NotImplementedError("the pairwise loss needs no row statistics")

    def anchors(self, statistics: LogSums) -> tuple[float, Anchors]:
        return 0.0, Anchors(np.ones(len(statistics)), statistics)

    def tile_value(self, D: Array, pairs: PairTile, mirrored: bool) -> float:
        margin = self._margin(D, pairs)
        return _ends(mirrored) * self._total_softplus(margin, _exp_minus_abs(margin), pairs)

    def tile_weights(self, D: Array, pairs: PairTile, rows: Anchors, cols: Anchors | None) -> tuple[float, Array]:
        ends = _ends(cols is not None)
        margin = self._margin(D, pairs)
        E = _exp_minus_abs(margin)
        value = ends * self._total_softplus(margin, E, pairs)
        H = _sigmoid(margin, E)
        if pairs.same is None:
            H *= -ends * self.share_other
        else:
            H *= ends * self._signed_shares(pairs, D.dtype)
        return value, H

    def _margin(self, D: Array, pairs: PairTile) -> Array:
        """`pi_ij (d_ij - threshold)`; what stands at i = j carries no weight."""
        margin = np.subtract(D.dtype.type(self.threshold), D)
        if pairs.same is not None:
            np.negative(margin, out=margin, where=pairs.same)
        return margin

    def _signed_shares(self, pairs: PairTile, dtype: np.dtype[Any]) -> Array:
        """`c_ij pi_ij / ln 2`"""
        shares = np.zeros(pairs.same.shape, dtype)  # type: ignore[union-attr]
        shares[pairs.same] = self.share_same
        shares[pairs.other] = -self.share_other
        return shares

    def _total_softplus(self, margin: Array, E: Array, pairs: PairTile) -> float:
        if pairs.same is None:
            return self.share_other * _sum_softplus(margin, E)
        values = np.log1p(E) + np.maximum(margin, 0)
        return float(np.vdot(np.abs(self._signed_shares(pairs, E.dtype)), values))


def _ends(mirrored: bool) -> int:
    """A mirrored tile stands for (i, j) and (j, i)."""
    return 2 if mirrored else 1


def _exp_minus_abs(margin: Array) -> Array:
    E = np.abs(margin)
    return np.exp(np.negative(E, out=E), out=E)


def _sum_softplus(margin: Array, E: Array) -> float:
    """`sum ln(1 + e^margin)` from `E = e^-|margin|`, the logarithm taken of products of up to 32 factors below 2."""
    products = np.multiply.reduceat(E + 1, np.arange(0, len(E), 32), axis=0)
    return float(np.log(products).sum(dtype=np.float64) + np.maximum(margin, 0).sum(dtype=np.float64))


def _sigmoid(margin: Array, E: Array) -> Array:
    """`1 / (1 + e^-margin)` from `E = e^-|margin|`."""
    below = E + 1
    np.copyto(E, 1, where=margin >= 0)
    return np.divide(E, below, out=below)
