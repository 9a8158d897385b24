"""What the benchmarks of step 2 on LFW share: step 1's output, the distances of pairs under a linear map, figures.

Features are U_dagger^T x (Algorithm 2, line 2) of the training images, and of the pictures that pairs show and of their
mirror images, so that any linear map on them, or on what step 2 makes of them first (regions divided by their lengths,
features weighed), can be judged as `samekind lfw` does without a look at pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.decomposition import PCA

from samekind.estimators.data import codes_of
from samekind.evaluation import (
    accuracy,
    best_threshold,
    flip_free_codes,
    flip_free_distances,
    pair_distances,
    pair_rows,
    roc_curve,
)
from samekind.evaluation.lfw import Pair
from samekind.files import whole_file
from samekind.images.listing import ImageFile
from samekind.kernels.lengths import Normalise, normalised, normalised_blocks
from samekind.lfw.learning import Intermediate, region_starts
from samekind.lfw.measuring import codes_of_pictures
from samekind.lfw.presets import Settings
from samekind.model.metric import Metric
from samekind.threads import single_threaded_blas

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Codes:
    """(N, D) of the training images; (n, D) of the pictures of pairs and of their mirror images."""

    train: Floats
    original: Floats
    mirrored: Floats

    def mapped(self, components: NDArray[Any]) -> Codes:
        """`components @ x`."""
        L = components.T.astype(np.float32)
        return Codes(self.train @ L, self.original @ L, self.mirrored @ L)

    def distances(self, places: Rows, normalise: Normalise, mirror_mean: bool) -> Floats:
        """Squared distances of pairs (m, 2) of the pictures: of mirror means, or flip-free."""
        if mirror_mean:
            return pair_distances(normalised((self.original + self.mirrored) / 2, normalise), places)
        codes = flip_free_codes(normalised(self.original, normalise), normalised(self.mirrored, normalise))
        return flip_free_distances(*codes[places.T])


@dataclass(frozen=True, eq=False)
class Features:
    """U_dagger^T x of the training images, and of the pictures of pairs and of their mirror images."""

    learned: Intermediate
    original: Floats
    mirrored: Floats

    @classmethod
    def of(
        cls,
        firsts: Mapping[str, Metric],
        sources: Mapping[str, Any],
        rows: Rows,
        files: Sequence[ImageFile],
        readers: Mapping[str, Any] | None = None,
    ) -> Features:
        """Of what step 1 chose of each family of descriptors, side by side; `sources` are the stores of these.

        `readers` take the descriptors of pictures, where a metric is not meant for these themselves.
        """
        plain = {family: metric.with_normalise("none") for family, metric in firsts.items()}
        shown, parts = codes_of_pictures(plain | dict(readers or {}), files), []
        for family, metric in plain.items():
            with single_threaded_blas():
                learned = Intermediate.of(codes_of(sources[family], rows, metric), region_starts(metric))
            parts.append(cls.of_learned(learned, *shown[family]))
        return cls.together(parts)

    @classmethod
    def of_learned(cls, learned: Intermediate, original: Floats, mirrored: Floats) -> Features:
        """From what step 2 learns from, and step 1's codes of pictures, not normalised."""
        scale = learned.deviations.astype(np.float32)
        return cls(learned, original / scale, mirrored / scale)

    @classmethod
    def together(cls, parts: Sequence[Features]) -> Features:
        shown = (np.hstack([getattr(part, name) for part in parts]) for name in ("original", "mirrored"))
        return cls(Intermediate.together([part.learned for part in parts]), *shown)

    @classmethod
    def load(cls, path: Path) -> Features:
        with np.load(path) as made:
            learned = Intermediate(made["train"], made["deviations"], made["starts"])
            return cls(learned, made["original"], made["mirrored"])

    def save(self, path: Path) -> None:
        shown, learned = {"original": self.original, "mirrored": self.mirrored}, self.learned
        with whole_file(path) as file:
            np.savez(file, train=learned.Z, deviations=learned.deviations, starts=learned.starts, **shown)

    def with_mirrored(self, mirrored: Floats) -> Features:
        """The training images, and after them their mirror images."""
        return replace(self, learned=replace(self.learned, Z=np.vstack([self.learned.Z, mirrored])))

    def as_learned_from(self, settings: Settings) -> Codes:
        """Regions by their lengths, features weighed; of mirror means, where pictures are compared by these."""
        shown = [self.original, self.mirrored]
        if settings.mirror_mean:
            shown = [(self.original + self.mirrored) / 2] * 2
        weights = self.learned.weights(settings.weigh).astype(np.float32)
        return Codes(
            *(
                normalised_blocks(Z, self.learned.starts, settings.normalise_groups) * weights
                for Z in [self.learned.Z, *shown]
            )
        )


