"""Small symmetric matrices: where a metric may be, and how it factors."""

from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]
Norm: TypeAlias = Literal["frobenius", "spectral"]

RANK_SHARE = 1e-6  # eigenvalues of a metric below this share of its largest are rounding of a solver, not rank
MOST_SHIFTS, SHIFTED = 100, 1e-13  # of a search for a weighted trace, and its relative tolerance
LARGER = 4.0  # how many times as large as a metric the best one is taken to be, where nothing bounds it


def symmetrised(A: Matrix) -> Matrix:
    """Of one matrix or of each in a stack."""
    symmetric: Matrix = (A + np.swapaxes(A, -1, -2)) / 2
    return symmetric


def eigh(A: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues (rising) and eigenvectors (columns) of a symmetric matrix."""
    values, vectors = np.linalg.eigh(A)  # for small matrices much less overhead than SciPy's
    return values, vectors


def project_psd(A: Matrix) -> Matrix:
    """Pi_PSD(A): the nearest positive semi-definite matrix."""
    return project_trace_ball(A, np.inf)


def project_trace_ball(A: Matrix, bound: float) -> Matrix:
    """Pi_nu(A): the nearest matrix with A >= 0 and tr(A) <= bound."""
    A = symmetrised(A)
    if (np.isinf(bound) or np.trace(A) <= bound) and is_positive_definite(A):
        return A
    values, vectors = eigh(A)
    capped = project_capped_simplex(values, bound)
    first = int(capped.searchsorted(0.0, "right"))  # eigenvalues rise
    half = vectors[:, first:] * np.sqrt(capped[first:])
    return half @ half.T


def project_weighted_trace_ball(A: Matrix, weights: NDArray[np.float64], bound: float) -> Matrix:
    """The nearest matrix with A >= 0 and `<diag(weights), A> <= bound`: `Pi_PSD(A - shift diag(weights))`.

    The shift by Newton's method on the trace, which falls with it, within a bracket; weights are positive.
    """
    A = symmetrised(A)
    if np.isinf(bound):
        return project_psd(A)
    if weights @ np.diag(A) <= bound and is_positive_definite(A):
        return A
    low, high, shift = 0.0, np.inf, 0.0
    for _ in range(MOST_SHIFTS):
        values, vectors = eigh(A - shift * np.diag(weights))
        half = vectors[:, values > 0] * np.sqrt(values[values > 0])
        excess = float(weights @ (half**2).sum(axis=1)) - bound
        if abs(excess) <= SHIFTED * bound or (excess <= 0 and shift == 0) or high - low <= SHIFTED * low:
            break
        low, high = (shift, high) if excess > 0 else (low, shift)
        if np.isinf(high):
            roots = np.sqrt(weights)
            high = float(scipy.linalg.eigvalsh(A / roots / roots[:, np.newaxis], check_finite=False)[-1])
        shift += excess / max(_fall_of_trace(values, vectors, weights), np.finfo(float).tiny)
        if not low < shift < high:
            shift = (low + high) / 2
    projected = half @ half.T
    trace = float(weights @ np.diag(projected))
    return projected * (bound / trace) if trace > bound else projected


def _fall_of_trace(values: NDArray[np.float64], vectors: Matrix, weights: NDArray[np.float64]) -> float:
    """Minus the derivative of `<K, Pi_PSD(A - shift K)>` by the shift, K = diag(weights): divided differences."""
    K = (vectors.T * weights) @ vectors
    clipped = np.maximum(values, 0)
    gaps = values[:, np.newaxis] - values
    rises = clipped[:, np.newaxis] - clipped
    both = (values[:, np.newaxis] > 0) & (values > 0)
    slopes = np.where(both, 1.0, np.divide(rises, gaps, out=np.zeros_like(gaps), where=gaps != 0))
    return float((slopes * K**2).sum())


def estimated_gap(A: Matrix, G: Matrix) -> float:
    """What f may still fall over A >= 0, G being its gradient at A, if the optimum's trace is LARGER times that of A at
    the most: `<G, A> - min(0, smallest eigenvalue of G) LARGER tr A`. For problems that bound nothing else.
    """
    steepest = float(eigh(G)[0][0])
    slope, trace = float(np.vdot(G, A)), float(np.trace(A))
    if steepest < 0 and trace <= 0:
        return np.inf
    return max(slope, 0.0) - min(steepest, 0.0) * LARGER * trace


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


def leading_factor(
    A: Matrix, n_components: int | None = None, *, share: float = RANK_SHARE, scatter: Matrix | None = None
) -> Matrix:
    """L (D, r) with `A = L L^T`, columns by falling eigenvalue; the leading `n_components` of them.

    Eigenvalues that are not rank (see `counts_as_rank`) are dropped, and always those within rounding of zero. Each
    column's largest entry is positive, so that equal matrices give equal factors.
    """
    values, vectors = eigh(symmetrised(A))
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = values > rounding_floor(values)
    L = vectors[:, positive] * np.sqrt(values[positive])
    return with_fixed_signs(L[:, counts_as_rank(L, share, scatter)][:, :n_components])


def principal_axes(L: Matrix, share: float = RANK_SHARE, scatter: Matrix | None = None) -> Matrix:
    """The same `L L^T` with orthogonal columns by falling length; those that are not rank are dropped."""
    U, lengths, _ = scipy.linalg.svd(L, full_matrices=False, check_finite=False)
    axes = U * lengths
    return with_fixed_signs(axes[:, counts_as_rank(axes, share, scatter)])


def counts_as_rank(L: Matrix, share: float = RANK_SHARE, scatter: Matrix | None = None) -> NDArray[np.bool_]:
    """Of orthogonal columns: whether their squared lengths, the eigenvalues of A, are above a share of the largest.

    Or else, with the scatter of the samples, whether their part of the distances is: features in large units have
    small eigenvalues.
    """
    if not L.size:
        return np.zeros(L.shape[1], dtype=np.bool_)
    squares = (L**2).sum(axis=0)
    kept: NDArray[np.bool_] = squares > share * squares.max()
    if scatter is not None:
        spreads = spreads_along(L, scatter)
        kept |= spreads > share * spreads.max()
    return kept


def spreads_along(L: Matrix, scatter: Matrix) -> NDArray[np.float64]:
    """The variance of the samples' codes along each column: `l^T S l`"""
    spreads: NDArray[np.float64] = np.abs((L * (scatter @ L)).sum(axis=0))
    return spreads


def with_fixed_signs(L: Matrix) -> Matrix:
    """Each column's largest entry made positive."""
    if not L.size:
        return L
    largest = L[np.abs(L).argmax(axis=0), np.arange(L.shape[1])]
    return L * np.where(largest < 0, -1.0, 1.0)


def rounding_floor(values: NDArray[np.float64]) -> float:
    """Below this an eigenvalue is rounding, not rank."""
    return float(np.abs(values).max(initial=0) * len(values) * np.finfo(np.float64).eps * 4)


def rank_of(A: Matrix, scatter: Matrix | None = None) -> int:
    """How many columns `leading_factor` has."""
    above = max(RANK_SHARE * float(np.linalg.norm(A)), rounding_floor(np.full(len(A), np.linalg.norm(A))))
    if is_positive_definite(A - above * np.eye(len(A))):
        return len(A)
    return int(leading_factor(A, scatter=scatter).shape[1])


def block_scores(G: Matrix, norm: Norm = "frobenius") -> NDArray[np.float64]:
    """`||Pi_PSD(-G)||`, line 4 of Algorithm 1: how steeply f falls along the best metric of a group.

    Of each in a stack (n, d, d); rows and columns of zeros beside a gradient change nothing.
    """
    falls = np.maximum(-np.linalg.eigvalsh(G), 0)
    scores: NDArray[np.float64] = np.linalg.norm(falls, axis=-1, ord=2 if norm == "frobenius" else np.inf)
    return scores
