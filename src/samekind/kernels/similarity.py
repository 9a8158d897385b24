"""The log-likelihood ratio of the two-covariance model, as codes: one vector and one number for each sample.

x = m + y + e with y ~ N(0, B), shared by a class, and e ~ N(0, W), of each sample its own (Brümmer and de Villiers,
2010; joint Bayesian: Chen et al., 2012; a form of PLDA: Ioffe, 2006). In coordinates where W = I and B = diag(b) the
ratio of "same class" to "other class" of two samples is, up to a constant,

    log ratio = - d / 2,   d = ||u - u'||^2 + s + s',   u_j = sqrt(b_j / (1 + 2 b_j)) x_j,
    s = - sum_j u_j^2 / (1 + b_j),

so that samples are compared by a squared distance of vectors u and a number s of each. d may be negative.
"""

import numpy as np
import scipy.linalg

from samekind.kernels.flips import flip_free_distances
from samekind.kernels.spectral import Matrix, with_fixed_signs
from samekind.kernels.types import Array


def similarity_directions(between: Matrix, within: Matrix) -> tuple[Matrix, Array]:
    """V (D, D) and b, falling, with `V^T W V = I` and `V^T B V = diag(b)`."""
    values, vectors = scipy.linalg.eigh(between, within, check_finite=False)
    return with_fixed_signs(vectors[:, ::-1]), np.maximum(values[::-1], 0)


def similarity_offsets(U: Array, shares: Array) -> Array:
    """s = - sum_j shares_j u_j^2, shares = 1 / (1 + b): (n, r) -> (n,)."""
    offsets: Array = -np.einsum("ij,ij,j->i", U, U, shares.astype(U.dtype, copy=False))
    return offsets


def offset_distances(a: Array, b: Array) -> Array:
    """d (n,) of codes [u, s], (n, r + 1), row by row."""
    difference = a[:, :-1] - b[:, :-1]
    distances: Array = np.einsum("ij,ij->i", difference, difference) + a[:, -1] + b[:, -1]
    return distances


def split_codes(codes: Array, distance: object) -> tuple[Array, Array]:
    """Vectors (n, r) and numbers (n,) of codes that are compared by `distance`: ||u - u'||^2 + s + s'.

    None stands for squared Euclidean distance, whose numbers are 0.
    """
    if distance is None:
        return codes, np.zeros(len(codes), codes.dtype)
    if distance is flip_free_distances:
        return codes[:, :-1], codes[:, -1] ** 2
    if distance is offset_distances:
        return codes[:, :-1], codes[:, -1]
    raise ValueError(f"Codes that are compared by {distance!r} are no vectors with a number each.")


def as_euclidean(vectors: Array, offsets: Array) -> tuple[Array, Array]:
    """Queries and gallery (n, r + 1) whose squared Euclidean distances rank as ||u - u'||^2 + s' for each query."""
    last = np.sqrt(offsets - offsets.min(initial=np.inf))
    return np.column_stack([vectors, np.zeros_like(last)]), np.column_stack([vectors, last])
