"""Scores of line 4 of Algorithm 1, `||Pi_PSD(-[df/dA]_kk)||`: exactly, or by a sketch of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from samekind.kernels.laplacian import BlockForm
from samekind.kernels.sketch import SketchedLaplacian
from samekind.kernels.spectral import Matrix, Norm, block_scores
from samekind.kernels.types import IntArray
from samekind.objective import Objective, Weights
from samekind.solvers.optimise.projected import Point
from samekind.solvers.selection.blocks import BlockMetric
from samekind.store import FeatureStore, panels_of
from samekind.store.scan import Sources

BATCH_GROUPS, BATCH_BYTES = 16, 2**25  # sketched by one thread at once, and what they may take
FEWEST_BATCHES = 2  # of few groups, for any number of threads


@dataclass(frozen=True)
class Scoring:
    """How much f falls, to first order, when a group's block moves within a unit ball."""

    objective: Objective
    store: FeatureStore
    ridge: float
    norm: Norm

    @property
    def rows(self) -> IntArray:
        return self.objective.relation.order

    @property
    def rounding(self) -> float:
        """Relative differences of scores up to this are rounding errors."""
        return float(10 * np.finfo(self.objective.dtype).eps)

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.store, self.rows)

    def exact(self, weights: Weights, groups: Sequence[int], metric: BlockMetric) -> Point:
        """Over all pairs: N^2 d for a group of d columns."""
        scores: list[float] = []
        for panel in panels_of(self.store, groups, self.rows):
            _, gradients = weights.into(BlockForm(panel.Z, panel.columns))
            for _, run in groupby(zip(panel.groups, gradients, strict=True), lambda each: len(each[1])):
                numbers, G = zip(*run, strict=True)
                scores += self._scores(numbers, np.stack(G), metric).tolist()
        return np.array(scores)

    def sketched(self, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric) -> Point:
        """By a sketch of the weights: N d^2 for a group of d columns."""

        def scores_of(batch: Sequence[int]) -> Point:
            stack = self.sources.of(batch)
            return self._scores(batch, stack.mapped(laplacian.blocks(stack.Z)), metric)

        parts = list(self.objective.executor.map(scores_of, self._batches(groups)))
        return np.concatenate(parts) if parts else np.zeros(0)

    def _batches(self, groups: Sequence[int]) -> list[Sequence[int]]:
        share = max(1, -(-len(groups) // FEWEST_BATCHES))
        n = min(BATCH_GROUPS, max(1, BATCH_BYTES // self.sources.largest), share)
        return [groups[start : start + n] for start in range(0, len(groups), n)]

    def _scores(self, groups: Sequence[int], G: Matrix, metric: BlockMetric) -> Point:
        """From a stack of gradients of the loss."""
        for k, G_k in zip(groups, G, strict=True):
            if k in metric.blocks:
                block = metric.blocks[k]
                G_k[: len(block), : len(block)] += self.ridge * block
        return block_scores(G, self.norm)
