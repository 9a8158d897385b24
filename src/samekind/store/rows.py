"""Some of a store's samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samekind.kernels.types import Array, IntArray
from samekind.store.base import FeatureStore


class RowsOf:
    """A view of a store that has only some of its samples, in the order given; nothing is copied."""

    def __init__(self, store: FeatureStore, rows: IntArray):
        self.store = store
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def group_sizes(self) -> IntArray:
        return self.store.group_sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.dtype

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """What the numbers were rounded to."""
        return np.dtype(getattr(self.store, "stored_dtype", self.store.dtype))

    @property
    def fills_buffers(self) -> bool:
        return bool(getattr(self.store, "fills_buffers", False))

    def panel(self, groups: Sequence[int], rows: IntArray, out: Array | None = None) -> Array:
        """As the store's own, into `out` where the store can."""
        if out is None:
            return self.store.panel(groups, self.rows[rows])
        filled: Array = self.store.panel(groups, self.rows[rows], out=out)  # type: ignore[call-arg]
        return filled
