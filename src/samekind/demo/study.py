"""The demo's experiment: learn on pictures of some digits, test on pictures of the others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline

from samekind.demo.digits import SIDE, Images, write_digits
from samekind.estimators import EnsembleMetric
from samekind.evaluation import (
    RetrievalResult,
    Table,
    VerificationResult,
    best_threshold,
    calibrate,
    label_pairs,
    pair_distances,
    retrieve,
    verify_codes,
)
from samekind.extraction import extract
from samekind.images.align import Frame
from samekind.images.extractor import Extractor
from samekind.images.listing import list_images
from samekind.images.load import load_image
from samekind.images.regions import Region
from samekind.model.metric import Metric
from samekind.store import DiskStore, WhitenedStore, Whitening

TRAINED = range(0, 7)
UNSEEN = range(7, 10)
N_REGIONS = 100  # per family of descriptors
N_COMPONENTS = 40
BASELINE_DIMS = 200  # LDA and NCA start from as many principal components: all features are too many for them
# Chosen by leaving out three of the trained digits at a time; the unseen ones were not used.
LEARNER: dict[str, Any] = {"max_groups": 15, "n_components": N_COMPONENTS, "selection__whiten": 8, "cv": None}

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
    pictures: Path
    store: DiskStore
    model: EnsembleMetric
    outcomes: list[Outcome]  # samekind's last
    evenly_lit: bool

    @property
    def title(self) -> str:
        return f"Digits {_listed(UNSEEN)}, never seen; learned on {_listed(TRAINED)}"

    def table(self) -> Table:
        return Table(COLUMNS, [outcome.values() for outcome in self.outcomes])

    @cached_property
    def metric(self) -> Metric:
        """What was learned, calibrated on other pictures of the trained digits."""
        rows, metric = Split.of(self.store.labels).threshold, self.model.metric_
        source = "other pictures of the trained digits"
        codes, labels = self.model.transform(self.store, rows=rows), self.store.labels[rows]
        return metric.with_calibration(calibrate(codes, labels, distance=metric.distance_function, source=source))

    @property
    def examples(self) -> tuple[Path, Path]:
        """Two pictures of an unseen digit."""
        folder = self.pictures / str(UNSEEN.start)
        return folder / "000.png", folder / "001.png"

    @property
    def example(self) -> Images:
        return load_image(self.examples[0]).grey

    @property
    def chosen(self) -> dict[str, list[Region]]:
        """Family -> its chosen regions, in order of choice."""
        parts, families = Extractor.from_json(self.store.front_end).parts, self.store.families
        return {
            part.name: [
                Region(*map(int, part.regions[k - members.start])) for k in self.model.selected_groups_ if k in members
            ]
            for part, members in zip(parts, families.values(), strict=True)
        }


@dataclass(frozen=True)
class Split:
    """Samples for learning, for thresholds (other pictures of the trained digits), and for the test (unseen digits)."""

    learn: NDArray[np.intp]
    threshold: NDArray[np.intp]
    test: NDArray[np.intp]

    @classmethod
    def of(cls, labels: NDArray[Any]) -> "Split":
        trained = np.isin(labels, [str(digit) for digit in TRAINED])
        learn, threshold = train_test_split(
            np.flatnonzero(trained), test_size=0.2, stratify=labels[trained], random_state=0
        )
        return cls(learn, threshold, np.flatnonzero(~trained))


def run_study(
    folder: Path,
    n_jobs: int | None = None,
    verbose: int = 0,
    say: Callable[[str], None] = lambda line: None,
    evenly_lit: bool = False,
) -> Study:
    """Write pictures, extract their descriptors, train every method on them, measure it on the unseen digits."""
    name = "even" if evenly_lit else "uneven"
    pictures = folder / f"pictures-{name}"
    write_digits(pictures, evenly_lit=evenly_lit)
    extractor = Extractor.over(n_regions=N_REGIONS, frame=Frame(SIDE, SIDE))
    store = extract(list_images(pictures, labelled=True), folder / f"store-{name}", extractor, n_jobs=n_jobs)
    split = Split.of(store.labels)
    say(
        f"{len(split.learn)} pictures of digits {_listed(TRAINED)} to learn from; {extractor.n_groups} feature groups "
        f"({', '.join(store.families)}), {extractor.n_features} numbers a picture; tested on {len(split.test)} "
        f"pictures of {_listed(UNSEEN)}."
    )
    model = EnsembleMetric(n_jobs=n_jobs, verbose=verbose, random_state=0).set_params(**LEARNER)
    outcomes = []
    for method, fit in _methods(model, store, split).items():
        say(f"{method} ...")
        outcomes.append(_outcome(method, fit, store.labels, split))
    return Study(pictures, store, model, outcomes, evenly_lit)


Encoder = Callable[[NDArray[np.intp]], NDArray[np.floating]]  # samples -> codes


def _methods(model: EnsembleMetric, store: DiskStore, split: Split) -> dict[str, Callable[[], Encoder]]:
    """Method -> a function that trains it and gives back its encoder; the others get whitened features in memory."""
    y = store.labels
    everything = range(len(store.group_sizes))
    X = WhitenedStore(store, Whitening.learned(store, split.learn)).panel(everything, np.arange(len(store)))

    def of(transformer: Any) -> Callable[[], Encoder]:
        def fit() -> Encoder:
            transformer.fit(X[split.learn], y[split.learn])
            return lambda rows: transformer.transform(X[rows])

        return fit

    def samekind() -> Encoder:
        model.fit(store, y, rows=split.learn)
        return lambda rows: model.transform(store, rows=rows)

    pca, lda = PCA(N_COMPONENTS, random_state=0), LinearDiscriminantAnalysis()
    nca = NeighborhoodComponentsAnalysis(N_COMPONENTS, random_state=0)
    return {
        "Euclidean": lambda: lambda rows: X[rows],
        "PCA": of(pca),
        "LDA": of(make_pipeline(PCA(BASELINE_DIMS, random_state=0), lda)),
        "NCA": of(make_pipeline(PCA(BASELINE_DIMS, random_state=0), nca)),
        "samekind": samekind,
    }


def _outcome(name: str, fit: Callable[[], Encoder], labels: NDArray[Any], split: Split) -> Outcome:
    start = perf_counter()
    encode = fit()
    seconds = perf_counter() - start
    pairs, same = label_pairs(labels[split.threshold])
    threshold = best_threshold(pair_distances(encode(split.threshold), pairs), same, strategy="balanced")
    codes, y = encode(split.test), labels[split.test]
    return Outcome(name, codes.shape[1], seconds, verify_codes(codes, y, threshold=threshold), retrieve(codes, y))


def _listed(digits: range) -> str:
    return ", ".join(map(str, digits))
