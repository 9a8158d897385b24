"""Scatter of samples: within classes, of class means, and its principal axes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from samekind.kernels.spectral import Matrix, eigh
from samekind.kernels.types import Array, IntArray

ROWS_AT_ONCE = 4_096  # fewest rows of whole classes for one product of D x D
LEAST_VARIANCE = 1e-6  # within classes, as a share of that between them, and the other way round
BETWEEN = 0.3  # factor of the deviations of class means: undecided pairs are about as near as same-class pairs

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


def scatters(Z: Array, class_sizes: IntArray, map_: Map, rows_at_once: int = ROWS_AT_ONCE) -> tuple[Matrix, Matrix]:
    """`Z^T Z / N`, and the same with each sample replaced by the mean of its class."""
    ends = np.cumsum(class_sizes)

    def of_classes(classes: slice) -> tuple[Array, Array]:
        sizes = class_sizes[classes]
        start = int(ends[classes.start] - sizes[0])
        own = Z[start : int(ends[classes.stop - 1])]
        firsts = np.cumsum(sizes) - sizes
        means = np.add.reduceat(own, firsts, axis=0) / np.sqrt(sizes, dtype=Z.dtype)[:, np.newaxis]
        return own.T @ own, means.T @ means

    total, between = np.zeros((2, Z.shape[1], Z.shape[1]))
    for whole, means in map_(of_classes, _runs_of_classes(class_sizes, rows_at_once)):
        total += whole
        between += means
    _check_finite(total, between)
    return total / len(Z), between / len(Z)


def _runs_of_classes(class_sizes: IntArray, rows_at_once: int) -> list[slice]:
    """Runs of whole classes with at least so many samples, except the last."""
    ends, runs, start = np.cumsum(class_sizes), [], 0
    while start < len(class_sizes):
        before = int(ends[start] - class_sizes[start])
        stop = min(int(np.searchsorted(ends, before + rows_at_once)) + 1, len(class_sizes))
        runs.append(slice(start, stop))
        start = stop
    return runs


def class_statistics(
    Z: Array, classes: IntArray, weights: NDArray[np.float64] | None = None, rows_at_once: int = ROWS_AT_ONCE
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Of samples (N, D) of classes 0, 1, ..., K - 1 in any order: their mean (D,), the weight of each class (K,), its
    mean, taken from that of all (K, D), and the scatter around these, summed (D, D).
    """
    weights = np.ones(len(Z)) if weights is None else weights
    sizes: Matrix = np.bincount(classes, weights).astype(np.float64)
    parts = [slice(start, start + rows_at_once) for start in range(0, len(Z), rows_at_once)]
    mean = sum(weights[part] @ Z[part].astype(np.float64) for part in parts) / sizes.sum()
    sums, products = np.zeros((len(sizes), Z.shape[1])), np.zeros((Z.shape[1], Z.shape[1]))
    for part in parts:
        wide = Z[part].astype(np.float64) - mean
        weighted = wide * np.sqrt(weights[part])[:, np.newaxis]
        products += weighted.T @ weighted
        np.add.at(sums, classes[part], wide * weights[part][:, np.newaxis])
    centres = sums / sizes[:, np.newaxis]
    by_size = centres * np.sqrt(sizes)[:, np.newaxis]
    return mean, sizes, centres, products - by_size.T @ by_size


def variance_components(sizes: Array, centres: Matrix, scatter: Matrix) -> tuple[float, float]:
    """Mean variances over all directions, within classes and of class centres, by analysis of variance.

    From what `class_statistics` gives. The second is less what the first explains of it, 0 where little is left; the
    first is a small share of it where samples do not vary within classes.
    """
    total, K, D = sizes.sum(), len(sizes), len(scatter)
    spread = float((centres**2).sum(axis=1) @ sizes) / D
    within = max(float(np.trace(scatter)) / max(total - K, 1.0) / D, LEAST_VARIANCE * spread / total) or 1.0
    between = max(spread - (K - 1) * within, 0.0) / ((total - sizes @ sizes / total) or 1.0)
    return within, between if between > LEAST_VARIANCE * within else 0.0


def principal_deviations(Z: Array, class_sizes: IntArray) -> tuple[NDArray[np.float64], Matrix]:
    """Standard deviations along the principal axes of centred samples, falling, and the axes (columns).

    Class means count by `BETWEEN`. By way of the correlations of features: then deviations far below the largest are
    right too.
    """
    squares, correlations = np.zeros(Z.shape[1]), np.zeros((Z.shape[1], Z.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(Z, class_sizes):
            squares += (part**2).sum(axis=0)
    deviations = np.sqrt(squares / len(Z))
    _check_finite(deviations)
    units = np.where(deviations > 0, deviations, 1.0)
    for part in _parts(Z, class_sizes):
        part /= units
        correlations += part.T @ part
    shares, vectors = eigh(correlations / len(Z))
    root = np.sqrt(np.maximum(shares, 0))[:, np.newaxis] * vectors.T * deviations
    _, lengths, axes = scipy.linalg.svd(root, check_finite=False)
    return lengths, np.ascontiguousarray(axes.T)


def _check_finite(*variances: Matrix) -> None:
    if not all(np.isfinite(each).all() for each in variances):
        raise ValueError(
            "The variances of the features are not finite: they are too large for their precision. Scale them down."
        )


def _parts(Z: Array, class_sizes: IntArray) -> Iterator[Matrix]:
    """Blocks of samples in double precision, minus the share 1 - BETWEEN of their class means."""
    firsts = np.cumsum(class_sizes) - class_sizes
    means = np.add.reduceat(Z, firsts, axis=0, dtype=np.float64) / class_sizes[:, np.newaxis]
    codes = np.repeat(np.arange(len(class_sizes)), class_sizes)
    for start in range(0, len(Z), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        yield Z[rows].astype(np.float64) - (1 - BETWEEN) * means[codes[rows]]
