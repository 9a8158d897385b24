"""What a scan reads of each group is what the store says, whitened or not, in memory or on disk."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.store import ArrayStore, FeatureGroups, GroupsOf, RowsOf, WhitenedStore, Whitening, centred
from samekind.store.scan import Sources
from tests import cases, stores

SIZES = (6, 5, 4, 6, 5, 4)  # N = 30
X, Y = cases.labelled_data(SIZES, 48, spread=2.0)
X = (X + 3).astype(np.float16).astype(np.float32)
ROWS = np.random.default_rng(1).permutation(30)[:21]
UNEQUAL = [[3, 1], [0, 2, 5], [4], *np.split(np.arange(6, 48), 14)]


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """Twelve groups of two columns and eight of three."""
    return stores.disk_store(tmp_path_factory.mktemp("stores") / "store", X, Y, {"a": 2, "b": 3})


def unequal_groups():
    return ArrayStore(X, FeatureGroups.parse(UNEQUAL, 48))


RAW = {
    "array": lambda on_disk: unequal_groups(),
    "array of float64": lambda on_disk: ArrayStore(X.astype(np.float64), FeatureGroups.parse(3, 48)),
    "rows of an array": lambda on_disk: RowsOf(unequal_groups(), ROWS),
    "disk": lambda on_disk: on_disk,
    "rows of a disk": lambda on_disk: RowsOf(on_disk, ROWS),
    "groups of a disk": lambda on_disk: RowsOf(GroupsOf(on_disk, [1, 2, 3, 5, *range(8, 18)]), ROWS),
    "rows of rows": lambda on_disk: RowsOf(RowsOf(unequal_groups(), np.arange(29, -1, -1)), ROWS),
    "rows of rows of a disk": lambda on_disk: RowsOf(RowsOf(on_disk, np.arange(29, -1, -1)), ROWS),
}
WHITENED = {
    "as it is": lambda raw: raw,
    "whitened": lambda raw: WhitenedStore(raw, Whitening.learned(raw, np.arange(20), dims=2)),
    "some whitened": lambda raw: WhitenedStore(
        raw, Whitening.learned(raw, np.arange(20), dims=2, groups=[7, 2, 11, 1, 0, 3, 5, 9, 4])
    ),
}


@pytest.fixture(params=RAW)
def raw(request, on_disk):
    return RAW[request.param](on_disk)


@pytest.fixture(params=WHITENED)
def store(request, raw):
    return WHITENED[request.param](raw)


def made(stack):
    """The groups that a stack stands for, with zeros beside the narrow ones."""
    return stack.Z if stack.maps is None else stack.Z @ stack.maps


@pytest.mark.parametrize("rows", [np.arange(20), np.array([5, 2, 2, 19, 0])], ids=["in order", "any"])
@pytest.mark.parametrize("at_once", [1, 4])
def test_stacks_make_the_groups_of_the_store_but_for_their_mean(store, rows, at_once):
    sources = Sources(store, rows)
    groups = np.random.default_rng(0).permutation(len(store.group_sizes)).tolist()
    for start in range(0, len(groups), at_once):
        some = groups[start : start + at_once]
        stack = sources.of(some)
        assert stack.Z.dtype == np.float32
        assert stack.Z.flags.c_contiguous
        assert stack.Z[0].nbytes <= sources.largest
        for k, Z in zip(some, made(stack), strict=True):
            size = store.group_sizes[k]
            np.testing.assert_allclose(centred(Z[:, :size]), centred(store.panel([k], rows)), atol=2e-5)
            assert not Z[:, size:].any()


def test_stacks_are_centred_on_the_rows_that_whitening_was_learned_from(store):
    groups = [3, 0, 8]
    stack = Sources(store, np.arange(20)).of(groups)
    np.testing.assert_allclose(stack.Z.mean(axis=1), 0, atol=1e-5)
    for k, Z in zip(groups, made(stack), strict=True):
        np.testing.assert_allclose(Z[:, : store.group_sizes[k]], centred(store.panel([k], np.arange(20))), atol=2e-5)


def test_mapped_matrices_are_those_of_the_groups(store):
    groups = [3, 0, 8]
    stack = Sources(store, np.arange(20)).of(groups)
    grams = stack.mapped(np.swapaxes(stack.Z, 1, 2) @ stack.Z)
    for k, gram in zip(groups, grams, strict=True):
        Z = centred(store.panel([k], np.arange(20)))
        np.testing.assert_allclose(gram[: Z.shape[1], : Z.shape[1]], Z.T @ Z, rtol=1e-3, atol=1e-3)


def test_a_disk_is_read_into_the_same_memory_again_and_again(on_disk):
    sources = Sources(WHITENED["whitened"](RowsOf(on_disk, ROWS)), np.arange(20))
    first, second = sources.of([0, 5, 3]), sources.of([1, 2])
    assert np.shares_memory(first.Z, second.Z)


def test_threads_do_not_read_into_each_others_memory(on_disk):
    store = WHITENED["whitened"](RowsOf(on_disk, ROWS))
    sources = Sources(store, np.arange(20))
    groups = [[k % 12, (5 * k + 1) % 12] for k in range(200)]
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda some: made(sources.of(some)), groups))
    for some, features in zip(groups, read, strict=True):
        for k, Z in zip(some, features, strict=True):
            np.testing.assert_allclose(Z, store.panel([k], np.arange(20)), atol=2e-5)


@given(groups=st.lists(st.integers(0, 19), max_size=9), rows=st.lists(st.integers(0, 29), max_size=40))
def test_a_stack_has_each_group_as_a_panel_would(on_disk, groups, rows):
    """Of both families, in any order and again and again, less what is given for their means."""
    stack = np.full((len(groups), len(rows), 5), -7, np.float32)
    means = np.random.default_rng(0).normal(size=(len(groups), 5)).astype(np.float32)
    on_disk.stacked(groups, rows, means, stack)
    for X_k, mean, k in zip(stack, means, groups, strict=True):
        size = on_disk.group_sizes[k]
        np.testing.assert_array_equal(X_k[:, :size], on_disk.panel([k], rows) - mean[:size])
        assert (X_k[:, size:] == 0).all()


@pytest.mark.parametrize("wrong", [[20], [-1]])
def test_a_stack_has_no_groups_that_there_are_not(on_disk, wrong):
    with pytest.raises(IndexError, match="There is no group"):
        on_disk.stacked(wrong, [0], np.zeros((1, 8), np.float32), np.empty((1, 1, 8), np.float32))
