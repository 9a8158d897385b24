"""Partial results that may be joined in any way."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.kernels.exponentials import ABSENT
from samekind.kernels.reductions import (
    log_sum_exp,
    log_sum_exp_negative,
    merge_log_sum_exp,
    shared_exponent_range,
    smallest,
)
from tests import oracle

logs = hnp.arrays(np.float64, 4, elements=st.floats(-1e4, 1e4) | st.just(-np.inf))
# Few different numbers, so that there are ties.
tied = hnp.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 40)), elements=st.integers(0, 3))


@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("axis", [0, 1])
def test_log_sum_exp_equals_the_oracles(scale, axis, strict_warnings):
    X = scale * np.random.default_rng(0).normal(size=(5, 7))
    literal = [oracle.log_sum_exp(list(line)) for line in (X if axis == 1 else X.T)]
    np.testing.assert_allclose(log_sum_exp(X, axis), literal, rtol=1e-14)


def test_log_sum_exp_skips_absent_entries(strict_warnings):
    X = np.array([[1.0, -np.inf, 2.0], [-np.inf, -np.inf, -np.inf]])
    np.testing.assert_allclose(log_sum_exp(X, 1), [math.log(math.e + math.e**2), -np.inf])


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-6)])
@pytest.mark.parametrize("apart", [0.0, 60.0, 600.0, 1e6], ids=lambda apart: f"rows {apart:g} apart")
def test_log_sum_exp_negative_whether_one_exponential_serves_or_not(dtype, rtol, apart, strict_warnings):
    D = np.random.default_rng(0).uniform(0, 3, size=(5, 6)).astype(dtype)
    D[2] += dtype(apart)
    D[:, 4] += dtype(apart)
    rows, cols = log_sum_exp_negative(D)
    np.testing.assert_allclose(rows, [oracle.log_sum_exp([-float(d) for d in line]) for line in D], rtol=rtol)
    np.testing.assert_allclose(cols, [oracle.log_sum_exp([-float(d) for d in line]) for line in D.T], rtol=rtol)


def test_the_cases_above_lie_on_both_sides_of_the_shared_range():
    assert 60 < shared_exponent_range(np.dtype(np.float32)) < 600 < shared_exponent_range(np.dtype(np.float64)) < 1e6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_shared_range_keeps_full_precision(dtype):
    span = shared_exponent_range(np.dtype(dtype))
    smallest_number = np.exp(dtype(-span))
    assert smallest_number * np.finfo(dtype).eps >= np.finfo(dtype).tiny * 0.99
    assert np.isfinite(np.exp(dtype(span)))


@given(logs, logs, logs)
def test_merging_log_sums_is_associative(a, b, c):
    left = merge_log_sum_exp(merge_log_sum_exp(a, b), c)
    np.testing.assert_allclose(left, merge_log_sum_exp(a, merge_log_sum_exp(b, c)), rtol=1e-13, atol=1e-13)


@given(logs, logs)
def test_merging_log_sums_is_commutative_with_minus_infinity_neutral(a, b):
    np.testing.assert_array_equal(merge_log_sum_exp(a, b), merge_log_sum_exp(b, a))
    np.testing.assert_array_equal(merge_log_sum_exp(a, np.full(4, -np.inf)), a)


@given(hnp.arrays(np.float64, (3, 9), elements=st.floats(-1e3, 1e3)), st.integers(0, 9))
def test_log_sums_of_two_parts_merge_to_that_of_the_whole(X, cut):
    merged = merge_log_sum_exp(log_sum_exp(X[:, :cut], 1), log_sum_exp(X[:, cut:], 1))
    np.testing.assert_allclose(merged, log_sum_exp(X, 1), rtol=1e-13, atol=1e-13)


def sorted_smallest(D, k):
    """Per row (value, column) in rising order, ties by column."""
    rows = [sorted((value, j) for j, value in enumerate(line))[:k] for line in D.tolist()]
    return [[value for value, _ in row] for row in rows], [[j for _, j in row] for row in rows]


@given(tied, st.integers(0, 45))
def test_smallest_equals_sorting_with_ties_by_column(D, k):
    values, places = smallest(D, k)
    literal_values, literal_places = sorted_smallest(D, k)
    assert values.tolist() == literal_values
    assert places.tolist() == literal_places


@given(tied, st.integers(0, 45), st.integers(0, 40))
def test_columns_are_counted_from_the_first(D, k, first):
    values, places = smallest(D, k, first)
    assert values.tolist() == sorted_smallest(D, k)[0]
    np.testing.assert_array_equal(places - first, smallest(D, k)[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_no_pair_are_empty(dtype):
    rows, cols = log_sum_exp_negative(np.full((2, 3), ABSENT, dtype))
    np.testing.assert_array_equal(rows, np.full(2, -np.inf))
    np.testing.assert_array_equal(cols, np.full(3, -np.inf))
