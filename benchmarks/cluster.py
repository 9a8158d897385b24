"""Training on a Dask cluster against threads: the same bits, overhead, bytes, faults, and the cost model.

Made-up data: N samples of N / 10 classes, K groups of 8 numbers in a store on disk, whitened by nobody. Scheduler and
workers are processes of this machine, each with one thread.

identical        1 where groups, metric and history are the same in every bit with 1 and 2 threads, 1, 2 and 4 workers,
                 and after a resume with other workers: 1
overhead_step1   seconds of 2 workers over those of 2 threads, less 1, median of interleaved runs: at most 0.15
overhead_step2   the same for step 2: at most 0.15
bytes            bytes per worker and round of step 1, over 5 N (rank + 8) 4 + 4 x same-class entries: at most 1
kill             seconds that a killed worker costs, less 1.5 times what its share's replay takes and a round: at most 5
hung             seconds until the fit goes on after a worker hangs: at most 25
scheduler        seconds until it goes on after the scheduler is killed and started again: at most 60
schedules        share of 50 random schedules of kills that end with the same bits, on the smaller data: 1
model_error      largest relative error of the cost model (clustermodel.py), 1 and 2 workers: at most 0.25

`--only NAME[,NAME]`: some of these; `--schedules 0-24`: some of the schedules. `--quick`: N = 2,400 and K = 300 and two
schedules, where an operation is over in milliseconds: overheads and bytes are noted, not held. `--plan` prints the
plans of docs/scaling.md; `clustersimulation.py` has workers that sleep.
"""

import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from clustermodel import ASSUMED, Rates, plans, step2_seconds
from harness import Report, parser, seconds_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from samekind.compute import running
from samekind.compute.dask import DaskExecutor, Limits
from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget
from samekind.losses import PairwiseLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint import JointOptions, JointProblem, solve_joint
from samekind.solvers.selection import SelectionOptions, select_groups
from samekind.store import DiskStore, Family, StoreWriter, centred
from samekind.threads import single_threaded_blas
from tests.clusters import Processes

SIZE, PER_CLASS, LAZY_RANK = 8, 10, 32


@dataclass(frozen=True)
class Sizes:
    n: int
    groups: int
    rounds: int
    dims: int  # of step 2
    rank: int
    iterations: int
    repeats: int
    schedules: int
    held: bool  # overheads


FULL = Sizes(20_000, 2_000, 6, 400, 100, 6, 3, 50, True)
QUICK = Sizes(2_400, 300, 3, 100, 20, 4, 1, 2, False)


