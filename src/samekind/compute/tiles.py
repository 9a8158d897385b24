"""A plan of tiles over all pairs: each unordered pair of row blocks once, within a memory budget."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

LARGEST_BLOCK = 640  # rows: wide enough for BLAS to run at full speed, small enough for a tile to stay in cache
SMALLEST_BLOCK = 256  # below it, calls cost more than cells
STRIPS = 8  # at least as many, when there are rows enough, so that threads have something to share
TILES_IN_WORK = 6  # temporaries of a tile's size that one thread may hold
THREADS = 8  # planned for, however many there are, so that their number does not change the answer


TileKey: TypeAlias = tuple[int, int]


class Tile(NamedTuple):
    """A block of pairs. A mirrored one stands for its transpose as well."""

    rows: slice
    cols: slice

    @property
    def mirrored(self) -> bool:
        return self.rows != self.cols

    @property
    def key(self) -> TileKey:
        return self.rows.start, self.cols.start

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.cols.stop - self.cols.start

    @property
    def size(self) -> int:
        n, m = self.shape
        return n * m


@dataclass(frozen=True)
class TilePlan:
    """Row blocks of equal size; strip I holds the tiles (I, J) with J >= I."""

    n_samples: int
    block: int

    @classmethod
    def for_budget(cls, n_samples: int, memory_budget: int, dtype: DTypeLike) -> "TilePlan":
        """The largest blocks, up to the useful size, whose temporaries take at most a quarter of the budget."""
        cells = memory_budget / 4 / (np.dtype(dtype).itemsize * TILES_IN_WORK * THREADS)
        fitting = int(min(max(cells, 1) ** 0.5, LARGEST_BLOCK))
        shared = -(-n_samples // STRIPS)
        return cls(n_samples, min(fitting, max(SMALLEST_BLOCK, shared)))

    @property
    def n_tiles(self) -> int:
        n_blocks = -(-self.n_samples // self.block)
        return n_blocks * (n_blocks + 1) // 2

    def blocks(self) -> list[slice]:
        edges = [*range(0, self.n_samples, self.block), self.n_samples]
        return [slice(a, b) for a, b in pairwise(edges)]

    def strips(self) -> list[list[Tile]]:
        """Longest first, so that threads end together."""
        blocks = self.blocks()
        return [[Tile(rows, cols) for cols in blocks[i:]] for i, rows in enumerate(blocks)]

    def tiles(self) -> Iterator[Tile]:
        for strip in self.strips():
            yield from strip
