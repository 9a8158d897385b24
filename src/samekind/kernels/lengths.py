"""Codes, or blocks of them, by their lengths: as they are, or divided by the (square root of the) length."""

from typing import Literal, TypeAlias, get_args

import numpy as np

from samekind.kernels.types import Array, IntArray

Normalise: TypeAlias = Literal["none", "root", "unit"]
NORMALISATIONS: tuple[Normalise, ...] = get_args(Normalise)
AT_ONCE = 1 << 20  # numbers that are normalised at a time


def normalised(codes: Array, normalise: Normalise) -> Array:
    """c, c / sqrt(||c||) or c / ||c|| of each row: (n, r) -> (n, r). A row of zeros stays as it is."""
    if normalise == "none":
        return codes
    largest = _or_one(np.abs(codes).max(axis=1, keepdims=True, initial=0))
    scaled = codes / largest  # squares of these neither overflow nor vanish
    lengths = _or_one(np.linalg.norm(scaled, axis=1, keepdims=True))
    divided: Array = scaled / lengths if normalise == "unit" else scaled * np.sqrt(largest / lengths)
    return divided


def normalised_blocks(codes: Array, starts: IntArray, normalise: Normalise, *, at_once: int = AT_ONCE) -> Array:
    """z, z / sqrt(r) or z / r of each block z of each row, r its root mean square: (n, D) -> (n, D).

    Blocks begin at `starts`, the first of which is 0. A block of zeros stays as it is.
    """
    if normalise == "none" or not len(starts):
        return codes
    sizes, divided = np.diff(np.append(starts, codes.shape[1])), np.empty_like(codes)
    rows = max(1, at_once // codes.shape[1])
    for first in range(0, len(codes), rows):
        some = codes[first : first + rows]
        largest = _or_one(np.maximum.reduceat(np.abs(some), starts, axis=1))
        scaled = some / np.repeat(largest, sizes, axis=1)  # squares of these neither overflow nor vanish
        roots = _or_one(np.sqrt(np.add.reduceat(scaled**2, starts, axis=1) / sizes.astype(codes.dtype)))
        factors = 1 / roots if normalise == "unit" else np.sqrt(largest / roots)
        np.multiply(scaled, np.repeat(factors, sizes, axis=1), out=divided[first : first + rows])
    return divided


def _or_one(values: Array) -> Array:
    return np.where(values > 0, values, np.ones_like(values))
