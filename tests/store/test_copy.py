"""A copy of some samples in memory gives what the store gives, and reads no others."""

import numpy as np
import pytest

from samekind.store.array import ArrayStore
from samekind.store.groups import FeatureGroups
from samekind.store.views import CopyOf

X = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
ROWS = np.array([7, 1, 4])


class Reading(ArrayStore):
    """Notes which rows are read."""

    def __init__(self):
        super().__init__(X, FeatureGroups.parse(2, 6))
        self.read = []

    def panel(self, groups, rows):
        self.read += list(rows)
        return super().panel(groups, rows)


@pytest.mark.parametrize("rows", [[1, 4], [7, 7, 1], [0, 1], [8]])
def test_panels_are_those_of_the_store(rows):
    panel = CopyOf(Reading(), ROWS).panel([2, 0], np.array(rows))
    np.testing.assert_array_equal(panel, X[rows][:, [4, 5, 0, 1]])


def test_only_the_samples_that_are_copied_are_read_and_these_once():
    store = Reading()
    copy = CopyOf(store, ROWS)
    assert set(store.read) == set(ROWS)
    store.read.clear()
    copy.panel([0, 1], ROWS)
    assert store.read == []
