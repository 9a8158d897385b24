"""Scores of line 4 of Algorithm 1, `||Pi_PSD(-[df/dA]_kk)||`: exactly, or by a sketch of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from samekind.compute.site import Recipe
from samekind.kernels.sketch import SketchedLaplacian
from samekind.kernels.spectral import Matrix, Norm, block_scores
from samekind.objective import Objective, Weights
from samekind.solvers.optimise.problem import Point
from samekind.solvers.selection.blocks import BlockMetric
from samekind.solvers.selection.site import SelectionSite, gradients_of_groups, site_of
from samekind.store.base import batches


@dataclass(frozen=True)
class Scoring:
    """How much f falls, to first order, when a group's block moves within a unit ball."""

    site: SelectionSite
    ridge: float
    norm: Norm

    @property
    def rounding(self) -> float:
        """Relative differences of scores up to this are rounding errors."""
        return float(10 * np.finfo(self.site.objective.dtype).eps)

    def exact(self, weights: Weights, groups: Sequence[int], metric: BlockMetric) -> Point:
        """Scores over all pairs, at a cost of N^2 d for a group of d columns."""
        scores: list[float] = []
        sizes, penalty = self.site.store.group_sizes, self._penalty(groups, metric)
        for batch in batches([int(sizes[k]) for k in groups], self.site.store.widest_panel):
            chosen = [int(groups[at]) for at in batch]
            gradients: list[Matrix] = weights.into(Recipe(gradients_of_groups, chosen))[1]
            for _, run in groupby(zip(chosen, gradients, strict=True), lambda each: len(each[1])):
                numbers, G = zip(*run, strict=True)
                scores += penalty.scores(numbers, np.stack(G)).tolist()
        return np.array(scores)

    def sketched(self, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric) -> Point:
        """Scores from a sketch of the weights, at a cost of N d^2 for a group of d columns."""
        scores, penalty = np.zeros(len(groups)), self._penalty(groups, metric)
        parts = self.site.objective.executor.over_groups(self.site, sketched_on, groups, laplacian, penalty)
        for at, made in parts:
            scores[at] = made
        return scores

    def _penalty(self, groups: Sequence[int], metric: BlockMetric) -> Penalty:
        return Penalty({k: metric.blocks[k] for k in groups if k in metric.blocks}, self.ridge, self.norm)


@dataclass(frozen=True, eq=False)
class Penalty:
    """What scores need besides the gradient of the loss: the ridge, its blocks, and the norm."""

    blocks: Mapping[int, Matrix]  # of those groups that have one
    ridge: float
    norm: Norm

    def scores(self, groups: Sequence[int], G: Matrix) -> Point:
        """Scores of groups, from the stack of the loss's gradients by their blocks."""
        for k, G_k in zip(groups, G, strict=True):
            if k in self.blocks:
                block = self.blocks[k]
                G_k[: len(block), : len(block)] += self.ridge * block
        return block_scores(G, self.norm)


def sketched_on(objective: Objective, groups: Sequence[int], laplacian: SketchedLaplacian, penalty: Penalty) -> Point:
    """The sketched scores of some groups, wherever they are computed."""
    site = site_of(objective)
    sources, laplacian = site.sources, replace(laplacian, layout=site.layout)  # which has computed its panels

    def of_batch(batch: Sequence[int]) -> Point:
        stack = sources.of(batch)
        return penalty.scores(batch, stack.mapped(laplacian.blocks(stack.Z)))

    parts = list(objective.executor.map(of_batch, sources.batches(groups)))
    return np.concatenate(parts) if parts else np.zeros(0)
