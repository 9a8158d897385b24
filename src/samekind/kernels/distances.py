"""Squared distances, written as one matrix product per tile."""

import numpy as np

from samekind.kernels.types import Array


def quadratic_factors(Z: Array, ZA: Array) -> tuple[Array, Array]:
    """Left and right (N, D + 2) with `left @ right.T = d_ij = (z_i - z_j)^T A (z_i - z_j)`, A symmetric."""
    q = np.einsum("ij,ij->i", ZA, Z)
    n, width = Z.shape
    left = np.empty((n, width + 2), dtype=Z.dtype)
    right = np.empty_like(left)
    np.multiply(ZA, -2, out=left[:, :width])
    left[:, width], left[:, width + 1] = q, 1
    right[:, :width], right[:, width], right[:, width + 1] = Z, 1, q
    return left, right


def euclidean_factors(Y: Array) -> tuple[Array, Array]:
    """Left and right (N, r + 2) with `left @ right.T = ||y_i - y_j||^2`."""
    return quadratic_factors(Y, Y)


def squared_distances(X: Array, Y: Array) -> Array:
    """`||x_i - y_j||^2`, never below zero: X (n, r), Y (m, r) -> (n, m)."""
    left, _ = euclidean_factors(X)
    _, right = euclidean_factors(Y)
    D: Array = left @ right.T
    return np.maximum(D, 0, out=D)
