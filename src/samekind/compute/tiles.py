"""A plan of tiles over all pairs: each unordered pair of row blocks once, within a memory budget."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from samekind.compute.memory import MemoryBudget
from samekind.compute.reduction import leaves_of
from samekind.kernels.types import IntArray, Samples

LARGEST_BLOCK = 640  # rows: wide enough for BLAS to run at full speed, small enough for a tile to stay in cache
SMALLEST_BLOCK = 256  # below it, calls cost more than cells
STRIPS = 8  # at least, if there are enough rows, to be shared among threads
TILES_IN_WORK = 6  # temporaries of a tile's size that one thread may hold
THREADS = 5  # planned for, however many there are, so that their number does not change the result


class TileKey(NamedTuple):
    """What tells a tile from the others of its plan: where its rows and columns begin, or its number in a sample."""

    rows: int | None
    cols: int | None
    number: int | None = None


class Tile(NamedTuple):
    """A block of pairs. A mirrored one stands for its transpose as well.

    `others` and `same` say how often its pairs of two classes and of one class count: 1 where all pairs are visited.
    """

    rows: Samples
    cols: Samples
    number: int | None = None  # of a tile whose rows are a sample; several column runs may share it
    others: float = 1.0
    same: float = 1.0
    both: bool = False  # of a sample's tile: whether it is mirrored

    @property
    def mirrored(self) -> bool:
        return self.rows != self.cols if isinstance(self.rows, slice) else self.both

    @property
    def key(self) -> TileKey:
        return TileKey(_start(self.rows), _start(self.cols), self.number)

    @property
    def shape(self) -> tuple[int, int]:
        return count(self.rows), count(self.cols)

    @property
    def size(self) -> int:
        n, m = self.shape
        return n * m


def _start(samples: Samples) -> int | None:
    """Of a run of samples."""
    return samples.start if isinstance(samples, slice) else None


def count(samples: Samples) -> int:
    return samples.stop - samples.start if isinstance(samples, slice) else len(samples)


@dataclass(frozen=True)
class Plan(ABC):
    """Tiles to visit. Those of a strip are one job; strips are independent of each other."""

    n_samples: int
    block: int  # samples of a run
    # Anchors in parts that are independent of each other; none where that cannot be said.
    batches: tuple[IntArray, ...] = field(default=(), kw_only=True)

    @property
    @abstractmethod
    def n_tiles(self) -> int: ...

    @abstractmethod
    def strips(self) -> list[list[Tile]]: ...

    @property
    def is_sample(self) -> bool:
        """Whether only some of the pairs are visited, and stand for all."""
        return False

    @property
    def n_anchors(self) -> int:
        """How many rows have their pairs visited."""
        return self.n_samples

    @property
    def anchors(self) -> IntArray:
        """These rows."""
        return np.arange(self.n_samples)

    def blocks(self) -> list[slice]:
        """All samples in runs, for work that goes sample by sample."""
        return runs(self.n_samples, self.block)

    def tiles(self) -> Iterator[Tile]:
        for strip in self.strips():
            yield from strip

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def _costs(self) -> list[int]:
        """Pairs of each strip."""
        return [sum(tile.size for tile in strip) for strip in self.strips()]

    @cached_property
    def _leaves(self) -> list[range]:
        return leaves_of(self._costs)

    @property
    def leaf_costs(self) -> list[int]:
        """Pairs of each leaf."""
        return [sum(self._costs[at] for at in leaf) for leaf in self._leaves]

    def leaves(self) -> list[range]:
        """Runs of strips that are summed up together (see `reduction`), each with about the same number of pairs."""
        return self._leaves

    def strips_of(self, leaves: Sequence[int]) -> list[list[Tile]]:
        """The strips of some leaves, in order."""
        strips = self.strips()
        return [strips[at] for at in self.strip_numbers(leaves)]

    def strip_numbers(self, leaves: Sequence[int]) -> list[int]:
        all_leaves = self.leaves()
        return [at for leaf in leaves for at in all_leaves[leaf]]


@dataclass(frozen=True)
class TilePlan(Plan):
    """All pairs: row blocks of equal size; strip I holds the tiles (I, J) with J >= I."""

    @classmethod
    def for_budget(cls, n_samples: int, memory: MemoryBudget, dtype: DTypeLike) -> "TilePlan":
        """The largest blocks, up to the useful size, whose temporaries take at most their share of the budget."""
        fitting = largest_block(memory, dtype)
        shared = -(-n_samples // STRIPS)
        return cls(n_samples, min(fitting, max(SMALLEST_BLOCK, shared)))

    @property
    def n_tiles(self) -> int:
        n = len(self.blocks())
        return n * (n + 1) // 2

    def strips(self) -> list[list[Tile]]:
        """Longest first, so that threads end together."""
        blocks = self.blocks()
        return [[Tile(rows, cols) for cols in blocks[i:]] for i, rows in enumerate(blocks)]


def largest_block(memory: MemoryBudget, dtype: DTypeLike) -> int:
    """Side of the largest useful square tile whose temporaries take at most their share of the budget."""
    cells = memory.tiles / (np.dtype(dtype).itemsize * TILES_IN_WORK * THREADS)
    return int(min(max(cells, 1) ** 0.5, LARGEST_BLOCK))


def runs(n: int, length: int) -> list[slice]:
    """0 to n in slices of one length, the last one shorter if need be."""
    edges = [*range(0, n, length), n]
    return [slice(a, b) for a, b in pairwise(edges)]
