"""Line 5 of Algorithm 1: one group's block on top of the metric as it stands."""

from dataclasses import dataclass, replace

import numpy as np

from samekind.compute.present import scaled
from samekind.compute.site import Recipe
from samekind.compute.sources import Scaled
from samekind.kernels.laplacian import InnerForm
from samekind.kernels.spectral import Matrix, estimated_gap, project_psd
from samekind.objective import Distances, Objective, Weights
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.optimise.problem import Point
from samekind.solvers.optimise.projected import PairsProblem, strongly_convex_bound
from samekind.solvers.selection.site import block_distances, block_gradient, group_distances, group_gradient

CHANGE = 0.1  # step in alpha of the central difference: far above the rounding of f


@dataclass(frozen=True)
class BlockProblem(PairsProblem):
    """Line 5: min over alpha >= 0 and A_k >= 0 of f(alpha A + A_k), Z (N, d) being group k.

    A point is `[s alpha, A_k]` in one vector, s = ||A||_F: then both parts are measured in the same unit. With a
    preconditioner it is `[t alpha, M]`, `A_k = W M W^T`, t^2 the curvature of f in alpha: f curves by about 1 in both.
    """

    ridge: float
    present: Distances  # D0, the distances under A
    scale: float  # s
    present_block: Matrix  # A's own block of group k
    preconditioner: Preconditioner | None = None
    scale_curvature: float = 0.0  # of the loss by alpha, for t
    correction: Point | None = None  # of a sample: the gradient over all pairs minus its own, at some point
    group: int | None = None  # k, needed where D0 is a recipe: the features then stay at the site

    @property
    def strong_convexity(self) -> float:
        """Strong convexity of the ridge in (alpha, A_k); it is smaller the more of A lies in group k already."""
        overlap = float(np.linalg.norm(self.present_block)) / self.scale if self.scale else 0.0
        return self.ridge * max(0.0, 1 - overlap)

    @property
    def start(self) -> Point:
        """alpha = 1, A_k = 0: the metric as it is."""
        return self.pack(1.0, np.zeros_like(self.present_block))

    def on(self, objective: Objective, present: Distances) -> "BlockProblem":
        """The same problem with the loss estimated by another objective."""
        return replace(self, objective=objective, present=present)

    def corrected_to(self, gradient: Point, at: Point) -> "BlockProblem":
        """The problem plus a linear term that makes its gradient at a point the given one."""
        uncorrected = replace(self, correction=None)
        return replace(self, correction=gradient - uncorrected.value_and_gradient(at)[1])

    def gradient_at_start(self, weights: Weights) -> Point:
        """The gradient of f at the start, from the weights of the present distances."""
        _, form = weights.into(self._form())
        return self._gradient(*self.unpack(self.start), *form)

    @property
    def unit(self) -> float:
        """The unit of alpha: s, or t with a preconditioner."""
        if self.preconditioner is None or not self.scale:
            return self.scale
        return float((self.scale_curvature + self.ridge * self.scale**2) ** 0.5) or self.scale

    def pack(self, alpha: float, A: Matrix) -> Point:
        M = A if self.preconditioner is None else self.preconditioner.matrix(A)
        return np.concatenate([[alpha * self.unit], M.ravel()])

    def unpack(self, x: Point) -> tuple[float, Matrix]:
        alpha = float(x[0]) / self.unit if self.scale else 1.0
        M = self._matrix(x)
        return alpha, M if self.preconditioner is None else self.preconditioner.metric(M)

    def value(self, x: Point) -> float:
        alpha, A = self.unpack(x)
        return self.objective.value(self.distances(alpha, A)) + self._ridge_value(alpha, A) + self._correction_value(x)

    def value_and_gradient(self, x: Point) -> tuple[float, Point]:
        alpha, A = self.unpack(x)
        loss, form = self.objective.value_and_form(self.distances(alpha, A), self._form())
        value = loss + self._ridge_value(alpha, A) + self._correction_value(x)
        gradient = self._gradient(alpha, A, *form)
        return value, gradient if self.correction is None else gradient + self.correction

    def project(self, x: Point) -> Point:
        return np.concatenate([np.maximum(x[:1], 0), project_psd(self._matrix(x)).ravel()])

    def lower_bound(self, x: Point, value: float, gradient: Point) -> float:
        """A bound from the strong convexity of the ridge in `[s alpha, A_k]`."""
        if self.preconditioner is not None:
            alpha, A = self.unpack(x)
            slope = float(gradient[0]) * self.unit / self.scale if self.scale else 0.0
            G = self.preconditioner.pushed(self._matrix(gradient))
            x, gradient = np.append(alpha * self.scale, A), np.append(slope, G)
        return strongly_convex_bound(self, self.strong_convexity, x, value, gradient)

    def estimated_gap(self, x: Point, gradient: Point) -> float:
        along = estimated_gap(x[:1, np.newaxis], gradient[:1, np.newaxis]) if self.scale else 0.0
        return along + estimated_gap(self._matrix(x), self._matrix(gradient))

    def distances(self, alpha: float, A: Matrix) -> Distances:
        if isinstance(self.present, Recipe):
            return Recipe(group_distances, self.group, self.present, alpha, A)
        return block_distances(self.Z, self.present, alpha, A)

    def _form(self) -> InnerForm | Recipe:
        if isinstance(self.present, Recipe):
            return Recipe(group_gradient, self.group)
        return block_gradient(self.Z, self.present)

    def _gradient(self, alpha: float, A: Matrix, G: Matrix, slope: float) -> Point:
        """The gradient of f, from that of the loss by A_k and by alpha."""
        G = G + self.ridge * (A + alpha * self.present_block)
        slope += self.ridge * (alpha * self.scale**2 + float(np.vdot(self.present_block, A)))
        G = G if self.preconditioner is None else self.preconditioner.pulled(G)
        return np.concatenate([[slope / self.unit if self.scale else 0.0], G.ravel()])

    def _correction_value(self, x: Point) -> float:
        return 0.0 if self.correction is None else float(self.correction @ (x - self.start))

    def _matrix(self, x: Point) -> Matrix:
        return x[1:].reshape(self.present_block.shape)

    def _ridge_value(self, alpha: float, A: Matrix) -> float:
        """`ridge/2 ||alpha A_present + A||_F^2`"""
        crossing = 2 * alpha * float(np.vdot(self.present_block, A))
        return self.ridge / 2 * (alpha**2 * self.scale**2 + crossing + float(np.vdot(A, A)))


def curvature_by_scale(objective: Objective, present: Distances) -> float:
    """The second derivative of `loss(alpha D0)` at alpha = 1, D0 being the present distances: a central difference."""

    def value(alpha: float) -> float:
        if isinstance(present, Recipe):
            return objective.value(Recipe(scaled, present, alpha))
        return objective.value(Scaled(alpha, present))

    return max(0.0, (value(1 - CHANGE) - 2 * value(1.0) + value(1 + CHANGE)) / CHANGE**2)
