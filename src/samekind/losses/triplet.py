"""Triplet loss: every sample nearer to its own class than to others (Eq. 9-11)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.exponentials import exp_times_sum, without_least
from samekind.kernels.reductions import (
    LogSums,
    log_sum_exp_at,
    log_sum_exp_negative,
    shared_exponent_range,
)
from samekind.kernels.types import Array, BoolArray, IntArray
from samekind.losses.base import Anchors
from samekind.relation import PairTile, Relation

TARGETS, OTHERS = (
    0,
    1,
)  # columns of the row statistics: ln sum e^d over T(i), ln sum e^-d over the other classes


@dataclass(frozen=True)
class TripletLoss:
    """`1/(M ln(1 + beta)) * sum_i softplus(z_i)` over the M samples that have a target neighbour,

    `z_i = ln beta + logmeanexp_{j in T(i)} d_ij + logmeanexp_{k: other class} (-d_ik)`.
    """

    beta: float = 1e6

    def bind(self, relation: Relation) -> "BoundTripletLoss":
        is_anchor = relation.n_targets > 0
        counts = np.maximum(relation.n_targets, 1) * relation.n_other.astype(np.float64)
        return BoundTripletLoss(
            is_anchor=is_anchor,
            log_scale=np.log(self.beta) - np.log(counts),
            share=float(1 / (is_anchor.sum() * np.log1p(self.beta))),
        )


@dataclass(frozen=True)
class BoundTripletLoss:
    is_anchor: BoolArray  # (N,)
    log_scale: NDArray[np.float64]  # (N,) ln beta - ln |T(i)| - ln N_i^-
    share: float  # 1 / (M ln(1 + beta))

    n_statistics = 2
    has_tile_values = False
    has_all_same = False

    def anchor_candidates(self, relation: Relation) -> IntArray:
        return np.flatnonzero(self.is_anchor)

    def on_anchors(self, anchors: IntArray) -> "BoundTripletLoss":
        """The mean over some anchors only."""
        chosen = np.zeros_like(self.is_anchor)
        chosen[anchors] = True
        chosen &= self.is_anchor
        return replace(self, is_anchor=chosen, share=self.share * float(self.is_anchor.sum() / chosen.sum()))

    def statistics(self, D: Array, pairs: PairTile, mirrored: bool) -> tuple[LogSums, LogSums | None]:
        rows, cols = (_columns(others) for others in log_sum_exp_negative(pairs.others(D)))
        rows[:, TARGETS] = log_sum_exp_at(D[pairs.targets], pairs.targets[0], len(rows))
        if not mirrored:
            return rows, None
        cols[:, TARGETS] = log_sum_exp_at(D[pairs.targets_back], pairs.targets_back[1], len(cols))
        return rows, cols

    def anchors(self, statistics: LogSums) -> tuple[float, Anchors]:
        """The value, and `share sigmoid(z_i)` for each anchor: what its weights add up to on either side."""
        factors = self.share * np.exp(-np.logaddexp(0, -self._z(statistics)))
        return float(self.anchor_values(statistics).sum()), Anchors(factors, statistics)

    def anchor_values(self, statistics: LogSums) -> NDArray[np.float64]:
        values: NDArray[np.float64] = self.share * np.logaddexp(0, self._z(statistics))
        return values

    def _z(self, statistics: LogSums) -> NDArray[np.float64]:
        return np.where(self.is_anchor, self.log_scale + statistics.sum(axis=1), -np.inf)

    def tile_value(self, D: Array, pairs: PairTile, rows: Anchors, mirrored: bool) -> float:
        return 0.0

    def tile_weights(
        self, D: Array, pairs: PairTile, rows: Anchors, cols: Anchors | None, out: Array | None = None
    ) -> tuple[float, Array]:
        """Softmax weights of Eq. 11 (phi+ and phi- exchanged, see docs/notation.md), from the rows and the columns."""
        H = _others(pairs.others(D), rows, cols)
        H[pairs.targets] += _targets(D[pairs.targets], rows, pairs.targets[0])
        if cols is not None:
            H[pairs.targets_back] += _targets(D[pairs.targets_back], cols, pairs.targets_back[1])
        return 0.0, H


def _columns(others: LogSums) -> LogSums:
    columns = np.full((len(others), 2), -np.inf)
    columns[:, OTHERS] = others
    return columns


def _targets(d: Array, anchors: Anchors, places: IntArray) -> Array:
    """`factor_i exp(d_ij - ln sum_T e^d)` of single pairs, i being their places among the anchors."""
    weights: Array = anchors.factors[places] * np.exp(d - anchors.statistics[places, TARGETS])
    return without_least(weights.astype(d.dtype))


def _others(D: Array, rows: Anchors, cols: Anchors | None) -> Array:
    """`-factor_i exp(-d_ij - ln sum e^-d)` from the rows, plus the same from the columns.

    One exponential serves both ends when the shifts lie close enough together.
    """
    shifts, back = rows.statistics[:, OTHERS], np.zeros(0) if cols is None else cols.statistics[:, OTHERS]
    both = np.concatenate([shifts, back])
    low, high = both.min(), both.max()
    if high - low <= shared_exponent_range(D.dtype):
        from_cols = np.zeros(D.shape[1]) if cols is None else -cols.factors * np.exp(low - back)
        return exp_times_sum(-low, D, -rows.factors * np.exp(low - shifts), from_cols)
    E = _softmin(D, shifts[:, None], rows.factors[:, None])
    if cols is not None:
        E += _softmin(D, back[None, :], cols.factors[None, :])
    return E


def _softmin(D: Array, shifts: NDArray[np.float64], factors: NDArray[np.float64]) -> Array:
    E = -D - shifts.astype(D.dtype)
    np.exp(E, out=E)
    E *= -factors.astype(D.dtype)
    return without_least(E)