@dataclass
class Data:
    sizes: Sizes
    store: DiskStore
    y: Any
    Z: Any  # for step 2, in class order

    @classmethod
    def made(cls, sizes: Sizes, folder: Path) -> "Data":
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(sizes.n // PER_CLASS), PER_CLASS)
        family = Family("made", SIZE, [f"{k}" for k in range(sizes.groups)])
        images = [(f"{i}", f"{label:06d}") for i, label in enumerate(y)]
        with StoreWriter.open(folder, families=[family], front_end={}, images=images, shard_rows=sizes.n) as writer:
            (shard,) = writer.pending()
            array = np.empty((sizes.groups, sizes.n, SIZE), np.float16)
            for k, strength in enumerate(rng.uniform(0, 1, sizes.groups) ** 4):
                centres = strength * rng.normal(size=(y[-1] + 1, SIZE))
                array[k] = centres[y] + rng.normal(size=(sizes.n, SIZE))
            rows = list(range(sizes.n))
            writer.write(shard, {"made": array}, rows=rows, skipped={}, notes={}, digests=[f"{i:032x}" for i in rows])
        store = DiskStore.open(folder, n_jobs=1)
        Z = centred(store.panel(range(sizes.dims // SIZE), np.arange(sizes.n)))
        return cls(sizes, store, y, Z)

    def objective(self, executor: Executor) -> Objective:
        budget = MemoryBudget(int(3 * 4 * self.sizes.n**2))
        return Objective.over(PairwiseLoss(8.0), Relation.from_labels(self.y), executor, budget, np.float32)

    def step1(self, executor: Executor, **run: Any) -> Any:
        seen: list[Any] = []

        def observe(event: Any) -> bool:
            seen.append((event.objective, event.rank, event.details))
            return False

        options = SelectionOptions(1.0, self.sizes.rounds, search="fast", tol=1e-2)
        with single_threaded_blas():  # as the estimators do
            made = select_groups(self.objective(executor), self.store, options, observe=observe, **run)
        return {k: block.tobytes() for k, block in made.metric.blocks.items()}, seen, made.objective

    def step2(self, executor: Executor) -> Any:
        seen: list[Any] = []

        def observe(event: Any) -> bool:
            seen.append((event.objective, event.rank, event.details))
            return False

        options = JointOptions(solver="factored", n_components=self.sizes.rank, max_iter=self.sizes.iterations)
        with single_threaded_blas():
            made = solve_joint(JointProblem(self.objective(executor), self.Z, 0.5), options, observe=observe)
        return made.L.tobytes(), seen, made.objective


def ratio_of(first: Callable[[], Any], second: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median of the ratios of runs that take turns, and the median seconds of the second."""
    pairs = [(seconds_of(first), seconds_of(second)) for _ in range(repeats)]
    return statistics.median(a / b for a, b in pairs), statistics.median(b for _, b in pairs)


def until_gone(executor: DaskExecutor, *names: str) -> None:
    while set(names) & set(executor.workers):
        time.sleep(0.2)


class Fault:
    """Something that happens when an operation is submitted for the n-th time, and when the fit went on after it."""

    def __init__(self, operation: str, number: int, action: Callable[[], None]):
        self.left, self.operation, self.action = number, operation, action
        self.began = self.went_on = 0.0

    def __enter__(self) -> "Fault":
        self.submit, self.take = running.Run._submit, running.Run._take

        def submitting(run: Any, *given: Any, **options: Any) -> None:
            self.submit(run, *given, **options)
            self.left -= run.operation.__name__ == self.operation
            if self.left == 0 and not self.began:
                self.began = time.monotonic()
                self.action()
                self.waiting = set(run.tasks)

        def taking(run: Any, key: str) -> Any:
            for found in self.take(run, key):
                if self.began and not self.went_on and key not in self.waiting:
                    self.went_on = time.monotonic()
                yield found

        running.Run._submit, running.Run._take = submitting, taking
        return self

    def __exit__(self, *error: object) -> None:
        running.Run._submit, running.Run._take = self.submit, self.take

    @property
    def seconds(self) -> float:
        return self.went_on - self.began


@dataclass
class Parts:
    """The parts of this benchmark, each as a method of its name; all find two workers, and leave two but the last."""

    data: Data
    executor: DaskExecutor
    processes: Processes
    report: Report
    schedules_of: range

    @cached_property
    def expected(self) -> tuple[Any, Any]:
        return self.data.step1(Executor(1)), self.data.step2(Executor(1))

    @cached_property
    def undisturbed(self) -> float:
        return seconds_of(lambda: self.data.step1(self.executor))

    @cached_property
    def submissions(self) -> Counter[str]:
        """How often step 1 submits each operation to a worker, undisturbed."""
        counts: Counter[str] = Counter()
        submit = running.Run._submit

        def counting(run: Any, *given: Any, **options: Any) -> None:
            submit(run, *given, **options)
            counts[run.operation.__name__] += 1

        running.Run._submit = counting
        try:
            self.data.step1(self.executor)
        finally:
            running.Run._submit = submit
        return counts

    def both_there(self) -> None:
        self.processes.wait_for(self.executor, "a", "b")

    def identical(self) -> None:
        data, executor, processes, expected = self.data, self.executor, self.processes, self.expected
        same = [(data.step1(Executor(2)), data.step2(Executor(2))) == expected]
        for name in ("c", "d"):
            processes.start_worker(name)
        processes.wait_for(executor, "a", "b", "c", "d")
        same.append((data.step1(executor), data.step2(executor)) == expected)
        states: list[Any] = []
        data.step1(executor, keep=states.append)
        for name in ("b", "c", "d"):
            processes.kill(name)
        until_gone(executor, "b", "c", "d")
        same.append((data.step1(executor), data.step2(executor)) == expected)
        middle = next(state for state in states if len(state.steps) == data.sizes.rounds // 2)
        resumed = data.step1(executor, resume=middle)
        same.append(resumed[0] == expected[0][0] and resumed[2] == expected[0][2])
        processes.start_worker("b")
        self.both_there()
        same.append((data.step1(executor), data.step2(executor)) == expected)
        print("identical: 2 threads, 4 workers, 1 worker, a resume, 2 workers:", same, flush=True)
        self.report.hold("identical", float(all(same)), at_least=1)

    def overhead_step1(self) -> None:
        self._overhead("overhead_step1", self.data.step1)

    def overhead_step2(self) -> None:
        self._overhead("overhead_step2", self.data.step2)

    def _overhead(self, key: str, step: Callable[[Executor], Any]) -> None:
        threads = Executor(2)
        step(self.executor), step(threads)  # compilers are loaded, files in memory
        ratio, seconds = ratio_of(lambda: step(self.executor), lambda: step(threads), self.data.sizes.repeats)
        print(f"{key}: 2 threads {seconds:.1f} s", flush=True)
        self._hold_if_large(key, ratio - 1, at_most=0.15)

    def bytes(self) -> None:
        """Of the worker with most, over what is allowed; what is sent once, such as the recipe, is not of a round."""
        marks: list[dict[str, int]] = []
        executor = self.executor

        def mark(state: Any) -> None:
            traffic = executor.traffic
            marks.append({name: traffic.sent.get(name, 0) + traffic.received.get(name, 0) for name in executor.workers})

        self.data.step1(executor, keep=mark)
        rounds = [{name: after[name] - before.get(name, 0) for name in after} for before, after in pairwise(marks[1:])]
        most = max(max(each.values()) for each in rounds)
        n = self.data.sizes.n
        allowed = 5 * n * (LAZY_RANK + 8) * 4 + 4 * n * (PER_CLASS - 1)
        print(f"bytes per worker and round: {most:,}, allowed {allowed:,}", flush=True)
        self._hold_if_large("bytes", most / allowed, at_most=1)

    def kill(self) -> None:
        self._step1_is_same()  # what it is compared with is made before, and counts in no time
        undisturbed = self.undisturbed
        with Fault("form_on", 7, lambda: self.processes.kill("b")):
            began = time.monotonic()
            self._step1_is_same()
            spent = time.monotonic() - began
        alone = seconds_of(lambda: self.data.step1(self.executor))  # the other one with all the work: rest, and replay
        a_round, replay = undisturbed / self.data.sizes.rounds, alone / self.data.sizes.rounds
        self.processes.start_worker("b")
        self.both_there()
        self.report.hold("kill", spent - max(undisturbed, alone) - a_round - 1.5 * replay, at_most=5)

    def hung(self) -> None:
        with Fault("form_on", 7, lambda: self.processes.stop("b")) as fault:
            self._step1_is_same()
        self.processes.go_on("b")
        self.both_there()
        self.report.hold("hung", fault.seconds, at_most=25)

    def scheduler(self) -> None:
        def restart() -> None:
            assert self.processes.scheduler is not None
            self.processes.scheduler.kill()
            self.processes.scheduler.wait()
            self.processes.start_scheduler()

        with Fault("form_on", 7, restart) as fault:
            self._step1_is_same()
        self.both_there()
        self.report.hold("scheduler", fault.seconds, at_most=60)

    def schedules(self) -> None:
        ended = []
        for number in self.schedules_of:
            rng = np.random.default_rng([0, number])
            name = str(rng.choice(["a", "b"]))
            operation = str(rng.choice(["form_on", "values_on", "sketched_on", "cells_on"]))
            at = int(rng.integers(1, self.submissions[operation] + 1))

            def kill(name: str = name) -> None:
                self.processes.kill(name)
                self.processes.start_worker(name)

            began = time.monotonic()
            with Fault(operation, at, kill) as fault:
                ended.append(self.data.step1(self.executor) == self.expected[0])
            self.both_there()
            happened = f"{name} killed at {operation} {at}" if fault.began else f"no {operation} {at}"
            print(f"schedule {number}: {happened}, {time.monotonic() - began:.1f} s, same: {ended[-1]}", flush=True)
        self.report.hold("schedules", float(np.mean(ended)), at_least=1)

    def model_error(self) -> None:
        """Of an evaluation of step 2, with 2 workers and with 1."""
        data, executor, sizes = self.data, self.executor, self.data.sizes
        n, dims = data.Z.shape
        L = np.random.default_rng(1).normal(size=(dims, sizes.rank)) / 30
        with single_threaded_blas():  # as the estimators do
            problem = JointProblem(data.objective(executor), data.Z, 0.5)
            tiny = JointProblem(data.objective(executor), data.Z, 0.5).on_sample(16, np.random.RandomState(0))
            narrow = L[:, :1]
            tiny.factored_value(narrow)
            latency = min(seconds_of(lambda: tiny.factored_value(narrow)) for _ in range(3))
            rates = Rates.measured(latency)
            print(f"rates: {rates}", flush=True)
            errors = []
            for workers in (2, 1):
                if workers == 1:
                    self.processes.kill("b")
                    until_gone(executor, "b")
                problem.factored_value_and_gradient(L)
                found = min(seconds_of(lambda: problem.factored_value_and_gradient(L)) for _ in range(3))
                modelled = step2_seconds(n, dims, sizes.rank, workers, 1, rates)
                print(f"{workers} workers: f and gradient of step 2 {found:.2f} s, model {modelled:.2f} s", flush=True)
                errors.append(abs(modelled / found - 1))
        self._hold_if_large("model_error", max(errors), at_most=0.25)

    def _step1_is_same(self) -> None:
        if self.data.step1(self.executor) != self.expected[0]:
            self.report.hold("faults_identical", 0, at_least=1)

    def _hold_if_large(self, key: str, value: float, *, at_most: float) -> None:
        """Where an operation is over in milliseconds, its seconds say nothing; nor its bytes, of which a sample of the
        pairs is most."""
        if self.data.sizes.held:
            self.report.hold(key, value, at_most=at_most)
        else:
            print(f"{key}: {value:.3g}, not held", flush=True)
            self.report.note(key, value)


PARTS = (
    "identical", "overhead_step1", "overhead_step2", "bytes", "kill", "hung", "scheduler", "schedules", "model_error",
)  # fmt: skip


def run(sizes: Sizes, parts: Sequence[str], schedules: range, report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Data.made(sizes, Path(folder) / "store")
        with Processes(Path(folder)) as processes:
            processes.start_workers("a", "b")
            limits = Limits(connect=5)
            with DaskExecutor(processes.address, 2, limits=limits, shared=folder) as executor:
                made = Parts(data, executor, processes, report, schedules)
                made.both_there()
                for part in parts:
                    print(f"== {part}", flush=True)
                    if part == "schedules" and sizes is not QUICK:  # what a kill interrupts depends on no size
                        small = replace(made, data=Data.made(QUICK, Path(folder) / "small"))
                        small.schedules()
                    else:
                        getattr(made, part)()
    report.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--plan", action="store_true", help="print the plans of docs/scaling.md")
    arguments.add_argument("--only", default="", metavar="NAME[,NAME]", help=f"some parts: {', '.join(PARTS)}")
    arguments.add_argument("--schedules", metavar="FROM-TO", help="these of the schedules, the first being 0")
    given = arguments.parse_args()
    if given.plan:
        print(ASSUMED, *plans(), sep="\n")
        return
    only = [name for name in given.only.split(",") if name]
    if unknown := set(only) - set(PARTS):
        sys.exit(f"There is no part {sorted(unknown)[0]!r}: {', '.join(PARTS)}.")
    sizes = QUICK if given.quick else FULL
    first, last = map(int, given.schedules.split("-")) if given.schedules else (0, sizes.schedules - 1)
    run(sizes, [part for part in PARTS if not only or part in only], range(first, last + 1), Report("cluster"))


if __name__ == "__main__":
    main()
