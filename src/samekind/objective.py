"""Loss x relation x tile plan x executor: the value of a loss, and what its weights make of the data.

Distances come as a source of tiles, so that every subproblem of the paper is the same call: joint metric (Algorithm 2),
a block on top of present distances (Algorithm 1, line 5), the scores of all groups (line 4). Where the objective has a
site, they may come as recipes, which are opened where the work is done: `values_on`, `statistics_on` and `form_on` are
the operations that an executor may hand to others (see `compute.site`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.anchors import DEFAULT_SAMPLING, SamplingOptions, anchor_plan, subset_plan
from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget
from samekind.compute.reduction import Node, reduced, total_of
from samekind.compute.site import Recipe, Share, Site, opened
from samekind.compute.sources import KeptTiles, TileSource
from samekind.compute.tiles import Plan, Tile, TileKey, TilePlan, largest_block
from samekind.kernels.laplacian import Form, StripSums, WeightTile
from samekind.kernels.reductions import LogSums, merge_log_sum_exp
from samekind.kernels.types import Array, IntArray
from samekind.losses.base import Anchors, BoundLoss, Loss
from samekind.relation import PairTile, Relation

Made = TypeVar("Made")
Result = TypeVar("Result")

FEW_SAMPLES = 1_000  # up to here the relation is kept, as making it takes as long as the loss
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
    known_pairs: "KnownPairs | None" = None  # of few samples: their tiles are visited again and again
    site: Site | None = None  # what recipes of distances and forms are opened from

    @classmethod
    def over(
        cls, loss: Loss, relation: Relation, executor: Executor, memory: MemoryBudget, dtype: DTypeLike
    ) -> "Objective":
        plan = TilePlan.for_budget(relation.n_samples, memory, dtype)
        known = KnownPairs(memory.pairs) if relation.n_samples <= FEW_SAMPLES else None
        return cls(loss.bind(relation), relation, plan, executor, memory, dtype, known_pairs=known)

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
        return replace(self, plan=plan, loss=loss, known_pairs=known, site=None)

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
        return replace(self, plan=plan, known_pairs=KnownPairs(self.memory.pairs), site=None)

    def value(self, distances: "Distances") -> float:
        """loss(D)"""
        distances, statistics = self._statistics(distances)
        value, anchors = self.loss.anchors(statistics)
        value += sum(sum(strip) for strip in self._tile_values(distances, anchors))
        self.release()
        return value

    def batch_values(self, distances: "Distances") -> Array:
        """Estimates of loss(D), one from each batch of a sample's anchors: their spread is the noise of their mean."""
        batches = self.plan.batches
        if not batches:
            raise ValueError("Only a sample of anchors, as `sampled` draws it, has batches whose spread is the noise.")
        distances, statistics = self._statistics(distances)
        by_anchor, (_, anchors) = self.loss.anchor_values(statistics), self.loss.anchors(statistics)
        estimates = np.array([by_anchor[batch].sum() for batch in batches])
        certain = 0.0
        values = chain.from_iterable(self._tile_values(distances, anchors))
        for tile, value in zip(self.plan.tiles(), values, strict=False):
            if tile.number is not None and tile.number < len(batches):
                estimates[tile.number] += value
            else:
                certain += value
        self.release()
        shares = np.array([len(batch) for batch in batches]) / self.n_anchors
        return estimates / shares + certain

    def _tile_values(self, distances: "Distances", anchors: Anchors) -> Iterator[list[float]]:
        """Strip by strip."""
        if self.loss.has_tile_values:
            by_strip: dict[int, list[float]] = {}
            for values in self._over_leaves(values_on, distances, self._travelling(anchors)):
                by_strip |= values
            yield from (by_strip[at] for at in range(len(by_strip)))

    def _over_leaves(self, operation: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Run an operation on all leaves; in this process where there is no site, as others could not open recipes."""
        executor = self.executor.local if self.site is None else self.executor
        return executor.over_leaves(self, operation, *arguments)

    def release(self) -> None:
        """An evaluation is over."""
        if self.site is not None:
            self.site.release()

    def _travelling(self, anchors: Anchors) -> Anchors | None:
        """What is sent to other processes: None for a loss without statistics, whose anchors each process can make."""
        return anchors if self.loss.n_statistics else None

    def anchors_from(self, anchors: Anchors | None) -> Anchors:
        return self.loss.anchors(np.zeros((self.relation.n_samples, 0)))[1] if anchors is None else anchors

    def pairs(self, tile: Tile) -> PairTile:
        """The relation on a tile."""
        known = None if self.known_pairs is None else self.known_pairs.tiles.get(tile.key)
        if known is not None:
            return known
        pairs = self.relation.tile(tile.rows, tile.cols, tile.others, tile.same)
        if self.known_pairs is not None:
            self.known_pairs.keep(tile.key, pairs)
        return pairs

    def value_and_form(self, distances: "Distances", form: "Form[Result] | Recipe") -> tuple[float, Result]:
        """loss(D) and a form of its weights (see kernels.laplacian)."""
        return self.weights(distances).into(form)

    def weights(self, distances: "Distances") -> "Weights":
        """The loss's weights at these distances, ready to be put into forms."""
        distances, statistics = self._statistics(distances)
        row_value, anchors = self.loss.anchors(statistics)
        return Weights(row_value, distances, self._travelling(anchors), objective=self)

    def kept(self, source: TileSource[Made]) -> KeptTiles[Made]:
        return KeptTiles(source, self.plan, np.dtype(self.dtype).itemsize, self.memory.kept)

    def over_blocks(self, function: Callable[[slice], Result]) -> Iterator[Result]:
        """A function of each block of rows, in order."""
        return self.executor.map(function, self.plan.blocks())

    def _statistics(self, distances: "Distances") -> tuple["Distances", LogSums]:
        """Row statistics, and the distances, kept where the weights will need them again."""
        if not self.loss.n_statistics:
            return distances, np.full((self.relation.n_samples, 0), -np.inf)
        kept: Distances
        if isinstance(distances, Recipe):
            kept = Recipe(kept_distances, distances, next(_numbers))
        else:
            kept = self.kept(distances)
        nodes = chain.from_iterable(self._over_leaves(statistics_on, kept))
        return kept, total_of(nodes, merge_log_sum_exp)


Distances = TileSource[Array] | Recipe

_numbers = count()


def kept_distances(site: Site, leaves: Share, distances: Recipe, number: int) -> KeptTiles[Array]:
    """For a recipe: the distances of another one, made once as far as they fit."""
    source = opened(distances, site, leaves)
    kept: KeptTiles[Array] = site.remembered("distances", number, lambda _: site.objective.kept(source))
    kept.source = source
    return kept


def values_on(
    objective: Objective, leaves: Share, distances: Distances, anchors: Anchors | None
) -> dict[int, list[float]]:
    """The loss's values on the tiles of each strip, by its number."""
    source, anchors = opened(distances, objective.site, leaves), objective.anchors_from(anchors)

    def strip_values(strip: list[Tile]) -> list[float]:
        return [
            objective.loss.tile_value(source.tile(t), objective.pairs(t), anchors.of(t.rows), t.mirrored) for t in strip
        ]

    values = objective.executor.map(strip_values, objective.plan.strips_of(leaves))
    return dict(zip(objective.plan.strip_numbers(leaves), values, strict=True))


def statistics_on(objective: Objective, leaves: Share, distances: Distances) -> list[Node]:
    """The loss's row statistics (N, n_statistics), reduced as far as these leaves go."""
    source = opened(distances, objective.site, leaves)

    def strip_statistics(strip: list[Tile]) -> list[tuple[LogSums, LogSums | None]]:
        return [objective.loss.statistics(source.tile(t), objective.pairs(t), t.mirrored) for t in strip]

    strips = objective.plan.strips_of(leaves)
    parts = zip(strips, objective.executor.map(strip_statistics, strips), strict=True)

    def nodes() -> Iterator[Node]:
        all_leaves = objective.plan.leaves()
        for leaf in leaves:
            statistics = np.full((objective.relation.n_samples, objective.loss.n_statistics), -np.inf)
            for strip, made in islice(parts, len(all_leaves[leaf])):
                _merge(statistics, strip, made)
            yield Node(0, leaf, statistics)

    return reduced(nodes(), merge_log_sum_exp)


def form_on(
    objective: Objective, leaves: Share, weights: "Weights", form: "Form[Any] | Recipe"
) -> tuple[dict[int, float], list[Node]]:
    """The loss's value on each strip, by its number, and a form of the weights, reduced as far as these leaves go."""
    tiles, made = weights.tiles(objective, leaves), opened(form, objective.site, ())

    def strip_part(strip: list[Tile]) -> tuple[float, StripSums]:
        values: list[float] = []
        part = made.strip(_noting(values, tiles, strip))
        return sum(values), part

    values: list[float] = []
    parts = objective.executor.map(strip_part, objective.plan.strips_of(leaves))

    def noted(n_strips: int) -> Iterator[StripSums]:
        for value, part in islice(parts, n_strips):
            values.append(value)
            yield part

    all_leaves = objective.plan.leaves()
    nodes = reduced((Node(0, leaf, made.gathered(noted(len(all_leaves[leaf])))) for leaf in leaves), made.merged)
    return dict(zip(objective.plan.strip_numbers(leaves), values, strict=True)), nodes


def _noting(values: list[float], tiles: TileSource[WeightTile], strip: list[Tile]) -> Iterator[WeightTile]:
    for tile in strip:
        made = tiles.tile(tile)
        values.append(made.value)
        yield made


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


@dataclass(frozen=True, eq=False)
class Weights:
    """H of every tile, made when asked for, wherever they are needed."""

    row_value: float  # the loss's value, as far as it comes from row statistics
    distances: Distances
    anchors: Anchors | None
    is_kept: bool = False
    number: int = field(default_factory=lambda: next(_numbers))
    objective: Objective | None = None  # None where they came from another process, which has an objective of its own
    made: dict[str, TileSource[WeightTile]] = field(default_factory=dict)  # the tiles of this process

    def __reduce__(self) -> tuple[Any, ...]:
        return Weights, (self.row_value, self.distances, self.anchors, self.is_kept, self.number)

    def into(self, form: Form[Result] | Recipe) -> tuple[float, Result]:
        """The loss's value and a form of its weights, in one sweep."""
        objective = self.objective
        assert objective is not None
        values: dict[int, float] = {}
        nodes: list[Node] = []
        made: Form[Result] = opened(form, objective.site, ())
        for strip_values, reduced_nodes in objective._over_leaves(form_on, self, form):
            values |= strip_values
            nodes += reduced_nodes
        result = made.finished(total_of(nodes, made.merged), objective.over_blocks)
        objective.release()
        return sum((values[at] for at in range(len(values))), self.row_value), result

    def kept(self, over: "Weights | None" = None) -> "Weights":
        """The same, each tile made only once if the memory budget allows: for more than one form.

        `over`: kept weights of the same objective that nobody needs any more. Their memory is used again, since the
        first touch of fresh memory takes longer than making the weights.
        """
        before = None if over is None else over.made.get("own")
        made = {} if before is None else {"over": before}
        return replace(self, is_kept=True, number=next(_numbers), made=made)

    @property
    def source(self) -> TileSource[WeightTile]:
        """The tiles of all leaves, in this process."""
        assert self.objective is not None
        return self.tiles(self.objective, range(len(self.objective.plan.leaves())))

    def tiles(self, objective: Objective, leaves: Share) -> TileSource[WeightTile]:
        """Of an objective in this process; for some leaves, at least."""
        made: TileSource[WeightTile]
        distances = opened(self.distances, objective.site, leaves)
        if self.objective is None and self.is_kept:
            assert objective.site is not None
            made = objective.site.remembered(
                "weights", self.number, lambda over: self._made(objective, distances, over)
            )
        else:
            if "own" not in self.made:
                self.made["own"] = self._made(objective, distances, self.made.pop("over", None))
            made = self.made["own"]
        if isinstance(made, KeptTiles) and isinstance(made.source, WeightSource):
            made.source = replace(made.source, distances=distances)
        return made

    def _made(
        self, objective: Objective, distances: TileSource[Array], over: TileSource[WeightTile] | None
    ) -> TileSource[WeightTile]:
        source = WeightSource(objective, distances, objective.anchors_from(self.anchors))
        if not self.is_kept:
            return source
        if isinstance(over, KeptTiles):
            source = replace(source, memory={key: tile.H for key, tile in over.kept.items()})
        return objective.kept(source)


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
