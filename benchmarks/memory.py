"""Peak memory of one value and gradient at the estimators' default memory budget, over what the data takes.

Each loss and each form of the gradient (by A, and by a factor L of D/4 columns) in a fresh process: imports, data
and a tiny evaluation come first, then the resident set is noted, and its peak during one evaluation. Of the two
forms the larger counts. N samples of D = 100 features in classes of 40, float32.
"""

import subprocess
import sys
import time
from functools import partial

import numpy as np
from harness import MB, PeakMemory, Report, parser

from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget, parse_bytes
from samekind.estimators import JointMetric
from samekind.losses import PairwiseLoss, TripletLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint.problem import JointProblem

N_FEATURES = 100
CLASS_SIZE = 40
LOSSES = {"triplet": TripletLoss(), "pairwise": PairwiseLoss()}
FORMS = ["A", "L"]
TARGET_MB = 512


def evaluation(loss: str, form: str, n_samples: int, budget: int) -> partial:
    """One value and gradient, still to be called."""
    rng = np.random.default_rng(0)
    labels = np.arange(n_samples) // CLASS_SIZE
    Z = rng.standard_normal((labels[-1] + 1, N_FEATURES), np.float32)[labels]
    Z += rng.standard_normal(Z.shape, np.float32)
    Z -= Z.mean(axis=0)
    objective = Objective.over(LOSSES[loss], Relation.from_labels(labels), Executor(), MemoryBudget(budget), Z.dtype)
    problem = JointProblem(objective, Z, ridge=0.1)
    scale = PairwiseLoss().threshold / (4 * N_FEATURES)  # distances around the threshold
    if form == "A":
        return partial(problem.value_and_gradient, scale * np.eye(N_FEATURES))
    return partial(problem.factored_value_and_gradient, (4 * scale) ** 0.5 * np.eye(N_FEATURES)[:, ::4])


def worker(loss: str, form: str, n_samples: int) -> None:
    """Prints MB, seconds, and how the memory was measured."""
    budget = parse_bytes(JointMetric().memory_budget)
    evaluation(loss, form, 10 * CLASS_SIZE, budget)()
    evaluate = evaluation(loss, form, n_samples, budget)
    with PeakMemory() as peak:
        start = time.perf_counter()
        evaluate()
        seconds = time.perf_counter() - start
    print(peak.extra, seconds, peak.how, sep=",")


def measured(loss: str, form: str, n_samples: int) -> float:
    command = [sys.executable, __file__, "--worker", loss, form, str(n_samples)]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    extra, seconds, how = made.strip().split(",")
    print(f"{loss:9} by {form}: {float(extra):6.1f} MB extra ({how}), {float(seconds):.1f} s", flush=True)
    return float(extra)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--worker", nargs=3, metavar=("LOSS", "FORM", "N"), help="one measurement, for internal use")
    given = options.parse_args()
    if given.worker:
        loss, form, n_samples = given.worker
        return worker(loss, form, int(n_samples))
    n_samples = 20_000 if given.quick else 50_000
    print(f"N = {n_samples:,}, D = {N_FEATURES}, classes of {CLASS_SIZE}, float32;", end=" ")
    print(f"all distances would take {4 * n_samples**2 / MB:,.0f} MB", flush=True)
    report = Report("memory")
    for loss in LOSSES:
        highest = max(measured(loss, form, n_samples) for form in FORMS)
        report.hold(f"{loss}_mb", highest, at_most=TARGET_MB)
    report.end()


if __name__ == "__main__":
    main()
