"""The demo's experiment: learn on some digits, test on the others."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from samekind.demo.patches import Images, PatchFeatures, all_rectangles, unevenly_lit
from samekind.estimators import EnsembleMetric
from samekind.evaluation import (
    RetrievalResult,
    VerificationResult,
    best_threshold,
    label_pairs,
    pair_distances,
    retrieve,
    verify_codes,
)

TRAINED = range(0, 7)
UNSEEN = range(7, 10)
SIDES = range(2, 6)  # of the patches, in pixels
DAMPING, LEAST = 0.02, 0.01  # of the whitening: variances of pixels between 0 and 1
N_COMPONENTS = 40
# Chosen by leaving out three of the trained digits at a time; the unseen ones had no say.
LEARNER: dict[str, Any] = {"loss": "pairwise", "max_groups": 20, "n_components": N_COMPONENTS, "ridge": 10.0}

COLUMNS = ["method", "numbers", "accuracy", "EER", "AUC", "mAP", "3-NN error", "seconds"]


@dataclass(frozen=True)
class Outcome:
    """One method on the unseen digits."""

    method: str
    width: int
    seconds: float
    verification: VerificationResult
    retrieval: RetrievalResult

    def values(self) -> list[str | float]:
        """What stands under `COLUMNS`."""
        v, r = self.verification, self.retrieval
        figures = [v.accuracy, v.eer, v.auc, r.mean_average_precision, r.knn_error]
        return [self.method, self.width, *(round(figure, 3) for figure in figures), round(self.seconds, 1)]


@dataclass(frozen=True)
class Study:
    features: PatchFeatures
    model: EnsembleMetric
    outcomes: list[Outcome]
    example: Images  # an unseen digit, evenly lit
    evenly_lit: bool

    @property
    def title(self) -> str:
        return f"Digits {_listed(UNSEEN)}, never seen; learned on {_listed(TRAINED)}"


@dataclass(frozen=True)
class Split:
    """Features for learning, for thresholds (other images of the trained digits), and for the test (unseen digits)."""

    X: NDArray[np.float32]
    y: NDArray[np.int_]
    X_threshold: NDArray[np.float32]
    y_threshold: NDArray[np.int_]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int_]


def run_study(
    n_jobs: int | None = None,
    verbose: int = 0,
    say: Callable[[str], None] = lambda line: None,
    evenly_lit: bool = False,
) -> Study:
    """Train every method on the same features and measure it on the unseen digits."""
    even, labels = _digits()
    images = even if evenly_lit else unevenly_lit(even, np.random.default_rng(0))
    trained = np.isin(labels, TRAINED)
    learn, threshold = train_test_split(
        np.flatnonzero(trained), test_size=0.2, stratify=labels[trained], random_state=0
    )
    rectangles = all_rectangles(images.shape[1:], SIDES)
    features = PatchFeatures.learned(images[learn], rectangles, DAMPING, LEAST)
    split = Split(
        features.of(images[learn]),
        labels[learn],
        features.of(images[threshold]),
        labels[threshold],
        features.of(images[~trained]),
        labels[~trained],
    )
    say(
        f"{len(split.X)} images of digits {_listed(TRAINED)}; {len(features.rectangles)} patches, "
        f"{split.X.shape[1]} features; tested on {len(split.X_test)} images of {_listed(UNSEEN)}."
    )
    model = EnsembleMetric(features.groups, n_jobs=n_jobs, verbose=verbose, random_state=0, **LEARNER)
    outcomes = []
    for name, fit in _methods(model, split).items():
        say(f"{name} ...")
        outcomes.append(_outcome(name, fit, split))
    return Study(features, model, outcomes, even[~trained][0], evenly_lit)


def _digits() -> tuple[Images, NDArray[np.int_]]:
    images, labels = load_digits(return_X_y=True)
    return images.reshape(-1, 8, 8) / 16, labels


Encoder = Callable[[NDArray[np.float32]], NDArray[np.floating]]


def _methods(model: EnsembleMetric, split: Split) -> dict[str, Callable[[], Encoder]]:
    """Method -> a function that trains it and gives back its encoder."""
    X, y = split.X, split.y
    pca = PCA(N_COMPONENTS, random_state=0)
    lda = LinearDiscriminantAnalysis()
    nca = NeighborhoodComponentsAnalysis(N_COMPONENTS, random_state=0)
    return {
        "Euclidean": lambda: lambda Z: Z,
        "PCA": lambda: pca.fit(X).transform,
        "LDA": lambda: lda.fit(X, y).transform,
        "NCA": lambda: nca.fit(X, y).transform,
        "samekind": lambda: model.fit(X, y).transform,
    }


def _outcome(name: str, fit: Callable[[], Encoder], split: Split) -> Outcome:
    start = perf_counter()
    encode = fit()
    seconds = perf_counter() - start
    pairs, same = label_pairs(split.y_threshold)
    threshold = best_threshold(pair_distances(encode(split.X_threshold), pairs), same, strategy="balanced")
    codes = encode(split.X_test)
    return Outcome(
        name,
        codes.shape[1],
        seconds,
        verify_codes(codes, split.y_test, threshold=threshold),
        retrieve(codes, split.y_test),
    )


def _listed(digits: range) -> str:
    return ", ".join(map(str, digits))