def principal(Z: NDArray[Any], n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Deviations along the n leading principal directions, falling, and these as rows; fewer where there are fewer."""
    few = n < min(Z.shape)
    found = PCA(n if few else None, svd_solver="randomized" if few else "full", random_state=0).fit(Z)
    deviations = np.sqrt(found.explained_variance_)
    kept = deviations > 1e-3 * deviations[0]
    return deviations[kept], found.components_[kept]


def pictures_of(pairs: Sequence[Pair], files: Sequence[ImageFile]) -> tuple[list[ImageFile], Rows]:
    """The pictures that pairs show, each once, and the places (m, 2) of each pair among them."""
    rows, _ = pair_rows(pairs, [file.name for file in files])
    needed, places = np.unique(rows, return_inverse=True)
    return [files[row] for row in needed], places.reshape(-1, 2)


class Difference(NamedTuple):
    mean: float
    error: float  # standard error, both having judged the same pairs; pairs of one person are taken together

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}"


@dataclass(frozen=True, eq=False)
class Judged:
    """Distances of test pairs, and the threshold that is best on pairs to choose it from; all figures in percent."""

    distances: Floats
    same: NDArray[np.bool_]
    people: NDArray[Any]  # of each pair, one
    threshold: float

    def figures(self) -> dict[str, float]:
        roc = roc_curve(self.distances, self.same)
        return {
            "best": 100 * accuracy(self.distances, self.same, best_threshold(self.distances, self.same)),
            "chosen": 100 * accuracy(self.distances, self.same, self.threshold),
            "auc": 100 * roc.auc,
            "eer": 100 * roc.eer,
        }

    def accuracy_over(self, other: Judged) -> Difference:
        """Of accuracies, each at the best threshold for these pairs: which pairs does only one of the two get right?"""
        return _mean(100 * (self._right().astype(float) - other._right()), self.people)

    def auc_over(self, other: Judged) -> Difference:
        """Of areas under the ROC curve, after DeLong: by how often each pair is on the right side of the other kind."""
        (ours, theirs) = (each._sides() for each in (self, other))
        people = self.people[self.same], self.people[~self.same]
        parts = [_mean(100 * (mine - its), each) for mine, its, each in zip(ours, theirs, people, strict=True)]
        return Difference(parts[0].mean, float(np.hypot(parts[0].error, parts[1].error)))

    def _right(self) -> NDArray[np.bool_]:
        threshold = best_threshold(self.distances, self.same)
        return (self.distances.astype(np.float64) <= threshold) == self.same

    def _sides(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each same pair the share of the others that are farther; for each of these that of the nearer same."""
        same, others = self.distances[self.same], self.distances[~self.same]
        ranks = rankdata(np.concatenate([same, others]))
        nearer_others = (ranks[: len(same)] - rankdata(same)) / len(others)
        return 1 - nearer_others, (ranks[len(same) :] - rankdata(others)) / len(same)


def _mean(values: NDArray[np.float64], people: NDArray[Any]) -> Difference:
    """With the standard error of a mean over people drawn at random, each with all their pairs."""
    _, numbers = np.unique(people, return_inverse=True)
    deviations = np.bincount(numbers, weights=values - values.mean())
    n = len(deviations)
    return Difference(float(values.mean()), float(np.sqrt(n / (n - 1) * np.sum(deviations**2)) / len(values)))
