"""What step 1 makes of the pictures, and figures of codes that are linear in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.evaluation import evaluate_retrieval
from samekind.evaluation.evaluated import Measure
from samekind.kernels.lengths import Normalise, normalised
from samekind.kernels.principal import leading_directions
from samekind.kernels.types import Array, IntArray

N_NEIGHBORS = 3


class Figures(NamedTuple):
    """The paper's three: leave-one-out 3-NN error, mAP of queries among each other and injected into distractors."""

    error: Measure
    map_q: Measure
    map_ql: Measure


@dataclass(frozen=True, eq=False)
class Features:
    """Of each image a row of X, less the mean of the training images and of mean variance 1 over them.

    With this scale the paper's ridge and trace bound mean what they mean there: its descriptors are whitened.
    """

    X: Array
    labels: NDArray[Any]
    train: IntArray
    queries: IntArray
    distractors: IntArray
    normalise: Normalise  # of all codes that are compared, by their lengths
    origin: Array  # what lengths are measured from, as a row of X: where a model has it, at the mean descriptor

    @classmethod
    def scaled(
        cls,
        X: Array,
        labels: NDArray[Any],
        train: IntArray,
        queries: IntArray,
        distractors: IntArray,
        normalise: Normalise = "none",
    ) -> Features:
        mean = X[train].mean(axis=0, dtype=np.float64)
        deviation = np.sqrt(X[train].var(axis=0, dtype=np.float64).mean())

        def scaled(rows: Array) -> Array:
            return np.asarray((rows - mean) / deviation, np.float32)

        return cls(scaled(X), labels, train, queries, distractors, normalise, scaled(np.zeros_like(X[0])))

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def directions(self) -> Array:
        """Principal directions of the training images, (D, n), the leading ones first."""
        return leading_directions(self.X[self.train], min(self.X[self.train].shape))

    def principal(self, n: int | None) -> Features:
        """The same in the n leading principal directions; all features as they are for None."""
        if n is None or n >= self.n_features:
            return self
        turned = self.directions[:, :n]
        return replace(self, X=self.X @ turned, origin=self.origin @ turned)

    def training_samples(self, more_than: int = 0, most: int | None = None) -> tuple[Array, IntArray]:
        """X and classes of people with more than so many images, of each the first `most`."""
        labels = self.labels[self.train]
        _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        order = np.argsort(classes, kind="stable")
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept = (sizes[classes] > more_than) & (place < (len(labels) if most is None else most))
        return self.X[self.train[kept]], np.unique(classes[kept], return_inverse=True)[1]

    def figures(self, components: Array | None = None, *, n_jobs: int | None = None) -> Figures:
        """Of codes by components (r, D) over these features; None for the features themselves."""
        codes: Array = self.X - self.origin
        if components is not None:
            codes = codes @ components.T.astype(np.float32)
        codes = normalised(codes, self.normalise)
        found = evaluate_retrieval(
            codes[self.queries],
            self.labels[self.queries],
            distractors=codes[self.distractors],
            n_neighbors=N_NEIGHBORS,
            at=(),
            n_jobs=n_jobs,
        ).measures()
        inside, injected = found["inside"], found["injected"]
        return Figures(inside["knn_error"], inside["average_precision"], injected["average_precision"])
