"""Where a tile of distances comes from: the data, a sum of two sources, or memory."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.executor import Executor
from samekind.compute.tiles import Plan, Tile, TileKey
from samekind.kernels.distances import euclidean_factors, quadratic_factors
from samekind.kernels.exponentials import scaled_sum
from samekind.kernels.types import Array, IntArray, Samples, places

Made_co = TypeVar("Made_co", covariant=True)


class TileSource(Protocol[Made_co]):
    def tile(self, tile: Tile) -> Made_co:
        """The value of a tile, such as its cells (n, m). Read only: it may be shared memory."""
        ...


class FactoredDistances:
    """`left @ right.T`, one product per tile."""

    def __init__(self, left: Array, right: Array):
        self.left = left
        self.right = right

    @classmethod
    def quadratic(cls, Z: Array, ZA: Array) -> "FactoredDistances":
        """`d_ij = (z_i - z_j)^T A (z_i - z_j)`"""
        return cls(*quadratic_factors(Z, ZA))

    @classmethod
    def euclidean(cls, Y: Array) -> "FactoredDistances":
        """`d_ij = ||y_i - y_j||^2`"""
        return cls(*euclidean_factors(Y))

    def tile(self, tile: Tile) -> Array:
        return self.left[tile.rows] @ self.right[tile.cols].T


class Scaled:
    """`alpha * D0`"""

    def __init__(self, alpha: float, D0: TileSource[Array]):
        self.alpha = alpha
        self.D0 = D0

    def tile(self, tile: Tile) -> Array:
        D0 = self.D0.tile(tile)
        return D0.dtype.type(self.alpha) * D0


class ScaledSum:
    """`alpha * D0 + D`"""

    def __init__(self, alpha: float, D0: TileSource[Array], D: FactoredDistances):
        self.alpha = alpha
        self.D0 = D0
        self.D = D

    def tile(self, tile: Tile) -> Array:
        D = self.D.tile(tile)
        scaled_sum(self.D0.tile(tile), self.alpha, D, out=D)
        return D


class KeptTiles(Generic[Made_co]):
    """Another source's tiles, made once and kept as long as they fit `room` bytes; the rest are made each time."""

    def __init__(self, source: TileSource[Made_co], plan: Plan, itemsize: int, room: int):
        self.source = source
        self.kept: dict[TileKey, Made_co] = {}
        self.keeps = fitting(plan, itemsize, room)

    def tile(self, tile: Tile) -> Made_co:
        made = self.kept.get(tile.key)
        if made is None:
            made = self.source.tile(tile)
            if tile.key in self.keeps:
                self.kept[tile.key] = made
        return made


def fitting(plan: Plan, itemsize: int, room: int) -> set[TileKey]:
    """The first tiles of a plan, as many as fit `room` bytes."""
    chosen = set()
    for tile in plan.tiles():
        room -= tile.size * itemsize
        if room < 0:
            break
        chosen.add(tile.key)
    return chosen


class FixedTiles:
    """Tiles in memory."""

    def __init__(self, tiles: dict[TileKey, Array]):
        self.tiles = tiles

    def tile(self, tile: Tile) -> Array:
        return self.tiles[tile.key]


class PresentDistances:
    """D0: the distances under the metric as it stands, updated as the metric grows.

    Tiles that fit `room` bytes are kept and updated in place; the others are made anew from the samples' codes.
    """

    def __init__(self, plan: Plan, dtype: DTypeLike, room: int):
        self.plan = plan
        self.kept: dict[TileKey, Array] = {}
        self.keeps = fitting(plan, np.dtype(dtype).itemsize, room)
        self.codes = np.zeros((plan.n_samples, 0), dtype)
        self.from_codes = FactoredDistances.euclidean(self.codes)

    def tile(self, tile: Tile) -> Array:
        kept = self.kept.get(tile.key)
        return self.from_codes.tile(tile) if kept is None else kept

    def on(self, plan: Plan, executor: Executor) -> "FixedTiles":
        """The distances of another plan's tiles: of some anchors, say."""
        return FixedTiles(dict(executor.map(lambda tile: (tile.key, self.cells(tile)), list(plan.tiles()))))

    def cells(self, tile: Tile) -> Array:
        """The distances of any rows and columns."""
        if len(self.kept) < self.plan.n_tiles:
            return self.from_codes.tile(tile)
        cells = np.empty(tile.shape, self.codes.dtype)
        across = list(self._parts(tile.cols))
        for down, at_rows, i in self._parts(tile.rows):
            for other, at_cols, j in across:
                if down <= other:
                    cells[at_rows, at_cols] = self.kept[TileKey(down, other)][np.ix_(i, j)]
                else:
                    cells[at_rows, at_cols] = self.kept[TileKey(other, down)][np.ix_(j, i)].T
        return cells

    def _parts(self, samples: Samples) -> Iterator[tuple[int, slice, IntArray]]:
        """Which of some samples lie in which block of the plan: its start, their places, and their rows in it."""
        rising = places(samples)
        for block in self.plan.blocks():
            here = slice(*np.searchsorted(rising, [block.start, block.stop]).tolist())
            if here.start < here.stop:
                yield block.start, here, rising[here] - block.start

    def update(self, alpha: float, codes: Array, executor: Executor) -> None:
        """`D0 <- alpha D0 + ||y_i - y_j||^2`, the rows of `codes` being y."""
        own = FactoredDistances.euclidean(codes)
        kept = [tile for tile in self.plan.tiles() if tile.key in self.keeps]
        changed = ScaledSum(alpha, self, own)

        def change(tile: Tile) -> None:
            if tile.key in self.kept:
                scaled_sum(self.kept[tile.key], alpha, own.tile(tile), out=self.kept[tile.key])
            else:
                made[tile.key] = changed.tile(tile)

        made: dict[TileKey, Array] = {}
        for _ in executor.map(change, kept):
            pass
        self.kept |= made
        if len(kept) < self.plan.n_tiles:
            self.codes = np.hstack([self.codes * self.codes.dtype.type(alpha**0.5), codes])
            self.from_codes = FactoredDistances.euclidean(self.codes)
