"""Rectangles spread evenly over a crop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.images.regions import LEAST_SIDE, Region, enumerate_regions, mirrored_regions

crops = st.tuples(st.integers(10, 300), st.integers(10, 300))


def test_the_default_is_the_papers():
    regions = enumerate_regions()
    assert regions.shape == (13_260, 4)
    assert regions[:, 2:].min(axis=0).tolist() == [8, 8]
    assert regions[:, 2:].max(axis=0).tolist() == [144, 96]


@given(crops, st.integers(1, 60))
def test_regions_lie_inside_and_differ(crop, count):
    width, height = crop
    regions = enumerate_regions(width, height, count)
    top, left, h, w = regions.T
    assert regions.shape == (count, 4)
    assert len(np.unique(regions, axis=0)) == count
    assert min(top.min(), left.min()) >= 0
    assert (top + h).max() <= height
    assert (left + w).max() <= width
    assert min(h.min(), w.min()) >= LEAST_SIDE


@pytest.mark.parametrize(("count", "ratio"), [(883, 1.6), (2000, 1.4), (13_260, 1.3)])
def test_they_cover_the_crop_evenly(count, ratio):
    """Parts of the middle are covered nearly alike (a large region always covers it); left as right, high as low."""
    coverage = np.zeros((150, 110))
    for top, left, h, w in enumerate_regions(count=count):
        coverage[top : top + h, left : left + w] += 1 / (h * w)
    assert coverage.min() > 0
    parts = coverage[20:-20, 20:-20].reshape(5, 22, 5, 14).sum(axis=(1, 3))
    assert parts.max() < ratio * parts.min()
    np.testing.assert_allclose(coverage[:, :55].sum(), coverage[:, 55:].sum(), rtol=0.03)
    np.testing.assert_allclose(coverage[:75].sum(), coverage[75:].sum(), rtol=0.03)


def test_sides_scale_with_the_crop():
    regions = enumerate_regions(220, 300, 1000)
    assert regions[:, 2:].min(axis=0).tolist() == [16, 16]
    assert regions[:, 2:].max(axis=0).tolist() == [288, 192]


def test_the_same_again():
    np.testing.assert_array_equal(enumerate_regions(64, 48, 500), enumerate_regions(64, 48, 500))


@pytest.mark.parametrize(
    ("crop", "count", "words"),
    [((110, 150), 0, "at least 1"), ((2, 150), 10, "too small"), ((12, 12), 100_000, "ask for fewer")],
)
def test_what_cannot_be_is_refused(crop, count, words):
    with pytest.raises(ValueError, match=words):
        enumerate_regions(*crop, count)


def test_mirrored_twice_is_the_same():
    region = Region(3, 10, 20, 30)
    mirrored = mirrored_regions(np.array([region]), 110)
    assert mirrored.tolist() == [list(Region(3, 70, 20, 30))]
    assert mirrored_regions(mirrored, 110).tolist() == [list(region)]
    assert region.name == "30x20 at 10,3"
