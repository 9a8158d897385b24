"""The log-likelihood ratio of the two-covariance model, against explicit Gaussians."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from samekind.kernels.distances import squared_distances
from samekind.kernels.flips import flip_free_codes, flip_free_distances
from samekind.kernels.similarity import (
    as_euclidean,
    offset_distances,
    similarity_directions,
    similarity_offsets,
    split_codes,
)


def covariance(rng, size, rank=None):
    factor = rng.standard_normal((size, rank or size + 2))
    return factor @ factor.T


def codes(X, between, within):
    V, b = similarity_directions(between, within)
    U = X @ (V * np.sqrt(b / (1 + 2 * b)))
    return np.column_stack([U, similarity_offsets(U, 1 / (1 + b))])


def log_ratio(x, y, between, within):
    """Of one centre to two centres, as the density of [x, y] has it."""
    total, none = between + within, np.zeros_like(between)
    both = np.concatenate([x, y])
    same = multivariate_normal(cov=np.block([[total, between], [between, total]]))
    other = multivariate_normal(cov=np.block([[total, none], [none, total]]))
    return same.logpdf(both) - other.logpdf(both)


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5))
def test_distances_are_the_log_likelihood_ratio_up_to_a_constant(seed, size, rank):
    rng = np.random.default_rng(seed)
    between, within = covariance(rng, size, rank), covariance(rng, size) + np.eye(size)
    X = rng.standard_normal((6, size)) * 2
    expected = [log_ratio(x, y, between, within) for x, y in zip(X[:3], X[3:], strict=True)]
    constant = log_ratio(np.zeros(size), np.zeros(size), between, within)
    made = codes(X, between, within)
    np.testing.assert_allclose(-offset_distances(made[:3], made[3:]) / 2, expected - constant, rtol=1e-6, atol=1e-7)


def test_directions_make_both_covariances_diagonal():
    rng = np.random.default_rng(0)
    between, within = covariance(rng, 4, 2), covariance(rng, 4)
    V, b = similarity_directions(between, within)
    np.testing.assert_allclose(V.T @ within @ V, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(V.T @ between @ V, np.diag(b), atol=1e-9)
    assert (np.diff(b) <= 0).all()
    assert (b >= 0).all()


def test_without_variance_between_classes_all_pairs_are_alike():
    rng = np.random.default_rng(0)
    made = codes(rng.standard_normal((6, 3)), np.zeros((3, 3)), covariance(rng, 3))
    np.testing.assert_array_equal(offset_distances(made[:3], made[3:]), 0)


def test_shares_of_zero_give_a_squared_distance():
    U = np.random.default_rng(0).standard_normal((6, 3))
    made = np.column_stack([U, similarity_offsets(U, np.zeros(3))])
    expected = ((U[:3] - U[3:]) ** 2).sum(axis=1)
    np.testing.assert_allclose(offset_distances(made[:3], made[3:]), expected, rtol=1e-12)


def test_offsets_are_a_weighted_sum_of_squares():
    np.testing.assert_allclose(
        similarity_offsets(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([0.5, 0.25])), [-1.5, -4.5]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_vectors_is_kept(dtype):
    assert similarity_offsets(np.ones((2, 3), dtype), np.full(3, 0.5)).dtype == dtype


@given(st.integers(0, 10_000))
def test_the_ratio_does_not_depend_on_coordinates(seed):
    rng = np.random.default_rng(seed)
    between, within = covariance(rng, 4, 3), covariance(rng, 4) + np.eye(4)
    X, T = rng.standard_normal((8, 4)), rng.standard_normal((4, 4)) + 3 * np.eye(4)
    one, other = codes(X, between, within), codes(X @ T.T, T @ between @ T.T, T @ within @ T.T)
    expected = offset_distances(one[:4], one[4:])
    np.testing.assert_allclose(offset_distances(other[:4], other[4:]), expected, rtol=1e-6, atol=1e-6)


# Codes of a vector and a number


def each_distance(made, distance):
    n = len(made)
    i, j = np.divmod(np.arange(n * n), n)
    return np.asarray(distance(made[i], made[j])).reshape(n, n)


def plain(a, b):
    return ((a - b) ** 2).sum(axis=1)


@pytest.mark.parametrize("distance", [None, flip_free_distances, offset_distances])
def test_split_codes_say_what_the_distance_is(distance):
    rng = np.random.default_rng(0)
    made = rng.standard_normal((7, 4))
    if distance is flip_free_distances:
        made = flip_free_codes(made, rng.standard_normal((7, 4)))
    vectors, numbers = split_codes(made, distance)
    by_parts = squared_distances(vectors, vectors) + numbers[:, np.newaxis] + numbers
    np.testing.assert_allclose(by_parts, each_distance(made, distance or plain), atol=1e-9)


def test_split_codes_of_an_unknown_distance_are_refused():
    with pytest.raises(ValueError, match="no vectors with a number each"):
        split_codes(np.ones((2, 3)), plain)


def test_euclidean_search_ranks_as_the_distance_does():
    rng = np.random.default_rng(3)
    made = rng.standard_normal((20, 4)) * [1, 1, 1, 5]
    asked, gallery = as_euclidean(*split_codes(made, offset_distances))
    difference = squared_distances(asked, gallery) - each_distance(made, offset_distances)
    np.testing.assert_allclose(difference, np.broadcast_to(difference[:, :1], difference.shape), atol=1e-9)


def test_euclidean_search_of_no_codes():
    asked, gallery = as_euclidean(np.zeros((0, 3)), np.zeros(0))
    assert asked.shape == gallery.shape == (0, 4)
