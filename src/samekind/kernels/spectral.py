"""Small symmetric matrices: where a metric may be, and how it factors."""

from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]
Norm: TypeAlias = Literal["frobenius", "spectral"]


def symmetrised(A: Matrix) -> Matrix:
    """Of one matrix or of each in a stack."""
    symmetric: Matrix = (A + np.swapaxes(A, -1, -2)) / 2
    return symmetric


def eigh(A: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues (rising) and eigenvectors (columns) of a symmetric matrix."""
    values, vectors = scipy.linalg.eigh(A, driver="evd", check_finite=False)
    return values, vectors


def project_psd(A: Matrix) -> Matrix:
    """Pi_PSD(A): the nearest positive semi-definite matrix."""
    return project_trace_ball(A, np.inf)


def project_trace_ball(A: Matrix, bound: float) -> Matrix:
    """Pi_nu(A): the nearest matrix with A >= 0 and tr(A) <= bound."""
    A = symmetrised(A)
    if np.trace(A) <= bound and is_positive_definite(A):
        return A
    values, vectors = eigh(A)
    capped = project_capped_simplex(values, bound)
    kept = capped > 0
    half = vectors[:, kept] * np.sqrt(capped[kept])
    return half @ half.T


def is_positive_definite(A: Matrix) -> bool:
    """Of a symmetric matrix: whether it has a Cholesky factor, at a tiny part of the cost of its eigenvalues."""
    _, failed_at = scipy.linalg.lapack.dpotrf(A, lower=True, clean=False)
    return bool(failed_at == 0)


def project_capped_simplex(values: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    """The nearest vector with no negative entry and a sum of at most `bound`."""
    clipped = np.maximum(values, 0)
    if clipped.sum() <= bound:
        return clipped
    # A common shift changes nothing but the rounding: the largest entry is 0, and stays whatever the bound.
    values = values - values.max()
    falling = np.sort(values)[::-1]
    excess = np.cumsum(falling) - bound
    last = np.flatnonzero(falling * np.arange(1, len(values) + 1) > excess).max(initial=0)
    projected: NDArray[np.float64] = np.maximum(values - excess[last] / (last + 1), 0)
    return projected


def leading_factor(A: Matrix, n_components: int | None = None) -> Matrix:
    """L (D, r) with `A = L L^T`, columns by falling eigenvalue; the leading `n_components` of them.

    Eigenvalues within rounding of zero are dropped. Each column's largest entry is positive, so that equal
    matrices give equal factors.
    """
    values, vectors = eigh(symmetrised(A))
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int((values > rounding_floor(values)).sum())
    rank = rank if n_components is None else min(rank, n_components)
    return with_fixed_signs(vectors[:, :rank] * np.sqrt(values[:rank]))


def principal_axes(L: Matrix, smallest: float = 1e-6) -> Matrix:
    """The same `L L^T` with orthogonal columns by falling length; those below `smallest` of the first are dropped."""
    U, lengths, _ = scipy.linalg.svd(L, full_matrices=False, check_finite=False)
    kept = lengths > smallest * lengths.max(initial=0)
    return with_fixed_signs(U[:, kept] * lengths[kept])


def with_fixed_signs(L: Matrix) -> Matrix:
    """Each column's largest entry made positive."""
    if not L.size:
        return L
    largest = L[np.abs(L).argmax(axis=0), np.arange(L.shape[1])]
    return L * np.where(largest < 0, -1.0, 1.0)


def rounding_floor(values: NDArray[np.float64]) -> float:
    """Below this an eigenvalue is rounding, not rank."""
    return float(np.abs(values).max(initial=0) * len(values) * np.finfo(np.float64).eps * 4)


def rank_of(A: Matrix) -> int:
    above = rounding_floor(np.full(len(A), np.linalg.norm(A)))
    if is_positive_definite(A - above * np.eye(len(A))):
        return len(A)
    values = scipy.linalg.eigvalsh(A)
    return int((values > rounding_floor(values)).sum())


def block_scores(G: Matrix, norm: Norm = "frobenius") -> NDArray[np.float64]:
    """`||Pi_PSD(-G)||`, line 4 of Algorithm 1: how steeply f falls along the best metric of a group.

    Of each in a stack (n, d, d); rows and columns of zeros beside a gradient change nothing.
    """
    falls = np.maximum(-np.linalg.eigvalsh(G), 0)
    scores: NDArray[np.float64] = np.linalg.norm(falls, axis=-1, ord=2 if norm == "frobenius" else np.inf)
    return scores
