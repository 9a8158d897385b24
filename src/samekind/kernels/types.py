"""Array types that the rooms share, runs of samples, and rows in whole lanes."""

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]
Samples: TypeAlias = slice | IntArray  # a run of samples in class order, or some of them, rising
Mirror: TypeAlias = Literal["none", "mean", "distances"]  # how a picture's mirror image counts
MIRRORS: tuple[Mirror, ...] = get_args(Mirror)

LANES = 8  # numbers that the processor handles at once


def places(samples: Samples) -> IntArray:
    """Which samples they are."""
    return np.arange(samples.start, samples.stop) if isinstance(samples, slice) else samples


def full_lanes(width: int) -> int:
    """The next width that the processor handles without a rest."""
    return -(-width // LANES) * LANES
