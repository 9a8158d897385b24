"""Codes divided by their lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.kernels.lengths import NORMALISATIONS, normalised, normalised_blocks

numbers = st.floats(-1e6, 1e6).map(lambda x: 0.0 if abs(x) < 1e-6 else x)
some_codes = hnp.arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(1, 5)), elements=numbers)


def literal(c, normalise):
    length = sum(x * x for x in c.tolist()) ** 0.5
    if length == 0:
        return c
    return c / {"none": 1, "root": length**0.5, "unit": length}[normalise]


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(codes=some_codes)
def test_each_row_is_the_formula(normalise, codes):
    expected = np.array([literal(c, normalise) for c in codes]).reshape(codes.shape)
    np.testing.assert_allclose(normalised(codes, normalise), expected, rtol=1e-12)


@given(some_codes)
def test_root_codes_have_the_length_as_their_square(codes):
    squares = (normalised(codes, "root") ** 2).sum(axis=1)
    np.testing.assert_allclose(squares, np.linalg.norm(codes, axis=1), rtol=1e-12)


@given(some_codes)
def test_unit_codes_have_length_one_or_zero(codes):
    lengths = np.linalg.norm(normalised(codes, "unit"), axis=1)
    np.testing.assert_allclose(lengths, codes.any(axis=1), rtol=1e-12)


def test_none_is_the_very_codes():
    codes = np.array([[3.0, 4.0]])
    assert normalised(codes, "none") is codes


@pytest.mark.parametrize("normalise", ["root", "unit"])
def test_zeros_stay_zeros_and_others_do_not_see_them(normalise):
    codes = np.array([[0.0, 0.0], [3.0, 4.0]])
    found = normalised(codes, normalise)
    assert found[0].tolist() == [0, 0]
    np.testing.assert_allclose(found[1], literal(codes[1], normalise))
    assert codes.tolist() == [[0, 0], [3, 4]]


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
def test_lengths_whose_squares_are_no_numbers(scale):
    codes = scale * np.array([[3.0, -4.0]])
    np.testing.assert_allclose(normalised(codes, "unit"), [[0.6, -0.8]], rtol=1e-12)
    np.testing.assert_allclose(normalised(codes, "root"), np.sqrt(5 * scale) * np.array([[0.6, -0.8]]), rtol=1e-12)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 2), (0, 2), (3, 0)])
def test_shape_and_precision_stay(normalise, dtype, shape):
    found = normalised(np.ones(shape, dtype), normalise)
    assert found.shape == shape
    assert found.dtype == dtype


STARTS = np.array([0, 2, 3])
blocks = hnp.arrays(np.float64, st.tuples(st.integers(0, 4), st.just(7)), elements=numbers)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(codes=blocks)
def test_each_block_is_divided_by_its_own_root_mean_square(normalise, codes):
    """That of a block of d numbers is its length over sqrt(d)."""
    sizes = {"none": 0, "root": 0.25, "unit": 0.5}
    expected = codes.copy()
    for row in expected:
        for start, stop in ((0, 2), (2, 3), (3, 7)):
            row[start:stop] = literal(row[start:stop], normalise) * (stop - start) ** sizes[normalise]
    np.testing.assert_allclose(normalised_blocks(codes, STARTS, normalise), expected, rtol=1e-12)


@pytest.mark.parametrize("normalise", ["root", "unit"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_in_blocks_neither_overflow_nor_vanish(normalise, scale):
    codes = np.array([[3.0, 4.0, 0.0, 1.0, 1.0, 1.0, 1.0]], np.float32)
    power = {"root": 0.5, "unit": 0}[normalise]
    made = normalised_blocks(codes * np.float32(scale), STARTS, normalise)
    np.testing.assert_allclose(made, normalised_blocks(codes, STARTS, normalise) * scale**power, rtol=1e-5)
    assert made.dtype == np.float32


def test_many_rows_are_divided_as_each_alone():
    codes = np.random.default_rng(0).standard_normal((11, 7))
    alone = np.concatenate([normalised_blocks(row[np.newaxis], STARTS, "root") for row in codes])
    np.testing.assert_array_equal(normalised_blocks(codes, STARTS, "root", at_once=15), alone)


def test_no_blocks_are_nothing_to_divide():
    assert normalised_blocks(np.empty((3, 0)), np.empty(0, np.intp), "unit").shape == (3, 0)


@pytest.mark.parametrize("normalise", ["root", "unit"])
def test_blocks_of_very_large_and_very_small_numbers_neither_overflow_nor_vanish(normalise):
    codes = np.array([[1e200, 1.0, 0.0, 3e-200, 4e-200]])
    root = np.array([1e200 / np.sqrt(3), 5e-200 / np.sqrt(2)])
    divisors = np.repeat(root if normalise == "unit" else np.sqrt(root), [3, 2])
    np.testing.assert_allclose(normalised_blocks(codes, np.array([0, 3]), normalise), codes / divisors, rtol=1e-12)
