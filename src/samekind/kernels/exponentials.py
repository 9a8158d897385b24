"""What is done to every cell of a tile, both losses' exponentials first: nearly all of the time goes here.

Large float32 tiles are handed to `fused`, compiled, one pass each; the NumPy of this file is its oracle.
"""

import numpy as np

from samekind.kernels.runs import Runs
from samekind.kernels.types import Array

ABSENT = 1e30  # a distance that stands for no pair at all: finite, as compiled code may not know infinity
# Smaller weights count as 0. They are far below the rounding of the sums that they enter, and their products would be
# subnormal numbers in float32, for which many processors take a hundred times as long.
LEAST_WEIGHT = np.float32(2.0**-100)
FUSED_FROM = 1 << 15  # cells: below it, loading a compiler takes longer than the work


def exp_sums(low: float, D: Array) -> tuple[Array, Array]:
    """Row and column sums of `exp(low - D)`: D (n, m) -> (n,), (m,)."""
    if _is_large(D):
        from samekind.kernels import fused

        rows, cols = fused.exp_sums(D.dtype.type(low), D)
        return rows, cols
    E = _shifted_exp(low, D)
    return E.sum(axis=1), E.sum(axis=0)


def exp_times_sum(low: float, D: Array, u: Array, v: Array) -> Array:
    """`exp(low - D_ij) (u_i + v_j)`, (n, m)."""
    u, v = u.astype(D.dtype), v.astype(D.dtype)
    if _is_large(D):
        from samekind.kernels import fused

        H: Array = fused.exp_times_sum(D.dtype.type(low), D, u, v)
        return H
    E = _shifted_exp(low, D)
    E *= np.add.outer(u, v)
    return without_least(E)


def sigmoid_and_softplus_sum(threshold: float, D: Array, scale: float, out: Array | None = None) -> tuple[Array, float]:
    """`scale * sigmoid(threshold - D)`, (n, m), into `out` if given, and the sum of `softplus(threshold - D)`."""
    H = np.empty_like(D) if out is None else out
    if _is_large(D):
        from samekind.kernels import fused

        products, hinges = fused.sigmoid_and_softplus_parts(D.dtype.type(threshold), D, D.dtype.type(scale), H)
        return H, float(np.log(products).sum(dtype=np.float64) + hinges.sum(dtype=np.float64))
    margin = np.subtract(D.dtype.type(threshold), D)
    E = exp_minus_abs(margin)
    total = float(np.log1p(E).sum(dtype=np.float64) + np.maximum(margin, 0).sum(dtype=np.float64))
    np.multiply(sigmoid(margin, E), D.dtype.type(scale), out=H)
    return without_least(H), total


def softplus_over_runs(threshold: float, D: Array, runs: Runs, scales: Array, H: Array) -> float:
    """Sum of `scales_i softplus(D_ij - threshold)` over runs of columns; `scales_i sigmoid(D_ij - threshold)` into H.

    A sample does not meet itself.
    """
    if _is_large(D):
        from samekind.kernels import fused

        where, rounded = (runs.first, runs.last, runs.own), scales.astype(D.dtype)
        return float(scales @ fused.softplus_over_runs(D.dtype.type(threshold), D, *where, rounded, H))
    margin = D[runs.same] - D.dtype.type(threshold)
    E = exp_minus_abs(margin)
    each = scales[runs.same[0]]
    H[runs.same] = each.astype(D.dtype) * sigmoid(margin, E)
    return float(each @ (np.log1p(E) + np.maximum(margin, 0)))


def without_runs(D: Array, runs: Runs) -> Array:
    """A copy, ABSENT in the runs."""
    D = D.copy()
    if _is_large(D):
        from samekind.kernels import fused

        fused.fill_runs(D, runs.first, runs.last, D.dtype.type(ABSENT))
    else:
        D[runs.alike] = ABSENT
    return D


def row_and_column_sums(H: Array) -> tuple[Array, Array]:
    if _is_large(H) and H.flags.c_contiguous:
        from samekind.kernels import fused

        rows, cols = fused.sums(H)
        return rows, cols
    return H.sum(axis=1), H.sum(axis=0)


def scaled_sum(D0: Array, scale: float, D: Array, out: Array) -> None:
    """`scale * D0 + D`, into `out`, which may be one of them."""
    if _is_large(D) and D0.flags.c_contiguous:
        from samekind.kernels import fused

        fused.scaled_sum(D0, D.dtype.type(scale), D, out)
    else:
        np.add(D.dtype.type(scale) * D0, D, out=out)


def exp_minus_abs(margin: Array) -> Array:
    E = np.abs(margin)
    return np.exp(np.negative(E, out=E), out=E)


def sigmoid(margin: Array, E: Array) -> Array:
    """`1 / (1 + e^-margin)` from `E = e^-|margin|`."""
    return np.where(margin >= 0, E.dtype.type(1), E) / (1 + E)


def without_least(H: Array) -> Array:
    """With 0 for weights below LEAST_WEIGHT, in float32; float64 has room for them."""
    if H.dtype == np.float32:
        H[np.abs(H) < LEAST_WEIGHT] = 0
    return H


def _shifted_exp(low: float, D: Array) -> Array:
    E = np.subtract(D.dtype.type(low), D)
    return np.exp(E, out=E)


def _is_large(D: Array) -> bool:
    return D.dtype == np.float32 and D.size >= FUSED_FROM
