"""Loss x relation x tile plan x executor: the value of a loss, and what its weights make of the data.

Distances come as a source of tiles, so that every subproblem of the paper is the same call: joint metric (Algorithm 2),
a block on top of present distances (Algorithm 1, line 5), the scores of all groups (line 4).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.anchors import DEFAULT_SAMPLING, SamplingOptions, anchor_plan, subset_plan
from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget
from samekind.compute.sources import KeptTiles, TileSource
from samekind.compute.tiles import Plan, Tile, TileKey, TilePlan, largest_block
from samekind.kernels.laplacian import Form, Part, WeightTile
from samekind.kernels.reductions import LogSums, merge_log_sum_exp
from samekind.kernels.types import Array, IntArray
from samekind.losses.base import Anchors, BoundLoss, Loss
from samekind.relation import PairTile, Relation

Made = TypeVar("Made")
Result = TypeVar("Result")

ANCHORS_PER_MEMBER = 4  # an anchor with all columns costs more than a member of a subset, so fewer are drawn


@dataclass(frozen=True)
class Objective:
    """The loss over all pairs of one relation, or a sample of them, evaluated in tiles within a memory budget."""

    loss: BoundLoss
    relation: Relation
    plan: Plan
    executor: Executor
    memory: MemoryBudget
    dtype: DTypeLike
    sampling: SamplingOptions = DEFAULT_SAMPLING
    known_pairs: "KnownPairs | None" = None  # of a sample: its tiles are visited again and again

    @classmethod
    def over(
        cls, loss: Loss, relation: Relation, executor: Executor, memory: MemoryBudget, dtype: DTypeLike
    ) -> "Objective":
        plan = TilePlan.for_budget(relation.n_samples, memory, dtype)
        return cls(loss.bind(relation), relation, plan, executor, memory, dtype)

    @property
    def is_sample(self) -> bool:
        """Whether the loss is estimated from the pairs of some anchors."""
        return self.plan.is_sample

    @property
    def n_anchors(self) -> int:
        """Rows whose pairs are visited."""
        return self.plan.n_anchors

    @property
    def anchors(self) -> IntArray:
        """These rows."""
        return self.plan.anchors

    @property
    def n_candidates(self) -> int:
        """Rows eligible as anchors."""
        return len(self.loss.anchor_candidates(self.relation))

    def sampled(self, n_anchors: int, rng: np.random.RandomState, without: IntArray | None = None) -> "Objective":
        """The same loss, estimated without bias from the pairs of `n_anchors` random rows with all others.

        `without`: none of these rows is taken.
        """
        plan = anchor_plan(
            self.loss.anchor_candidates(self.relation),
            self.relation.class_sizes,
            n_anchors,
            rng,
            cells=largest_block(self.memory, self.dtype) ** 2,
            all_same=self.loss.has_all_same,
            without=without,
            options=self.sampling,
        )
        loss, known = self.loss.on_anchors(plan.anchors), KnownPairs(self.memory.pairs)
        return replace(self, plan=plan, loss=loss, known_pairs=known)

    def sampled_pairs(self, n_members: int, rng: np.random.RandomState) -> "Objective":
        """The same loss, estimated at the least cost for its noise: from the pairs among some samples, where it counts
        pairs one by one; or else from a quarter as many anchors."""
        if not self.loss.has_all_same:
            return self.sampled(n_members // ANCHORS_PER_MEMBER, rng)
        plan = subset_plan(
            self.relation.class_sizes,
            self.relation.codes,
            n_members,
            rng,
            cells=largest_block(self.memory, self.dtype) ** 2,
            options=self.sampling,
        )
        return replace(self, plan=plan, known_pairs=KnownPairs(self.memory.pairs))

    def value(self, distances: TileSource[Array]) -> float:
        """loss(D)"""
        value, anchors = self.loss.anchors(self._statistics(distances))
        return value + sum(sum(value for _, value in strip) for strip in self._tile_values(distances, anchors))

    def batch_values(self, distances: TileSource[Array]) -> Array:
        """loss(D) as each batch of a sample's anchors estimates it: their mean is the value, their spread its noise."""
        batches = self.plan.batches
        if not batches:
            raise ValueError("Only a sample of anchors, as `sampled` draws it, has batches whose spread is the noise.")
        statistics = self._statistics(distances)
        by_anchor, (_, anchors) = self.loss.anchor_values(statistics), self.loss.anchors(statistics)
        estimates = np.array([by_anchor[batch].sum() for batch in batches])
        certain = 0.0
        for tile, value in chain.from_iterable(self._tile_values(distances, anchors)):
            if tile.number is not None and tile.number < len(batches):
                estimates[tile.number] += value
            else:
                certain += value
        shares = np.array([len(batch) for batch in batches]) / self.n_anchors
        return estimates / shares + certain

    def _tile_values(self, distances: TileSource[Array], anchors: Anchors) -> Iterator[list[tuple[Tile, float]]]:
        """Strip by strip."""
        if not self.loss.has_tile_values:
            return iter(())

        def strip_values(strip: list[Tile]) -> list[tuple[Tile, float]]:
            return [
                (t, self.loss.tile_value(distances.tile(t), self.pairs(t), anchors.of(t.rows), t.mirrored))
                for t in strip
            ]

        return self.executor.map(strip_values, self.plan.strips())

    def pairs(self, tile: Tile) -> PairTile:
        """The relation on a tile."""
        known = None if self.known_pairs is None else self.known_pairs.tiles.get(tile.key)
        if known is not None:
            return known
        pairs = self.relation.tile(tile.rows, tile.cols, tile.others, tile.same)
        if self.known_pairs is not None:
            self.known_pairs.keep(tile.key, pairs)
        return pairs

    def value_and_form(self, distances: TileSource[Array], form: Form[Result]) -> tuple[float, Result]:
        """loss(D) and a form of its weights (see kernels.laplacian)."""
        return self.weights(distances).into(form)

    def weights(self, distances: TileSource[Array]) -> "Weights":
        """The loss's weights at these distances, ready to be put into forms."""
        if self.loss.n_statistics:
            distances = self.kept(distances)
        row_value, anchors = self.loss.anchors(self._statistics(distances))
        return Weights(self, row_value, WeightSource(self, distances, anchors))

    def kept(self, source: TileSource[Made]) -> KeptTiles[Made]:
        return KeptTiles(source, self.plan, np.dtype(self.dtype).itemsize, self.memory.kept)

    def over_blocks(self, function: Callable[[slice], Result]) -> Iterator[Result]:
        """A function of each block of rows, in order."""
        return self.executor.map(function, self.plan.blocks())

    def _statistics(self, distances: TileSource[Array]) -> LogSums:
        statistics = np.full((self.relation.n_samples, self.loss.n_statistics), -np.inf)
        if self.loss.n_statistics:
            for strip, parts in zip(
                self.plan.strips(),
                self.executor.map(lambda strip: self._strip_statistics(distances, strip), self.plan.strips()),
                strict=True,
            ):
                _merge(statistics, strip, parts)
        return statistics

    def _strip_statistics(
        self, distances: TileSource[Array], strip: list[Tile]
    ) -> list[tuple[LogSums, LogSums | None]]:
        return [self.loss.statistics(distances.tile(t), self.pairs(t), t.mirrored) for t in strip]


