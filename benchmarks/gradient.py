"""Value and gradient over all pairs against the two matrix products that plain code would need.

Ours is one call of what the solvers call, at N samples of D = 500 features in classes of 40, float32. Plain is
the two sgemms `Z @ Z.T` and `W @ Z` of that size, outputs made beforehand, BLAS with its default threads; the
second Z of `Z @ Z.T` is a copy, as NumPy would otherwise take syrk, which is another product. No exponentials,
masks or sums are charged to it. All take turns; the best time of each counts.
"""

from functools import partial

import numpy as np
from harness import Report, best_of, parser

from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget, parse_bytes
from samekind.losses import Loss, PairwiseLoss, TripletLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers.joint.problem import JointProblem

N_FEATURES = 500
CLASS_SIZE = 40
THRESHOLD = 14.0
N_SAMPLES = 8_000
TARGET = 1.0


def clusters(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Z in class order and L of a metric: same-class distances below the threshold, the others around it."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_samples // CLASS_SIZE, N_FEATURES))
    Z = np.repeat(centres, CLASS_SIZE, axis=0) + rng.normal(size=(n_samples, N_FEATURES))
    rotation, _ = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))
    L = rotation * np.geomspace(1, 0.1, N_FEATURES)
    typical = 2 * np.square((Z - Z.mean(axis=0)) @ L).sum(axis=1).mean()
    return (Z - Z.mean(axis=0)).astype(np.float32), L * (THRESHOLD / typical) ** 0.5


def problem(loss: Loss, Z: np.ndarray) -> JointProblem:
    relation = Relation.from_labels(np.repeat(np.arange(len(Z) // CLASS_SIZE), CLASS_SIZE))
    objective = Objective.over(loss, relation, Executor(), MemoryBudget(parse_bytes("512MB")), Z.dtype)
    return JointProblem(objective, Z, ridge=0.3)


def plain_products(Z: np.ndarray) -> tuple:
    """Two sgemms, and for comparison the first one as NumPy makes it when both sides are the same array."""
    copy = Z.copy()
    W, WZ = np.empty((len(Z), len(Z)), Z.dtype), np.empty_like(Z)
    return (
        partial(np.matmul, Z, copy.T, out=W),
        partial(np.matmul, W, Z, out=WZ),
        partial(np.matmul, Z, Z.T, out=W),
    )


def main() -> None:
    repeats = 3 if parser(__doc__).parse_args().quick else 7
    Z, L = clusters(N_SAMPLES)
    A = L @ L.T
    triplet, pairwise = problem(TripletLoss(), Z), problem(PairwiseLoss(THRESHOLD), Z)
    calls = [
        *plain_products(Z),
        partial(triplet.value_and_gradient, A),
        partial(triplet.factored_value_and_gradient, L),
        partial(pairwise.value_and_gradient, A),
        partial(pairwise.factored_value_and_gradient, L),
    ]
    best_of(calls, 1)  # buffers touched, threads started
    zz, wz, syrk, *ours = best_of(calls, repeats)
    plain = zz + wz
    rate = 4e-9 * N_SAMPLES**2 * N_FEATURES / plain
    print(f"N = {N_SAMPLES:,}, D = {N_FEATURES}, classes of {CLASS_SIZE}, float32; best of {repeats}")
    print(f"plain     Z Z^T {zz:.3f} s + W Z {wz:.3f} s = {plain:.3f} s, {rate:.0f} GFLOP/s", end="")
    print(f" (Z Z^T by syrk: {syrk:.3f} s)")
    for name, (by_A, by_L) in {"triplet": ours[:2], "pairwise": ours[2:]}.items():
        print(f"{name:9} by A {by_A:.3f} s, {by_A / plain:.2f} of plain;", end=" ")
        print(f"by L ({N_FEATURES} columns) {by_L:.3f} s, {by_L / plain:.2f} of plain")
    report = Report("gradient")
    report.hold("triplet", ours[0] / plain, at_most=TARGET)
    report.hold("pairwise", ours[2] / plain, at_most=TARGET)
    report.end()


if __name__ == "__main__":
    main()
