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