@dataclass
class KnownPairs:
    """Relations on tiles, as many as fit."""

    room: int  # bytes
    tiles: dict[TileKey, PairTile] = field(default_factory=dict)

    def keep(self, key: TileKey, pairs: PairTile) -> None:
        needed = pairs.nbytes
        if needed <= self.room:
            self.room -= needed
            self.tiles[key] = pairs


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

    def kept(self, over: "Weights | None" = None) -> "Weights":
        """The same, each tile made only once if the memory budget allows: for more than one form.

        `over`: kept weights of the same objective that nobody needs any more. Their memory is used again, since the
        first touch of fresh memory takes longer than making the weights.
        """
        source = self.source
        if over is not None and isinstance(over.source, KeptTiles) and isinstance(source, WeightSource):
            source = replace(source, memory={key: tile.H for key, tile in over.source.kept.items()})
        return replace(self, source=self.objective.kept(source))

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
    memory: Mapping[TileKey, Array] = field(default_factory=dict)  # for the weights of some tiles

    def tile(self, tile: Tile) -> WeightTile:
        room = self.memory.get(tile.key)
        value, H = self.objective.loss.tile_weights(
            self.distances.tile(tile),
            self.objective.pairs(tile),
            self.anchors.of(tile.rows),
            self.anchors.of(tile.cols) if tile.mirrored else None,
            room,
        )
        if room is not None and H is not room:
            np.copyto(room, H)
            H = room
        return WeightTile.of(tile.rows, tile.cols, H, value, tile.number)


def _merge(statistics: LogSums, strip: list[Tile], parts: list[tuple[LogSums, LogSums | None]]) -> None:
    for tile, (rows, cols) in zip(strip, parts, strict=True):
        statistics[tile.rows] = merge_log_sum_exp(statistics[tile.rows], rows)
        if cols is not None:
            statistics[tile.cols] = merge_log_sum_exp(statistics[tile.cols], cols)
