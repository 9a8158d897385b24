"""Step 2 as in the paper's section 4.3: 171,509 samples of 4,740 classes, 2,513 dimensions, to codes of 150 numbers.

Features like those of LFW (`samekind.lfw.retrieval.synthetic`), classes of unequal sizes, 36 on average; triplet loss,
beta = 1e6, ridge 1, trace bound 6, `JointMetric(150, anchors="grow", memory_budget="1GB")`. The paper took 27 hours on
8 servers. A like of Qry60, 60 other classes of 34, has a leave-one-out 3-NN error, before and after.

minutes     of `fit`: at most 60
private_gb  peak of private memory (RssAnon) of the process, the 1.7 GB of data included: at most 8
converged   whether it did

`--anchors` is passed on: all, grow, auto, or a number, to end with a sample and an estimated error. `--checkpoint DIR`
makes it resumable; minutes are then those of all runs together. `--quick`: 8,000 x 300 to 20 numbers, at most a minute.
"""

import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from harness import Report, parser
from lfwdata import GB, PrivateMemory, Spent, nearest_error
from rich.console import Console

from samekind.estimators import JointMetric
from samekind.estimators.progress import ProgressLines
from samekind.events import Event
from samekind.lfw.retrieval.synthetic import LikeLFW, unequal_sizes

QUERIES = np.full(60, 34)


@dataclass(frozen=True)
class Size:
    n_samples: int
    n_classes: int
    n_features: int
    n_components: int
    minutes: float
    seconds_per_line: float


FULL = Size(171_509, 4_740, 2_513, 150, minutes=60, seconds_per_line=30)
QUICK = Size(8_000, 220, 300, 20, minutes=1, seconds_per_line=5)


def run(size: Size, anchors: str | int, checkpoint: Path | None, report: Report) -> None:
    features, sizes = LikeLFW(size.n_features), unequal_sizes(size.n_samples, size.n_classes)
    start = time.perf_counter()
    X, y = features.samples(sizes)
    queries, names = features.samples(QUERIES)
    print(f"N = {len(X):,} in {len(sizes):,} classes of {sizes.min()} to {sizes.max()}, D = {X.shape[1]:,}", end="; ")
    print(f"{X.nbytes / GB:.1f} GB made in {time.perf_counter() - start:.0f} s", flush=True)
    spent = Spent(checkpoint)
    with PrivateMemory() as memory, ProgressLines(Console(), every=size.seconds_per_line) as lines:
        times: list[float] = []

        def hear(event: Event) -> None:
            lines(event)
            times.append(time.perf_counter())
            spent.note(memory.peak)

        learner = JointMetric(
            size.n_components,
            loss="triplet",
            beta=1e6,
            ridge=1.0,
            trace_bound=6.0,
            anchors=anchors,
            memory_budget="1GB",
            random_state=0,
            checkpoint=checkpoint,
            callback=hear,
        ).fit(X, y)
    minutes, peak = spent.seconds / 60, spent.note(memory.peak)
    show(learner, times, spent.start)
    error = nearest_error(learner.transform(queries), names)
    print(f"3-NN error of other classes: {nearest_error(queries, names):.3f} -> {error:.3f}")
    report.hold("minutes", minutes, at_most=size.minutes)
    report.hold("private_gb", peak, at_most=8)
    report.hold("converged", int(learner.converged_ or isinstance(anchors, int)), at_least=1)
    report.note("objective", learner.objective_)
    report.note("objective_error", learner.objective_error_)
    report.note("rank", len(learner.metric_.components))
    report.note("iterations", learner.n_iter_)
    report.end()


def show(learner: JointMetric, times: list[float], start: float) -> None:
    """Seconds and iterations on each sample, of this run."""
    records = list(zip(learner.history_[len(learner.history_) - len(times) :], times, strict=True))
    before = start
    for n_anchors, stage in groupby(records, key=lambda record: record[0]["n_anchors"]):
        stage = list(stage)
        (first, _), (last, end) = stage[0], stage[-1]
        print(f"{n_anchors:8,} anchors: {len(stage):3} iterations, {end - before:7.1f} s", end=", ")
        print(f"f {first['objective']:.5f} -> {last['objective']:.5f}")
        before = end
    print(f"the rest {time.perf_counter() - before:.1f} s; {learner.solver_}, f {learner.objective_:.5f}", end=" ")
    print(f"+- {learner.objective_error_:.1e}, relative gap {learner.certificate_.relative_gap:.1e}", flush=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--anchors", default="grow", help="all, grow, auto or a number (grow)")
    options.add_argument("--checkpoint", type=Path, metavar="DIR", help="to go on from when interrupted")
    given = options.parse_args()
    anchors = int(given.anchors) if given.anchors.isdigit() else given.anchors
    run(QUICK if given.quick else FULL, anchors, given.checkpoint, Report("lfwext"))


if __name__ == "__main__":
    main()
