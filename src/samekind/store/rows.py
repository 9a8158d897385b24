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
    def can_stack(self) -> bool:
        return bool(getattr(self.store, "can_stack", False))

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        return self.store.panel(groups, self.rows[rows])

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        """As the store's own, where it has one (`can_stack`)."""
        self.store.stacked(groups, self.rows[rows], means, out)  # type: ignore[attr-defined]
