"""Principal directions of samples, in float64 without a copy of all samples in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from samekind.kernels.spectral import with_fixed_signs
from samekind.kernels.types import Array

NUMBERS_AT_ONCE = 1 << 22  # that are converted to float64 at a time
NEGLIGIBLE = 1e-12  # variances below this share of the largest are rounding errors


def weighted_mean(Z: Array, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """sum_i w_i z_i / sum_i w_i: (N, D) -> (D,)."""
    if weights is None:
        return np.asarray(Z.mean(axis=0, dtype=np.float64))
    sums = sum(weights[part] @ Z[part].astype(np.float64) for part in row_blocks(*Z.shape))
    return np.asarray(sums / weights.sum())


def leading_directions(
    Z: Array,
    n: int,
    mean: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    *,
    at_once: int = NUMBERS_AT_ONCE,
) -> Array:
    """The n leading eigenvectors of sum_i w_i (z_i - mean) (z_i - mean)^T: (N, D) -> (D, n), in the precision of Z.

    Fewer where the samples have no variance in so many directions.
    """
    N, D = Z.shape
    mean = np.zeros(D) if mean is None else mean
    roots = np.ones((N, 1)) if weights is None else np.sqrt(weights)[:, np.newaxis]
    smaller = min(N, D)
    gram = np.zeros((smaller, smaller))
    if D <= N:
        for part in row_blocks(N, D, at_once):
            wide = roots[part] * (Z[part] - mean)
            gram += wide.T @ wide
    else:
        for part in row_blocks(D, N, at_once):
            wide = roots * (Z[:, part] - mean[part])
            gram += wide @ wide.T
    values, vectors = scipy.linalg.eigh(
        gram, subset_by_index=[smaller - min(n, smaller), smaller - 1], check_finite=False
    )
    kept = values > NEGLIGIBLE * values[-1]
    kept[-1] = True  # where there is no variance at all
    values, vectors = values[kept], vectors[:, kept]
    if D > N:
        over = vectors / np.sqrt(np.maximum(values, np.finfo(float).tiny))
        vectors = np.concatenate([(roots * (Z[:, part] - mean[part])).T @ over for part in row_blocks(D, N, at_once)])
    return with_fixed_signs(vectors[:, ::-1]).astype(Z.dtype)


def projected(Z: Array, directions: Array, mean: NDArray[np.float64], *, at_once: int = NUMBERS_AT_ONCE) -> Array:
    """(Z - mean) P: (N, D), (D, n) -> (N, n), in the precision of Z."""
    N, D = Z.shape
    made = np.empty((N, directions.shape[1]), Z.dtype)
    for part in row_blocks(N, D, at_once):
        np.matmul(Z[part] - mean.astype(Z.dtype), directions, out=made[part])
    return made


def row_blocks(n: int, width: int, at_once: int = NUMBERS_AT_ONCE) -> Iterator[slice]:
    """Slices of n rows of so many numbers each, `at_once` numbers at a time."""
    rows = max(1, at_once // max(1, width))
    return (slice(start, start + rows) for start in range(0, n, rows))
