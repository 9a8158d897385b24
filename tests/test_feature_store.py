"""What any store offers, however little it says of itself."""

import numpy as np
import pytest

from samekind import Metric, SparseBlockMetric
from samekind.feature_store import FeatureStore
from samekind.store import GroupsOf, RowsOf, WhitenedStore, Whitening
from tests import cases

X, Y = cases.labelled_data((6, 5, 4, 6), 8, spread=2.0)
ALL = np.arange(len(X))


class Least(FeatureStore):
    """Four groups of two numbers, and nothing that is not asked of every store."""

    group_sizes = np.full(4, 2)
    dtype = X.dtype

    def __len__(self):
        return len(X)

    def panel(self, groups, rows):
        return X[np.asarray(rows)].reshape(len(rows), 4, 2)[:, list(groups)].reshape(len(rows), -1)


def whitened(store):
    return WhitenedStore(store, Whitening.learned(store, ALL))


@pytest.mark.parametrize("view", [lambda s: s, lambda s: RowsOf(s, ALL), lambda s: GroupsOf(s, range(4)), whitened])
def test_whatever_callers_ask_has_a_default(view):
    store = view(Least())
    assert len(store) == len(X)
    assert store.stored_dtype == store.dtype
    assert store.group_names == ["0", "1", "2", "3"]
    assert store.families is None
    assert store.front_end is None
    assert store.content_digest() is None
    assert not store.can_stack
    store.read_ahead([0])
    store.check_complete()
    with pytest.raises(NotImplementedError, match="panels only"):
        store.stacked([0], ALL, np.zeros((1, 2)), np.zeros((1, len(X), 2)))
    for name in ("labels", "image_ids"):
        with pytest.raises(AttributeError, match="has no"):
            getattr(store, name)


def test_the_least_store_is_learned_from_as_its_numbers_are():
    def fitted(given, **options):
        return SparseBlockMetric(max_groups=2, search="exact", whiten=None, **options).fit(given, Y)

    of_store, of_array = fitted(Least()), fitted(X, feature_groups=2)
    np.testing.assert_array_equal(of_store.components_, of_array.components_)
    np.testing.assert_array_equal(of_store.metric_.transform(Least()), of_array.metric_.transform(X))
    assert isinstance(of_store.metric_, Metric)


def test_a_store_without_panels_is_none():
    class NoPanels(FeatureStore):
        group_sizes, dtype = Least.group_sizes, Least.dtype

        def __len__(self):
            return 0

    with pytest.raises(TypeError, match="panel"):
        NoPanels()
