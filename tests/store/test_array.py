"""Feature groups as columns of an array, handed out in panels."""

import numpy as np
import pytest

from samekind.store import ArrayStore, FeatureGroups, GroupArrays, centred, panels_of

X = np.arange(24, dtype=np.float32).reshape(4, 6) ** 2
GROUPS = FeatureGroups.parse({"a": [5, 0], "b": [3], "c": [1, 2, 4]}, 6)


@pytest.fixture
def store():
    return ArrayStore(X, GROUPS)


def test_a_panel_has_the_groups_side_by_side_for_the_rows_asked_for(store):
    rows = np.array([2, 0])
    np.testing.assert_array_equal(store.panel([2, 0], rows), X[[2, 0]][:, [1, 2, 4, 5, 0]])
    assert store.group_sizes.tolist() == [2, 1, 3]
    assert store.dtype == np.float32


def test_a_panel_is_a_copy_that_may_be_centred(store):
    before = X.copy()
    panel = centred(store.panel([0], np.arange(4)))
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(panel.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(panel, X[:, [5, 0]] - X[:, [5, 0]].mean(axis=0))


def test_a_copy_in_memory_hands_out_the_same_panels(store):
    copy = GroupArrays.copied(store)
    assert len(copy) == len(store)
    assert copy.dtype == store.dtype
    np.testing.assert_array_equal(copy.group_sizes, store.group_sizes)
    for groups in ([2, 0], [1], [0, 1, 2]):
        rows = np.array([3, 0, 0])
        panel = copy.panel(groups, rows)
        np.testing.assert_array_equal(panel, store.panel(groups, rows))
        panel += 1
    np.testing.assert_array_equal(copy.panel([1], np.arange(4)), store.panel([1], np.arange(4)))


@pytest.mark.parametrize("widest", [1, 3, 4, 100])
@pytest.mark.parametrize("groups", [[0, 1, 2], [2, 0], [1], []], ids=str)
def test_panels_hold_every_group_once_whatever_their_width(widest, groups):
    store = ArrayStore(X, GROUPS, widest)
    rows = np.array([3, 1, 0, 2])
    seen = []
    for panel in panels_of(store, groups, rows):
        assert panel.Z.shape[1] <= widest or len(panel.groups) == 1
        for k, part in zip(panel.groups, panel.columns, strict=True):
            np.testing.assert_array_equal(panel.Z[:, part], centred(store.panel([k], rows)))
            seen.append(k)
    assert seen == groups


def test_panels_are_as_wide_as_allowed():
    store = ArrayStore(X, GROUPS, widest_panel=3)
    assert [panel.groups for panel in panels_of(store, [0, 1, 2], np.arange(4))] == [[0, 1], [2]]
