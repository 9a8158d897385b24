"""WithinClassWhitening in which classes are round, and the first factor: those of linear discriminant analysis."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.executor import Executor
from samekind.kernels.scatters import scatters
from samekind.solvers.optimise.within_class import COLUMNS, SHRINKAGE, WithinClassWhitening
from tests import oracle

SIZES = (5, 1, 3, 8, 2, 4)
WIDTH = 5


def data(sizes=SIZES, width=WIDTH, dtype=np.float64, seed=0):
    """In class order, centred."""
    rng = np.random.default_rng(seed)
    means = np.repeat(2 * rng.normal(size=(len(sizes), width)), sizes, axis=0)
    Z = means + rng.normal(size=means.shape) * np.linspace(0.3, 2, width)
    return (Z - Z.mean(axis=0)).astype(dtype), np.array(sizes)


def literal_scatters(Z, sizes):
    total, between = np.zeros((2, Z.shape[1], Z.shape[1]))
    start = 0
    for size in sizes:
        own = Z[start : start + size].astype(float)
        mean = sum(own) / size
        for z in own:
            total += np.outer(z, z) / len(Z)
            between += np.outer(mean, mean) / len(Z)
        start += size
    return total, between


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 30))
def test_scatters_are_those_of_literal_loops(sizes, rows_at_once):
    Z, sizes = data(tuple(sizes))
    made = scatters(Z, sizes, map, rows_at_once)
    for mine, literal in zip(made, literal_scatters(Z, sizes), strict=True):
        np.testing.assert_allclose(mine, literal, atol=1e-12)


def test_single_precision_is_summed_in_double():
    Z, sizes = data((3,) * 4000, dtype=np.float32)
    literal = Z.astype(float).T @ Z.astype(float) / len(Z)
    np.testing.assert_allclose(scatters(Z, sizes, map)[0], literal, rtol=0, atol=2e-6 * np.abs(literal).max())


def test_classes_are_round_but_for_the_shrinkage():
    Z, sizes = data()
    made = WithinClassWhitening.of(Z, sizes, map)
    total, between = literal_scatters(Z, sizes)
    within = total - between
    shrunk = within + SHRINKAGE * np.trace(within) / WIDTH * np.eye(WIDTH)
    np.testing.assert_allclose(made.W @ shrunk @ made.W, np.eye(WIDTH), atol=1e-12)
    np.testing.assert_allclose(made.W @ made.inverse, np.eye(WIDTH), atol=1e-12)
    np.testing.assert_allclose(made.W, made.W.T, atol=1e-14)


def test_the_first_factor_has_the_discriminants():
    Z, sizes = data()
    L = WithinClassWhitening.of(Z, sizes, map).first_factor(3)
    total, between = literal_scatters(Z, sizes)
    within = total - between
    shrunk = within + SHRINKAGE * np.trace(within) / WIDTH * np.eye(WIDTH)
    ratios, discriminants = scipy.linalg.eigh(between, shrunk)
    for column, ratio, discriminant in zip(L.T, ratios[::-1], discriminants.T[::-1], strict=False):
        cosine = column @ discriminant / np.linalg.norm(column) / np.linalg.norm(discriminant)
        assert abs(cosine) == pytest.approx(1, abs=1e-10)
        assert column @ between @ column / (column @ shrunk @ column) == pytest.approx(ratio, rel=1e-10)


def test_distances_under_the_first_factor_are_about_one():
    Z, sizes = data((6,) * 20)
    L = WithinClassWhitening.of(Z, sizes, map).first_factor(WIDTH)
    assert oracle.distances(Z, L @ L.T).mean() == pytest.approx(1, rel=0.1)  # the shrinkage is left out


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_there_are_no_more_directions_than_class_means_have(rank):
    Z, sizes = data((4, 4, 4))
    assert WithinClassWhitening.of(Z, sizes, map).first_factor(rank).shape == (WIDTH, min(rank, 2))


def test_class_means_that_are_all_the_same_have_no_direction():
    Z = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    assert WithinClassWhitening.of(Z, np.array([2, 2]), map).first_factor(2).shape == (2, 0)


def test_samples_that_are_those_of_their_class_leave_features_as_they_are():
    """There is no scatter within classes to go by."""
    Z = np.repeat([[1.0, 2], [-1, -2]], 3, axis=0)
    made = WithinClassWhitening.of(Z, np.array([3, 3]), map)
    np.testing.assert_allclose(made.W, np.eye(2), atol=1e-12)


def test_variances_that_are_not_finite_are_named():
    Z = np.full((4, 2), 1e30, np.float32)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite"):
        WithinClassWhitening.of(Z, np.array([2, 2]), map)


def test_wide_factors_are_multiplied_alike_by_any_number_of_threads():
    Z, sizes = data()
    L = np.random.default_rng(1).normal(size=(WIDTH, 2 * COLUMNS + 3))
    made = {n: WithinClassWhitening.of(Z, sizes, Executor(n).map) for n in (1, 2)}
    for product, by in (("factor", made[1].W), ("point", made[1].inverse), ("pulled", made[1].W.T)):
        one, two = (getattr(made[n], product)(L) for n in (1, 2))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, by @ L, rtol=1e-12, atol=1e-12)
