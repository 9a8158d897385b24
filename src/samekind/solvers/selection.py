"""Algorithm 1: round by round the steepest feature group, its metric and the scale of what was there before."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from samekind.compute.sources import FactoredDistances, PresentDistances, ScaledSum
from samekind.compute.tiles import Tile
from samekind.kernels.laplacian import BlockForm, GramForm, InnerForm
from samekind.kernels.spectral import Matrix, Norm, block_score, leading_factor, project_psd
from samekind.kernels.types import Array
from samekind.objective import KEPT_SHARE, Objective
from samekind.solvers import projected
from samekind.solvers.events import Event, Observer, unobserved
from samekind.solvers.projected import Point
from samekind.store.base import FeatureStore, centred, panels_of


@dataclass(frozen=True)
class BlockProblem:
    """Line 5: min over alpha >= 0 and A_k >= 0 of f(alpha A + A_k), Z (N, d) being group k.

    A point is `[s alpha, A_k]` in one vector, s = ||A||_F: then both parts are measured in the same unit.
    """

    objective: Objective
    Z: Array
    ridge: float
    present: PresentDistances  # D0, the distances under A
    scale: float  # s
    present_block: Matrix  # A's own block of group k

    @property
    def strong_convexity(self) -> float:
        """Of the ridge in alpha and A_k together: the less, the more of A lies in group k already."""
        overlap = float(np.linalg.norm(self.present_block)) / self.scale if self.scale else 0.0
        return self.ridge * max(0.0, 1 - overlap)

    @property
    def rounding(self) -> float:
        return float(10 * np.finfo(self.Z.dtype).eps)

    @property
    def start(self) -> Point:
        """alpha = 1, A_k = 0: the metric as it is."""
        return self.pack(1.0, np.zeros_like(self.present_block))

    def pack(self, alpha: float, A: Matrix) -> Point:
        return np.concatenate([[alpha * self.scale], A.ravel()])

    def unpack(self, x: Point) -> tuple[float, Matrix]:
        alpha = float(x[0]) / self.scale if self.scale else 1.0
        return alpha, x[1:].reshape(self.present_block.shape)

    def value(self, x: Point) -> float:
        alpha, A = self.unpack(x)
        return self.objective.value(self.distances(alpha, A)) + self._ridge_value(alpha, A)

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        alpha, A = self.unpack(x)
        form = InnerForm(GramForm(self.Z), lambda tile: self.present.tile(Tile(tile.rows, tile.cols)))
        loss, (G, slope) = self.objective.value_and_form(self.distances(alpha, A), form)
        G = G + self.ridge * (A + alpha * self.present_block)
        slope += self.ridge * (alpha * self.scale**2 + float(np.vdot(self.present_block, A)))
        by_scale = slope / self.scale if self.scale else 0.0
        return loss + self._ridge_value(alpha, A), np.concatenate([[by_scale], G.ravel()])

    def project(self, x: Point) -> Point:
        return np.concatenate([np.maximum(x[:1], 0), project_psd(self._matrix(x)).ravel()])

    def lower_bound(self, x: Point, value: float, gradient: Point) -> float:
        return projected.strongly_convex_bound(self, self.strong_convexity, x, value, gradient)

    def distances(self, alpha: float, A: Matrix) -> ScaledSum:
        own = FactoredDistances.quadratic(self.Z, self.Z @ A.astype(self.Z.dtype))
        return ScaledSum(alpha, self.present, own)

    def _matrix(self, x: Point) -> Matrix:
        return x[1:].reshape(self.present_block.shape)

    def _ridge_value(self, alpha: float, A: Matrix) -> float:
        """`ridge/2 ||alpha A_present + A||_F^2`"""
        crossing = 2 * alpha * float(np.vdot(self.present_block, A))
        return self.ridge / 2 * (alpha**2 * self.scale**2 + crossing + float(np.vdot(A, A)))


@dataclass
class BlockMetric:
    """A sparse block diagonal A: one small matrix per chosen group, in order of first choice."""

    blocks: dict[int, Matrix] = field(default_factory=dict)

    def block(self, k: int, size: int) -> Matrix:
        return self.blocks.get(k, np.zeros((size, size)))

    def add(self, k: int, A: Matrix, alpha: float) -> None:
        """A <- alpha A + A_k"""
        present = self.block(k, len(A))
        self.blocks = {j: alpha * B for j, B in self.blocks.items()}
        self.blocks[k] = alpha * present + A

    def norm(self) -> float:
        return float(np.sqrt(sum(np.vdot(A, A) for A in self.blocks.values())))

    def factors(self) -> dict[int, Matrix]:
        """L_k with `A_k = L_k L_k^T`, the groups whose block is zero left out."""
        factors = {k: leading_factor(A) for k, A in self.blocks.items()}
        return {k: L for k, L in factors.items() if L.shape[1]}

    def rank(self) -> int:
        return sum(L.shape[1] for L in self.factors().values())


@dataclass(frozen=True)
class SelectionResult:
    metric: BlockMetric
    objective: float
    n_rounds: int
    stopped_because: str


def select_groups(
    objective: Objective,
    store: FeatureStore,
    *,
    ridge: float,
    max_groups: int,
    candidates: Iterable[int] | None = None,
    norm: Norm = "frobenius",
    tol: float = 1e-3,
    max_iter: int = 500,
    observe: Observer = unobserved,
) -> SelectionResult:
    """Algorithm 1 from A = 0, `max_groups` rounds at the most."""
    rows = objective.relation.order
    groups = sorted(range(len(store.group_sizes)) if candidates is None else candidates)
    metric = BlockMetric()
    present = PresentDistances(objective.plan, objective.dtype, int(objective.memory_budget * KEPT_SHARE))
    value = objective.value(present)
    reason = f"max_groups={max_groups} rounds done"
    n_rounds = 0
    while n_rounds < max_groups:
        scores = group_scores(objective, store, groups, present, metric, ridge, norm)
        best = int(np.argmax(scores))
        k = groups[best]
        Z = centred(store.panel([k], rows))
        problem = BlockProblem(objective, Z, ridge, present, metric.norm(), metric.block(k, Z.shape[1]))
        solution = projected.minimise(problem, problem.start, tol=tol, max_iter=max_iter)
        if not scores[best] > 0 or not solution.value < value * (1 - problem.rounding):
            reason = f"no group lowers the objective any more, after {n_rounds} rounds of max_groups={max_groups}"
            break
        alpha, A = problem.unpack(solution.x)
        present.update(alpha, Z @ leading_factor(A).astype(Z.dtype), objective.executor)
        metric.add(k, A, alpha)
        value = solution.value
        n_rounds += 1
        details = {
            "group": k,
            "score": float(scores[best]),
            "alpha": alpha,
            "n_iter": solution.n_iter,
            "n_groups": len(metric.blocks),
            "converged": solution.converged,
        }
        if observe(Event("selection", n_rounds, max_groups, value, metric.rank(), details)):
            reason = f"stopped by the callback after {n_rounds} rounds"
            break
    return SelectionResult(metric, value, n_rounds, reason)


def group_scores(
    objective: Objective,
    store: FeatureStore,
    groups: list[int],
    present: PresentDistances,
    metric: BlockMetric,
    ridge: float,
    norm: Norm,
) -> Point:
    """Line 4: `||Pi_PSD(-[df/dA]_kk)||` of every group, the weights made once for all panels."""
    weights = objective.weights(present).kept()
    scores: list[float] = []
    for panel in panels_of(store, groups, objective.relation.order):
        _, blocks = weights.into(BlockForm(panel.Z, panel.columns))
        scores += [
            block_score(G + ridge * metric.block(k, len(G)), norm) for k, G in zip(panel.groups, blocks, strict=True)
        ]
    return np.array(scores)
