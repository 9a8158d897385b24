"""Small problems that many tests share: labelled data, an objective over it, and the oracle's loss of the same."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samekind import JointMetric, SparseBlockMetric
from samekind.compute.anchors import SamplingOptions
from samekind.compute.executor import Executor
from samekind.compute.memory import MemoryBudget, Shares
from samekind.compute.sources import FactoredDistances
from samekind.compute.tiles import TilePlan
from samekind.events import unobserved
from samekind.losses import PairwiseLoss, TripletLoss
from samekind.objective import Objective
from samekind.relation import Relation
from samekind.solvers import joint
from tests import oracle

PLENTY = 1 << 30
SIZES = (5, 1, 4, 2, 1, 3)  # unequal classes, two of them singletons: N = 16
BOTH_LOSSES = ["pairwise-equal", "triplet"]
PAIRWISE_LOSSES = ["pairwise-equal", "pairwise-samples", "pairwise-literal"]
TRIPLET_LOSSES = ["triplet", "triplet-2-neighbors"]
ALL_LOSSES = PAIRWISE_LOSSES + TRIPLET_LOSSES

THRESHOLD = 3.0
BETA = 30.0


def labelled_data(sizes=SIZES, n_features=6, *, seed=0, spread=1.0, dtype=np.float64):
    """X (N, n_features) around class centres, and labels, both in no particular order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = rng.normal(size=(len(sizes), n_features))
    X = spread * (centres[labels] + 0.7 * rng.normal(size=(len(labels), n_features)))
    return X.astype(dtype), labels


@dataclass(frozen=True)
class Case:
    objective: Objective
    Z: Any  # (N, D) in class order, centred
    labels: Any  # in class order
    reference: Any  # the oracle's loss, samples in class order

    def with_plan(self, block, *, memory_budget=PLENTY, n_jobs=1):
        plan = TilePlan(len(self.labels), block)
        changed = replace(
            self.objective,
            plan=plan,
            memory=MemoryBudget(memory_budget),
            executor=Executor(n_jobs),
            dtype=self.Z.dtype,
        )
        return replace(self, objective=changed)


def case(loss, sizes=SIZES, n_features=6, *, seed=0, spread=1.0, dtype=np.float64, **options):
    X, labels = labelled_data(sizes, n_features, seed=seed, spread=spread, dtype=dtype)
    return case_of(loss, X, labels, **options)


def case_of(loss, X, labels, *, block=5, n_jobs=1, memory_budget=PLENTY, shares=None, sampling=None):
    relation = Relation.from_labels(labels)
    Z = X[relation.order]
    Z = Z - Z.mean(axis=0)
    labels = np.asarray(labels)[relation.order]
    k = 2 if loss == "triplet-2-neighbors" else None
    if k:
        relation = relation.with_neighbors([Z], k, PLENTY)
    objective = Objective(
        package_loss(loss).bind(relation),
        relation,
        TilePlan(len(Z), block),
        Executor(n_jobs),
        MemoryBudget(memory_budget, shares or Shares()),
        Z.dtype,
        sampling or SamplingOptions(),
    )
    return Case(objective, Z, labels, reference_loss(loss, Z, labels, k))


def package_loss(loss):
    kind, _, variant = loss.partition("-")
    return PairwiseLoss(THRESHOLD, variant) if kind == "pairwise" else TripletLoss(BETA)


def reference_loss(loss, Z, labels, k):
    kind, _, variant = loss.partition("-")
    if kind == "pairwise":
        return oracle.Pairwise(labels, THRESHOLD, variant)
    return oracle.Triplet(labels, BETA, oracle.target_neighbors(Z, labels, k) if k else None)


def random_psd(n, *, seed=0, rank=None, scale=1.0):
    """A positive semi-definite matrix whose trace is about `scale * n`."""
    L = np.random.default_rng(seed).normal(size=(n, rank or n))
    return scale / L.shape[1] * L @ L.T


def random_symmetric(n, *, seed=0):
    M = np.random.default_rng(seed).normal(size=(n, n))
    return (M + M.T) / 2


def under(Z, A):
    """The distances of Z under A, as a source of tiles."""
    return FactoredDistances.quadratic(Z, Z @ A.astype(Z.dtype))


def dense(source, plan):
    """A source's tiles put together: (N, N)."""
    D = np.full((plan.n_samples, plan.n_samples), np.nan)
    for tile in plan.tiles():
        D[tile.rows, tile.cols] = source.tile(tile)
        D[tile.cols, tile.rows] = source.tile(tile).T
    return D


def both_ends(objective, distances):
    """`H + H^T` of all tiles put together, which is to be `W + W^T`: (N, N)."""
    weights = objective.weights(distances)
    total = np.zeros((objective.plan.n_samples,) * 2)
    for tile in objective.plan.tiles():
        H = weights.source.tile(tile).H
        total[tile.rows, tile.cols] += H
        total[tile.cols, tile.rows] += H.T
    return total


def relative_error(actual, desired):
    """The largest difference, relative to the largest entry."""
    desired = np.asarray(desired, dtype=np.float64)
    assert np.shape(actual) == desired.shape
    return np.abs(np.asarray(actual, dtype=np.float64) - desired).max() / np.abs(desired).max()


def directional_difference(f, x, direction, h=1e-5):
    """Central difference of f at x along a direction."""
    return (f(x + h * direction) - f(x - h * direction)) / (2 * h)


def with_sizes(learner, **sizes):
    """The same learner, unfitted, of a class of the same name that works on small data as on large ones."""
    kind = type(learner)
    small = type(kind.__name__, (kind,), {"_work_sizes": replace(kind._work_sizes, **sizes)})
    return small(**learner.get_params(deep=False))


def with_settings(learner, **settings):
    """The learner with these settings: its own, or else those of each of its steps that knows them."""
    own, steps = learner.get_params(deep=False), {"selection": SparseBlockMetric(), "joint": JointMetric()}
    for name, value in settings.items():
        if name in own:
            learner.set_params(**{name: value})
        else:
            known = [step for step, settings_of in steps.items() if name in settings_of.get_params()]
            assert known, name
            learner.set_params(**{f"{step}__{name}": value for step in known})
    return learner


def solve_joint(problem, *, observe=unobserved, resume=None, keep=lambda state: None, **options):
    """Algorithm 2, its options by their names."""
    settings = joint.JointOptions(**options)
    return joint.solve_joint(problem, settings, observe=observe, resume=resume, keep=keep)
