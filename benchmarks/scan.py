"""Fast search against the exact one: which group is next, of K covariance groups of LFW-a, whitened.

Training images of View 2, fold 1 (N = 11,864), pairwise loss, ridge 1; K = 2,000 groups spread over the 13,260. The
rounds are those of `select_groups(search="fast")`; their block solves are not counted. A search is counted with the
making of its weights (and its sketch); so is an exact scan, which scores all groups in panels, its weights being kept.

full_scan       the mean exact scan over the mean fast search that sketches all groups: at least 20. One of these is
                made before and one after each exact scan: the very first search, and new ones that remember nothing
lazy_scan       the mean exact scan over the mean fast search of 50 rounds: at least 60
mean_score      the chosen group's exact score over the best one, mean over rounds: at least 0.98
worst_score     the same in the worst round: at least 0.9
same_group      share of the rounds where the best group was chosen: not held
sketched        share of the rounds where the best group was among those sketched
first_scan      as full_scan, in the first round
screen_held     share of the rounds scanned exactly whose best group the screening below would have found

`--check` rounds are checked by an exact scan (two minutes or more each), evenly spread, the first and the last among
them. The others are screened: a sketch of its own, of the largest rank and three sweeps, scores all groups, and those
that it has above 0.92 of its best are scored exactly; the best one is missed only if that sketch is wrong by 8 %.
`--keep FILE` keeps the results: run again, only the others are made, and lazy_scan compares with their times.
Then the factor is printed for fewer samples and for fewer groups, in the first round. It grows with N, as the exact
scan goes with N^2 and a sketched score with N; so `--quick`, with N = 2,787, 300 groups and 6 rounds, 3 of them
checked, holds only 2 instead of 20 and of 60.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from harness import Report
from lfwdata import RIDGE, THRESHOLD, Clocks, Faces, People, Rows, SavedRecords, faces, lfw_parser, people, some

from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget, parse_bytes
from samekind.compute.sources import PresentDistances
from samekind.losses import PairwiseLoss
from samekind.model.block_metric import BlockMetric
from samekind.objective import Objective, Weights
from samekind.relation import Relation
from samekind.solvers.selection import SelectionOptions, SelectionResult, greedy, select_groups
from samekind.solvers.selection.block_solvers import SampledBlocks
from samekind.solvers.selection.scoring import Scoring
from samekind.solvers.selection.search import Choice, ExactSearch, LazyOptions, LazySearch
from samekind.solvers.selection.site import SelectionSite
from samekind.store import RowsOf, WhitenedStore, Whitening
from samekind.threads import single_threaded_blas

DIMS = 45  # of a whitened group, as the estimators have it
SAME_SCORE = 1e-5  # relative: what a kept result may differ by
SCREENED = 0.92  # of the best sketched score: groups above it are scored exactly where a round is not scanned
SCREENING = LazyOptions(rank=64)
SWEEPS = 3  # over the weights, before a sketch is trusted with that


@dataclass(frozen=True)
class Step1:
    """Step 1 as its estimator puts it together, with its parts in the open: pairwise loss on some images."""

    objective: Objective
    store: WhitenedStore

    @classmethod
    def over(
        cls, found: Faces, rows: Rows, *, whitening: Whitening | None = None, memory_budget: str = "2GB"
    ) -> "Step1":
        """Whitened on these rows, unless a whitening is given."""
        raw = RowsOf(found.store, rows)
        if whitening is None:
            start = time.perf_counter()
            whitening = Whitening.learned(raw, np.arange(len(rows)), dims=DIMS, groups=found.groups)
            print(f"{len(whitening.maps):,} groups whitened in {time.perf_counter() - start:.1f} s", flush=True)
        relation = Relation.from_labels(found.labels[rows])
        loss = PairwiseLoss(THRESHOLD, "equal")
        objective = Objective.over(loss, relation, Executor(), MemoryBudget(parse_bytes(memory_budget)), np.float32)
        return cls(objective, WhitenedStore(raw, whitening))

    @property
    def n_samples(self) -> int:
        return self.objective.relation.n_samples

    @property
    def scoring(self) -> Scoring:
        return Scoring(SelectionSite(self.objective, self.store, self.objective.memory.present), RIDGE, "frobenius")

    def select(self, **options: Any) -> SelectionResult:
        with single_threaded_blas():
            return select_groups(self.objective, self.store, SelectionOptions(RIDGE, **options))


@dataclass(frozen=True)
class Size:
    share: float  # of the training people
    n_groups: int
    n_rounds: int
    n_checked: int
    full_scan: float
    lazy_scan: float


FULL = Size(1.0, 2_000, 50, 10, full_scan=20, lazy_scan=60)
QUICK = Size(0.25, 300, 6, 3, full_scan=2, lazy_scan=2)


def timed(search: Any, weights: Weights, metric: BlockMetric, n_rounds: int) -> tuple[Choice, float]:
    """A search with weights that are made for it."""
    start = time.perf_counter()
    choice = search.best(weights, metric, n_rounds)
    return choice, time.perf_counter() - start


def anew(weights: Weights) -> Weights:
    """The same weights, none of them made yet."""
    return weights.kept()


class RecordedSearch(LazySearch):
    """It knows which groups it sketched last."""

    def _candidates(self, loss: float, n_rounds: int) -> Rows:
        self.candidates = super()._candidates(loss, n_rounds)
        return self.candidates


class WatchedSearch:
    """The fast search, timed, in some rounds with an exact one and fast ones that remember nothing beside it."""

    def __init__(self, log: "SearchLog", scoring: Scoring, groups: list[int], seed: int, options: LazyOptions | None):
        self.log = log
        self.made = partial(RecordedSearch, scoring, groups, seed)
        self.fast, self.exact = self.made(), ExactSearch(scoring, groups)

    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        log = self.log
        with log.clocked():
            choice, seconds = timed(self.fast, weights, metric, n_rounds)
        log.seconds.append(seconds)
        line = f"round {n_rounds + 1:2}: {seconds:6.2f} s, {describe(choice)}"
        if n_rounds in log.checked:
            record = log.known("exact", n_rounds, choice) or self.check(weights, metric, n_rounds, choice, seconds)
            line += f"; exact {record['exact']:.3g} s, all groups {record['full']:.2f} s"
        else:
            record = log.known("screened", n_rounds, choice) or self.screen(weights, metric, n_rounds, choice)
            line += f"; of {record['near']} near the top"
        among = self.exact.groups.index(record["best_group"]) in self.fast.candidates
        log.records.append(record | {"sketched": among})
        print(f"{line}; score {choice.score / record['best_score']:.4f} of the best", flush=True)
        return choice

    def check(
        self, weights: Weights, metric: BlockMetric, n_rounds: int, choice: Choice, seconds: float
    ) -> dict[str, Any]:
        """By an exact scan of all groups."""

        def full_scan() -> float:
            return timed(self.made(), anew(weights), metric, n_rounds)[1]

        before = full_scan() if n_rounds else seconds
        best, exact = timed(self.exact, anew(weights), metric, n_rounds)
        full = (before + full_scan()) / 2
        held = best.group in self.near_the_top(weights, metric)
        found = {"best_group": best.group, "best_score": best.score}
        return self.log.add("exact", n_rounds, choice, **found, exact=exact, full=full, screen_held=held)

    def screen(self, weights: Weights, metric: BlockMetric, n_rounds: int, choice: Choice) -> dict[str, Any]:
        """By exact scores of those that may be the best."""
        near = self.near_the_top(weights, metric)
        scores = self.exact.scoring.exact(weights, near, metric)
        best = int(np.argmax(scores))
        found = {"best_group": near[best], "best_score": float(scores[best])}
        return self.log.add("screened", n_rounds, choice, **found, near=len(near))

    def near_the_top(self, weights: Weights, metric: BlockMetric) -> list[int]:
        search, groups = self.made(SCREENING), np.array(self.exact.groups)
        for n in range(SWEEPS):
            _, laplacian = search._sketch(weights, n)
        scores = self.exact.scoring.sketched(laplacian, groups.tolist(), metric)
        return [int(k) for k in groups[scores >= SCREENED * scores.max()]]

    def memory(self) -> dict[str, Any]:
        return self.fast.memory()

    def recall(self, arrays: Mapping[str, Any]) -> None:
        self.fast.recall(arrays)


def describe(choice: Choice) -> str:
    details = choice.details
    return f"{details['sketched']:,} sketched at rank {details['sketch_rank']}, {details['rescored']} exactly"


class SearchLog:
    """What the rounds of a selection showed."""

    def __init__(self, kept: SavedRecords, n_rounds: int, n_checked: int):
        self.kept = kept
        self.checked = set(np.linspace(0, n_rounds - 1, max(2, n_checked)).astype(int).tolist())
        self.seconds: list[float] = []
        self.records: list[dict[str, Any]] = []  # one a round
        self.clocks = Clocks()

    def clocked(self) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(self.clocks.on("sketched scores", Scoring, "sketched"))
        stack.enter_context(self.clocks.on("exact scores", Scoring, "exact"))
        return stack

    def add(self, way: str, n_rounds: int, choice: Choice, **found: Any) -> dict[str, Any]:
        return self.kept.add(way=way, round=n_rounds, group=choice.group, score=choice.score, **found)

    def known(self, way: str, n_rounds: int, choice: Choice) -> dict[str, Any] | None:
        record = self.kept.find(way=way, round=n_rounds, group=choice.group)
        same = record is not None and abs(record["score"] / choice.score - 1) <= SAME_SCORE
        return record if same else None

    def hold(self, report: Report, size: Size) -> None:
        scanned = [record for record in self.records if record["way"] == "exact"]
        exact, full = (float(np.mean([record[way] for record in scanned])) for way in ("exact", "full"))
        scores = [record["score"] / record["best_score"] for record in self.records]
        total = sum(self.seconds)
        print(f"{len(self.seconds)} fast searches: {total:.1f} s; {self.clocks.shares(total)} (weights and sketch)")
        lazy = total / len(self.seconds)
        print(f"exact scan {exact:.2f} s on average of {len(scanned)}; fast {full:.2f} s, lazy {lazy:.3f} s")
        report.hold("full_scan", exact / full, at_least=size.full_scan)
        report.hold("lazy_scan", exact / lazy, at_least=size.lazy_scan)
        report.hold("mean_score", float(np.mean(scores)), at_least=0.98)
        report.hold("worst_score", min(scores), at_least=0.9)
        report.note("same_group", float(np.mean([r["group"] == r["best_group"] for r in self.records])))
        report.note("sketched", float(np.mean([record["sketched"] for record in self.records])))
        report.note("first_scan", scanned[0]["exact"] / scanned[0]["full"])
        report.note("scanned_exactly", len(scanned))
        report.note("screen_held", float(np.mean([record["screen_held"] for record in scanned])))


def first_round(case: Step1, groups: list[int]) -> tuple[float, float]:
    """Seconds of an exact and of a fast scan at A = 0."""
    scoring = case.scoring
    objective = scoring.site.objective
    present = PresentDistances(objective.plan, objective.dtype, room=0)
    searches = [ExactSearch(scoring, groups), LazySearch(scoring, groups, seed=0)]
    with single_threaded_blas():
        exact, fast = (timed(s, objective.weights(present).kept(), BlockMetric(), 0)[1] for s in searches)
    return exact, fast


def show_growth(found: Faces, names: People, case: Step1, whole: dict[str, Any]) -> None:
    n_groups = len(case.store.group_sizes)
    print("in the first round:       N       K   exact s    fast s    factor")
    for part, every in [(0.25, 1), (0.5, 1), (1, 4), (1, 2)]:
        smaller = Step1.over(found, found.of(some(names, part)), whitening=case.store.whitening)
        groups = list(range(0, n_groups, every))
        show_factor(smaller.n_samples, len(groups), *first_round(smaller, groups))
    show_factor(case.n_samples, n_groups, whole["exact"], whole["full"])


def show_factor(n_samples: int, n_groups: int, exact: float, fast: float) -> None:
    print(f"{n_samples:27,} {n_groups:7,} {exact:9.2f} {fast:9.3f} {exact / fast:9.1f}", flush=True)


def run(size: Size, store: Path | None, n_checked: int, keep: Path | None, report: Report) -> None:
    folds = people()
    names = some(set().union(*folds[1:]), size.share)
    with faces(store, size.n_groups, names) as found:
        case = Step1.over(found, found.of(names))
        n_groups = len(case.store.group_sizes)
        print(f"N = {case.n_samples:,}, K = {n_groups:,}, {size.n_rounds} rounds", flush=True)
        first_round(Step1.over(found, found.of(some(names, 0.05)), whitening=case.store.whitening), [0, 1])  # compiles
        facts = {"N": case.n_samples, "K": n_groups, "store": str(store and store.resolve())}
        log = SearchLog(SavedRecords(keep, facts), size.n_rounds, n_checked)
        solves = Clocks()
        with (
            patch.object(greedy, "LazySearch", partial(WatchedSearch, log)),
            solves.on("solve", SampledBlocks, "solve"),
        ):
            case.select(search="fast", max_groups=size.n_rounds)
        print(f"(block solves, not counted: {solves.seconds['solve']:.1f} s)")
        log.hold(report, size)
        show_growth(found, names, case, log.records[0])


def main() -> None:
    options = lfw_parser(__doc__)
    options.add_argument("--check", type=int, help="how many of the rounds an exact scan checks (10; with --quick 3)")
    options.add_argument("--keep", type=Path, metavar="FILE", help="JSON lines, to go on from when interrupted")
    given = options.parse_args()
    size = QUICK if given.quick else FULL
    report = Report("scan")
    run(size, given.store, given.check or size.n_checked, given.keep, report)
    report.end()


if __name__ == "__main__":
    main()
