"""Soft histograms of local binary patterns: against scikit-image where hard, the literal definition where soft."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.feature import local_binary_pattern

from samekind.images.illumination import tan_triggs
from samekind.images.slbp import POINTS, SIZE, SoftLBP, bin_of_run, differences_on_circle
from tests import oracle
from tests.images.pictures import face_like, random_regions

shapes = st.tuples(st.integers(3, 14), st.integers(3, 14))
few_greys = shapes.flatmap(lambda s: hnp.arrays(np.float64, s, elements=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])))
any_greys = shapes.flatmap(lambda s: hnp.arrays(np.float64, s, elements=st.floats(0, 1)))


def hard_patterns(picture, radius=1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-image would rather have integers
        return local_binary_pattern(picture, 8, radius, "nri_uniform").astype(int)


def bin_of_pattern(pattern):
    """By the definition: how many ones, and where their run starts; 58 where there are several runs."""
    bits = [pattern >> p & 1 for p in range(POINTS)]
    starts = [p for p in range(POINTS) if bits[p] and not bits[p - 1]]
    if sum(bits) in (0, POINTS):
        return 0 if pattern == 0 else 57
    return bin_of_run(starts[0], sum(bits)) if len(starts) == 1 else 58


@pytest.mark.parametrize("radius", [1, 2, 3])
@given(few_greys | any_greys)
def test_without_fuzziness_it_is_scikit_images(radius, picture):
    memberships = SoftLBP(0, radius=radius).memberships(picture)
    np.testing.assert_array_equal(memberships, np.eye(SIZE)[hard_patterns(picture, radius)])


def test_without_fuzziness_region_counts_are_scikit_images_exactly():
    picture, regions = face_like(), random_regions(150, 110, 200)
    patterns = hard_patterns(picture.astype(float))
    histograms = SoftLBP(0).describe(picture, regions)
    for (top, left, h, w), histogram in zip(regions, histograms, strict=True):
        counts = np.bincount(patterns[top : top + h, left : left + w].ravel(), minlength=SIZE)
        np.testing.assert_array_equal(histogram, (counts / (h * w)).astype(np.float32))


@pytest.mark.parametrize("radius", [1, 2])
@pytest.mark.parametrize("fuzziness", [0.004, 0.05, 0.5])
def test_it_is_the_literal_definition(fuzziness, radius):
    picture = face_like(6, 7).astype(float)
    differences = differences_on_circle(picture, radius)
    memberships = SoftLBP(fuzziness, radius=radius).memberships(picture)
    for y in range(6):
        for x in range(7):
            expected = oracle.soft_pattern_histogram(differences[:, y, x], fuzziness, bin_of_pattern, SIZE)
            np.testing.assert_allclose(memberships[y, x], expected, atol=1e-6)


@given(any_greys, st.floats(0, 1))
def test_memberships_are_probabilities(picture, fuzziness):
    memberships = SoftLBP(fuzziness).memberships(picture)
    assert memberships.min() >= 0
    np.testing.assert_allclose(memberships.sum(axis=-1), 1, atol=1e-5)


def test_little_fuzziness_is_nearly_none():
    picture, regions = face_like(), random_regions(150, 110, 20, least=20)
    hard, soft = SoftLBP(0).describe(picture, regions), SoftLBP(1e-9).describe(picture, regions)
    np.testing.assert_allclose(hard, soft, atol=1e-6)


def test_it_moves_little_with_noise():
    """What fuzziness is for."""
    picture, regions = face_like(), random_regions(150, 110, 20, least=20)
    noisy = picture + 0.002 * np.random.default_rng(0).standard_normal(picture.shape)
    moved = [np.abs(f.describe(picture, regions) - f.describe(noisy, regions)).sum() for f in (SoftLBP(0), SoftLBP())]
    assert moved[1] < 0.7 * moved[0]


def test_histograms_are_probabilities():
    histograms = SoftLBP().describe(face_like(), random_regions(150, 110, 2000))
    assert histograms.min() >= 0
    np.testing.assert_allclose(histograms.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("options", [(), ("r2",), ("r3", "tt")])
@pytest.mark.parametrize("fuzziness", [0, 0.02])
def test_mirrored_is_the_description_of_the_mirror_image(fuzziness, options):
    picture, regions = face_like(), random_regions(150, 110, 100)
    elsewhere = regions.copy()
    elsewhere[:, 1] = 110 - regions[:, 1] - regions[:, 3]
    family = replace(SoftLBP.with_options(options), fuzziness=fuzziness)
    expected = family.describe(picture[:, ::-1], regions)
    np.testing.assert_allclose(family.mirrored(family.describe(picture, elsewhere)), expected, atol=1e-6)
    assert np.abs(family.describe(picture, elsewhere) - expected).max() > 0.01


@pytest.mark.parametrize("fuzziness", [-0.1, np.nan, np.inf])
def test_a_fuzziness_that_cannot_be_is_refused(fuzziness):
    with pytest.raises(ValueError, match="fuzziness"):
        SoftLBP(fuzziness)


@pytest.mark.parametrize("radius", [0, 10, 1.5, "2", None])
def test_a_radius_that_cannot_be_is_refused(radius):
    with pytest.raises(ValueError, match=r"radius must be a whole number from 1 to 9"):
        SoftLBP(radius=radius)


def test_illumination_is_normalised_before_the_codes():
    picture = face_like(40, 30)
    expected = SoftLBP(0.03, radius=2).memberships(tan_triggs(picture))
    np.testing.assert_array_equal(SoftLBP(0.03, radius=2, tan_triggs=True).memberships(picture), expected)


def test_roots_are_those_of_the_histograms_also_of_mirror_images():
    picture, regions = face_like(60, 44), random_regions(60, 44, 12)
    plain, rooted = SoftLBP().describe(picture, regions), SoftLBP(root=True).describe(picture, regions)
    np.testing.assert_array_equal(rooted, np.sqrt(plain))
    np.testing.assert_array_equal(SoftLBP(root=True).mirrored(rooted), np.sqrt(SoftLBP().mirrored(plain)))
