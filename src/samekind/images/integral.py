"""Sums over rectangles in constant time."""

from typing import Any

import numpy as np
from numba import njit

from samekind.kernels.compiled import compiled
from samekind.kernels.types import Array


def integral_image(channels: Array) -> Array:
    """`I[y, x, c]`: the sum of `channels[:y, :x, c]`; (H, W, C) -> (H + 1, W + 1, C) in float64."""
    H, W, C = channels.shape
    integral = np.empty((H + 1, W + 1, C))
    _integrate(channels, integral)
    return integral


@compiled
def _integrate(channels: Any, integral: Any) -> None:
    H, W, C = channels.shape
    integral[0] = 0.0
    row = np.empty(C)
    for y in range(H):
        row[:] = 0.0
        integral[y + 1, 0] = 0.0
        for x in range(W):
            for c in range(C):
                row[c] += channels[y, x, c]
                integral[y + 1, x + 1, c] = integral[y, x + 1, c] + row[c]


@njit(inline="always")
def box_sum(integral: Any, region: Any, total: Any) -> None:
    """Sums of all channels over one region (top, left, height, width), into `total` (C,)."""
    top, left = region[0], region[1]
    bottom, right = top + region[2], left + region[3]
    for c in range(len(total)):
        total[c] = (integral[bottom, right, c] - integral[top, right, c]) - (
            integral[bottom, left, c] - integral[top, left, c]
        )
