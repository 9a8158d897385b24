"""Clusters for tests: a scheduler and workers as processes of their own, which may be killed, and fits to run."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

import numpy as np

from samekind.compute.cluster import scheduler_command
from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget
from samekind.losses import PairwiseLoss, TripletLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint import JointOptions, JointProblem, solve_joint
from samekind.solvers.selection import SelectionOptions, select_groups
from samekind.solvers.selection.block_solvers import SampleOptions
from samekind.solvers.selection.search import LazyOptions
from samekind.store import ArrayStore, FeatureGroups, centred
from samekind.threads import single_threaded_blas

LOSSES = {"pairwise": PairwiseLoss(3.0), "triplet": TripletLoss(1e3)}
STARTED_WITHIN = 90  # seconds


def planted(n_classes=150, per_class=6, n_groups=30, size=4, seed=0):
    """Samples of classes that some of the groups tell apart, and labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), per_class)
    strength = np.repeat(rng.uniform(0, 1, n_groups) ** 2, size)
    X = strength * rng.normal(size=(n_classes, n_groups * size))[y] + rng.normal(size=(len(y), n_groups * size))
    order = rng.permutation(len(y))
    return X[order].astype(np.float32), y[order]


def objective_on(X, y, loss, executor, memory=1 << 30):
    return Objective.over(LOSSES[loss], Relation.from_labels(y), executor, MemoryBudget(memory), np.float32)


def selected(executor, X, y, *, loss="pairwise", search="fast", n_rounds=4, memory=1 << 30, store=None, **run):
    """Step 1 with samples small enough for few data: steps and events, times aside."""
    store = store or ArrayStore(X, FeatureGroups.parse(4, X.shape[1]))
    options = SelectionOptions(
        0.1,
        n_rounds,
        search=search,
        tol=1e-2,
        lazy=LazyOptions(rank=8, n_leaders=8, n_random=4, n_exact=3),
        samples=SampleOptions(first=128, smallest=64),
    )
    events, states = [], []

    def observe(event):
        events.append((event.iteration, event.objective, event.rank, event.details))
        return False

    with single_threaded_blas():  # as the estimators do
        result = select_groups(
            objective_on(X, y, loss, executor, memory), store, options, observe=observe, keep=states.append, **run
        )
    return result, events, states


def joined(executor, X, y, *, loss="pairwise", solver="factored", anchors="all", max_iter=6, **run):
    """Step 2."""
    relation = Relation.from_labels(y)
    problem = JointProblem(objective_on(X, y, loss, executor), centred(X[relation.order]), 0.1)
    events, states = [], []

    def observe(event):
        events.append((event.iteration, event.objective, event.rank, event.details))
        return False

    options = JointOptions(
        solver=solver, n_components=5, max_iter=max_iter, anchors=anchors, first_anchors=128, keep_every=1
    )
    with single_threaded_blas():
        return solve_joint(problem, options, observe=observe, keep=states.append, **run), events, states


def same_selection(one, other):
    """Bit by bit."""
    assert one[1] == other[1]
    assert list(one[0].metric.blocks) == list(other[0].metric.blocks)
    for k, block in one[0].metric.blocks.items():
        np.testing.assert_array_equal(block, other[0].metric.blocks[k])
    assert one[0].objective == other[0].objective


def same_joint(one, other):
    assert one[1] == other[1]
    np.testing.assert_array_equal(one[0].L, other[0].L)
    assert one[0].objective == other[0].objective


def serial():
    return Executor(1)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Processes:
    """A scheduler and workers; all end with the block."""

    folder: object
    port: int = field(default_factory=free_port)
    scheduler: subprocess.Popen | None = None
    workers: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    def __enter__(self):
        self.start_scheduler()
        return self

    def __exit__(self, kind, error, trace):
        for process in [*self.workers.values(), self.scheduler]:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def start_scheduler(self):
        command = scheduler_command(self.folder / "scheduler.json", self.port)
        self.scheduler = self._started(command, "scheduler")
        until = time.monotonic() + STARTED_WITHIN
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "scheduler.log").read_text())

    def start_worker(self, name, *more):
        command = [sys.executable, "-m", "samekind", "worker", self.address, "--jobs", "1", "--name", name, *more]
        self.workers[name] = self._started(command, name)

    def start_workers(self, *names):
        for name in names:
            self.start_worker(name)

    def kill(self, name):
        self.workers[name].kill()
        self.workers[name].wait()

    def stop(self, name):
        self.workers[name].send_signal(signal.SIGSTOP)

    def go_on(self, name):
        self.workers[name].send_signal(signal.SIGCONT)

    def wait_for(self, executor, *names):
        for _ in range(STARTED_WITHIN * 5):  # not by the clock: the whole test may be stopped for a while
            if set(names) <= set(executor.workers):
                return
            time.sleep(0.2)
        raise TimeoutError("".join((self.folder / f"{name}.log").read_text()[-500:] for name in names))

    def _started(self, command, name):
        own = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "60s"}
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | own)
