"""A cost model of training on a cluster: flop, bytes and memory per worker, from sizes and a few measured rates.

It is the model of docs/scaling.md. `Rates.measured` times small kernels of the package on one thread of this machine;
`step2_seconds` and `scan_seconds` then say how long an evaluation of step 2, and a round's pass over all pairs in step
1, take with W workers. `benchmarks/cluster.py` compares them with runs; `plan` prints the plans of docs/scaling.md.
"""

from dataclasses import dataclass

import numpy as np
from harness import seconds_of

from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget
from samekind.compute.packing import packed
from samekind.losses import PairwiseLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint import JointProblem

PROBE_SAMPLES, PROBE_FEATURES, PROBE_RANKS = 4_000, 200, (20, 80)
GIGA = 1e9


@dataclass(frozen=True)
class Rates:
    """Of one thread, unless it says otherwise."""

    flop: float  # per second, of the products over pairs
    pair: float  # seconds of a pair beside the products: exponential, sums, memory
    pack: float  # bytes per second that are packed, sent and unpacked
    latency: float  # seconds of an operation, whatever it does

    @classmethod
    def measured(cls, latency: float) -> "Rates":
        """From evaluations of step 2 at two ranks, on one thread: slope and offset."""
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(PROBE_SAMPLES // 10), 10)
        Z = rng.normal(size=(PROBE_SAMPLES, PROBE_FEATURES)).astype(np.float32)
        relation = Relation.from_labels(y)
        objective = Objective.over(PairwiseLoss(), relation, Executor(1), MemoryBudget(1 << 30), np.float32)
        problem = JointProblem(objective, Z, 0.1)
        seconds = []
        for rank in PROBE_RANKS:
            L = rng.normal(size=(PROBE_FEATURES, rank)) / 10
            problem.factored_value_and_gradient(L)
            seconds.append(min(seconds_of(lambda L=L: problem.factored_value_and_gradient(L)) for _ in range(3)))
        pairs = PROBE_SAMPLES**2 / 2
        flops = [step2_flops(PROBE_SAMPLES, PROBE_FEATURES, rank) for rank in PROBE_RANKS]
        rate = (flops[1] - flops[0]) / (seconds[1] - seconds[0])
        array = np.zeros(4_000_000)
        pack = array.nbytes / seconds_of(lambda: packed(array).load())
        return cls(rate, max(0.0, seconds[0] - flops[0] / rate) / pairs, pack / 2, latency)


def step2_flops(n: int, dims: int, rank: int) -> float:
    """Distances and both products of each unordered pair, `Z L` and `Z^T V`."""
    return 3 * n * n * rank + 4 * n * dims * rank


def step2_seconds(n: int, dims: int, rank: int, workers: int, threads: int, rates: Rates) -> float:
    """One value and gradient by L: pairs shared, `Z L` on every worker, N x r sums of each worker to the driver."""
    pairs = (3 * n * n * rank / rates.flop + n * n / 2 * rates.pair) / (workers * threads)
    everywhere = 2 * n * dims * rank / rates.flop / threads
    driver = 2 * n * dims * rank / rates.flop / threads
    travel = workers * n * rank * 8 / rates.pack if workers > 1 or rates.latency else 0.0
    return pairs + everywhere + driver + travel + rates.latency


def scan_seconds(n: int, rank: int, n_scored: int, size: int, workers: int, threads: int, rates: Rates) -> float:
    """A round's pass of step 1: weights and sketch of all pairs, then the sketched scores of some groups."""
    width = rank + 8
    pairs = (2 * n * n * width / rates.flop + n * n / 2 * 2 * rates.pair) / (workers * threads)
    scores = n_scored * 2 * n * size * (size + rank) / rates.flop / (workers * threads)
    travel = workers * n * (4 * width + 8 * width + 4 * rank) / rates.pack
    return pairs + scores + travel + 2 * rates.latency


@dataclass(frozen=True)
class Memory:
    """Bytes of one worker."""

    distances: float
    weights: float
    features: float

    @property
    def total(self) -> float:
        return self.distances + self.weights + self.features


def step1_memory(n: int, anchors: int | None, size: int, workers: int) -> Memory:
    """Distances and weights of the pairs of its leaves, half of all N^2 or anchors x N; features of two groups."""
    pairs = n * n / 2 if anchors is None else n * anchors
    return Memory(4 * pairs / workers, 4 * pairs / workers, 3 * 4 * n * size)


def step2_memory(n: int, dims: int, rank: int) -> Memory:
    return Memory(0.0, 0.0, 4 * n * dims + 5 * 4 * n * rank + 4 * 8 * n * rank)


ASSUMED = Rates(4e10, 2e-9, 1e9, 0.02)  # of a thread of an AVX2 server, and a network of 10 Gbit/s


def plans(fast: Rates = ASSUMED) -> list[str]:
    """What docs/scaling.md plans, machine by machine of 32 threads and 128 GB."""
    threads = 32
    lines = []
    for name, n, anchors, groups, rounds, dims, rank, evaluations, machines in (
        ("1 million x 100,000 groups", 1_000_000, 16_000, 100_000, 400, 2_500, 150, 60, 16),
        ("10 million, step 1 on 500,000", 500_000, 16_000, 100_000, 400, 2_500, 150, 60, 16),
    ):
        pass_pairs = n * anchors
        equal = (2 * pass_pairs) ** 0.5  # samples whose pairs are as many
        scan = scan_seconds(int(equal), 32, 300, 45, machines, threads, fast)
        sums = machines * n * 40 * 12 / fast.pack
        reading = 300 * n * 45 * 2 / 2e9 / machines
        block = 6 * pass_pairs * (2 * 45 * fast.flop**-1 + fast.pair) / (machines * threads)
        first = groups * n * 45 * 2 / 2e9 / machines
        step1 = first + rounds * (scan + sums + reading + block)
        memory = step1_memory(n, anchors, 45, machines)
        step2 = evaluations * step2_seconds(int((2 * 65_536 * n) ** 0.5), dims, rank, machines, threads, fast)
        lines.append(
            f"{name}: {machines} machines, first scan {first / 3600:.1f} h, step 1 {step1 / 3600:.1f} h "
            f"({memory.total / GIGA:.0f} GB per worker), step 2 on 65,536 anchors {step2 / 3600:.1f} h "
            f"({step2_memory(n, dims, rank).total / GIGA:.0f} GB per worker)"
        )
    return lines
