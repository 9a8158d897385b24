"""Growing samples for step 2: few anchors first, more when gains are within their noise, all rows in the end.

The loss is a mean over anchors, so that a random sample of them gives an unbiased gradient (dynamic sample sizes: Byrd,
Chin, Nocedal and Wu, 2012).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.statistics import standard_error

CHECK_EVERY = 3  # iterations between two estimates of the noise
HELD_OUT_ANCHORS = 1024  # at most, to distinguish gains from noise
# The last stage, on all rows, ends when relative gains fall below these shares of `tol`:
NEARLY = 0.5  # the gain still expected, extrapolated from the last iterations
SETTLED = 0.05  # the gain of one iteration
WITHIN = 2.0  # standard errors; smaller gains are within the noise


def sample_sizes(n_candidates: int, first: int, growth: int, most: int | None = None) -> list[int | None]:
    """Anchors of each stage: `first`, then `growth` times as many as before; None stands for all rows.

    Over all rows each pair is visited once, which costs as much as a sample of half the rows.

    `most`: end with a sample of so many anchors, unless all rows cost no more.
    """
    last = None if most is None or 2 * most >= n_candidates else most
    end = n_candidates / 2 if last is None else last
    sizes: list[int | None] = []
    size = first
    while 2 * size <= end:
        sizes.append(size)
        size *= growth
    return [*sizes, last]


def within_noise(gains: NDArray[Any]) -> bool:
    """Whether a gain is within the noise, given the gains on batches of held-out anchors."""
    return bool(gains.mean() <= WITHIN * standard_error(gains))


def expected_gain(values: Sequence[float]) -> float:
    """The gain still to come if gains keep shrinking as from the three iterations before to the last three."""
    if len(values) < 7:
        return np.inf
    before, last = values[-7] - values[-4], values[-4] - values[-1]
    return last**2 / (before - last) if 0 <= last < before else np.inf
