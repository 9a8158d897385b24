"""Flip-free codes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.kernels.distances import squared_distances
from samekind.kernels.flips import flip_free_codes, flip_free_distances, flip_free_queries
from samekind.kernels.lengths import NORMALISATIONS, normalised

codes = hnp.arrays(np.float64, (4, 5, 3), elements=st.floats(-10, 10))


def squared(a, b):
    return ((a - b) ** 2).sum(axis=1)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(four=codes)
def test_the_closed_form_is_the_mean_of_four_distances(normalise, four):
    a, a_mirrored, b, b_mirrored = (normalised(each, normalise) for each in four)
    expected = (squared(a, b) + squared(a_mirrored, b) + squared(a, b_mirrored) + squared(a_mirrored, b_mirrored)) / 4
    found = flip_free_distances(flip_free_codes(a, a_mirrored), flip_free_codes(b, b_mirrored))
    np.testing.assert_allclose(found, expected, atol=1e-9)


@given(codes)
def test_search_with_queries_ranks_by_the_flip_free_distance(four):
    gallery, query = flip_free_codes(four[0], four[1]), flip_free_codes(four[2], four[3])
    euclidean = squared_distances(flip_free_queries(query), gallery)
    for i in range(len(query)):
        full = flip_free_distances(np.repeat(query[i : i + 1], len(gallery), axis=0), gallery)
        np.testing.assert_allclose(full - euclidean[i], query[i, -1] ** 2, atol=1e-9)


def test_queries_leave_the_codes_alone():
    codes = np.ones((2, 4))
    queries = flip_free_queries(codes)
    assert codes[0, -1] == 1
    assert queries[:, -1].tolist() == [0, 0]
