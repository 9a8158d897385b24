"""Whitened groups have the covariance I on the training rows, in the directions that carry something."""

import os
import threading
import time

import numpy as np
import pytest
from sklearn.decomposition import PCA

from samekind.store import ArrayStore, FeatureGroups, WhitenedStore, Whitening, whiten
from samekind.store.whiten import WhiteningOptions

N, TRAINING = 600, np.random.default_rng(9).permutation(600)[:400]
SIZES = [7, 3, 12]


class HalfStore(ArrayStore):
    """What a store on disk does to numbers."""

    stored_dtype = np.dtype(np.float16)

    def __init__(self, X, groups, widest_panel):
        super().__init__(X.astype(np.float16).astype(np.float32), groups, widest_panel)


def correlated(n_features, *, seed=0, offset=3.0):
    """Rows with covariances of all strengths, none of them near zero."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_features, n_features)) + 2 * np.eye(n_features)
    return rng.normal(size=(N, n_features)) @ mixing + offset


def store_of(X, sizes=SIZES, kind=ArrayStore, dtype=np.float32, widest_panel=1024):
    ends = np.cumsum(sizes)
    groups = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return kind(X.astype(dtype), FeatureGroups.parse(groups, X.shape[1]), widest_panel)


@pytest.fixture
def store():
    return store_of(correlated(sum(SIZES)))


@pytest.fixture
def narrow():
    """The same, in panels of few groups."""
    return store_of(correlated(sum(SIZES)), widest_panel=12)


def test_the_covariance_of_the_training_rows_is_the_identity(store):
    whitened = WhitenedStore(store, Whitening.learned(store, TRAINING))
    assert whitened.group_sizes.tolist() == SIZES
    assert whitened.dtype == np.float32
    assert whitened.raw is store
    for k, size in enumerate(SIZES):
        Z = whitened.panel([k], TRAINING).astype(np.float64)
        np.testing.assert_allclose(np.cov(Z.T), np.eye(size), atol=1e-5)
        np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-5)


@pytest.mark.parametrize("dims", [1, 4, None])
def test_it_is_the_pca_of_scikit_learn_up_to_signs(store, dims):
    whitened = WhitenedStore(store, Whitening.learned(store, TRAINING, dims=dims))
    start = 0
    for k, size in enumerate(SIZES):
        X = store.X[:, start : start + size].astype(np.float64)
        pca = PCA(None if dims is None else min(dims, size), whiten=True, svd_solver="full").fit(X[TRAINING])
        Z, expected = whitened.panel([k], np.arange(N)), pca.transform(X)
        signs = np.sign((Z * expected).sum(axis=0))
        np.testing.assert_allclose(Z, expected * signs, atol=2e-4)
        start += size


def test_only_the_given_rows_matter(store):
    before = Whitening.learned(store, TRAINING)
    others = np.setdiff1d(np.arange(N), TRAINING)
    store.X[others] = 1e3
    after = Whitening.learned(store, TRAINING)
    for k in range(len(SIZES)):
        for one, other in zip(before.of(k), after.of(k), strict=True):
            np.testing.assert_array_equal(one, other)
    everything = Whitening.learned(store, np.arange(N))
    assert np.abs(everything.of(0)[0] - before.of(0)[0]).max() > 1


@pytest.mark.parametrize("block", [1, 7, 399])
def test_blocks_of_rows_and_panels_of_groups_give_what_one_gives(store, narrow, block):
    for each in (store, narrow):
        each.X += 100  # an offset that sums of squares would not survive in float32
    whole = Whitening.learned(store, TRAINING)
    streamed = Whitening.learned(narrow, TRAINING, options=WhiteningOptions(row_block=block))
    for k in range(len(SIZES)):
        for one, other in zip(whole.of(k), streamed.of(k), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_threads_change_nothing(narrow, n_jobs):
    options = WhiteningOptions(product_rows=50)
    expected = Whitening.learned(narrow, TRAINING, n_jobs=1)
    found = Whitening.learned(narrow, TRAINING, n_jobs=n_jobs)
    for one, other in zip(expected.maps, found.maps, strict=True):
        np.testing.assert_array_equal(one, other)
    rows = np.arange(N)[::-1]
    np.testing.assert_array_equal(
        WhitenedStore(narrow, found, n_jobs, options).panel([2, 0], rows),
        WhitenedStore(narrow, expected, 1, options).panel([2, 0], rows),
    )


def shifted(X, shift, sizes=SIZES):
    """Numbers of which a shift costs no bit, with and without it."""
    exact = np.round(X * 2**20) / 2**20
    return store_of(exact, sizes, dtype=np.float64), store_of(exact + shift, sizes, dtype=np.float64)


@pytest.mark.parametrize("shift", [1e7, -3e8])
def test_a_shift_of_float64_data_changes_nothing(shift):
    """In float32 1e7 leaves whole numbers only."""
    here, there = shifted(correlated(sum(SIZES), offset=0.0), shift)
    one, other = Whitening.learned(here, TRAINING), Whitening.learned(there, TRAINING)
    rows = np.arange(N)
    Z = WhitenedStore(here, one).panel(range(3), rows)
    np.testing.assert_allclose(WhitenedStore(there, other).panel(range(3), rows), Z, atol=1e-6)
    assert Z.dtype == np.float32
    for k in range(3):
        np.testing.assert_allclose(other.of(k)[0] - shift, one.of(k)[0], atol=1e-6)
        np.testing.assert_allclose(other.of(k)[1], one.of(k)[1], rtol=1e-6, atol=1e-8)


def test_weak_directions_of_float64_data_are_whitened_to_float32s_precision():
    """Deviations from 1 to 3e-4, with the strongest first: rounding before the product would cost a factor of 3,000."""
    rng = np.random.default_rng(5)
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X = (rng.normal(size=(N, 6)) * np.geomspace(1, 3e-4, 6)) @ rotation + 100
    store = store_of(X, [6], dtype=np.float64)
    whitening = Whitening.learned(store, TRAINING)
    variances, directions = np.linalg.eigh(np.cov(X[TRAINING].T))
    expected = (X - X[TRAINING].mean(axis=0)) @ directions[:, ::-1] / np.sqrt(variances[::-1])
    Z = WhitenedStore(store, whitening).panel([0], np.arange(N))
    signs = np.sign((Z * expected).sum(axis=0))
    np.testing.assert_allclose(Z, expected * signs, atol=2e-6)


def test_float32_data_are_whitened_in_float32(store):
    whitening = Whitening.learned(store, TRAINING)
    assert {made_map.dtype for made_map in whitening.maps} == {np.dtype(np.float32)}
    assert {mean.dtype for mean in whitening.means} == {np.dtype(np.float64)}
    products = []
    original = whiten._whiten

    def noted(mean, maps, X, out):
        products.append((mean.dtype, X.dtype))
        original(mean, maps, X, out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whiten, "_whiten", noted)
        WhitenedStore(store, whitening).panel([0, 1], TRAINING)
    assert set(products) == {(np.dtype(np.float32), np.dtype(np.float32))}


class Watched(ArrayStore):
    """Knows which threads read at the same time."""

    def __init__(self, X, groups, widest_panel):
        super().__init__(X, groups, widest_panel)
        self.threads = Busy()

    def panel(self, groups, rows):
        with self.threads:
            return super().panel(groups, rows)


class Busy:
    """The largest number of threads that are in it at once."""

    def __init__(self):
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def __enter__(self):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.002)

    def __exit__(self, *_):
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_no_more_threads_work_than_were_asked_for(monkeypatch, n_jobs):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(12), raising=False)
    store = store_of(correlated(40), [2] * 20, kind=Watched, widest_panel=2)
    whitening = Whitening.learned(store, TRAINING, n_jobs=n_jobs)
    assert 1 <= store.threads.most <= n_jobs
    products, original = Busy(), whiten._whiten

    def watched(*arguments):
        with products:
            original(*arguments)

    monkeypatch.setattr(whiten, "_whiten", watched)
    WhitenedStore(store, whitening, n_jobs, WhiteningOptions(product_rows=20)).panel([0, 1], TRAINING)
    assert 1 <= products.most <= n_jobs


def test_a_panel_has_groups_and_rows_as_asked_for(store):
    whitened = WhitenedStore(store, Whitening.learned(store, TRAINING, dims=5))
    rows = np.array([5, 0, 5])
    panel = whitened.panel([2, 1, 2], rows)
    assert panel.shape == (3, 5 + 3 + 5)
    for columns, k in [(slice(0, 5), 2), (slice(5, 8), 1), (slice(8, 13), 2)]:
        mean, made_map = whitened.whitening.of(k)
        np.testing.assert_allclose(panel[:, columns], (store.panel([k], rows) - mean) @ made_map, atol=1e-5)
    assert whitened.panel([0], rows[:0]).shape == (0, 5)


def test_chosen_groups_are_numbered_as_they_were_chosen(store):
    all_groups = Whitening.learned(store, TRAINING)
    some = Whitening.learned(store, TRAINING, groups=[2, 0])
    assert WhitenedStore(store, some).group_sizes.tolist() == [12, 7]
    np.testing.assert_array_equal(
        WhitenedStore(store, some).panel([1, 0], TRAINING), WhitenedStore(store, all_groups).panel([0, 2], TRAINING)
    )
    np.testing.assert_array_equal(some.of(2)[1], all_groups.of(2)[1])
    with pytest.raises(IndexError, match="Group 1 was not whitened: 2 groups were"):
        some.of(1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_null_directions_are_dropped(dtype):
    X = correlated(6)
    dependent = np.column_stack([X, X[:, :3] @ np.ones(3), X[:, 0] - X[:, 5], np.full(N, 7.0)])
    whitening = Whitening.learned(store_of(dependent, [9], dtype=dtype), TRAINING)
    assert whitening.widths.tolist() == [6]
    Z = WhitenedStore(store_of(dependent, [9], dtype=dtype), whitening).panel([0], TRAINING)
    np.testing.assert_allclose(np.cov(Z.T.astype(np.float64)), np.eye(6), atol=1e-3)


def histograms(n_bins=20):
    X = np.random.default_rng(3).gamma(2.0, size=(N, n_bins))
    return X / X.sum(axis=1, keepdims=True)


def test_a_direction_that_only_float16_moves_is_dropped():
    X = histograms()  # they sum to 1, until they are rounded
    half = store_of(X, [20], HalfStore)
    assert np.ptp(half.X.sum(axis=1)) > 1e-5
    assert Whitening.learned(half, TRAINING).widths.tolist() == [19]

    unaware = ArrayStore(half.X, half.groups)  # the same numbers, not said to be rounded
    assert Whitening.learned(unaware, TRAINING).widths.tolist() == [20]


@pytest.mark.parametrize(("spread", "width"), [(3e-3, 2), (1e-4, 1)])
def test_a_weak_direction_is_kept_where_it_stands_out_of_the_rounding(spread, width):
    rng = np.random.default_rng(4)
    strong = rng.normal(size=N)
    X = np.column_stack([strong, strong + spread * rng.normal(size=N)])
    assert Whitening.learned(store_of(X, [2], HalfStore), TRAINING).widths.tolist() == [width]


@pytest.mark.parametrize("value", [0.0, 0.1, -1000.0])
@pytest.mark.parametrize("kind", [ArrayStore, HalfStore])
def test_a_constant_group_keeps_one_direction_of_zeros(value, kind):
    store = store_of(np.full((N, 4), value), [4], kind)
    whitening = Whitening.learned(store, TRAINING)
    assert whitening.widths.tolist() == [1]
    mean, made_map = whitening.of(0)
    np.testing.assert_allclose(mean, value, rtol=1e-3)
    np.testing.assert_array_equal(made_map, np.zeros((4, 1)))
    np.testing.assert_array_equal(WhitenedStore(store, whitening).panel([0], TRAINING), np.zeros((400, 1)))


def test_signs_are_fixed(store):
    for made_map in Whitening.learned(store, TRAINING).maps:
        assert (made_map[np.abs(made_map).argmax(axis=0), np.arange(made_map.shape[1])] > 0).all()


def test_progress_is_reported_in_groups(narrow):
    reported = []
    Whitening.learned(narrow, TRAINING, progress=lambda done, total: reported.append((done, total)))
    assert reported == [(1, 3), (2, 3), (3, 3)]


def test_what_cannot_be_learned_from_is_said(store):
    with pytest.raises(ValueError, match="at least 2 rows, but got 1"):
        Whitening.learned(store, TRAINING[:1])
    with pytest.raises(ValueError, match="dims=0"):
        Whitening.learned(store, TRAINING, dims=0)
