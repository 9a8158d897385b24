"""Array types that the rooms share, and runs of samples."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]
Samples: TypeAlias = slice | IntArray  # a run of samples in class order, or some of them, rising


def places(samples: Samples) -> IntArray:
    """Which samples they are."""
    return np.arange(samples.start, samples.stop) if isinstance(samples, slice) else samples
