"""Where a tile of distances comes from: the data, a sum of two sources, or memory."""

from collections.abc import Callable, Container, Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.executor import Executor
from samekind.compute.site import Share
from samekind.compute.tiles import Plan, Tile, TileKey
from samekind.kernels.distances import euclidean_factors, quadratic_factors
from samekind.kernels.exponentials import scaled_sum
from samekind.kernels.types import Array, BoolArray, IntArray, Samples, places

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
        self.keeps_all = len(self.keeps) == plan.n_tiles
        self.codes = np.zeros((plan.n_samples, 0), dtype)
        self.from_codes = self._nothing = FactoredDistances.euclidean(self.codes)

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
        for at_rows, at_cols, part in self.kept_cells(tile):
            cells[at_rows, at_cols] = part
        return cells

    def kept_cells(
        self,
        tile: Tile,
        keys: Container[TileKey] | None = None,
        wanted: Callable[[Tile], BoolArray | None] = lambda tile: None,
    ) -> Iterator[tuple[slice, slice, Array]]:
        """What kept tiles, of some keys or all, have of any rows and columns: places in the tile, and distances.

        `wanted`: of those cells that it says, where it says any, row by row. It is not asked where nothing is kept.
        """
        across, chosen, asked = list(self._parts(tile.cols)), None, False
        for down, at_rows, i in self._parts(tile.rows):
            for other, at_cols, j in across:
                key = TileKey(min(down, other), max(down, other))
                if keys is None or key in keys:
                    if not asked:
                        chosen, asked = wanted(tile), True
                    part = self.kept[key]
                    if chosen is None:
                        yield at_rows, at_cols, part[np.ix_(i, j)] if down <= other else part[np.ix_(j, i)].T
                    else:
                        rows, cols = np.nonzero(chosen[at_rows, at_cols])
                        yield at_rows, at_cols, (part if down <= other else part.T)[i[rows], j[cols]]

    def _parts(self, samples: Samples) -> Iterator[tuple[int, slice, IntArray]]:
        """Which of some samples lie in which block of the plan: its start, their places, and their rows in it."""
        rising = places(samples)
        for block in self.plan.blocks():
            here = slice(*np.searchsorted(rising, [block.start, block.stop]).tolist())
            if here.start < here.stop:
                yield block.start, here, rising[here] - block.start

    def update(
        self, alpha: float, codes: Array, executor: Executor, leaves: Share | None = None, *, with_codes: bool = True
    ) -> None:
        """`D0 <- alpha D0 + ||y_i - y_j||^2`, the rows of `codes` being y; the kept tiles of some leaves, or of all."""
        own = FactoredDistances.euclidean(codes)
        strips = self.plan.strips() if leaves is None else self.plan.strips_of(leaves)
        kept = [tile for strip in strips for tile in strip if tile.key in self.keeps]
        changed = ScaledSum(alpha, self._nothing, own)

        def change(tile: Tile) -> None:
            if tile.key in self.kept:
                scaled_sum(self.kept[tile.key], alpha, own.tile(tile), out=self.kept[tile.key])
            else:
                made[tile.key] = changed.tile(tile)

        made: dict[TileKey, Array] = {}
        for _ in executor.map(change, kept):
            pass
        self.kept |= made
        if with_codes and not self.keeps_all:
            self.codes = np.hstack([self.codes * self.codes.dtype.type(alpha**0.5), codes])
            self.from_codes = FactoredDistances.euclidean(self.codes)


class ReplayedDistances(PresentDistances):
    """The same, of those leaves that are asked for, brought up to the steps taken so far when they are.

    Whoever takes over leaves from another worker goes through all steps for these.
    """

    def __init__(self, plan: Plan, dtype: DTypeLike, room: int):
        super().__init__(plan, dtype, room)
        self.versions: dict[int, int] = {}  # of each leaf: how many steps its kept tiles have taken
        self.codes_version = 0

    def bring_to(
        self, n_steps: int, leaves: Share, step: Callable[[int], tuple[float, Array]], executor: Executor
    ) -> None:
        """`step(t)` gives alpha and codes of step t, for `update`."""
        behind = [self.versions.get(leaf, 0) for leaf in leaves] + ([] if self.keeps_all else [self.codes_version])
        if max(behind, default=0) > n_steps:
            raise RuntimeError(
                f"The distances have taken {max(behind)} steps, and those after {n_steps} were asked for."
            )
        for t in range(min(behind, default=n_steps), n_steps):
            own = [leaf for leaf in leaves if self.versions.get(leaf, 0) == t]
            alpha, codes = step(t)
            try:
                self.update(alpha, codes, executor, own, with_codes=self.codes_version == t)
            except BaseException:  # some tiles have taken the step, others have not
                self._drop(own)
                raise
            self.versions |= dict.fromkeys(own, t + 1)
            self.codes_version += self.codes_version == t

    def _drop(self, leaves: Share) -> None:
        for leaf in leaves:
            self.versions.pop(leaf, None)
        for strip in self.plan.strips_of(leaves):
            for tile in strip:
                self.kept.pop(tile.key, None)
