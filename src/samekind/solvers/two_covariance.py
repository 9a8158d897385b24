"""The two-covariance model by expectation maximisation: class centres and samples around them, both Gaussian.

x = m + y + e, y ~ N(0, B) for each class and e ~ N(0, W) for each sample (Brümmer and de Villiers, 2010; Chen et al.,
2012, "Bayesian face revisited"). W has an inverse Wishart prior around a multiple of the identity, without which few
samples would overfit it. A round is closed form: in coordinates where W = I and B = diag(b), the centre of a class of n
samples with mean z has the posterior mean n b / (1 + n b) z and variance b / (1 + n b), so that a round needs the class
means and the scatter around them, and no sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samekind.compute.tiles import runs
from samekind.kernels.scatters import class_statistics
from samekind.kernels.similarity import similarity_directions
from samekind.kernels.spectral import Matrix, symmetrised
from samekind.kernels.types import Array, IntArray

ROWS_AT_ONCE = 8_192  # samples or classes in float64 at a time
LEAST_VARIANCE = 1e-6  # within classes, as a share of that between them


@dataclass(frozen=True, eq=False)
class TwoCovarianceModel:
    """Mean (D,), covariance of class centres B and within classes W (D, D)."""

    mean: Array
    between: Matrix
    within: Matrix
    objectives: tuple[float, ...]  # log-likelihood plus log-prior, a sample, before each round and after the last
    converged: bool


def fit_two_covariance(
    Z: Array,
    classes: IntArray,
    *,
    shrinkage: float,
    max_iter: int,
    tol: float,
    sample_weight: NDArray[np.float64] | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> TwoCovarianceModel:
    """From samples Z (N, D) of classes 0, 1, ...; a sample of weight w counts as w samples.

    `shrinkage` is the weight of the prior: W is its own estimate and a share `shrinkage` of its mean variance in every
    direction. It ends after `max_iter` rounds, or once a round gains less than `tol` a sample.
    """
    statistics = ClassStatistics(*class_statistics(Z, classes, sample_weight, rows_at_once), rows_at_once)
    target = statistics.mean_variance()
    between, within = statistics.first_guess(target, shrinkage)
    objectives = []
    for _ in range(max_iter):
        between, within, objective = statistics.round(between, within, target, shrinkage)
        objectives.append(objective)
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tol:
            break
    last = statistics.round(between, within, target, shrinkage)[2]
    return TwoCovarianceModel(statistics.mean, between, within, (*objectives, last), last - objectives[-1] < tol)


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Sufficient statistics of the model."""

    mean: Array  # (D,)
    sizes: Array  # (K,), sums of weights
    centres: Matrix  # (K, D), from the mean
    scatter: Matrix  # (D, D), around the centres
    rows_at_once: int = ROWS_AT_ONCE

    def mean_variance(self) -> float:
        """Mean variance within classes over all directions; where it is 0, a small share of that between classes."""
        free, D = max(self.sizes.sum() - len(self.sizes), 1.0), len(self.scatter)
        between = float((self.centres**2).sum(axis=1) @ self.sizes) / self.sizes.sum() / D
        return max(float(np.trace(self.scatter)) / free / D, LEAST_VARIANCE * between) or 1.0

    def first_guess(self, target: float, shrinkage: float) -> tuple[Matrix, Matrix]:
        within = self.scatter / max(self.sizes.sum() - len(self.sizes), 1.0)
        between = self.centres.T @ self.centres / len(self.sizes)
        return between, (1 - shrinkage) * within + shrinkage * target * np.eye(len(within))

    def round(self, between: Matrix, within: Matrix, target: float, shrinkage: float) -> tuple[Matrix, Matrix, float]:
        """Better B and W; the objective of those given."""
        V, b = similarity_directions(between, within)
        inverse = within @ V  # of V^T, since V^T W V = I
        total = self.sizes.sum()
        scatter = V.T @ self.scatter @ V
        prior = target * (V.T @ V)  # the prior's matrix in these coordinates
        strength = shrinkage / (1 - shrinkage) * total
        new_between, new_within = np.zeros_like(scatter), scatter + strength * prior
        misfit = np.trace(scatter) + strength * np.trace(prior) - 2 * (total + strength) * np.linalg.slogdet(V)[1]
        for part in runs(len(self.sizes), self.rows_at_once):
            n, Z = self.sizes[part, np.newaxis], self.centres[part] @ V
            variances = b / (1 + n * b)  # of the posteriors
            Y = n * variances * Z
            left = np.sqrt(n) * (Z - Y)
            new_between += Y.T @ Y + np.diag(variances.sum(axis=0))
            new_within += left.T @ left + np.diag((n * variances).sum(axis=0))
            misfit += np.log1p(n * b).sum() + (n * Z**2 / (1 + n * b)).sum()
        return (
            symmetrised(inverse @ new_between @ inverse.T / len(self.sizes)),
            symmetrised(inverse @ new_within @ inverse.T / (total + strength)),
            float(-misfit / 2 / total),
        )
