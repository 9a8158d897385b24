"""Feature groups as columns of an array in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samekind.feature_store import FeatureStore
from samekind.kernels.types import Array, IntArray
from samekind.store.groups import FeatureGroups


class ArrayStore(FeatureStore):
    """Groups of columns of X (N, n_features)."""

    def __init__(self, X: Array, groups: FeatureGroups):
        self.X = X
        self.groups = groups

    def __len__(self) -> int:
        return len(self.X)

    @property
    def group_sizes(self) -> IntArray:
        return self.groups.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        columns = np.concatenate([self.groups.columns[k] for k in groups])
        panel: Array = self.X[np.ix_(rows, columns)]
        return panel
