"""What has become of scores that were not looked at again: those of groups that are alike change alike.

From round to round the logarithms of all scores change by a common amount and, beside it, by a Gaussian process over
the groups. Two groups are alike where the same pairs of samples are near to each other in both.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

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

Vector = NDArray[np.float64]


class Outlook(NamedTuple):
    """The logarithms of all scores, as far as they can be foreseen."""

    expected: Vector  # (K,)
    variance: Vector  # (K,)

    def chances(self, score: float) -> Vector:
        """Of each to be above a score."""
        needed = np.log(max(score, np.finfo(np.float64).tiny)) - self.expected
        chances: Vector = ndtr(-needed / np.sqrt(np.maximum(self.variance, SMALLEST_SPREAD**2)))
        return chances


class _Told(NamedTuple):
    """What a Gaussian process of unit variance says of all groups, given some."""

    expected: Vector
    left: Vector  # variance
    residues: Vector  # of those given: of unit variance, independent of each other


class Forecast:
    """From the scores of all groups in the first round, and of some in later ones, to those of the others."""

    def __init__(self, distances: Array, scores: Vector):
        """Of the groups: distances of the same pairs of samples (K, p), and scores."""
        self.signatures = _signatures(distances)
        self.known = Outlook(_logarithms(scores), np.zeros(len(scores)))

    def outlook(self, looked: IntArray, scores: Vector) -> Outlook:
        """As the scores of those looked at in this round, the most telling ones first, let the others be foreseen."""
        trained = looked[:MOST_TRAINED]
        changes = _logarithms(scores)[: len(trained)] - self.known.expected[trained]
        common = float(np.median(changes))
        own = changes - common
        spread = max(1.4826 * float(np.median(np.abs(own))), SMALLEST_SPREAD)
        own = np.clip(own, -OUTLYING * spread, OUTLYING * spread)
        told = self._told(trained, own, self.known.variance[trained] / spread**2)
        scale = float(np.mean(told.residues**2))
        return Outlook(self.known.expected + common + told.expected, self.known.variance + scale * told.left)

    def carried_over(self, known: IntArray, values: Vector, mean: float, spread: float) -> Outlook:
        """What to expect of all groups, where alike ones have alike values about a mean, some of which are known."""
        told = self._told(known, values - mean, 0.0)
        return Outlook(mean + told.expected, spread**2 * told.left)

    def _told(self, known: IntArray, values: Vector, noise: Vector | float) -> _Told:
        alike = np.exp((self.signatures[known] @ self.signatures.T - 1) / LENGTH)  # (n, K)
        among = alike[:, known].astype(np.float64)
        among[np.diag_indices_from(among)] += OWN_SHARE + noise
        half = scipy.linalg.cholesky(among, lower=True, check_finite=False)
        residues = scipy.linalg.solve_triangular(half, values, lower=True, check_finite=False)
        explained = scipy.linalg.solve_triangular(
            half.astype(np.float32), alike, lower=True, overwrite_b=True, check_finite=False
        )
        left = np.maximum(1 + OWN_SHARE - np.einsum("nk,nk->k", explained, explained), 0)
        return _Told(explained.T @ residues, left, residues)

    def learn(self, outlook: Outlook, looked: IntArray, scores: Vector) -> None:
        """The round is over: what was looked at is known, the rest is as it was foreseen."""
        expected, variance = outlook.expected.copy(), outlook.variance.copy()
        expected[looked], variance[looked] = _logarithms(scores), 0.0
        self.known = Outlook(expected, variance)

    def memory(self) -> dict[str, NDArray[Any]]:
        """What it has learned, for `recall`; not who is alike."""
        return self.known._asdict()

    def recall(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.known = Outlook(*(arrays[name].copy() for name in Outlook._fields))


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
