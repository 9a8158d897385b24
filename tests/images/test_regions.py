"""Rectangles spread evenly over a crop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.images.regions import (
    LEAST_SIDE,
    Region,
    enumerate_regions,
    mirror_places,
    mirrored_regions,
    most_regions,
    symmetric_subset,
)

crops = st.tuples(st.integers(10, 300), st.integers(10, 300))


def unpaired(regions, width):
    """How many regions lack their mirror image, found one by one."""
    there = {tuple(region) for region in regions.tolist()}
    return sum((top, width - w - left, h, w) not in there for top, left, h, w in there)


def test_the_default_is_the_papers():
    regions = enumerate_regions()
    assert regions.shape == (13_260, 4)
    assert regions[:, 2:].min(axis=0).tolist() == [8, 8]
    assert regions[:, 2:].max(axis=0).tolist() == [144, 96]


@given(crops, st.integers(1, 60) | st.integers(61, 3000))
def test_regions_lie_inside_and_differ(crop, count):
    width, height = crop
    count = min(count, most_regions(width, height) if count > 60 else count)
    regions = enumerate_regions(width, height, count)
    top, left, h, w = regions.T
    assert regions.shape == (count, 4)
    assert len(np.unique(regions, axis=0)) == count
    assert min(top.min(), left.min()) >= 0
    assert (top + h).max() <= height
    assert (left + w).max() <= width
    assert min(h.min(), w.min()) >= LEAST_SIDE


@given(crops, st.integers(1, 60) | st.integers(864, 3000))
def test_each_region_has_its_mirror_image_in_the_set(crop, count):
    width, height = crop
    count = min(count, most_regions(width, height) if count > 60 else count)
    regions = enumerate_regions(width, height, count)
    if count % 2 == 0 or (regions[:, 3] % 2 == width % 2).any():
        assert unpaired(regions, width) == 0
    else:
        assert unpaired(regions, width) == 1


@pytest.mark.parametrize("count", [13_260, 13_259, 2000, 883, 25, 2, 1])
@pytest.mark.parametrize("crop", [(110, 150), (111, 150)])
def test_the_default_crop_and_one_of_odd_width_are_symmetric(crop, count):
    assert unpaired(enumerate_regions(*crop, count), crop[0]) == 0


def test_an_odd_count_without_a_region_in_the_middle_leaves_one_unpaired():
    """The only size is 5 x 4, and a crop of 6 has no place for it in the middle."""
    regions = np.array([[top, left, 4, 5] for top in range(3) for left in range(2)])
    mirrors = mirror_places(regions, 6)
    assert mirrors.tolist() == [1, 0, 3, 2, 5, 4]
    assert len(symmetric_subset(mirrors, 3)) == 3
    assert unpaired(regions[symmetric_subset(mirrors, 3)], 6) == 1
    assert unpaired(regions[symmetric_subset(mirrors, 4)], 6) == 0


@pytest.mark.parametrize("count", range(1, 8))
def test_a_subset_of_an_asymmetric_set_is_symmetric(count):
    mirrors = np.array([5, -1, 3, 2, 4, 0, -1, 8, 7])
    chosen = symmetric_subset(mirrors, count)
    assert len(chosen) == count
    assert (np.diff(chosen) > 0).all()
    assert set(mirrors[chosen]) == set(chosen)
    with pytest.raises(ValueError, match="only 7 of the 9 have their mirror image"):
        symmetric_subset(mirrors, 8)


@given(st.integers(2, 200), st.data())
def test_a_subset_is_spread_at_equal_intervals(n, data):
    mirrors = np.arange(2 * n).reshape(n, 2)[:, ::-1].ravel()
    count = 2 * data.draw(st.integers(1, n))
    gaps = np.diff(symmetric_subset(mirrors, count)[::2])
    assert not len(gaps) or gaps.max() - gaps.min() <= 2


@pytest.mark.slow
@given(st.tuples(st.integers(10, 40), st.integers(10, 40)))
def test_as_many_regions_as_there_are_can_be_had(crop):
    most = most_regions(*crop)
    assert len(np.unique(enumerate_regions(*crop, most), axis=0)) == most
    with pytest.raises(ValueError, match="ask for fewer"):
        enumerate_regions(*crop, most + 1)


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
