"""Parts of a store are stores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.store import ArrayStore, FeatureGroups, GroupsOf, RootsOf, RowsOf
from samekind.store.views import MirrorMeansOf
from tests import cases, stores

X, Y = cases.labelled_data((6, 5, 4, 6, 5, 4), 48, spread=2.0)
X = X.astype(np.float16).astype(np.float32)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """Twelve groups of two columns and eight of three."""
    return stores.disk_store(tmp_path_factory.mktemp("stores") / "store", X, Y, {"a": 2, "b": 3})


@given(groups=st.sets(st.integers(0, 19), min_size=1), rows=st.lists(st.integers(0, 29), max_size=20))
def test_groups_are_numbered_anew_in_rising_order(on_disk, groups, rows):
    part = GroupsOf(on_disk, list(groups))
    rising = sorted(groups)
    np.testing.assert_array_equal(part.group_sizes, on_disk.group_sizes[rising])
    assert part.group_names == [on_disk.group_names[k] for k in rising]
    for new, old in enumerate(rising):
        np.testing.assert_array_equal(part.panel([new], rows), on_disk.panel([old], rows))
    assert len(part) == len(on_disk)


def test_a_part_stacks_where_the_whole_does(on_disk):
    part = GroupsOf(on_disk, [3, 14, 7])
    out, means = np.zeros((2, 4, 8), np.float32), np.zeros((2, 8), np.float32)
    assert part.can_stack
    part.stacked([2, 0], [5, 1, 1, 8], means, out)
    np.testing.assert_array_equal(out[0][:, :3], on_disk.panel([14], [5, 1, 1, 8]))
    np.testing.assert_array_equal(out[1][:, :2], on_disk.panel([3], [5, 1, 1, 8]))
    assert not GroupsOf(ArrayStore(X, FeatureGroups.parse(2, 48)), [0]).can_stack


def test_a_part_has_its_own_groups_read_ahead(on_disk, monkeypatch):
    asked = []
    monkeypatch.setattr(on_disk, "read_ahead", asked.append, raising=False)
    RowsOf(GroupsOf(on_disk, [1, 3]), np.arange(2)).read_ahead([1, 0])
    assert asked == [[3, 1]]


def test_where_nothing_can_be_read_ahead_nothing_is():
    whole = ArrayStore(np.ones((3, 4)), FeatureGroups.parse([[0, 1], [2, 3]], 4))
    RowsOf(whole, np.arange(2)).read_ahead([0])


def test_families_keep_the_groups_that_are_left(on_disk):
    assert GroupsOf(on_disk, [3, 14, 7, 13]).families == {"a": [0, 1], "b": [2, 3]}
    assert GroupsOf(on_disk, [14, 13]).families == {"b": [0, 1]}
    assert GroupsOf.of_families(on_disk, ["b"]).numbers.tolist() == list(range(12, 20))
    assert GroupsOf.of_families(on_disk, ["b", "a"]).numbers.tolist() == list(range(20))
    assert GroupsOf(ArrayStore(X, FeatureGroups.parse(2, 48)), [0]).families is None


def test_samples_of_groups_and_groups_of_samples_are_the_same(on_disk):
    rows, groups = np.array([4, 2, 9]), [1, 15]
    one, other = RowsOf(GroupsOf(on_disk, groups), rows), GroupsOf(RowsOf(on_disk, rows), groups)
    np.testing.assert_array_equal(one.panel([1, 0], np.array([0, 2])), other.panel([1, 0], np.array([0, 2])))
    assert len(one) == len(other) == 3
    assert one.stored_dtype == other.stored_dtype == np.float16


def test_labels_and_pictures_are_those_of_the_whole(on_disk):
    part = GroupsOf(on_disk, [1])
    np.testing.assert_array_equal(part.labels, on_disk.labels)
    np.testing.assert_array_equal(part.image_ids, on_disk.image_ids)
    assert part.front_end == on_disk.front_end


@pytest.mark.parametrize(
    ("groups", "said"), [([], "at least one"), ([20], "has 20: 0 to 19"), ([-1, 3], "go from -1 to 3")]
)
def test_groups_that_are_not_there_are_refused(on_disk, groups, said):
    with pytest.raises(ValueError, match=said):
        GroupsOf(on_disk, groups)


def test_families_that_are_not_there_are_refused(on_disk):
    with pytest.raises(ValueError, match="no family 'c'; it has a, b"):
        GroupsOf.of_families(on_disk, ["a", "c"])


def test_roots_are_those_of_the_stores_numbers_in_both_ways_of_reading(tmp_path):
    store = stores.disk_store(tmp_path / "store", np.abs(X), Y, {"a": 2, "b": 3})
    part = GroupsOf(RootsOf(store), [3, 14, 7])
    rows = [5, 1, 1, 8]
    for new, old in enumerate([3, 7, 14]):
        np.testing.assert_array_equal(part.panel([new], rows), np.sqrt(store.panel([old], rows)))
    out, means = np.zeros((2, 4, 8), np.float32), np.full((2, 8), 0.5, np.float32)
    assert part.can_stack
    part.stacked([2, 0], rows, means, out)
    np.testing.assert_array_equal(out[0][:, :3], np.sqrt(store.panel([14], rows)) - np.float32(0.5))
    np.testing.assert_array_equal(out[1][:, :2], np.sqrt(store.panel([3], rows)) - np.float32(0.5))
    assert (part.labels == store.labels).all()
    assert len(part) == len(store)


@pytest.fixture(scope="module")
def positive(tmp_path_factory):
    return stores.disk_store(tmp_path_factory.mktemp("positive") / "store", np.abs(X), Y, {"a": 2, "b": 3})


ROWS = [5, 1, 1, 8]


def stacked(view, groups, means):
    out = np.full((len(groups), len(ROWS), 8), np.nan, np.float32)
    view.stacked(groups, ROWS, means, out)
    return out


@pytest.mark.parametrize("groups", [[3, 14, 7], [15, 12], [2, 0], []])
@pytest.mark.parametrize("families", [("b",), ("a",), (), ("a", "b"), None])
def test_roots_of_some_families_leave_the_others_as_they_are(positive, families, groups):
    view = RootsOf(positive, families=families)
    raw = [positive.panel([k], ROWS) for k in groups]
    chosen = ("a", "b") if families is None else families
    expected = [np.sqrt(x) if ("a" if k < 12 else "b") in chosen else x for k, x in zip(groups, raw, strict=True)]
    if groups:
        np.testing.assert_array_equal(view.panel(groups, ROWS), np.hstack(expected))
    means = np.arange(8 * len(groups), dtype=np.float32).reshape(-1, 8) / 10
    assert view.can_stack
    for Z, x, mean in zip(stacked(view, groups, means), expected, means, strict=True):
        np.testing.assert_array_equal(Z[:, : x.shape[1]], x - mean[: x.shape[1]])
        assert (Z[:, x.shape[1] :] == 0).all()


def test_roots_of_families_that_are_not_there_are_refused(on_disk):
    with pytest.raises(ValueError, match="no family 'c'; it has a, b"):
        RootsOf(on_disk, families=("c",))


MIRRORS = np.array([1, 0, 2, 11, *range(4, 11), 3, 19, *range(13, 19), 12])
MIRRORED = {"a": lambda x: x[:, ::-1], "b": lambda x: x * np.array([1, -1, 1], np.float32)}


def mirror_mean(store, k, rows):
    """The definition."""
    own, other = store.panel([k], rows), store.panel([MIRRORS[k]], rows)
    return (own + MIRRORED["a" if k < 12 else "b"](other)) / 2


@given(groups=st.lists(st.integers(0, 19), min_size=1, max_size=8), rows=st.lists(st.integers(0, 29), max_size=9))
def test_mirror_means_are_those_of_a_group_and_its_mirror_image(on_disk, groups, rows):
    view = MirrorMeansOf(on_disk, MIRRORS, MIRRORED)
    panel = view.panel(groups, rows)
    assert panel.dtype == view.dtype == np.float32
    np.testing.assert_array_equal(panel, np.hstack([mirror_mean(on_disk, k, rows) for k in groups]))


def test_mirror_means_are_the_same_in_both_ways_of_reading(on_disk):
    view, groups = MirrorMeansOf(on_disk, MIRRORS, MIRRORED), [0, 12, 5, 19]
    means = np.arange(32, dtype=np.float32).reshape(4, 8) / 10
    assert view.can_stack
    for k, Z, mean in zip(groups, stacked(view, groups, means), means, strict=True):
        size = view.group_sizes[k]
        np.testing.assert_array_equal(Z[:, :size], mirror_mean(on_disk, k, ROWS) - mean[:size])
        assert (Z[:, size:] == 0).all()


def test_mirror_means_pass_on_what_the_store_says(on_disk):
    view = MirrorMeansOf(on_disk, MIRRORS, MIRRORED)
    for name in ("group_names", "families", "front_end", "dtype", "stored_dtype"):
        assert getattr(view, name) == getattr(on_disk, name)
    for name in ("group_sizes", "labels", "image_ids"):
        np.testing.assert_array_equal(getattr(view, name), getattr(on_disk, name))
    assert len(view) == len(on_disk)


def test_mirror_means_have_the_mirror_images_read_ahead(on_disk, monkeypatch):
    asked = []
    monkeypatch.setattr(on_disk, "read_ahead", asked.append, raising=False)
    MirrorMeansOf(on_disk, MIRRORS, MIRRORED).read_ahead([3, 2])
    assert asked == [[2, 3, 11]]


def test_a_group_without_its_mirror_image_is_named(on_disk):
    alone = MIRRORS.copy()
    alone[[7, 13]] = -1
    view = MirrorMeansOf(on_disk, alone, MIRRORED)
    with pytest.raises(ValueError, match=r"Group 7 \(a group 7\) has no mirror image in the store, and 2 of 20"):
        view.panel(range(20), np.arange(3))
    whole = MirrorMeansOf(on_disk, MIRRORS, MIRRORED)
    np.testing.assert_array_equal(view.panel([2, 3], np.arange(3)), whole.panel([2, 3], np.arange(3)))
    with pytest.raises(ValueError, match=r"shape \(3,\), but the store has 20 groups"):
        MirrorMeansOf(on_disk, alone[:3], MIRRORED)


def test_numbers_are_those_in_the_whole_store_through_all_views(on_disk):
    inner = GroupsOf(on_disk, [1, 3, 14, 19])
    outer = GroupsOf(RootsOf(inner), [0, 2])
    assert outer.numbers.tolist() == [1, 14]
    assert outer.group_names == [on_disk.group_names[k] for k in (1, 14)]
    assert RootsOf(on_disk).numbers is None


def test_the_digest_of_a_view_tells_it_from_others(tmp_path):
    numbers = np.abs(np.random.default_rng(0).normal(size=(6, 8))).astype(np.float32)
    store = stores.disk_store(tmp_path / "a", numbers, np.arange(6), {"a": 2, "b": 2})
    views = [
        store,
        GroupsOf(store, [0, 1]),
        GroupsOf(store, [0, 2]),
        RootsOf(store),
        RowsOf(store, np.arange(3)),
        RowsOf(store, np.arange(4)),
    ]
    assert len({view.content_digest() for view in views}) == len(views)
    assert GroupsOf(store, [0, 1]).content_digest() == GroupsOf(store, [1, 0]).content_digest()
    numbers[0, 0] += 1
    assert (
        stores.disk_store(tmp_path / "b", numbers, np.arange(6), {"a": 2, "b": 2}).content_digest()
        != store.content_digest()
    )
