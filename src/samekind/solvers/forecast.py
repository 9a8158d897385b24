"""What has become of scores that were not looked at again.

From round to round a score changes with the trace of its group's gradient, which is known about for all; how much of it
counts is seen on the groups looked at. What remains, in logarithms, is common to all groups and, beside it, a Gaussian
process over them: those of groups that are alike change alike. Two groups are alike where the same pairs of samples are
near to each other in both.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import ndtr

from samekind.kernels.types import Array, IntArray

LENGTH = 1.0  # by which correlations of distances differ between groups whose changes still have much in common
OWN_SHARE = 0.1  # of a group's change that it has in common with no other, in units of what it has
OUTLYING = 4.0  # standard deviations: changes beyond, as of the groups just chosen, count as this
MOST_TRAINED = 256  # changes that a forecast is made from
SMALLEST_SCORE = 1e-6  # of the best: what is below counts as this, as zero has no logarithm
SMALLEST_SPREAD = 1e-6
LARGEST_FALL = 0.05  # what is left of a score, at least, as traces tell
FITS, TOLERANT = 8, 2.0  # rounds of a robust fit, and standard deviations beyond which an error counts less

_REPRESENTABLE = (1e-100, 1e100)

Vector = NDArray[np.float64]


class Outlook(NamedTuple):
    """The logarithms of all scores, as far as they can be foreseen."""

    expected: Vector  # (K,)
    variance: Vector  # (K,)

    @classmethod
    def certain(cls, scores: Vector) -> "Outlook":
        """All were looked at."""
        return cls(_logarithms(scores), np.zeros(len(scores)))

    def after(self, looked: IntArray, scores: Vector) -> "Outlook":
        """The round is over: what was looked at is known, the rest is as it was foreseen."""
        expected, variance = self.expected.copy(), self.variance.copy()
        expected[looked], variance[looked] = _logarithms(scores), 0.0
        return Outlook(expected, variance)

    def chances(self, score: float) -> Vector:
        """Of each to be above a score."""
        needed = np.log(max(score, np.finfo(np.float64).tiny)) - self.expected
        chances: Vector = ndtr(-needed / np.sqrt(np.maximum(self.variance, SMALLEST_SPREAD**2)))
        return chances


class _Posterior(NamedTuple):
    """What a Gaussian process of unit variance says of all groups, given some."""

    expected: Vector
    left: Vector  # variance
    residues: Vector  # of those given: of unit variance, independent of each other


class Worth(NamedTuple):
    """What is left of a score: a share that is the same for all, and so much for each unit that its trace has risen."""

    common: float
    of_traces: float

    @classmethod
    def fitted(cls, known: Outlook, looked: IntArray, scores: Vector, rises: Vector) -> "Worth":
        """To the scores of some groups, a few of which may do something else.

        `known`: as of the last round. `rises` (K,): by how much the traces of all groups have risen since then.
        """
        trained = looked[:MOST_TRAINED]
        changes = _logarithms(scores)[: len(trained)] - known.expected[trained]
        left = np.exp(np.clip(changes, *np.log(_REPRESENTABLE)))
        design = np.column_stack([np.ones(len(trained)), _relative(known, rises)[trained]])
        weights = np.ones(len(trained))
        for _ in range(FITS):
            fit = np.linalg.lstsq(design * weights[:, np.newaxis], left * weights, rcond=None)[0]
            errors = np.abs(left - design @ fit)
            spread = max(1.4826 * float(np.median(errors)), SMALLEST_SPREAD)
            weights = np.sqrt(np.minimum(1, TOLERANT * spread / np.maximum(errors, SMALLEST_SPREAD)))
        return cls(*fit.tolist())

    def applied(self, known: Outlook, rises: Vector) -> Outlook:
        """What is known, as these rises tell."""
        left = self.common + self.of_traces * _relative(known, rises)
        return Outlook(known.expected + np.log(np.maximum(left, LARGEST_FALL)), known.variance)


def _relative(known: Outlook, rises: Vector) -> Vector:
    relative: Vector = rises / np.exp(np.clip(known.expected, *np.log(_REPRESENTABLE)))
    return relative


class Forecast:
    """From the scores of some groups to those of the others."""

    def __init__(self, distances: Array):
        """Of the groups: distances of the same pairs of samples (K, p)."""
        self.signatures = _signatures(distances)

    def outlook(self, known: Outlook, looked: IntArray, scores: Vector) -> Outlook:
        """As the scores of those looked at in this round, the most telling ones first, let the others be foreseen.

        `known`: as of the last round, and as traces tell.
        """
        trained = looked[:MOST_TRAINED]
        changes = _logarithms(scores)[: len(trained)] - known.expected[trained]
        common = float(np.median(changes))
        own = changes - common
        spread = max(1.4826 * float(np.median(np.abs(own))), SMALLEST_SPREAD)
        own = np.clip(own, -OUTLYING * spread, OUTLYING * spread)
        told = self._told(trained, own, known.variance[trained] / spread**2)
        scale = float(np.mean(told.residues**2))
        return Outlook(known.expected + common + told.expected, known.variance + scale * told.left)

    def carried_over(self, known: IntArray, values: Vector, mean: float, spread: float) -> Outlook:
        """What to expect of all groups, where alike ones have alike values about a mean, some of which are known."""
        told = self._told(known, values - mean, 0.0)
        return Outlook(mean + told.expected, spread**2 * told.left)

    def _told(self, known: IntArray, values: Vector, noise: Vector | float) -> _Posterior:
        alike = np.exp((self.signatures[known] @ self.signatures.T - 1) / LENGTH)  # (n, K)
        among = alike[:, known].astype(np.float64)
        among[np.diag_indices_from(among)] += OWN_SHARE + noise
        half = scipy.linalg.cholesky(among, lower=True, check_finite=False)
        residues = scipy.linalg.solve_triangular(half, values, lower=True, check_finite=False)
        explained = scipy.linalg.solve_triangular(
            half.astype(np.float32), alike, lower=True, overwrite_b=True, check_finite=False
        )
        left = np.maximum(1 + OWN_SHARE - np.einsum("nk,nk->k", explained, explained), 0)
        return _Posterior(explained.T @ residues, left, residues)


def _logarithms(scores: Vector) -> Vector:
    smallest = max(SMALLEST_SCORE * float(scores.max()), np.finfo(np.float64).tiny)
    logarithms: Vector = np.log(np.maximum(scores, smallest))
    return logarithms


def _signatures(distances: Array) -> NDArray[np.float32]:
    """Unit vectors whose products are correlations of distances, less what is common to all groups."""
    special = np.sqrt(distances, dtype=np.float64)
    special = special - special.mean(axis=0)
    special -= special.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(special, axis=1, keepdims=True)
    signatures: NDArray[np.float32] = (special / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return signatures
