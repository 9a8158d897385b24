"""Plans of tiles over a sample of the pairs: some anchor rows against all columns, or the pairs among some samples.

A loss that is a sum over pairs takes other-class pairs from the sample and all same-class pairs in addition, in tiles
of their own: they are few, and each has a large weight. For such a loss the pairs among m samples have the variance of
m / 2 anchors against all columns, at a fraction of the cost.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from samekind.compute.tiles import SMALLEST_BLOCK, Plan, Tile, runs
from samekind.kernels.types import IntArray


@dataclass(frozen=True)
class SamplingOptions:
    """How a sample of the pairs is cut up."""

    batches: int = 16  # of anchors, whose spread estimates the noise
    most_columns: int = 4096  # of a tile
    subset_blocks: int = 6  # of rows, to be shared among threads, unless they become too small
    smallest_block: int = SMALLEST_BLOCK
    packed: int = 256  # samples whose classes share a tile
    most_class_rows: int = 1024  # beyond it, a class's pairs are sampled as well


DEFAULT_SAMPLING = SamplingOptions()


@dataclass(frozen=True)
class _SamplePlan(Plan):
    class_tiles: tuple[Tile, ...]
    others: float  # how often a visited pair of two classes counts

    @property
    def is_sample(self) -> bool:
        return True

    @property
    def n_anchors(self) -> int:
        return len(self.anchors)


@dataclass(frozen=True)
class AnchorPlan(_SamplePlan):
    """Batches of anchors against column blocks; a strip holds one column block, or tiles of classes."""

    same: float  # how often an anchor's pairs of one class count

    @property
    def anchors(self) -> IntArray:
        """Rising within a batch."""
        return np.concatenate(self.batches)

    @property
    def n_tiles(self) -> int:
        return len(self.blocks()) * len(self.batches) + len(self.class_tiles)

    def strips(self) -> list[list[Tile]]:
        by_columns = [
            [Tile(rows, cols, b, self.others, self.same) for b, rows in enumerate(self.batches)]
            for cols in self.blocks()
        ]
        return by_columns + _in_strips(self.class_tiles)


@dataclass(frozen=True)
class SubsetPlan(_SamplePlan):
    """All pairs among some samples, each unordered pair of blocks once, and tiles of classes.

    It has no batches: each pair has two members, so that parts of them are not independent.
    """

    members: IntArray  # rising

    @property
    def anchors(self) -> IntArray:
        return self.members

    @property
    def n_tiles(self) -> int:
        n = len(runs(len(self.members), self.block))
        return n * (n + 1) // 2 + len(self.class_tiles)

    def strips(self) -> list[list[Tile]]:
        parts = [self.members[part] for part in runs(len(self.members), self.block)]
        strips: list[list[Tile]] = []
        number = 0
        for i, rows in enumerate(parts):
            strips.append([])
            for cols in parts[i:]:
                strips[-1].append(Tile(rows, cols, number, self.others, 0.0, rows is not cols))
                number += 1
        return strips + _in_strips(self.class_tiles)


def subset_plan(
    class_sizes: IntArray,
    codes: IntArray,
    n_members: int,
    rng: np.random.RandomState,
    *,
    cells: int,
    options: SamplingOptions = DEFAULT_SAMPLING,
) -> SubsetPlan:
    """`n_members` samples drawn without replacement; tiles of at most `cells` cells."""
    n_samples = int(class_sizes.sum())
    members = np.sort(rng.permutation(n_samples)[:n_members])
    here = np.bincount(codes[members], minlength=len(class_sizes))
    seen = _n_other_pairs(here)
    others = _n_other_pairs(class_sizes) / seen if seen else 0.0
    block = int(min(cells**0.5, max(options.smallest_block, -(-n_members // options.subset_blocks))))
    n_tiles = SubsetPlan(n_samples, block, (), others, members).n_tiles
    tiles = tuple(_class_tiles(class_sizes, n_tiles, rng, cells, options))
    return SubsetPlan(n_samples, block, tiles, others, members)


def _n_other_pairs(class_sizes: IntArray) -> float:
    """Ordered pairs of two classes."""
    sizes = class_sizes.astype(np.float64)
    return float(sizes.sum() ** 2 - (sizes**2).sum())


def _in_strips(tiles: tuple[Tile, ...]) -> list[list[Tile]]:
    return [list(tiles[part]) for part in runs(len(tiles), 8) if part.stop]


def anchor_plan(
    candidates: IntArray,
    class_sizes: IntArray,
    n_anchors: int,
    rng: np.random.RandomState,
    *,
    cells: int,
    all_same: bool,
    without: IntArray | None = None,
    options: SamplingOptions = DEFAULT_SAMPLING,
) -> AnchorPlan:
    """`n_anchors` of the candidates, drawn without replacement; tiles of about `cells` cells.

    `all_same`: same-class pairs are taken from tiles of their own, all of them but for classes too big. `without`: none
    of these is drawn.
    """
    n_samples = int(class_sizes.sum())
    free = candidates if without is None else np.setdiff1d(candidates, without)
    drawn = np.sort(rng.permutation(free)[:n_anchors])
    # Neighbours in class order share a batch: then few tiles hold same-class pairs, and batches are independent.
    batches = tuple(np.array_split(drawn, min(options.batches, len(drawn))))
    block = int(np.clip(cells // len(batches[0]), 1, options.most_columns))
    others = len(candidates) / len(drawn) if all_same else 1.0
    tiles = tuple(_class_tiles(class_sizes, len(batches), rng, cells, options)) if all_same else ()
    return AnchorPlan(n_samples, block, tiles, others, 0.0 if all_same else 1.0, batches=batches)


def _class_tiles(
    class_sizes: IntArray, first: int, rng: np.random.RandomState, cells: int, options: SamplingOptions
) -> Iterator[Tile]:
    """Same-class pairs: classes packed into tiles of some samples with themselves, a big one in tiles of its own."""
    starts = np.cumsum(class_sizes) - class_sizes
    number = first
    packed: list[IntArray] = []
    for start, size in zip(starts.tolist(), class_sizes.tolist(), strict=True):
        if size < 2:
            continue
        members = np.arange(start, start + size)
        if packed and sum(map(len, packed)) + size > options.packed:
            yield _packed_tile(packed, number)
            packed, number = [], number + 1
        if size <= options.packed:
            packed.append(members)
            continue
        most = options.most_class_rows
        rows = members if size <= most else np.sort(rng.permutation(members)[:most])
        for part in runs(len(rows), options.packed):
            for cols in runs(size, max(1, cells // options.packed)):
                run = slice(start + cols.start, start + cols.stop)
                yield Tile(rows[part], run, number, 0.0, size / len(rows))
            number += 1
    if packed:
        yield _packed_tile(packed, number)


def _packed_tile(classes: list[IntArray], number: int) -> Tile:
    members = np.concatenate(classes)
    return Tile(members, members, number, 0.0, 1.0)
