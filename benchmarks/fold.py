"""Step 1 of one full fold from a store: minutes and private memory.

LFW-a, all 13,260 covariance groups, training images of View 2, fold 1 (N = 11,864), pairwise loss, 400 rounds,
`SparseBlockMetric(search="fast", memory_budget="2GB").fit`, whitening included. Private memory is RssAnon, sampled: the
pages of the mapped store are not in it.

minutes     at most 30 (aim 20)
private_gb  peak of the process: at most 3.5
error       verification error on the pairs of fold 1, at the best threshold for them, in percent: not held

`--checkpoint DIR` makes it resumable; minutes are then those of all runs together. Without `--store`, and with
`--quick`, it is a smaller case of the same measurement, and minutes are not held.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import Report
from lfwdata import RIDGE, THRESHOLD, Clocks, Faces, PrivateMemory, Rows, Spent, faces, lfw_parser, pairs, people, some
from rich.console import Console

from samekind.compute.sources import PresentDistances
from samekind.estimators import SparseBlockMetric
from samekind.estimators.progress import ProgressLines
from samekind.events import Event
from samekind.solvers.selection.block_solvers import SampledBlocks
from samekind.solvers.selection.search import LazySearch
from samekind.store import GroupsOf, Whitening

ALL_GROUPS, MINUTES, AIM, PRIVATE_GB = 13_260, 30, 20, 3.5


@dataclass(frozen=True)
class Size:
    share: float  # of the training people
    n_groups: int
    n_rounds: int
    every: int  # of the held-out pairs
    seconds_per_line: float


FULL = Size(1.0, ALL_GROUPS, 400, 1, 60)
NO_STORE = Size(1.0, 1_000, 100, 1, 60)
QUICK = Size(0.25, 300, 10, 4, 5)


def fitted(found: Faces, rows: Rows, size: Size, checkpoint: Path | None) -> tuple[SparseBlockMetric, float, float]:
    """With the minutes and the peak of private memory that it took."""
    spent, clocks = Spent(checkpoint), Clocks()
    with PrivateMemory() as memory, ExitStack() as stack:
        lines = stack.enter_context(ProgressLines(Console(), {"selection": "rounds"}, every=size.seconds_per_line))

        def hear(event: Event) -> None:
            lines(event)
            spent.note(memory.peak)

        for part in [
            ("whitening", Whitening, "learned"),
            ("search", LazySearch, "best"),
            ("solve", SampledBlocks, "solve"),
            ("distances", PresentDistances, "update"),
        ]:
            stack.enter_context(clocks.on(*part))
        learner = SparseBlockMetric(
            max_groups=size.n_rounds,
            ridge=RIDGE,
            threshold=THRESHOLD,
            search="fast",
            memory_budget="2GB",
            random_state=0,
            checkpoint=checkpoint,
            callback=hear,
        )
        start = time.perf_counter()
        learner.fit(GroupsOf(found.store, found.groups), found.labels, rows)
        seconds = time.perf_counter() - start
    print(f"{seconds / 60:.1f} minutes: {clocks.shares(seconds)}")
    return learner, spent.seconds / 60, spent.note(memory.peak)


def show_history(learner: SparseBlockMetric) -> None:
    history = learner.history_
    print(f"{learner.stopped_because_}; f {learner.objective_:.5f}, {len(learner.selected_groups_)} groups", end=", ")
    print(f"rank {history[-1]['rank']}; on average of the rounds:", end=" ")
    for name in [
        "sketched",
        "rescored",
        "sketch_rank",
        "sketch_missed",
        "sketch_error",
        "n_anchors",
        "n_iter",
    ]:
        values = [record[name] for record in history if name in record]
        if values:
            print(f"{name} {np.mean(values):.4g}", end=" ")
    print(flush=True)


def run(size: Size, store: Path | None, checkpoint: Path | None, report: Report) -> None:
    _, *training = people()
    names = some(set().union(*training), size.share)
    listed = pairs("pairs", fold=0)[:: size.every]
    with faces(store, size.n_groups, names, listed) as found:
        rows = found.of(names)
        print(f"N = {len(rows):,}, K = {len(found.groups):,}, {size.n_rounds} rounds", flush=True)
        learner, minutes, peak = fitted(found, rows, size, checkpoint)
        show_history(learner)
        source = GroupsOf(found.store, found.groups)
        error = 1 - found.verify(lambda rows: learner.transform(source, rows), listed).accuracy
        whole = (len(found.groups), size.n_rounds, size.share) == (ALL_GROUPS, 400, 1)
    if whole:
        report.hold("minutes", minutes, at_most=MINUTES)
        print(f"(aim: {AIM} minutes)")
    else:
        print("not the whole case: its minutes are not held")
        report.note("minutes", minutes)
    report.hold("private_gb", peak, at_most=PRIVATE_GB)
    report.note("error", 100 * error)
    report.note("rank", learner.history_[-1]["rank"])
    report.end()


def main() -> None:
    options = lfw_parser(__doc__)
    options.add_argument("--checkpoint", type=Path, metavar="DIR", help="to go on from when interrupted")
    given = options.parse_args()
    size = QUICK if given.quick else FULL if given.store else NO_STORE
    run(size, given.store, given.checkpoint, Report("fold"))


if __name__ == "__main__":
    main()
