"""Normalisation of illumination: against the paper's formulas, and what it is for."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from samekind.images.illumination import tan_triggs
from tests.images.pictures import face_like


def test_it_is_the_papers():
    picture = face_like(60, 44).astype(float)
    corrected = picture**0.2
    inner, outer = (gaussian_filter(corrected, sigma, mode="mirror", truncate=4) for sigma in (1, 2))
    band = inner - outer
    band = band / np.mean(np.abs(band) ** 0.1) ** 10
    band = band / np.mean(np.minimum(10, np.abs(band)) ** 0.1) ** 10
    expected = 10 * np.tanh(band / 10)
    np.testing.assert_allclose(20 * (tan_triggs(picture) - 0.5), expected, atol=1e-10)


def test_brightness_of_the_whole_picture_does_not_count():
    picture = face_like(60, 44).astype(float)
    np.testing.assert_allclose(tan_triggs(0.3 * picture), tan_triggs(picture), atol=1e-12)


def test_slow_shading_hardly_counts():
    picture = 0.2 + 0.7 * face_like(60, 44).astype(float)
    shaded = picture * np.linspace(1, 0.4, 44)
    moved = [np.abs(f(shaded) - f(picture)).mean() / f(picture).std() for f in (np.asarray, tan_triggs)]
    assert moved[1] < 0.2 * moved[0]


@pytest.mark.parametrize("grey", [0, 0.3, 1])
def test_a_flat_picture_stays_flat(grey):
    np.testing.assert_allclose(tan_triggs(np.full((20, 16), grey, np.float32)), 0.5, atol=0)


def test_values_lie_between_0_and_1():
    noise = np.random.default_rng(0).random((30, 30)) > 0.97
    values = tan_triggs(noise)
    assert 0 < values.min() < values.max() < 1
