"""Covariance descriptors: how nine basic features vary together inside a region (Tuzel, Porikli and Meer).

The features of a pixel: x, y, intensity, the sizes of the first derivatives, the sizes of the second derivatives, the
size and the orientation of the gradient. Each is scaled so that its variance in a region of a photograph is about 1:
position exactly, by the region's own sides; the others by fixed numbers. To the covariance `ridge` is added on the
diagonal, and its logarithm is the tangent vector at the identity: 45 numbers, those off the diagonal times sqrt(2), so
that Euclidean distances between descriptors are log-Euclidean distances between covariances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from samekind.images.description import checked_ridge
from samekind.images.integral import box_sum
from samekind.kernels.compiled import compiled
from samekind.kernels.logarithm import LANES, logarithm_in_lanes, place
from samekind.kernels.types import Array, IntArray

FEATURES = 9
SIZE = FEATURES * (FEATURES + 1) // 2
SCALES = (1.0, 1.0, 6.0, 30.0, 30.0, 50.0, 50.0, 25.0, 2.5)  # of the basic features, in their order
_ROOT_2 = np.float32(np.sqrt(2))
# Entries (0, j), j > 0: covariances of x. log(S C S) = S log(C) S for a diagonal S of signs.
_MIRROR_SIGNS = np.array([1] + [-1] * (FEATURES - 1) + [1] * (SIZE - FEATURES), np.float32)


@dataclass(frozen=True)
class Covariance:
    """The family `cov`."""

    ridge: float = 1e-3

    name: ClassVar[str] = "cov"
    options: ClassVar[tuple[str, ...]] = ()
    size: ClassVar[int] = SIZE

    def __post_init__(self) -> None:
        checked_ridge(self.ridge)

    @classmethod
    def with_options(cls, options: Sequence[str]) -> "Covariance":
        """There are none."""
        if options:
            raise ValueError(f"The family cov has no options, but +{options[0]} was given: leave it out.")
        return cls()

    def describe(self, picture: Array, regions: IntArray) -> Array:
        """Descriptors (n_regions, 45) float32 of a grey picture (H, W)."""
        moments = integral_of_moments(basic_features(picture))
        descriptors = np.empty((len(regions), SIZE), np.float32)
        _describe(moments, np.ascontiguousarray(regions), np.float32(self.ridge), descriptors)
        return descriptors

    def mirrored(self, descriptors: Array) -> Array:
        """What the mirror image shows where these descriptors' regions come to lie: x changes its sign."""
        return descriptors * _MIRROR_SIGNS


def basic_features(picture: Array) -> Array:
    """(H, W, 9) in float64, scaled; x and y from the middle of the picture, in pixels."""
    grey = np.asarray(picture, np.float64)
    H, W = grey.shape
    padded = np.pad(grey, 1, mode="edge")
    left, right = padded[1:-1, :-2], padded[1:-1, 2:]
    above, below = padded[:-2, 1:-1], padded[2:, 1:-1]
    I_x, I_y = (right - left) / 2, (below - above) / 2
    I_xx, I_yy = right - 2 * grey + left, below - 2 * grey + above
    features = np.empty((H, W, FEATURES))
    features[..., 0] = np.arange(W) - (W - 1) / 2
    features[..., 1] = (np.arange(H) - (H - 1) / 2)[:, np.newaxis]
    features[..., 2] = grey
    features[..., 3], features[..., 4] = np.abs(I_x), np.abs(I_y)
    features[..., 5], features[..., 6] = np.abs(I_xx), np.abs(I_yy)
    features[..., 7] = np.hypot(I_x, I_y)
    features[..., 8] = np.arctan2(features[..., 4], features[..., 3])
    features *= SCALES
    return features


def integral_of_moments(features: Array) -> Array:
    """Integral image of the features and of the products of any two, (H + 1, W + 1, 9 + 45)."""
    H, W, d = features.shape
    integral = np.empty((H + 1, W + 1, d + d * (d + 1) // 2))
    _integrate_moments(features, integral)
    return integral


@compiled
def _integrate_moments(features: Any, integral: Any) -> None:
    (H, W, _), d = features.shape, FEATURES  # a constant, so that the loops over it are unrolled
    row = np.empty(integral.shape[2])
    integral[0] = 0.0
    for y in range(H):
        row[:] = 0.0
        integral[y + 1, 0] = 0.0
        for x in range(W):
            pixel = features[y, x]
            for i in range(d):
                row[i] += pixel[i]
                products = row[d + place(i, i, d) :]
                for j in range(d - i):
                    products[j] += pixel[i] * pixel[i + j]
            above, here = integral[y, x + 1], integral[y + 1, x + 1]
            for c in range(len(row)):
                here[c] = above[c] + row[c]


@compiled
def _describe(moments: Any, regions: Any, ridge: Any, descriptors: Any) -> None:
    A = np.ones((SIZE, LANES), np.float32)
    V = np.empty((FEATURES, FEATURES, LANES), np.float32)
    total, scale = np.empty(FEATURES + SIZE), np.ones(FEATURES)
    for start in range(0, len(regions), LANES):
        used = min(LANES, len(regions) - start)
        for lane in range(used):
            region = regions[start + lane]
            box_sum(moments, region, total)
            n = region[2] * region[3]
            # The variance of w equally likely pixels is (w^2 - 1) / 12.
            scale[0] = np.sqrt(12.0 / (region[3] * region[3] - 1))
            scale[1] = np.sqrt(12.0 / (region[2] * region[2] - 1))
            for i in range(FEATURES):
                for j in range(i, FEATURES):
                    e = place(i, j, FEATURES)
                    covariance = total[FEATURES + e] / n - (total[i] / n) * (total[j] / n)
                    A[e, lane] = covariance * scale[i] * scale[j] + (ridge if i == j else 0.0)
        logarithm_in_lanes(A, V)
        for lane in range(used):
            for i in range(FEATURES):
                for j in range(i, FEATURES):
                    e = place(i, j, FEATURES)
                    descriptors[start + lane, e] = A[e, lane] if i == j else _ROOT_2 * A[e, lane]
