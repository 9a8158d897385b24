"""The two-covariance model by expectation maximisation: class centres and samples around them, both Gaussian.

x = m + y + e, y ~ N(0, B) for each class and e ~ N(0, W) for each sample (Brümmer and de Villiers, 2010; Chen et al.,
2012, "Bayesian face revisited"). Both covariances have an inverse Wishart prior around a multiple of the identity.
Without that of W, few samples would overfit it. Without that of B, unseen classes could differ only where the K seen
ones do, in K - 1 directions. A round is closed form: in coordinates where W = I and B = diag(b), the centre of a class
of n samples with mean z has the posterior mean n b / (1 + n b) z and variance b / (1 + n b), so that a round needs the
class means and the scatter around them, and no sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samekind.compute.tiles import runs
from samekind.kernels.scatters import class_statistics, variance_components
from samekind.kernels.similarity import similarity_directions
from samekind.kernels.spectral import Matrix, symmetrised
from samekind.kernels.types import Array, IntArray

ROWS_AT_ONCE = 8_192  # samples or classes in float64 at a time


@dataclass(frozen=True)
class Prior:
    """Inverse Wishart priors of W and B, around multiples of the identity."""

    within: float  # variance in every direction
    samples: float  # that it counts as
    between: float
    classes: float


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
    prior_classes: float,
    max_iter: int,
    tol: float,
    sample_weight: NDArray[np.float64] | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> TwoCovarianceModel:
    """From samples Z (N, D) of classes 0, 1, ...; a sample of weight w counts as w samples.

    `shrinkage` is the weight of the prior of W: its own estimate and a share `shrinkage` of its mean variance in every
    direction. That of B counts as `prior_classes` classes whose centres vary equally in all directions. It ends after
    `max_iter` rounds, or once a round gains less than `tol` a sample.
    """
    statistics = ClassStatistics(*class_statistics(Z, classes, sample_weight, rows_at_once), rows_at_once)
    prior = statistics.prior(shrinkage, prior_classes)
    between, within = statistics.first_guess(prior)
    objectives = []
    for _ in range(max_iter):
        between, within, objective = statistics.round(between, within, prior)
        objectives.append(objective)
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tol:
            break
    last = statistics.round(between, within, prior)[2]
    return TwoCovarianceModel(statistics.mean, between, within, (*objectives, last), last - objectives[-1] < tol)


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Sufficient statistics of the model."""

    mean: Array  # (D,)
    sizes: Array  # (K,), sums of weights
    centres: Matrix  # (K, D), from the mean
    scatter: Matrix  # (D, D), around the centres
    rows_at_once: int = ROWS_AT_ONCE

    def prior(self, shrinkage: float, classes: float) -> Prior:
        """None of B where classes do not differ: no variance between them is expected then."""
        within, between = variance_components(self.sizes, self.centres, self.scatter)
        classes = classes if between else 0.0
        return Prior(within, shrinkage / (1 - shrinkage) * float(self.sizes.sum()), between, classes)

    def first_guess(self, prior: Prior) -> tuple[Matrix, Matrix]:
        D, K, total = len(self.scatter), len(self.sizes), self.sizes.sum()
        own = total * self.scatter / max(total - K, 1.0)
        between = (self.centres.T @ self.centres + prior.classes * prior.between * np.eye(D)) / (K + prior.classes)
        return between, (own + prior.samples * prior.within * np.eye(D)) / (total + prior.samples)

    def round(self, between: Matrix, within: Matrix, prior: Prior) -> tuple[Matrix, Matrix, float]:
        """Better B and W; the objective of those given."""
        V, b = similarity_directions(between, within)
        inverse = within @ V  # of V^T, since V^T W V = I
        n_samples, n_classes = self.sizes.sum() + prior.samples, len(self.sizes) + prior.classes
        log_det = 2 * np.linalg.slogdet(V)[1]  # -log det W
        gram = V.T @ V  # the identity in these coordinates
        new_between = prior.classes * prior.between * gram
        new_within = V.T @ self.scatter @ V + prior.samples * prior.within * gram
        misfit = np.trace(new_within) - n_samples * log_det
        if prior.classes:
            b = np.maximum(b, np.finfo(float).eps * b[0])  # 0 by rounding alone
            misfit += prior.classes * (np.log(b).sum() - log_det) + (np.diag(new_between) / b).sum()
        for part in runs(len(self.sizes), self.rows_at_once):
            n, Z = self.sizes[part, np.newaxis], self.centres[part] @ V
            variances = b / (1 + n * b)  # of the posteriors
            Y = n * variances * Z
            left = np.sqrt(n) * (Z - Y)
            new_between += Y.T @ Y + np.diag(variances.sum(axis=0))
            new_within += left.T @ left + np.diag((n * variances).sum(axis=0))
            misfit += np.log1p(n * b).sum() + (n * Z**2 / (1 + n * b)).sum()
        return (
            symmetrised(inverse @ new_between @ inverse.T / n_classes),
            symmetrised(inverse @ new_within @ inverse.T / n_samples),
            float(-misfit / 2 / self.sizes.sum()),
        )
