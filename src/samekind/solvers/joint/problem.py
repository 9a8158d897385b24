"""Algorithm 2's problem: f over one matrix A, or over its factor L."""

from dataclasses import dataclass, replace

import numpy as np

from samekind.compute.site import Recipe
from samekind.kernels.spectral import Matrix, eigh, estimated_gap, project_trace_ball
from samekind.kernels.types import Array
from samekind.solvers.joint.site import JointSite, euclidean, gram_of_features, laplacian_of_codes, quadratic
from samekind.solvers.optimise.projected import PairsProblem, strongly_convex_bound


@dataclass(frozen=True)
class JointProblem(PairsProblem):
    """min ridge/2 ||A - centre I||_F^2 + loss(D(A; Z)) over A >= 0, tr A <= trace_bound.

    Z (N, D) in class order, centred. The paper's ridge has centre 0; centre 1 shrinks towards Euclidean distance on Z.
    """

    ridge: float
    trace_bound: float = np.inf
    centre: float = 0.0

    def __post_init__(self) -> None:
        """Give the objective a site that holds Z, so that its work may be done in other processes."""
        site = self.objective.site
        if not isinstance(site, JointSite) or site.Z is not self.Z:
            object.__setattr__(self, "objective", JointSite(self.objective, self.Z).objective)

    def on_sample(
        self, n_anchors: int, rng: np.random.RandomState, without: "JointProblem | None" = None
    ) -> "JointProblem":
        """The same problem over all rows, its loss estimated from random anchors; `without` those of another sample."""
        known = None if without is None else without.objective.anchors
        return replace(self, objective=self.objective.sampled(n_anchors, rng, known))

    def batch_values(self, A: Matrix) -> Array:
        """f as each batch of a sample's anchors estimates it."""
        return self.objective.batch_values(Recipe(quadratic, A)) + self._penalty(A)

    def factored_batch_values(self, L: Matrix) -> Array:
        return self.objective.batch_values(Recipe(euclidean, L)) + self._factored_penalty(L)

    @property
    def n_features(self) -> int:
        return int(self.Z.shape[1])

    def value(self, A: Matrix) -> float:
        return self.objective.value(Recipe(quadratic, A)) + self._penalty(A)

    def value_and_gradient(self, A: Matrix) -> tuple[float, Matrix]:
        loss, G = self._loss_and(Recipe(gram_of_features), Recipe(quadratic, A))
        return loss + self._penalty(A), G + self.ridge * _less_identity(A, self.centre)

    def value_and_gradient_at(self, L: Matrix) -> tuple[float, Matrix]:
        """f and its gradient by A at A = L L^T, without forming Z A, which has the size of Z."""
        loss, G = self._loss_and(Recipe(gram_of_features), Recipe(euclidean, L))
        G += self.ridge * L @ L.T
        return loss + self._factored_penalty(L), _less_identity(G, self.ridge * self.centre)

    def project(self, A: Matrix) -> Matrix:
        return project_trace_ball(A, self.trace_bound)

    def lower_bound(self, A: Matrix, value: float, G: Matrix) -> float:
        """By the ridge's strong convexity; and `f + <G, A* - A>`, A* the worst within a trace bound."""
        bound = strongly_convex_bound(self, self.ridge, A, value, G)
        if self.ridge > 0 and np.isinf(self.trace_bound):
            return bound
        steepest = float(eigh(G)[0][0])
        return max(bound, value - float(np.vdot(G, A)) + (steepest * self.trace_bound if steepest < 0 else 0.0))

    def estimated_gap(self, A: Matrix, G: Matrix) -> float:
        return estimated_gap(A, G)

    def factored_value_and_gradient(self, L: Matrix) -> tuple[float, Matrix]:
        """f(L L^T) and its gradient `2 (G + ridge (L L^T - centre I)) L`; from `(S - W - W^T) Z L` when L is narrow."""
        if 2 * L.shape[1] < self.n_features:
            loss, V = self._loss_and(Recipe(laplacian_of_codes, L), Recipe(euclidean, L))
            GL = self._transposed_times(V)
        else:
            loss, G = self._loss_and(Recipe(gram_of_features), Recipe(euclidean, L))
            GL = G @ L
        return loss + self._factored_penalty(L), 2 * (GL + self.ridge * L @ (L.T @ L) - self.ridge * self.centre * L)

    def factored_value(self, L: Matrix) -> float:
        """f(L L^T)"""
        return self.objective.value(Recipe(euclidean, L)) + self._factored_penalty(L)

    def _loss_and(self, form: Recipe, distances: Recipe) -> tuple[float, Matrix]:
        """loss(D), and a form of its weights."""
        made: tuple[float, Matrix] = self.objective.value_and_form(distances, form)
        return made

    def _transposed_times(self, V: Matrix) -> Matrix:
        """Z^T V"""
        V = V.astype(self.Z.dtype)
        product = np.zeros((self.n_features, V.shape[1]))
        for part in self.objective.over_blocks(lambda rows: self.Z[rows].T @ V[rows]):
            product += part
        return product

    def _penalty(self, A: Matrix) -> float:
        """`ridge/2 ||A - centre I||_F^2`"""
        apart = _less_identity(A, self.centre)
        return self.ridge / 2 * float(np.vdot(apart, apart))

    def _factored_penalty(self, L: Matrix) -> float:
        """The same at A = L L^T (D, r): `ridge/2 (||L^T L - centre I||_F^2 + centre^2 (D - r))`, without D x D."""
        inner = _less_identity(L.T @ L, self.centre)
        missing = self.centre**2 * float(L.shape[0] - L.shape[1])
        return self.ridge / 2 * (float(np.vdot(inner, inner)) + missing)


def _less_identity(A: Matrix, times: float) -> Matrix:
    """`A - times I`"""
    return A - times * np.eye(len(A)) if times else A
