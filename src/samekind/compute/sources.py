"""Where a tile of distances comes from: the data, a sum of two sources, or memory."""

from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.executor import Executor
from samekind.compute.tiles import Tile, TileKey, TilePlan
from samekind.kernels.distances import euclidean_factors, quadratic_factors
from samekind.kernels.types import Array

Made_co = TypeVar("Made_co", covariant=True)


class TileSource(Protocol[Made_co]):
    def tile(self, tile: Tile) -> Made_co:
        """What belongs to a tile: its cells (n, m), say. Read only: it may be somebody's memory."""
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


class ScaledSum:
    """`alpha * D0 + D`"""

    def __init__(self, alpha: float, D0: TileSource[Array], D: FactoredDistances):
        self.alpha = alpha
        self.D0 = D0
        self.D = D

    def tile(self, tile: Tile) -> Array:
        D = self.D.tile(tile)
        D += D.dtype.type(self.alpha) * self.D0.tile(tile)
        return D


class KeptTiles(Generic[Made_co]):
    """Another source's tiles, made once and kept as long as they fit `room` bytes; the rest are made each time."""

    def __init__(self, source: TileSource[Made_co], plan: TilePlan, itemsize: int, room: int):
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


def fitting(plan: TilePlan, itemsize: int, room: int) -> set[TileKey]:
    """The first tiles of a plan, as many as fit `room` bytes."""
    chosen = set()
    for tile in plan.tiles():
        room -= tile.size * itemsize
        if room < 0:
            break
        chosen.add(tile.key)
    return chosen


class PresentDistances:
    """D0: the distances under the metric as it stands, updated as the metric grows.

    Tiles that fit `room` bytes are kept and updated in place; the others are made anew from the samples' codes.
    """

    def __init__(self, plan: TilePlan, dtype: DTypeLike, room: int):
        self.plan = plan
        self.kept: dict[TileKey, Array] = {}
        self.keeps = fitting(plan, np.dtype(dtype).itemsize, room)
        self.codes = np.zeros((plan.n_samples, 0), dtype)
        self.from_codes = FactoredDistances.euclidean(self.codes)

    def tile(self, tile: Tile) -> Array:
        kept = self.kept.get(tile.key)
        return self.from_codes.tile(tile) if kept is None else kept

    def update(self, alpha: float, codes: Array, executor: Executor) -> None:
        """`D0 <- alpha D0 + ||y_i - y_j||^2`, the rows of `codes` being y."""
        changed = ScaledSum(alpha, self, FactoredDistances.euclidean(codes))
        kept = [tile for tile in self.plan.tiles() if tile.key in self.keeps]
        self.kept = dict(executor.map(lambda tile: (tile.key, changed.tile(tile)), kept))
        if len(kept) < self.plan.n_tiles:
            self.codes = np.hstack([self.codes * self.codes.dtype.type(alpha**0.5), codes])
            self.from_codes = FactoredDistances.euclidean(self.codes)
