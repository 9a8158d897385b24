"""Traces of gradients, estimated from samples and pairs that stand for all."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.relation import Relation
from samekind.solvers import traces
from samekind.solvers.traces import Kept, Traces, Witnesses
from tests import oracle

SIZES = (5, 1, 4, 2, 1, 3)
N = sum(SIZES)
class_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=8).map(tuple)


def relation_of(sizes=SIZES):
    return Relation.from_labels(np.repeat(np.arange(len(sizes)), sizes))


def witnesses_of(sizes=SIZES, most=10**6, seed=0):
    return Witnesses.of(relation_of(sizes), most, np.random.RandomState(seed))


def some_groups(n=5, width=4, seed=0, n_samples=N):
    X = np.random.default_rng(seed).normal(size=(n, n_samples, width)).astype(np.float32)
    return X * np.arange(1, n + 1)[:, np.newaxis, np.newaxis]


def some_weights(seed=0):
    W = np.random.default_rng(seed).normal(size=(N, N))
    np.fill_diagonal(W, 0)
    return W


def of_weights(W, witnesses):
    """Degrees, and what the witnesses' pairs have."""
    both = W + W.T
    return both.sum(axis=1), both[witnesses.first, witnesses.second]


def relative_traces(X, W):
    """The oracle's, over the mean squared length of each group's samples."""
    return np.array([np.trace(oracle.gradient(X_k, W)) / np.mean((X_k**2).sum(axis=1)) for X_k in X])


@given(class_sizes, st.integers(0, 300), st.integers(0, 10**6))
def test_witnesses_are_samples_and_pairs_as_they_say(sizes, most, seed):
    relation, made = relation_of(sizes), witnesses_of(sizes, most, seed)
    codes = relation.codes
    same = codes[made.first] == codes[made.second]
    assert same[: made.n_same].all()
    assert not same[made.n_same :].any()
    assert (made.first != made.second).all()
    assert made.n_same in (0, len(made.first) // 2)
    assert (made.n_same > 0) == (max(sizes) > 1)
    assert len(made.rows) + len(made.first) <= max(most, 3)
    assert (np.diff(made.rows) > 0).all()
    assert made.row_counts * len(made.rows) == pytest.approx(len(codes))
    if most >= len(codes) + 2 * traces.PAIRS:
        assert len(made.rows) == len(codes)
        assert len(made.first) == traces.PAIRS * (2 if made.n_same else 1)


@pytest.mark.parametrize("most", [10**6, 60, 16])
def test_they_stand_for_all(most):
    """Sums over them, on average over seeds, are sums over all samples, over all pairs of one class, and of two."""
    rng = np.random.default_rng(1)
    of_sample, of_pair = rng.normal(size=N) + 1, rng.normal(size=(N, N)) + 1
    of_pair += of_pair.T
    codes = relation_of().codes
    sums, wanted = [], [of_sample.sum()]
    for alike in (True, False):
        wanted.append(sum(of_pair[i, j] for i, j in combinations(range(N), 2) if (codes[i] == codes[j]) == alike))
    for seed in range(400):
        made = witnesses_of(most=most, seed=seed)
        pairs = made.pair_counts * of_pair[made.first, made.second]
        parts = np.split(pairs, [made.n_same])
        sums.append([made.row_counts * of_sample[made.rows].sum(), *(part.sum() for part in parts)])
    errors = np.mean(sums, axis=0) - wanted
    assert (np.abs(errors) <= 4 * np.std(sums, axis=0) / 20 + 1e-9).all()


@pytest.mark.parametrize("parts", [1, 3])
def test_traces_are_the_sums_over_the_witnesses_but_for_rounding(parts):
    X, W, made = some_groups(), some_weights(), witnesses_of(most=40)
    kept = Traces(made, [Kept.of(some, made) for some in np.array_split(X, parts)])
    degrees, pairs = of_weights(W, made)
    found = kept.of(degrees, pairs)
    assert found.shape == (5,)
    for k, X_k in enumerate(X.astype(np.float64)):
        mean = np.mean((X_k**2).sum(axis=1))
        lengths = (X_k[made.rows] ** 2).sum(axis=1) / mean
        products = (X_k[made.first] * X_k[made.second]).sum(axis=1) / mean
        literal = made.row_counts * degrees[made.rows] @ lengths - 2 * made.pair_counts * pairs @ products
        rounding = made.row_counts * np.abs(degrees[made.rows]).sum() * lengths.max() / 255 / 2
        rounding += 2 * (made.pair_counts * np.abs(pairs)).sum() * np.abs(products).max() / 127 / 2
        assert abs(found[k] - literal) <= rounding


def test_traces_are_those_of_the_gradients_on_average():
    X, W = some_groups(), some_weights()
    estimates = []
    for seed in range(100):
        made = witnesses_of(most=200, seed=seed)
        estimates.append(Traces(made, [Kept.of(X, made)]).of(*of_weights(W, made)))
    errors = np.mean(estimates, axis=0) - relative_traces(X, W)
    assert (np.abs(errors) <= 4 * np.std(estimates, axis=0) / 10 + 1e-2).all()


def test_distances_are_those_of_pairs_of_two_classes():
    X, made = some_groups(), witnesses_of()
    (found,) = (Traces(made, [Kept.of(X, made)]).distances,)
    some = slice(made.n_same, made.n_same + traces.ALIKE)
    wanted = ((X[:, made.first[some]] - X[:, made.second[some]]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert found.min() >= 0


def test_a_group_where_nothing_differs_has_no_trace():
    X, made = some_groups(), witnesses_of(most=50)
    X[2] = 0
    found = Traces(made, [Kept.of(X, made)]).of(*of_weights(some_weights(), made))
    assert found[2] == 0
    assert np.isfinite(found).all()


def test_what_is_kept_of_a_group_takes_a_byte_a_witness():
    X, made = some_groups(3, n_samples=N), witnesses_of(most=400)
    kept = Kept.of(X, made)
    assert kept.lengths.nbytes + kept.products.nbytes == 3 * (len(made.rows) + len(made.first)) <= 3 * 400
