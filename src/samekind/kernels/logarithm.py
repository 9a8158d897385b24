"""Logarithms of many small symmetric matrices, side by side in lanes.

A matrix of order `SIDE` is its upper triangle, row by row: (i, j), i <= j, at `place(i, j)`. `LANES` matrices lie next
to each other, the lane innermost, so that each step of the eigendecomposition is one vector operation.

All helpers are inlined into the function that calls them: of a helper that stands alone, the process that compiles it
and one that finds it kept on disk may take copies that were optimised, and so round, differently.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from samekind.kernels.compiled import compiled
from samekind.kernels.types import Array

LANES = 64
SWEEPS = 7  # of cyclic Jacobi: converged to float32 for conditions up to 1e6

_ZERO, _ONE, _TWO = np.float32(0), np.float32(1), np.float32(2)
_TINY = np.float32(1e-30)
_NO_TURN = np.float32(1e-10)  # a tangent that turns nothing in float32, but makes numbers too small to be normal: slow


def symmetric_logarithms(C: Array) -> Array:
    """`log C` of positive definite matrices given and returned as upper triangles, (n, d (d + 1) / 2) float32."""
    side = (math.isqrt(8 * C.shape[1] + 1) - 1) // 2
    logs = np.empty(C.shape, np.float32)
    _symmetric_logarithms(np.ascontiguousarray(C, np.float32), side, logs)
    return logs


@njit(inline="always")
def place(i: Any, j: Any, side: Any) -> Any:
    """Of (i, j), i <= j, in the upper triangle."""
    return i * side - i * (i - 1) // 2 + j - i


@compiled
def _symmetric_logarithms(C: Any, side: Any, logs: Any) -> None:
    A = np.empty((C.shape[1], LANES), np.float32)
    V = np.empty((side, side, LANES), np.float32)
    for start in range(0, len(C), LANES):
        used = min(LANES, len(C) - start)
        for e in range(len(A)):
            for lane in range(used):
                A[e, lane] = C[start + lane, e]
            for lane in range(used, LANES):
                A[e, lane] = _ONE  # any number: its result is never read
        logarithm_in_lanes(A, V)
        for lane in range(used):
            for e in range(len(A)):
                logs[start + lane, e] = A[e, lane]


@njit(inline="always")
def logarithm_in_lanes(A: Any, V: Any) -> None:
    """A (d (d + 1) / 2, LANES) becomes its logarithm; V (d, d, LANES) is room to work in."""
    _diagonalise(A, V)
    _logarithm_from_eigenvectors(A, V)


@njit(inline="always")
def _diagonalise(A: Any, V: Any) -> None:
    """Cyclic Jacobi: A's diagonal becomes the eigenvalues, the rows of V the eigenvectors."""
    side = len(V)
    cosine, sine = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for i in range(side):
        for j in range(side):
            for lane in range(LANES):
                V[i, j, lane] = _ONE if i == j else _ZERO
    for _ in range(SWEEPS):
        for p in range(side - 1):
            for q in range(p + 1, side):
                _angle(A[place(p, p, side)], A[place(q, q, side)], A[place(p, q, side)], cosine, sine)
                for k in range(side):
                    if k not in (p, q):
                        at_p = place(min(k, p), max(k, p), side)
                        at_q = place(min(k, q), max(k, q), side)
                        _rotate(A[at_p], A[at_q], cosine, sine)
                    _rotate(V[p, k], V[q, k], cosine, sine)


@njit(inline="always")
def _angle(pp: Any, qq: Any, pq: Any, cosine: Any, sine: Any) -> None:
    """The rotation that makes `pq` zero, the smaller of the two that do."""
    for lane in range(LANES):
        difference, double = qq[lane] - pp[lane], _TWO * pq[lane]
        root = np.sqrt(difference * difference + double * double)
        sign = _ONE if difference >= _ZERO else -_ONE
        tangent = sign * double / (abs(difference) + root + _TINY)
        tangent = tangent if abs(tangent) > _NO_TURN else _ZERO
        cosine[lane] = _ONE / np.sqrt(_ONE + tangent * tangent)
        sine[lane] = tangent * cosine[lane]
        pp[lane] -= tangent * pq[lane]
        qq[lane] += tangent * pq[lane]
        pq[lane] = _ZERO


@njit(inline="always")
def _rotate(x: Any, y: Any, cosine: Any, sine: Any) -> None:
    for lane in range(LANES):
        u, v = x[lane], y[lane]
        x[lane] = cosine[lane] * u - sine[lane] * v
        y[lane] = sine[lane] * u + cosine[lane] * v


@njit(inline="always")
def _logarithm_from_eigenvectors(A: Any, V: Any) -> None:
    side = len(V)
    logs = np.empty((side, LANES), np.float32)
    for i in range(side):
        eigenvalue = A[place(i, i, side)]
        for lane in range(LANES):
            logs[i, lane] = np.log(max(eigenvalue[lane], _TINY))
    for i in range(side):
        for j in range(i, side):
            entry = A[place(i, j, side)]
            for lane in range(LANES):
                entry[lane] = _ZERO
            for k in range(side):
                left, right, log = V[k, i], V[k, j], logs[k]
                for lane in range(LANES):
                    entry[lane] += left[lane] * right[lane] * log[lane]
