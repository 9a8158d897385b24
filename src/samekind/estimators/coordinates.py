"""The coordinates in which step 2 learns, and the way back: directions that samples span, a scale, fewer components."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from samekind.compute.sources import FactoredDistances
from samekind.kernels.principal import leading_directions
from samekind.kernels.spectral import Matrix, with_fixed_signs
from samekind.kernels.types import Array
from samekind.objective import Objective

SCALE_ROWS = 2048  # rows from which the scale is fitted
SCALINGS = 40  # most steps in one direction
SEPARATED = 1e-4  # distances are not enlarged further once the loss is below this


def spanned_directions(Z: Array) -> Array | None:
    """Directions that centred samples Z (N, D) span; None where they may span all.

    N samples span at most N - 1 directions, and determine no metric outside of their span.
    """
    return leading_directions(Z, len(Z) - 1) if Z.shape[1] > len(Z) - 1 else None


def fitted_scale(objective: Objective, Z: Array, seed: int) -> float:
    """s that minimises the loss at the distances s^2 ||z_i - z_j||^2, which is convex in s^2; on a sample of rows.

    Where classes are separated without error, the loss falls without end as s grows: s ends where the loss is small.
    """
    if objective.n_candidates > 2 * SCALE_ROWS:
        objective = objective.sampled(SCALE_ROWS, np.random.RandomState([seed]))
    wide = Z.astype(np.float64)
    step, best = 2.0, 1 / max(float(np.sqrt(2 * np.mean((wide**2).sum(axis=1)))), np.finfo(float).tiny)

    def value(s: float) -> float:
        return objective.value(FactoredDistances.euclidean((wide * s).astype(Z.dtype)))

    reached = value(best)
    while step > 1.02:
        for times in (step, 1 / step):
            for _ in range(SCALINGS):
                if reached < SEPARATED:
                    return best
                trial = value(best * times)
                if not trial < reached:
                    break
                best, reached = best * times, trial
        step **= 0.5
    return best


def around_identity(L: Matrix, directions: Array | None, D: int) -> Matrix:
    """The symmetric root of A = I + P (L L^T - I) P^T, (D, D)."""
    values, vectors = np.linalg.eigh(L @ L.T)
    turned = vectors if directions is None else directions.astype(np.float64) @ vectors
    root: Matrix = np.eye(D) + (turned * (np.sqrt(np.maximum(values, 0)) - 1)) @ turned.T
    return root


def shortened(components: Matrix | None, Z: Array, weights: NDArray[np.float64], n: int | None) -> Matrix | None:
    """Components (r, D) over centred Z (N, D) cut to the n directions in which codes vary most; None stands for I.

    The variances are those of Z with its covariance shrunk towards a multiple of the identity (Ledoit and Wolf, 2004),
    taken before the columns were multiplied by `weights`: few samples estimate variances poorly.
    """
    D = Z.shape[1]
    if n is None or n >= (D if components is None else len(components)):
        return components
    from sklearn.covariance import ledoit_wolf_shrinkage

    U = Z.astype(np.float64) / weights
    share = float(ledoit_wolf_shrinkage(U, assume_centered=True))
    over = np.diag(weights) if components is None else components * weights  # (r, D)
    codes = U @ over.T
    T = (1 - share) * (codes.T @ codes) / len(U) + share * float((U**2).mean()) * (over @ over.T)
    size = len(T)
    _, leading = scipy.linalg.eigh(T, subset_by_index=[size - n, size - 1], check_finite=False)
    kept = with_fixed_signs(leading[:, ::-1]).T
    return kept if components is None else kept @ components
