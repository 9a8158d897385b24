"""Normalisation of illumination (Tan and Triggs, 2010, "Enhanced local texture feature sets for face recognition")."""

import numpy as np

from samekind.kernels.types import Array

# As in the paper; its inner and outer Gaussian are of 1 and 2 pixels.
GAMMA, INNER, OUTER, ALPHA, TAU = 0.2, 1.0, 2.0, 0.1, 10.0
_FLAT = 1e-6  # far below a step of 16 bits: what differs by less is rounding, and stays flat


def tan_triggs(picture: Array) -> Array:
    """Gamma correction, difference of Gaussians and contrast equalisation of a grey picture (H, W), in float64.

    The result, between -tau and tau in the paper, is mapped to values from 0 to 1.
    """
    corrected = np.power(np.maximum(np.asarray(picture, np.float64), 0), GAMMA)
    band = _gaussian(corrected, INNER) - _gaussian(corrected, OUTER)
    if np.abs(band).max() < _FLAT:
        return np.full(band.shape, 0.5)
    band /= _contrast(np.abs(band))
    band /= _contrast(np.minimum(np.abs(band), TAU))
    equalised: Array = (1 + np.tanh(band / TAU)) / 2
    return equalised


def _contrast(sizes: Array) -> float:
    """A mean that large values hardly change."""
    return float(np.mean(sizes**ALPHA) ** (1 / ALPHA))


def _gaussian(picture: Array, sigma: float) -> Array:
    """As `align.smooth`, in the picture's precision."""
    import cv2

    size = 2 * int(np.ceil(4 * sigma)) + 1
    return np.asarray(cv2.GaussianBlur(picture, (size, size), sigma, borderType=cv2.BORDER_REFLECT_101))
