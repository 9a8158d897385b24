"""Squared distances as one matrix product."""

import numpy as np
import pytest

from samekind.kernels.distances import euclidean_factors, quadratic_factors, squared_distances
from tests import cases, oracle


@pytest.mark.parametrize("A", [cases.random_psd(5), cases.random_symmetric(5)], ids=["psd", "indefinite"])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_quadratic_factors_give_the_oracles_distances(A, dtype, rtol):
    X, _ = cases.labelled_data(n_features=5, dtype=dtype)
    left, right = quadratic_factors(X, X @ A.astype(dtype))
    assert left.dtype == right.dtype == dtype
    assert cases.relative_error(left @ right.T, oracle.distances(X, A)) < rtol


def test_euclidean_factors_of_a_code_equal_the_metric_it_came_from():
    X, _ = cases.labelled_data(n_features=5)
    L = np.random.default_rng(1).normal(size=(5, 3))
    left, right = euclidean_factors(X @ L)
    assert left.shape == right.shape == (len(X), 5)
    assert cases.relative_error(left @ right.T, oracle.distances(X, L @ L.T)) < 1e-13


def test_squared_distances_between_two_sets():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    literal = [[oracle.squared_distance(x, y, np.eye(3)) for y in Y] for x in X]
    assert cases.relative_error(squared_distances(X, Y), literal) < 1e-14


def test_squared_distances_are_never_negative():
    X = 1e4 + np.random.default_rng(3).normal(size=(40, 5)).astype(np.float32)  # far from zero: cancellation
    left, right = euclidean_factors(X)
    assert (left @ right.T).min() < 0
    assert squared_distances(X, X).min() >= 0
