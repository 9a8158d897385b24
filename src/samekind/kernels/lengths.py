"""Codes by their lengths: as they are, divided by the square root of the length, or divided by the length."""

from typing import Literal, TypeAlias, get_args

import numpy as np

from samekind.kernels.types import Array

Normalise: TypeAlias = Literal["none", "root", "unit"]
NORMALISATIONS: tuple[Normalise, ...] = get_args(Normalise)


def normalised(codes: Array, normalise: Normalise) -> Array:
    """c, c / sqrt(||c||) or c / ||c|| of each row: (n, r) -> (n, r). A row of zeros stays as it is."""
    if normalise == "none":
        return codes
    largest = _or_one(np.abs(codes).max(axis=1, keepdims=True, initial=0))
    scaled = codes / largest  # squares of these neither overflow nor vanish
    lengths = _or_one(np.linalg.norm(scaled, axis=1, keepdims=True))
    divided: Array = scaled / lengths if normalise == "unit" else scaled * np.sqrt(largest / lengths)
    return divided


def _or_one(values: Array) -> Array:
    return np.where(values > 0, values, np.ones_like(values))
