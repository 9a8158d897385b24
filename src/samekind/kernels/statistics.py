"""Statistics of samples of numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def standard_error(estimates: NDArray[Any]) -> float:
    """The standard error of the mean of the estimates; 0 for a single one."""
    n = len(estimates)
    return float(np.std(estimates, ddof=1) / n**0.5) if n > 1 else 0.0
