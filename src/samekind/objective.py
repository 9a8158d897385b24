"""Loss x relation x tile plan x executor: the value of a loss, and what its weights make of the data.

Distances come as a source of tiles, so that every subproblem of the paper is the same call: joint metric (Algorithm 2),
a block on top of present distances (Algorithm 1, line 5), the scores of all groups (line 4).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.executor import Executor
from samekind.compute.sources import KeptTiles, TileSource
from samekind.compute.tiles import Tile, TilePlan
from samekind.kernels.laplacian import Form, Part, WeightTile
from samekind.kernels.reductions import LogSums, merge_log_sum_exp
from samekind.kernels.types import Array
from samekind.losses.base import Anchors, BoundLoss, Loss
from samekind.relation import Relation

Made = TypeVar("Made")
Result = TypeVar("Result")

KEPT_SHARE = 3 / 8  # of the memory budget for tiles kept within one evaluation, and as much for present distances


@dataclass(frozen=True)
class Objective:
    """The loss over all pairs of one relation, evaluated in tiles within `memory_budget` bytes."""

    loss: BoundLoss
    relation: Relation
    plan: TilePlan
    executor: Executor
    memory_budget: int
    dtype: DTypeLike

    @classmethod
    def over(
        cls, loss: Loss, relation: Relation, executor: Executor, memory_budget: int, dtype: DTypeLike
    ) -> "Objective":
        plan = TilePlan.for_budget(relation.n_samples, memory_budget, dtype)
        return cls(loss.bind(relation), relation, plan, executor, memory_budget, dtype)

    def value(self, distances: TileSource[Array]) -> float:
        """loss(D)"""
        value, _ = self._anchors(distances)
        if not self.loss.has_tile_values:
            return value

        def strip_value(strip: list[Tile]) -> float:
            return sum(
                self.loss.tile_value(distances.tile(t), self.relation.tile(t.rows, t.cols), t.mirrored) for t in strip
            )

        return value + sum(self.executor.map(strip_value, self.plan.strips()))

    def value_and_form(self, distances: TileSource[Array], form: Form[Result]) -> tuple[float, Result]:
        """loss(D) and a form of its weights (see kernels.laplacian)."""
        return self.weights(distances).into(form)

    def weights(self, distances: TileSource[Array]) -> "Weights":
        """The loss's weights at these distances, ready to be put into forms."""
        if self.loss.n_statistics:
            distances = self.kept(distances)
        row_value, anchors = self._anchors(distances)
        return Weights(self, row_value, WeightSource(self, distances, anchors))

    def kept(self, source: TileSource[Made]) -> KeptTiles[Made]:
        itemsize = np.dtype(self.dtype).itemsize
        return KeptTiles(source, self.plan, itemsize, int(self.memory_budget * KEPT_SHARE))

    def over_blocks(self, function: Callable[[slice], Result]) -> Iterator[Result]:
        """A function of each block of rows, in order."""
        return self.executor.map(function, self.plan.blocks())

    def _anchors(self, distances: TileSource[Array]) -> tuple[float, Anchors]:
        statistics = np.full((self.relation.n_samples, self.loss.n_statistics), -np.inf)
        if self.loss.n_statistics:
            for strip, parts in zip(
                self.plan.strips(),
                self.executor.map(lambda strip: self._strip_statistics(distances, strip), self.plan.strips()),
                strict=True,
            ):
                _merge(statistics, strip, parts)
        return self.loss.anchors(statistics)

    def _strip_statistics(
        self, distances: TileSource[Array], strip: list[Tile]
    ) -> list[tuple[LogSums, LogSums | None]]:
        return [self.loss.statistics(distances.tile(t), self.relation.tile(t.rows, t.cols), t.mirrored) for t in strip]


@dataclass(frozen=True)
class Weights:
    """H of every tile, made when asked for."""

    objective: Objective
    row_value: float  # the loss's value, as far as it comes from row statistics
    source: TileSource[WeightTile]

    def into(self, form: Form[Result]) -> tuple[float, Result]:
        """The loss's value and a form of its weights, in one sweep."""
        values = [self.row_value]

        def strip_part(strip: list[Tile]) -> tuple[float, Part]:
            strip_values: list[float] = []
            part = form.strip(self._noting(strip_values, strip))
            return sum(strip_values), part

        def parts() -> Iterator[Part]:
            for value, part in self.objective.executor.map(strip_part, self.objective.plan.strips()):
                values.append(value)
                yield part

        result = form.total(parts(), self.objective.over_blocks)
        return sum(values), result

    def kept(self) -> "Weights":
        """The same, each tile made only once if the memory budget allows: for more than one form."""
        return replace(self, source=self.objective.kept(self.source))

    def _noting(self, values: list[float], strip: list[Tile]) -> Iterator[WeightTile]:
        for tile in strip:
            made = self.source.tile(tile)
            values.append(made.value)
            yield made


@dataclass(frozen=True)
class WeightSource:
    """The loss's weights of a tile."""

    objective: Objective
    distances: TileSource[Array]
    anchors: Anchors

    def tile(self, tile: Tile) -> WeightTile:
        value, H = self.objective.loss.tile_weights(
            self.distances.tile(tile),
            self.objective.relation.tile(tile.rows, tile.cols),
            self.anchors.of(tile.rows),
            self.anchors.of(tile.cols) if tile.mirrored else None,
        )
        return WeightTile(tile.rows, tile.cols, H, value)


def _merge(statistics: LogSums, strip: list[Tile], parts: list[tuple[LogSums, LogSums | None]]) -> None:
    for tile, (rows, cols) in zip(strip, parts, strict=True):
        statistics[tile.rows] = merge_log_sum_exp(statistics[tile.rows], rows)
        if cols is not None:
            statistics[tile.cols] = merge_log_sum_exp(statistics[tile.cols], cols)
