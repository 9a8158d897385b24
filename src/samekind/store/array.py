"""Feature groups as columns of an array in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samekind.feature_store import WIDEST_PANEL, FeatureStore
from samekind.kernels.types import Array, IntArray
from samekind.store.groups import FeatureGroups


class ArrayStore(FeatureStore):
    """Groups of columns of X (N, n_features)."""

    def __init__(self, X: Array, groups: FeatureGroups, widest_panel: int = WIDEST_PANEL):
        self.X = X
        self.groups = groups
        self._widest_panel = widest_panel

    def __len__(self) -> int:
        return len(self.X)

    @property
    def group_sizes(self) -> IntArray:
        return self.groups.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    @property
    def widest_panel(self) -> int:
        return self._widest_panel

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        columns = np.concatenate([self.groups.columns[k] for k in groups])
        panel: Array = self.X[np.ix_(rows, columns)]
        return panel


class GroupArrays(FeatureStore):
    """One array (N, d) in memory for each group, such as a copy of groups that are small enough to be kept."""

    def __init__(self, arrays: Sequence[Array]):
        self.arrays = arrays

    @classmethod
    def copied(cls, store: FeatureStore) -> "GroupArrays":
        rows = np.arange(len(store))
        return cls([store.panel([k], rows) for k in range(len(store.group_sizes))])

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def group_sizes(self) -> IntArray:
        return np.array([array.shape[1] for array in self.arrays], dtype=np.intp)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays[0].dtype

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        return np.concatenate([self.arrays[k][rows] for k in groups], axis=1)
