"""Scores of line 4 of Algorithm 1, `||Pi_PSD(-[df/dA]_kk)||`: exactly, or by a sketch of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from samekind.compute.executor import Executor
from samekind.kernels.laplacian import BlockForm
from samekind.kernels.sketch import SketchedLaplacian
from samekind.kernels.spectral import Matrix, Norm, block_scores
from samekind.kernels.types import IntArray
from samekind.objective import Objective, Weights
from samekind.solvers.optimise.projected import Point
from samekind.solvers.selection.blocks import BlockMetric
from samekind.solvers.selection.site import GroupBlocks, SelectionSite
from samekind.store import FeatureStore, centred
from samekind.store.base import batches, columns_of
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
        return Sources(self.store, self.rows) if self._site is None else self._site.sources

    @property
    def _site(self) -> SelectionSite | None:
        return self.objective.site if isinstance(self.objective.site, SelectionSite) else None

    def exact(self, weights: Weights, groups: Sequence[int], metric: BlockMetric) -> Point:
        """Over all pairs: N^2 d for a group of d columns."""
        scores: list[float] = []
        sizes = self.store.group_sizes
        for batch in batches([int(sizes[k]) for k in groups], self.store.widest_panel):
            chosen = [int(groups[at]) for at in batch]
            _, gradients = weights.into(self._blocks(chosen))
            for _, run in groupby(zip(chosen, gradients, strict=True), lambda each: len(each[1])):
                numbers, G = zip(*run, strict=True)
                scores += scores_of(numbers, np.stack(G), metric.blocks, self.ridge, self.norm).tolist()
        return np.array(scores)

    def _blocks(self, groups: list[int]) -> GroupBlocks | BlockForm:
        if self._site is not None:
            return GroupBlocks(groups)
        return BlockForm(centred(self.store.panel(groups, self.rows)), columns_of(self.store, groups))

    def sketched(self, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric) -> Point:
        """By a sketch of the weights: N d^2 for a group of d columns."""
        blocks = {k: metric.blocks[k] for k in groups if k in metric.blocks}
        if self._site is None:
            return _sketched(self.objective.executor, self.sources, groups, laplacian, blocks, self.ridge, self.norm)
        scores = np.zeros(len(groups))
        for at, made in self.objective.executor.over_groups(
            self._site, sketched_on, groups, laplacian, blocks, self.ridge, self.norm
        ):
            scores[at] = made
        return scores


def sketched_on(
    objective: Objective,
    groups: Sequence[int],
    laplacian: SketchedLaplacian,
    blocks: Mapping[int, Matrix],
    ridge: float,
    norm: Norm,
) -> Point:
    """The sketched scores of some groups, wherever they are computed."""
    site = objective.site
    assert isinstance(site, SelectionSite)
    laplacian = replace(laplacian, layout=site.layout)  # which has computed its panels
    return _sketched(objective.executor, site.sources, groups, laplacian, blocks, ridge, norm)


def _sketched(
    executor: Executor,
    sources: Sources,
    groups: Sequence[int],
    laplacian: SketchedLaplacian,
    blocks: Mapping[int, Matrix],
    ridge: float,
    norm: Norm,
) -> Point:
    def of_batch(batch: Sequence[int]) -> Point:
        stack = sources.of(batch)
        return scores_of(batch, stack.mapped(laplacian.blocks(stack.Z)), blocks, ridge, norm)

    parts = list(executor.map(of_batch, _batches(groups, sources)))
    return np.concatenate(parts) if parts else np.zeros(0)


def _batches(groups: Sequence[int], sources: Sources) -> list[Sequence[int]]:
    share = max(1, -(-len(groups) // FEWEST_BATCHES))
    n = min(BATCH_GROUPS, max(1, BATCH_BYTES // sources.largest), share)
    return [groups[start : start + n] for start in range(0, len(groups), n)]


def scores_of(groups: Sequence[int], G: Matrix, blocks: Mapping[int, Matrix], ridge: float, norm: Norm) -> Point:
    """From a stack of gradients of the loss, and the blocks that are there."""
    for k, G_k in zip(groups, G, strict=True):
        if k in blocks:
            block = blocks[k]
            G_k[: len(block), : len(block)] += ridge * block
    return block_scores(G, norm)
