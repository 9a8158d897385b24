"""The two-covariance model: how long it takes to learn, and how it ranks unseen classes beside LDA.

small_s, large_s  seconds of one core for `TwoCovariance(principal=None).fit`, 15 rounds, on 10,000 x 600 and 170,000 x
                  600 numbers in float32, of 1,000 and 12,000 classes of unequal sizes: at most 10 and 120
small_ratio, ...  the same as a multiple of one product X^T X of the same array in float32, on one core
large_extra_mb    memory of the large fit over the array itself, and its copy
SET_map           mean average precision of unseen classes less that of scikit-learn's LDA (solver="eigen",
                  shrinkage="auto"), means over draws, in points: at least 0. Sets and draws are those of unseen.py:
                  mfeat and, where the pictures are there, faces; with --store, covariance descriptors of some regions
                  of a store of labelled pictures as well

`--quick` has 5,000 and 20,000 samples of 200 numbers, and two draws with fewer samples and features.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import unseen
from harness import PeakMemory, Report, parser
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from samekind import TwoCovariance
from samekind.evaluation.query_figures import query_figures
from samekind.store import DiskStore

SECONDS = {"small": 10, "large": 120}
FULL = {"small": (10_000, 600, 1_000), "large": (170_000, 600, 12_000)}
QUICK = {"small": (5_000, 200, 500), "large": (20_000, 200, 1_500)}
STORE_PEOPLE, STORE_REGIONS = 150, 20


def synthetic(n: int, width: int, n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Classes of geometric sizes; centres and samples vary most in the first directions."""
    rng = np.random.default_rng(0)
    shares = rng.geometric(0.1, n_classes).astype(float)
    y = np.sort(rng.choice(n_classes, n, p=shares / shares.sum()))
    deviations = (1 / np.sqrt(np.arange(1, width + 1))).astype(np.float32)
    X = rng.standard_normal((n, width), dtype=np.float32)
    X += 0.7 * rng.standard_normal((n_classes, width), dtype=np.float32)[y]
    X *= deviations
    return X, y


def _processor_seconds(function: Callable[[], object]) -> float:
    """Of all threads, so that other processes do not count."""
    start = time.process_time()
    function()
    return time.process_time() - start


def timed(sizes: dict[str, tuple[int, int, int]], report: Report) -> None:
    for name, size in sizes.items():
        X, y = synthetic(*size)
        model = TwoCovariance(principal=None, max_iter=15, tol=0)
        with threadpool_limits(1):
            product = min(_processor_seconds(lambda X=X: X.T @ X) for _ in range(3))
        with PeakMemory() as memory:
            start = time.perf_counter()
            cpu = _processor_seconds(lambda X=X, y=y, model=model: model.fit(X, y))
            seconds = time.perf_counter() - start
        print(
            f"{name}: {size[0]:,} x {size[1]}, {len(np.unique(y)):,} classes: {cpu:.1f} s, {seconds:.1f} s by the clock"
        )
        print(f"  one X^T X {product:.3f} s; {memory.extra:.0f} MB more by {memory.how}", flush=True)
        report.hold(f"{name}_s", cpu, at_most=SECONDS[name])
        report.note(f"{name}_ratio", cpu / product)
        report.note(f"{name}_extra_mb", memory.extra)


def of_store(path: Path) -> unseen.Grouped:
    """Square roots aside: descriptors as they are, of people with four pictures at least."""
    store = DiskStore.open(path)
    _, classes, counts = np.unique(store.labels, return_inverse=True, return_counts=True)
    chosen = np.flatnonzero(counts >= 4)
    chosen = np.random.default_rng(0).permutation(chosen)[:STORE_PEOPLE]
    rows = np.flatnonzero(np.isin(classes, chosen))
    family = next(iter(store.families.values()))
    groups = np.linspace(0, len(family) - 1, STORE_REGIONS).astype(int)
    X = store.panel([family[k] for k in groups], rows).astype(np.float64)
    return unseen.Grouped(X, classes[rows], {}, standardise=True)


def precision(codes: unseen.Floats, labels: NDArray[np.intp], distance: object = None) -> float:
    figures = query_figures(codes, labels, distance=distance, n_neighbors=1)
    return 100 * float(np.nanmean(figures.average_precision))


def judged(name: str, data: unseen.Grouped, draws: int, report: Report) -> None:
    gains = []
    for draw in range(draws):
        (X, y), (Q, classes) = data.drawn(draw)
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)
        model = TwoCovariance().fit(X, y)
        ours = precision(model.transform(Q), classes, model.metric_.distance_function)
        theirs = precision(lda.transform(Q), classes)
        print(
            f"{name}, draw {draw}: {len(X):,} samples of {len(np.unique(y))} classes, {X.shape[1]} features: ", end=""
        )
        print(f"mAP {ours:.2f}, LDA {theirs:.2f}, plain {precision(Q, classes):.2f}", flush=True)
        gains.append(ours - theirs)
    report.hold(f"{name}_map", float(np.mean(gains)), at_least=0)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--store", type=Path, help="a store of labelled pictures, such as LFW-a's")
    options.add_argument("--only", choices=["time", "map"], help="one part")
    given = options.parse_args()
    report, size = Report("similarity"), unseen.QUICK if given.quick else unseen.FULL
    if given.only != "map":
        timed(QUICK if given.quick else FULL, report)
    if given.only != "time":
        sets = {name: unseen.SETS[name](size) for name in ("mfeat", "faces")}
        if given.store is not None:
            sets["store"] = of_store(given.store)
        for name, data in sets.items():
            if data is None:
                print(f"{name}: the data are not there, left out")
            else:
                judged(name, data, size.draws, report)
    report.end()


if __name__ == "__main__":
    main()
