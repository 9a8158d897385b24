"""Array types that the rooms share, runs of samples, and rows in whole lanes."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]
Samples: TypeAlias = slice | IntArray  # a run of samples in class order, or some of them, rising

LANES = 8  # numbers that the processor handles at once


def places(samples: Samples) -> IntArray:
    """Which samples they are."""
    return np.arange(samples.start, samples.stop) if isinstance(samples, slice) else samples


def full_lanes(width: int) -> int:
    """The next width that the processor handles without a rest."""
    return -(-width // LANES) * LANES
