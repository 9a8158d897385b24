"""The functions of `exponentials` for float32, each in one pass over the tile, compiled by numba and free of the GIL.

Their exponential is a polynomial that vectorises; numba's own is scalar. `contract` and the like are safe for it, but
`reassoc` would undo the rounding by a magic number, so only plain sums may have it.
"""

from typing import Any

import numpy as np
from numba import njit

from samekind.kernels.compiled import SAFE, compiled
from samekind.kernels.exponentials import LEAST_WEIGHT

FACTORS = 32  # of 1 to 2 each, multiplied before a logarithm is taken

_LOG2_E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUNDING = np.float32(12582912.0)  # 1.5 * 2^23: adding it leaves the nearest integer in the lowest bits
_LOWEST = np.float32(-87.0)
_C6, _C5, _C4 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_C3, _C2, _C1 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_ONE, _ZERO = np.float32(1), np.float32(0)
# Whether a weight is too small is seen from RAISED times as much, which is a normal number.
_RAISED = np.float32(2.0**64)
_LEAST = _RAISED * LEAST_WEIGHT


@njit(fastmath=SAFE, error_model="numpy")
def _exp(x: Any) -> Any:
    """e^x for x < 88, by Cephes' polynomial; 0 below -87."""
    bounded = max(x, _LOWEST)
    shifted = bounded * _LOG2_E + _ROUNDING
    whole = shifted - _ROUNDING
    r = bounded - whole * _LN2_HIGH - whole * _LN2_LOW
    p = ((((_C6 * r + _C5) * r + _C4) * r + _C3) * r + _C2) * r + _C1
    p = p * (r * r) + r + _ONE
    exponent = np.float32(shifted).view(np.int32) << np.int32(23)
    power = np.int32(np.float32(p).view(np.int32) + exponent).view(np.float32)
    return power if x > _LOWEST else _ZERO


@njit(fastmath=True, error_model="numpy")
def _total(row: Any) -> Any:
    total = _ZERO
    for j in range(len(row)):
        total += row[j]
    return total


@compiled
def exp_sums(low: Any, D: Any) -> Any:
    n, m = D.shape
    rows, cols = np.empty(n, np.float32), np.zeros(m, np.float32)
    E = np.empty(m, np.float32)
    for i in range(n):
        for j in range(m):
            E[j] = _exp(low - D[i, j])
        for j in range(m):
            cols[j] += E[j]
        rows[i] = _total(E)
    return rows, cols


@compiled
def sums(H: Any) -> Any:
    """Of the rows and of the columns, while they are in the cache."""
    n, m = H.shape
    rows, cols = np.empty(n, np.float32), np.zeros(m, np.float32)
    for i in range(n):
        for j in range(m):
            cols[j] += H[i, j]
        rows[i] = _total(H[i])
    return rows, cols


@compiled
def exp_times_sum(low: Any, D: Any, u: Any, v: Any) -> Any:
    n, m = D.shape
    H = np.empty((n, m), np.float32)
    for i in range(n):
        for j in range(m):
            E, factor = _exp(low - D[i, j]), u[i] + v[j]
            counts = min(E, _ONE) * abs(factor * _RAISED) >= _LEAST
            H[i, j] = (E if counts else _ZERO) * factor
    return H


@compiled
def sigmoid_and_softplus_parts(threshold: Any, D: Any, scale: Any, H: Any) -> Any:
    """`scale * sigmoid(threshold - D)` into H; products of 1 + e^-|threshold - D| down the columns; hinge sums."""
    n, m = D.shape
    products = np.ones(((n + FACTORS - 1) // FACTORS, m), np.float32)
    hinges = np.zeros(m, np.float32)
    raised = abs(scale * _RAISED)
    for i in range(n):
        k = i // FACTORS
        for j in range(m):
            margin = threshold - D[i, j]
            E = _exp(-abs(margin))
            below = _ONE + E
            products[k, j] *= below
            hinges[j] += max(margin, _ZERO)
            sigmoid = (_ONE if margin >= _ZERO else E) / below
            H[i, j] = scale * (sigmoid if sigmoid * raised >= _LEAST else _ZERO)
    return products, hinges


@compiled
def softplus_over_runs(threshold: Any, D: Any, first: Any, last: Any, own: Any, scales: Any, H: Any) -> Any:
    """Sums (n,) of `softplus(D - threshold)` over a run of columns in each row, `scales * sigmoid` into H."""
    n, m = D.shape
    sums = np.zeros(n)
    factors, hinges = np.empty(m, np.float32), np.empty(m, np.float32)
    for i in range(n):
        start, length, itself = first[i], last[i] - first[i], own[i]
        if length <= 0:
            continue
        met = start <= itself < last[i]
        kept = H[i, itself] if met else _ZERO
        for j in range(length):
            margin = D[i, start + j] - threshold
            E = _exp(-abs(margin))
            factors[j] = _ONE + E
            hinges[j] = max(margin, _ZERO)
            H[i, start + j] = scales[i] * ((_ONE if margin >= _ZERO else E) / factors[j])
        if met:
            H[i, itself] = kept
            factors[itself - start], hinges[itself - start] = _ONE, _ZERO
        total, product = 0.0, 1.0
        for j in range(length):
            total += hinges[j]
            product *= factors[j]
            if j % FACTORS == FACTORS - 1:
                total += np.log(product)
                product = 1.0
        sums[i] = total + np.log(product)
    return sums


@compiled
def fill_runs(D: Any, first: Any, last: Any, value: Any) -> None:
    for i in range(len(D)):
        for j in range(first[i], last[i]):
            D[i, j] = value


@compiled
def scaled_sum(D0: Any, scale: Any, D: Any, out: Any) -> None:
    n, m = D.shape
    for i in range(n):
        for j in range(m):
            out[i, j] = scale * D0[i, j] + D[i, j]
