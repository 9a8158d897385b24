"""Codes divided by their lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.kernels.lengths import NORMALISATIONS, normalised

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
