"""Growing samples for step 2: few anchors first, more when progress drowns in their noise, all of them in the end."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIRST_ANCHORS = 1024
GROWTH = 4
CHECK_EVERY = 3  # iterations between two looks at the noise
JUDGING_ANCHORS = 1024  # at most, that tell gains from noise
NEARLY = 0.5  # share of `tol`: on all rows, what is left to gain, going by what the last iterations gained
SETTLED = 0.05  # share of `tol`: samples came first, and on all rows an iteration gains less than this of f
WITHIN = 2.0  # standard errors: a gain of less than these is within the noise
CLASS_SHARES = (1 / 50, 1 / 5)  # of the classes in each stage; in the end the latter's samples, tilted, stand for all
FEWEST_CLASSES = 25  # of a stage; where the last would have fewer it is anchors,
TILTED_ANCHORS = 1 / 25  # of the rows
MOST_LOOKS = 20  # at all rows, to tilt a sample
MOST_IN_VAIN = 3  # looks that find no better point, one after another
LOOKS_SETTLED = 0.05  # share of `tol`: a look that finds and promises less than this of f is the last
LITTLE = 0.05  # share of what the samples of some classes gained: when three iterations gain less, they are left


def sample_sizes(n_candidates: int, most: int | None = None, tilted: bool = False) -> list[int | None]:
    """Anchors of each stage; None stands for all rows, whose pairs are visited once: as dear as a sample of half.

    `most`: end with a sample of so many anchors, unless all rows are no dearer. `tilted`: a tilted sample is to stand
    for all rows, and before it come smaller ones only.
    """
    last = None if most is None or 2 * most >= n_candidates else most
    end = n_candidates / 2 if last is None else last
    if tilted and last is None:
        end = min(end, tilted_anchors(n_candidates))
    sizes: list[int | None] = []
    size = FIRST_ANCHORS
    while 2 * size <= end:
        sizes.append(size)
        size *= GROWTH
    return [*sizes, last]


def class_shares(n_classes: int) -> list[float]:
    """Of the stages that have the samples of some classes alone; none where classes are few."""
    return [share for share in CLASS_SHARES if share * n_classes >= FEWEST_CLASSES]


def tilted_anchors(n_candidates: int) -> int:
    """Of a sample of anchors that stands for all rows."""
    return max(2 * FIRST_ANCHORS, round(TILTED_ANCHORS * n_candidates))


def drowns(gains: NDArray[Any]) -> bool:
    """Whether what was gained on a sample is within the noise, as batches of anchors that it does not have see it."""
    return bool(gains.mean() <= WITHIN * standard_error(gains))


def to_come(values: Sequence[float]) -> float:
    """What is left to gain if gains go on shrinking as from the three iterations before to the last three."""
    if len(values) < 7:
        return np.inf
    before, last = values[-7] - values[-4], values[-4] - values[-1]
    return last**2 / (before - last) if 0 <= last < before else np.inf


def standard_error(estimates: NDArray[Any]) -> float:
    """Of the mean."""
    n = len(estimates)
    return float(np.std(estimates, ddof=1) / n**0.5) if n > 1 else 0.0
