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
schedules        share of random schedules of kills that end with the same bits: 1
model_error      largest relative error of the cost model (clustermodel.py), 1 and 2 workers: at most 0.25

`--quick`: N = 2,400 and K = 300 and two schedules, where an operation is over in milliseconds: overheads are noted, not
held. `--plan` prints the plans of docs/scaling.md; `clustersimulation.py` has workers that sleep.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
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


def identical(data: Data, expected: tuple[Any, Any], executor: DaskExecutor, processes: Processes) -> bool:
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
    processes.wait_for(executor, "a", "b")
    same.append((data.step1(executor), data.step2(executor)) == expected)
    print("identical: 2 threads, 4 workers, 1 worker, a resume, 2 workers:", same, flush=True)
    return all(same)


def until_gone(executor: DaskExecutor, *names: str) -> None:
    while set(names) & set(executor.workers):
        time.sleep(0.2)


def bytes_per_round(data: Data, executor: DaskExecutor) -> float:
    """Of the worker with most, over what is allowed; what is sent once, such as the recipe, is not of a round."""
    marks: list[dict[str, int]] = []

    def mark(state: Any) -> None:
        traffic = executor.traffic
        marks.append({name: traffic.sent.get(name, 0) + traffic.received.get(name, 0) for name in executor.workers})

    data.step1(executor, keep=mark)
    rounds = [{name: after[name] - before.get(name, 0) for name in after} for before, after in pairwise(marks[1:])]
    most = max(max(each.values()) for each in rounds)
    n = data.sizes.n
    allowed = 5 * n * (LAZY_RANK + 8) * 4 + 4 * n * (PER_CLASS - 1)
    print(f"bytes per worker and round: {most:,}, allowed {allowed:,}", flush=True)
    return most / allowed


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


def faults(data: Data, expected: Any, executor: DaskExecutor, processes: Processes, report: Report) -> None:
    undisturbed = seconds_of(lambda: data.step1(executor))
    a_round = undisturbed / data.sizes.rounds
    with Fault("form_on", 7, lambda: processes.kill("b")):
        began = time.monotonic()
        same = data.step1(executor) == expected
        spent = time.monotonic() - began
    alone = seconds_of(lambda: data.step1(executor))  # the other one with all the work: its rest, and the replay
    replay = alone / data.sizes.rounds
    report.hold("kill", spent - max(undisturbed, alone) - a_round - 1.5 * replay, at_most=5)
    processes.start_worker("b")
    processes.wait_for(executor, "a", "b")
    with Fault("form_on", 7, lambda: processes.stop("b")) as fault:
        same &= data.step1(executor) == expected
    processes.go_on("b")
    report.hold("hung", fault.seconds, at_most=25)
    processes.wait_for(executor, "a", "b")

    def restart() -> None:
        assert processes.scheduler is not None
        processes.scheduler.kill()
        processes.scheduler.wait()
        processes.start_scheduler()

    with Fault("form_on", 7, restart) as fault:
        same &= data.step1(executor) == expected
    report.hold("scheduler", fault.seconds, at_most=60)
    processes.wait_for(executor, "a", "b")
    rng, ended = np.random.default_rng(0), []
    for _ in range(data.sizes.schedules):
        name = str(rng.choice(["a", "b"]))

        def kill(name: str = name) -> None:
            processes.kill(name)
            processes.start_worker(name)

        operation = str(rng.choice(["form_on", "values_on", "sketched_on", "cells_on"]))
        with Fault(operation, int(rng.integers(1, 10)), kill):
            ended.append(data.step1(executor) == expected)
        processes.wait_for(executor, "a", "b")
    report.hold("schedules", float(np.mean([*ended, same])), at_least=1)


def model_error(data: Data, executor: DaskExecutor, processes: Processes) -> float:
    """Of an evaluation of step 2, with 2 workers and with 1."""
    sizes = data.sizes
    L = np.random.default_rng(1).normal(size=(sizes.dims, sizes.rank)) / 30
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
            processes.kill("b")
            until_gone(executor, "b")
        problem.factored_value_and_gradient(L)
        found = min(seconds_of(lambda: problem.factored_value_and_gradient(L)) for _ in range(3))
        modelled = step2_seconds(sizes.n, sizes.dims, sizes.rank, workers, 1, rates)
        print(f"{workers} workers: an evaluation of step 2 takes {found:.2f} s, modelled {modelled:.2f} s", flush=True)
        errors.append(abs(modelled / found - 1))
    return max(errors)


def run(sizes: Sizes, report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Data.made(sizes, Path(folder) / "store")
        expected = data.step1(Executor(1)), data.step2(Executor(1))
        with Processes(Path(folder)) as processes:
            processes.start_workers("a", "b")
            limits = Limits(connect=5)
            with DaskExecutor(processes.address, 2, limits=limits, shared=folder) as executor:
                processes.wait_for(executor, "a", "b")
                report.hold("identical", float(identical(data, expected, executor, processes)), at_least=1)
                threads = Executor(2)
                for key, step in (("overhead_step1", data.step1), ("overhead_step2", data.step2)):
                    ratio, seconds = ratio_of(lambda s=step: s(executor), lambda s=step: s(threads), sizes.repeats)
                    print(f"{key}: 2 threads {seconds:.1f} s", flush=True)
                    if sizes.held:
                        report.hold(key, ratio - 1, at_most=0.15)
                    else:
                        report.note(key, ratio - 1)
                report.hold("bytes", bytes_per_round(data, executor), at_most=1)
                faults(data, expected[0], executor, processes, report)
                error = model_error(data, executor, processes)
                if sizes.held:
                    report.hold("model_error", error, at_most=0.25)
                else:
                    report.note("model_error", error)
    report.end()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--plan", action="store_true", help="print the plans of docs/scaling.md")
    given = arguments.parse_args()
    if given.plan:
        print(ASSUMED, *plans(), sep="\n")
        return
    run(QUICK if given.quick else FULL, Report("cluster"))


if __name__ == "__main__":
    main()
