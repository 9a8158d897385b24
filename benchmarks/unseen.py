"""Classes never seen: `EnsembleMetric` with its defaults against Euclidean distance, PCA, LDA, NCA, on feature groups.

Half of the classes, drawn at random, are learned from; pairs and queries are of the others. All methods have the same
features, and codes are compared by Euclidean distance. Nothing is tuned: ours is `EnsembleMetric(feature_groups=...)`,
which may choose on training classes alone; of the others the best one on the very classes that are judged counts.

mfeat   2,000 handwritten digits, ten classes, six feature groups of 6 to 240 features, standardised on the training
        samples (../shared/data/mfeat)
digits  scikit-learn's 1,797 digits of 8 x 8 pixels, divided by 16; a group is a row of pixels
faces   60 people x 10 pictures of LFW-a as 22 x 30 pixels, each picture standardised; a group is a row of pixels
        (../shared/data/lfw-a)

Sets whose data are not there are left out. PCA has 20 and 40 components; LDA is scikit-learn's with solver="eigen" and
shrinkage="auto"; NCA learns on 40 principal components.

SET_map, SET_auc  ours less the best other: mean average precision of queries, area under the ROC curve of pairs, means
                  over five draws of classes, in points: at least 0

`--only NAME[,NAME]` takes some of the sets, `--draws N` another number of draws. `--quick` has two draws and fewer
samples and features: it holds that ours is at most 3 points short.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from harness import Report, parser
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline

from samekind import EnsembleMetric
from samekind.evaluation import mean_average_precision, verify_codes

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
OURS = "EnsembleMetric"
FACE_SIZE = (22, 30)  # width, height
CROP = (slice(50, 200), slice(70, 180))  # rows, columns: the paper's 110 x 150

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    draws: int
    per_class: int | None  # samples; None: all
    every: int  # of the features of mfeat
    people: int
    short: float  # points that ours may be short


FULL = Size(5, None, 1, 60, 0)
QUICK = Size(2, 30, 4, 24, 3)


@dataclass(frozen=True)
class Grouped:
    """Samples with labels and feature groups; `standardise`: on the training samples."""

    X: Floats
    y: NDArray[np.intp]
    groups: dict[str, NDArray[np.intp]]
    standardise: bool = False

    def drawn(self, draw: int) -> Iterator[tuple[Floats, NDArray[np.intp]]]:
        """Samples of the classes to learn from, and of the others."""
        classes = np.random.default_rng(draw).permutation(np.unique(self.y))
        seen = np.isin(self.y, classes[: len(classes) // 2])
        X = self.X
        if self.standardise:
            deviations = X[seen].std(axis=0)
            X = (X - X[seen].mean(axis=0)) / np.where(deviations > 0, deviations, 1)
        for part in (seen, ~seen):
            yield X[part], self.y[part]

    def some(self, per_class: int | None) -> Grouped:
        """The first so many samples of each class."""
        if per_class is None:
            return self
        rows = np.concatenate([np.flatnonzero(self.y == each)[:per_class] for each in np.unique(self.y)])
        return Grouped(self.X[rows], self.y[rows], self.groups, self.standardise)


def mfeat(size: Size) -> Grouped | None:
    paths = sorted((DATA / "mfeat").glob("mfeat-*.csv"))
    if not paths:
        return None
    tables = {path.stem.removeprefix("mfeat-"): np.loadtxt(path, delimiter=",", skiprows=1) for path in paths}
    features = {name: table[:, : -1 : size.every] for name, table in tables.items()}
    ends = np.cumsum([each.shape[1] for each in features.values()])
    groups = dict(zip(features, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    X = np.hstack(list(features.values()))
    y = next(iter(tables.values()))[:, -1].astype(np.intp)
    return Grouped(X, y, groups, standardise=True).some(size.per_class)


def digits(size: Size) -> Grouped:
    X, y = load_digits(return_X_y=True)
    return Grouped(X / 16, y, _rows_of_pixels(8, 8)).some(size.per_class)


def faces(size: Size) -> Grouped | None:
    folders = sorted(path for path in (DATA / "lfw-a" / "images").glob("*") if len(list(path.glob("*.jpg"))) >= 10)
    if len(folders) < size.people:
        return None
    from PIL import Image

    chosen = np.random.default_rng(0).permutation(len(folders))[: size.people]
    pictures = []
    for folder in (folders[at] for at in chosen):
        for path in sorted(folder.glob("*.jpg"))[:10]:
            with Image.open(path) as picture:
                crop = Image.fromarray(np.asarray(picture.convert("L"))[CROP])
                pictures.append(np.asarray(crop.resize(FACE_SIZE, Image.Resampling.BOX), np.float64).ravel())
    X = np.stack(pictures)
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    return Grouped(X, np.repeat(np.arange(size.people), 10), _rows_of_pixels(*FACE_SIZE[::-1]))


def _rows_of_pixels(height: int, width: int) -> dict[str, NDArray[np.intp]]:
    pixels = np.arange(height * width).reshape(height, width)
    return {f"row {at}": row for at, row in enumerate(pixels)}


SETS: dict[str, Callable[[Size], Grouped | None]] = {"mfeat": mfeat, "digits": digits, "faces": faces}

Learn = Callable[[Floats, NDArray[np.intp]], Callable[[Floats], Floats]]


def methods(groups: dict[str, NDArray[np.intp]]) -> dict[str, Learn]:
    """Each learns from samples and labels, and gives what makes codes of samples."""

    def pca(n: int) -> Learn:
        return lambda X, y: PCA(min(n, *X.shape), random_state=0).fit(X).transform

    def nca(X: Floats, y: NDArray[np.intp]) -> Callable[[Floats], Floats]:
        components = PCA(min(40, *X.shape), random_state=0)
        made: Callable[[Floats], Floats] = (
            make_pipeline(components, NeighborhoodComponentsAnalysis(random_state=0)).fit(X, y).transform
        )
        return made

    return {
        "Euclidean": lambda X, y: lambda Q: Q,
        "PCA, 20": pca(20),
        "PCA, 40": pca(40),
        "LDA": lambda X, y: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y).transform,
        "NCA": nca,
        OURS: lambda X, y: EnsembleMetric(feature_groups=groups, random_state=0).fit(X, y).transform,
    }


Figures = dict[str, list[tuple[float, float]]]  # by method, of each draw: AUC and mean average precision, in percent


def judged(data: Grouped, draws: int) -> Figures:
    found: Figures = {}
    for draw in range(draws):
        (X, y), (Q, classes) = data.drawn(draw)
        for name, learn in methods(data.groups).items():
            started = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                codes = learn(X, y)(Q)
            seconds = time.perf_counter() - started
            figures = 100 * verify_codes(codes, classes).auc, 100 * mean_average_precision(codes, classes)
            found.setdefault(name, []).append(figures)
            if name == OURS:
                said = [str(each.message) for each in caught]
                print(f"  draw {draw}: {len(X):,} samples, {X.shape[1]} features, {seconds:.1f} s", *said, sep="; ")
    return found


def show(name: str, found: Figures) -> None:
    draws = len(found[OURS])
    print(f"{name:16}    AUC    mAP   AUC of each of {draws} draws, mAP of each")
    for method, figures in sorted(found.items(), key=lambda row: -np.mean([figure[1] for figure in row[1]])):
        auc, precision = np.mean(figures, axis=0)
        each = ["  ".join(f"{figure[which]:5.2f}" for figure in figures) for which in (0, 1)]
        print(f"  {method:14} {auc:6.2f} {precision:6.2f}   {each[0]}   {each[1]}", flush=True)


def run(names: list[str], size: Size, report: Report) -> None:
    for name in names:
        data = SETS[name](size)
        if data is None:
            print(f"{name}: the data are not in {DATA}, left out")
            continue
        found = judged(data, size.draws)
        show(name, found)
        for which, figure in ((1, "map"), (0, "auc")):
            means = {method: float(np.mean([each[which] for each in figures])) for method, figures in found.items()}
            ours = means.pop(OURS)
            report.hold(f"{name}_{figure}", ours - max(means.values()), at_least=-size.short)
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", metavar="NAME[,NAME]", help=f"some of the sets: {', '.join(SETS)}")
    options.add_argument("--draws", type=int, help="of classes, for each set (5; with --quick 2)")
    given = options.parse_args()
    names = given.only.split(",") if given.only else list(SETS)
    if unknown := set(names) - set(SETS):
        sys.exit(f"There is no set {sorted(unknown)[0]!r}: choose from {', '.join(SETS)}.")
    size = QUICK if given.quick else FULL
    if given.draws:
        size = replace(size, draws=given.draws)
    run(names, size, Report("unseen"))


if __name__ == "__main__":
    main()
