"""In each row of a tile a run of neighbouring columns: those of the row's own class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from samekind.kernels.types import IntArray

Places: TypeAlias = tuple[IntArray, IntArray]  # rows and columns of chosen cells of a tile
NOWHERE: Places = np.zeros(0, np.intp), np.zeros(0, np.intp)


@dataclass(frozen=True)
class Runs:
    """A run of columns for each row; some may be empty, but not all."""

    first: IntArray  # (n,) the row's own class begins at this column
    last: IntArray  # (n,) and ends before this one
    own: IntArray  # (n,) the column where a row's sample meets itself, or one outside the tile

    @cached_property
    def alike(self) -> Places:
        """Rows and columns of all cells in the runs."""
        lengths = np.maximum(self.last - self.first, 0)
        i = np.repeat(np.arange(len(lengths)), lengths)
        j = np.arange(len(i)) + np.repeat(self.first - (np.cumsum(lengths) - lengths), lengths)
        return i, j

    @cached_property
    def same(self) -> Places:
        """The same without the cells where a sample meets itself."""
        i, j = self.alike
        partners = j != self.own[i]
        return i[partners], j[partners]

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays and of both kinds of places, two indices for each cell."""
        return 8 * (3 * len(self.first) + 4 * int(np.maximum(self.last - self.first, 0).sum()))
