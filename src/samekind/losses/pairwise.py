"""Pairwise loss: same-class pairs below a threshold, other-class pairs above it (Eq. 3-5)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.exponentials import sigmoid_and_softplus_sum, softplus_over_runs
from samekind.kernels.reductions import LogSums
from samekind.kernels.types import Array, IntArray
from samekind.losses.base import Anchors
from samekind.relation import PairTile, Relation

LN2 = float(np.log(2))

Balance: TypeAlias = Literal["equal", "samples", "literal"]


@dataclass(frozen=True)
class PairwiseLoss:
    """`1/ln 2 * sum_{i != j} c_ij softplus(pi_ij (d_ij - threshold))`.

    `balance="equal"` gives the same-class and the other-class pairs half of the weight each, `"literal"` is Eq. 3 with
    c_ij = 1 / N^2. `"samples"` is "equal" with the same-class half shared out equally among the samples, and by each
    among its pairs: in a class of n, n (n - 1) pairs weigh as much as n samples do.
    """

    threshold: float = 14.0
    balance: Balance = "equal"

    def bind(self, relation: Relation) -> "BoundPairwiseLoss":
        n_same, share_other = relation.n_same, 0.5 / relation.n_other.sum()
        if self.balance == "literal":
            share_other = 1 / relation.n_samples**2
            shares_same = np.full(relation.n_samples, share_other)
        elif self.balance == "samples":
            shares_same = 0.5 / ((n_same > 0).sum() * np.maximum(n_same, 1))
        else:
            shares_same = np.full(relation.n_samples, 0.5 / n_same.sum())
        return BoundPairwiseLoss(self.threshold, shares_same / LN2, float(share_other) / LN2)


@dataclass(frozen=True)
class BoundPairwiseLoss:
    threshold: float
    shares_same: NDArray[np.float64]  # (N,) c_ij / ln 2 of a same-class pair of each sample
    share_other: float  # c_ij / ln 2 of an other-class pair

    n_statistics = 0
    has_tile_values = True
    has_all_same = True

    def anchor_candidates(self, relation: Relation) -> IntArray:
        return np.arange(relation.n_samples)

    def on_anchors(self, anchors: IntArray) -> "BoundPairwiseLoss":
        return self  # the tiles say how often their pairs count

    def statistics(self, D: Array, pairs: PairTile, mirrored: bool) -> tuple[LogSums, LogSums | None]:
        raise NotImplementedError("the pairwise loss needs no row statistics")

    def anchors(self, statistics: LogSums) -> tuple[float, Anchors]:
        return 0.0, Anchors(self.shares_same, statistics)

    def anchor_values(self, statistics: LogSums) -> NDArray[np.float64]:
        return np.zeros(len(statistics))

    def tile_value(self, D: Array, pairs: PairTile, rows: Anchors, mirrored: bool) -> float:
        value, _ = self._value_and_weights(D, pairs, rows, _ends(mirrored))
        return value

    def tile_weights(
        self, D: Array, pairs: PairTile, rows: Anchors, cols: Anchors | None, out: Array | None = None
    ) -> tuple[float, Array]:
        return self._value_and_weights(D, pairs, rows, _ends(cols is not None), out)

    def _value_and_weights(
        self, D: Array, pairs: PairTile, rows: Anchors, ends: int, out: Array | None = None
    ) -> tuple[float, Array]:
        """The pairs of two classes all at once, then those of one class."""
        if pairs.count_others:
            share = ends * pairs.count_others * self.share_other
            H, total = sigmoid_and_softplus_sum(self.threshold, pairs.others(D), -share, out)
            value = share * total
        else:
            H, value = np.zeros_like(D), 0.0
        if pairs.runs is not None:
            shares = ends * pairs.count_same * rows.factors
            value += softplus_over_runs(self.threshold, D, pairs.runs, shares, H)
        return value, H


def _ends(mirrored: bool) -> int:
    """A mirrored tile stands for (i, j) and (j, i)."""
    return 2 if mirrored else 1
