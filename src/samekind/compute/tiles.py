"""A plan of tiles over all pairs: each unordered pair of row blocks once, within a memory budget."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from samekind.kernels.types import Samples

LARGEST_BLOCK = 640  # rows: wide enough for BLAS to run at full speed, small enough for a tile to stay in cache
SMALLEST_BLOCK = 256  # below it, calls cost more than cells
STRIPS = 8  # at least as many, when there are rows enough, so that threads have something to share
TILES_IN_WORK = 6  # temporaries of a tile's size that one thread may hold
THREADS = 8  # planned for, however many there are, so that their number does not change the answer

TileKey: TypeAlias = tuple[int, int]


class Tile(NamedTuple):
    """A block of pairs. A mirrored one stands for its transpose as well.

    `others` and `same` say how often its pairs of two classes and of one class count: 1 where all pairs are visited.
    """

    rows: Samples
    cols: Samples
    number: int = -1  # of a tile whose rows are a sample; several column runs may share it
    others: float = 1.0
    same: float = 1.0
    both: bool = False  # of a sample's tile: whether it is mirrored

    @property
    def mirrored(self) -> bool:
        return self.rows != self.cols if isinstance(self.rows, slice) else self.both

    @property
    def key(self) -> TileKey:
        first = self.rows.start if isinstance(self.rows, slice) else -1 - self.number
        return first, self.cols.start if isinstance(self.cols, slice) else -1

    @property
    def shape(self) -> tuple[int, int]:
        return count(self.rows), count(self.cols)

    @property
    def size(self) -> int:
        n, m = self.shape
        return n * m


def count(samples: Samples) -> int:
    return samples.stop - samples.start if isinstance(samples, slice) else len(samples)


class Plan(Protocol):
    """Tiles to visit. Those of a strip are one job; strips are independent of each other."""

    @property
    def n_samples(self) -> int: ...

    @property
    def n_tiles(self) -> int: ...

    def blocks(self) -> list[slice]:
        """All samples in runs, for work that goes sample by sample."""
        ...

    def strips(self) -> list[list[Tile]]: ...

    def tiles(self) -> Iterator[Tile]: ...


@dataclass(frozen=True)
class TilePlan:
    """Row blocks of equal size; strip I holds the tiles (I, J) with J >= I."""

    n_samples: int
    block: int

    @classmethod
    def for_budget(cls, n_samples: int, memory_budget: int, dtype: DTypeLike) -> "TilePlan":
        """The largest blocks, up to the useful size, whose temporaries take at most a quarter of the budget."""
        fitting = largest_block(memory_budget, dtype)
        shared = -(-n_samples // STRIPS)
        return cls(n_samples, min(fitting, max(SMALLEST_BLOCK, shared)))

    @property
    def n_tiles(self) -> int:
        n_blocks = -(-self.n_samples // self.block)
        return n_blocks * (n_blocks + 1) // 2

    def blocks(self) -> list[slice]:
        return runs(self.n_samples, self.block)

    def strips(self) -> list[list[Tile]]:
        """Longest first, so that threads end together."""
        blocks = self.blocks()
        return [[Tile(rows, cols) for cols in blocks[i:]] for i, rows in enumerate(blocks)]

    def tiles(self) -> Iterator[Tile]:
        for strip in self.strips():
            yield from strip


def largest_block(memory_budget: int, dtype: DTypeLike) -> int:
    """Side of the largest useful square tile whose temporaries take at most a quarter of the budget."""
    cells = memory_budget / 4 / (np.dtype(dtype).itemsize * TILES_IN_WORK * THREADS)
    return int(min(max(cells, 1) ** 0.5, LARGEST_BLOCK))


def runs(n: int, length: int) -> list[slice]:
    """0 to n in slices of one length, the last one shorter if need be."""
    edges = [*range(0, n, length), n]
    return [slice(a, b) for a, b in pairwise(edges)]
