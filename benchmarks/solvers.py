"""The factored solver against the convex one on real data: the same optimum, at what price.

Digits (64 features, standardised) and, where ../shared/data/mfeat lies beside the repository, its six feature
sets together (every other sample, standardised, 100 principal components); both losses, without a trace bound and
with an active one (half of the unbounded optimum's trace); float64, tol 1e-5. `difference` is the largest relative
difference of the two objectives. Then objectives by rank: the factored solver at rank r against the convex
solution cut to r. `speed` is convex over factored seconds at n_components = D/8, both taking turns, the best of some
repetitions each, the geometric mean over data and losses.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from harness import Report, best_of, parser, seconds_of
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from samekind.compute.executor import Executor, single_threaded_blas
from samekind.compute.memory import MemoryBudget, parse_bytes
from samekind.estimators.validation import ridge_from, solver_from
from samekind.losses import Loss, PairwiseLoss, TripletLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint import JointOptions, JointResult, solve_joint
from samekind.solvers.joint.problem import JointProblem
from samekind.store import centred

MFEAT = Path(__file__).resolve().parents[2] / "shared" / "data" / "mfeat"
MFEAT_COMPONENTS = 100
LOSSES: dict[str, Loss] = {"triplet": TripletLoss(), "pairwise": PairwiseLoss()}
RANKS = [4, 8, 16, 32]
TOL = 1e-5
TARGET = 1e-4
REPEATS = 3


def digits(n_samples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X[:n_samples]), y[:n_samples]


def mfeat() -> tuple[np.ndarray, np.ndarray]:
    tables = [np.loadtxt(path, delimiter=",", skiprows=1) for path in sorted(MFEAT.glob("*.csv"))]
    X = StandardScaler().fit_transform(np.hstack([table[:, :-1] for table in tables]))
    return PCA(MFEAT_COMPONENTS, random_state=0).fit_transform(X)[::2], tables[0][::2, -1]


def data_sets(quick: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield "digits", *digits(600 if quick else None)
    if quick:
        return
    if MFEAT.exists():
        yield "mfeat", *mfeat()
    else:
        print("mfeat is not there: digits only")


def problem_of(X: np.ndarray, y: np.ndarray, loss: Loss) -> JointProblem:
    relation = Relation.from_labels(y)
    objective = Objective.over(loss, relation, Executor(), MemoryBudget(parse_bytes("512MB")), X.dtype)
    return JointProblem(objective, centred(X[relation.order]), ridge_from("auto", X.shape[1]))


def solve(problem: JointProblem, solver: str, n_components: int | None = None) -> JointResult:
    with single_threaded_blas():
        return solve_joint(problem, JointOptions(solver, n_components, TOL, max_iter=10_000))


def compare(name: str, problem: JointProblem) -> tuple[JointResult, float, bool]:
    """The convex result, the relative difference of the factored one, and whether both are certified."""
    results = {}
    for solver in ["convex", "factored"]:
        seconds = seconds_of(lambda solver=solver: results.update({solver: solve(problem, solver)}))
        found = results[solver]
        print(f"{name:26} {solver:8} objective {found.objective:.7f}, rank {found.L.shape[1]:3},", end=" ")
        print(f"{found.n_evaluations:5} evaluations, {seconds:6.2f} s,", end=" ")
        print(f"gap {found.certificate.relative_gap:.1e}", flush=True)
    convex, factored = results["convex"], results["factored"]
    difference = abs(convex.objective - factored.objective) / abs(convex.objective)
    return convex, difference, convex.certificate.optimal and factored.certificate.optimal


def show_ranks(problem: JointProblem, convex: JointResult, ranks: list[int]) -> None:
    """Objectives at a given number of components."""
    for rank in ranks:
        cut = convex.L[:, :rank]
        factored = solve(problem, "factored", rank)
        print(
            f"    rank {rank:3}: factored {factored.objective:.5f}, convex cut {problem.value(cut @ cut.T):.5f};",
            end=" ",
        )
        print(f"auto takes {solver_from('auto', problem.n_features, rank, len(problem.Z))}", flush=True)


def speed(problem: JointProblem, repeats: int) -> float:
    """Convex over factored seconds at n_components = D/8."""
    rank = problem.n_features // 8
    calls = [partial(solve, problem, solver, rank) for solver in ["convex", "factored"]]
    convex, factored = best_of(calls, repeats)
    print(f"    n_components = {rank}: convex {convex:.2f} s, factored {factored:.2f} s; best of {repeats}", flush=True)
    return convex / factored


def main() -> None:
    quick = parser(__doc__).parse_args().quick
    differences, certified, speeds = [], [], []
    for data, X, y in data_sets(quick):
        N, D = X.shape
        print(f"{data}: N = {N:,}, D = {D}, auto takes {solver_from('auto', D, None, N)} for all components")
        for name, loss in LOSSES.items():
            free = problem_of(X, y, loss)
            convex, difference, both = compare(f"{data} {name}", free)
            bound = float(np.vdot(convex.L, convex.L)) / 2
            _, bounded_difference, bounded_both = compare(f"{data} {name} bounded", replace(free, trace_bound=bound))
            differences += [difference, bounded_difference]
            certified += [both, bounded_both]
            show_ranks(free, convex, RANKS[::2] if quick else RANKS)
            speeds.append(speed(free, 2 if quick else REPEATS))
    report = Report("solvers")
    report.hold("difference", max(differences), at_most=TARGET)
    report.hold("certified", int(all(certified)), at_least=1)
    report.note("speed", float(np.exp(np.mean(np.log(speeds)))))
    report.end()


if __name__ == "__main__":
    main()
