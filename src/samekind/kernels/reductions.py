"""Streaming reductions: log-sum-exp over rows and columns of a tile, and the k smallest of a row.

A partial result of log-sum-exp is one number per row, -inf for an empty sum; `merge_log_sum_exp` joins two.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.exponentials import ABSENT, exp_sums
from samekind.kernels.types import Array, IntArray

LogSums: TypeAlias = NDArray[np.float64]


def log_sum_exp(X: Array, axis: int) -> LogSums:
    """`ln sum exp X` along one axis; entries of -inf count as absent."""
    top = X.max(axis=axis, initial=-np.inf)
    top[~np.isfinite(top)] = 0
    with np.errstate(divide="ignore"):
        sums = np.exp(X - np.expand_dims(top, axis)).sum(axis=axis, dtype=np.float64)
        logs: LogSums = np.log(sums) + top
    return logs


def log_sum_exp_at(values: Array, places: IntArray, n: int) -> LogSums:
    """`ln sum exp` of the values at each of n places; -inf where there are none."""
    tops = np.full(n, -np.inf)
    np.maximum.at(tops, places, values)
    sums = np.bincount(places, np.exp(values - tops[places]), minlength=n)
    with np.errstate(divide="ignore"):
        logs: LogSums = np.log(sums) + np.where(np.isfinite(tops), tops, 0)
    return logs


def log_sum_exp_negative(D: Array) -> tuple[LogSums, LogSums]:
    """`ln sum exp -D` along rows and along columns, D (n, m) -> (n,), (m,); entries of ABSENT count as absent.

    One exponential serves both when every row's and every column's smallest entry is near enough to the tile's.
    """
    lows = np.concatenate([D.min(axis=1), D.min(axis=0)])
    lows = lows[lows < ABSENT]
    if not len(lows):
        return np.full(D.shape[0], -np.inf), np.full(D.shape[1], -np.inf)
    low = lows.min()
    if not lows.max() - low <= shared_exponent_range(D.dtype):
        X = np.where(D < ABSENT, -D, D.dtype.type(-np.inf))
        return log_sum_exp(X, axis=1), log_sum_exp(X, axis=0)
    rows, cols = exp_sums(low, D)
    with np.errstate(divide="ignore"):
        return np.log(rows.astype(np.float64)) - float(low), np.log(cols.astype(np.float64)) - float(low)


def shared_exponent_range(dtype: np.dtype[Any]) -> float:
    """How far apart the logarithms of two numbers may be for both to keep full precision after one shift."""
    info = np.finfo(dtype)
    return float(np.log(info.eps) - np.log(info.tiny))


def merge_log_sum_exp(a: LogSums, b: LogSums) -> LogSums:
    """`ln(e^a + e^b)`: associative, commutative, with -inf as the neutral element."""
    return np.logaddexp(a, b)


def smallest(D: Array, k: int, first_column: int = 0, last: NDArray[np.bool_] | None = None) -> tuple[Array, IntArray]:
    """The k smallest of each row, in order, with their columns: (n, m) -> (n, min(k, m)) twice.

    Of equal values the lower column comes first, so that the answer does not depend on how columns are cut up; those
    that are marked as `last` (n, m) come after all others.
    """
    n, m = D.shape
    k = min(k, m)
    if k == 0:
        return np.empty((n, 0), D.dtype), np.empty((n, 0), np.intp)
    rows, columns = np.nonzero(np.partition(D, k - 1, axis=1)[:, k - 1 : k] >= D)
    values = D[rows, columns]
    order = np.lexsort((columns, values, rows) if last is None else (columns, last[rows, columns], values, rows))
    firsts = np.searchsorted(rows, np.arange(n))
    chosen = order[firsts[:, None] + np.arange(k)]
    return values[chosen], columns[chosen] + first_column
