"""Flip-free codes: the mean of the four distances between two pictures and their mirror images, in closed form.

With z and z' the codes of a picture and of its mirror image, m = (z + z') / 2 and v = ||z - z'||^2 / 4, that mean is
`||m_i - m_j||^2 + v_i + v_j`. Codes that are normalised are so before they come here, z and z' each.
"""

import numpy as np

from samekind.kernels.types import Array


def flip_free_codes(Z: Array, Z_mirrored: Array) -> Array:
    """[m, sqrt(v)]: (n, r), (n, r) -> (n, r + 1)."""
    m = (Z + Z_mirrored) / 2
    root_v = np.linalg.norm(Z - Z_mirrored, axis=1) / 2
    return np.column_stack([m, root_v])


def flip_free_distances(a: Array, b: Array) -> Array:
    """Squared flip-free distances (n,) of codes (n, r + 1), row by row."""
    difference = a[:, :-1] - b[:, :-1]
    distances: Array = np.einsum("ij,ij->i", difference, difference) + a[:, -1] ** 2 + b[:, -1] ** 2
    return distances


def flip_free_queries(codes: Array) -> Array:
    """The codes with their last number 0: Euclidean search with them among codes ranks by the flip-free distance."""
    queries = codes.copy()
    queries[:, -1] = 0
    return queries
