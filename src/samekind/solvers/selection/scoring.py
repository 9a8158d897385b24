"""Scores of line 4 of Algorithm 1, `||Pi_PSD(-[df/dA]_kk)||`: exactly, or by a sketch of the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

import numpy as np

from samekind.compute.site import Recipe
from samekind.kernels.sketch import SketchedLaplacian
from samekind.kernels.spectral import Matrix, Norm, block_scores
from samekind.model.block_metric import BlockMetric
from samekind.objective import Objective, Weights
from samekind.solvers.optimise.problem import Point
from samekind.solvers.selection.site import SelectionSite, gradients_of_groups, site_of
from samekind.store.base import batches

Pulls: TypeAlias = Mapping[int, Matrix]  # the ridge's gradient by the blocks of those groups that have one


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
        sizes, pulls = self.site.store.group_sizes, self._pulls(groups, metric)
        for batch in batches([int(sizes[k]) for k in groups], self.site.store.widest_panel):
            chosen = [int(groups[at]) for at in batch]
            gradients: list[Matrix] = weights.into(Recipe(gradients_of_groups, chosen))[1]
            for _, run in groupby(zip(chosen, gradients, strict=True), lambda each: len(each[1])):
                numbers, G = zip(*run, strict=True)
                scores += _scores(numbers, np.stack(G), pulls, self.norm).tolist()
        return np.array(scores)

    def sketched(self, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric) -> Point:
        """Scores from a sketch of the weights, at a cost of N d^2 for a group of d columns."""
        scores, pulls = np.zeros(len(groups)), self._pulls(groups, metric)
        parts = self.site.objective.executor.over_groups(self.site, sketched_on, groups, laplacian, pulls, self.norm)
        for at, made in parts:
            scores[at] = made
        return scores

    def _pulls(self, groups: Sequence[int], metric: BlockMetric) -> Pulls:
        return {k: self.ridge * metric.blocks[k] for k in groups if k in metric.blocks}


def sketched_on(
    objective: Objective, groups: Sequence[int], laplacian: SketchedLaplacian, pulls: Pulls, norm: Norm
) -> Point:
    """The sketched scores of some groups, wherever they are computed."""
    site = site_of(objective)
    sources, laplacian = site.sources, replace(laplacian, layout=site.layout)  # which has computed its panels

    def of_batch(batch: Sequence[int]) -> Point:
        stack = sources.of(batch)
        return _scores(batch, stack.mapped(laplacian.blocks(stack.Z)), pulls, norm)

    parts = list(objective.executor.map(of_batch, sources.batches(groups)))
    return np.concatenate(parts) if parts else np.zeros(0)


def _scores(groups: Sequence[int], G: Matrix, pulls: Pulls, norm: Norm) -> Point:
    """Scores of groups, from the stack of the loss's gradients by their blocks."""
    for k, G_k in zip(groups, G, strict=True):
        if k in pulls:
            size = len(pulls[k])
            G_k[:size, :size] += pulls[k]
    return block_scores(G, norm)
