"""The two ways to solve a stage of step 2: over A, by projected descent, or over L, by factored descent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from samekind.kernels.principal import leading_directions
from samekind.kernels.spectral import Matrix, principal_axes, rank_of
from samekind.kernels.types import Array
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.state import JointState
from samekind.solvers.optimise import factored, projected
from samekind.solvers.optimise.preconditioner import Preconditioned, Preconditioner
from samekind.solvers.optimise.projected import Solution
from samekind.solvers.optimise.within_class import WithinClassWhitening

FIRST_RANK = 16  # smallest rank at which the staircase begins
MOST_FITTINGS = 30  # doublings, and halvings, of the first distances
FILLING = 0.01  # length of the random columns of the first factor, relative to the others

StageObserver: TypeAlias = Callable[[projected.Progress[Any]], bool]  # ends a stage by returning True


@dataclass(frozen=True)
class ConvexSolver:
    """Solves a stage over a point that is A."""

    name: ClassVar[Literal["convex"]] = "convex"
    n_components: int | None
    tol: float
    preconditioner: Preconditioner

    def first(self, stage: JointProblem, seed: int) -> Matrix:
        """The ridge's centre, as far as the trace bound allows: 0 in the paper."""
        return stage.project(stage.centre * np.eye(stage.n_features))

    def descend(
        self, stage: JointProblem, state: JointState, max_iter: int, observe: StageObserver, *, certified: bool
    ) -> Solution:
        """Descend in the preconditioner's coordinates; callers and observers get A."""
        by = self.preconditioner
        solution = projected.minimise(
            Preconditioned(stage, by),
            by.matrix(state.start),
            tol=self.tol,
            max_iter=max_iter,
            observe=lambda now: observe(replace(now, x=by.metric(now.x))),
            resume=state.run if isinstance(state.run, projected.ProjectedState) else None,
        )
        return replace(solution, x=by.metric(solution.x))

    def batch_values(self, stage: JointProblem, point: Matrix) -> Array:
        return stage.batch_values(point)

    def factor(self, point: Matrix) -> Matrix:
        return self.preconditioner.factor(point)[:, : self.n_components]

    def rank(self, point: Matrix) -> int:
        return rank_of(point, self.preconditioner.scatter)


@dataclass(frozen=True)
class FactoredSolver:
    """Solves a stage over a point that is L."""

    name: ClassVar[Literal["factored"]] = "factored"
    n_components: int | None
    tol: float
    preconditioner: Preconditioner
    coordinates: WithinClassWhitening

    def most(self, stage: JointProblem) -> int:
        """The largest number of columns of the factor."""
        return stage.n_features if self.n_components is None else min(stage.n_features, self.n_components)

    def first(self, stage: JointProblem, seed: int) -> Matrix:
        """The discriminants of classes; or, with a centred ridge, principal axes of its length if f is lower there."""
        L = self._discriminants(stage, seed)
        if not stage.centre:
            return L
        axes = stage.centre**0.5 * leading_directions(stage.Z, self.most(stage)).astype(np.float64)
        axes = factored.within_trace(axes, stage.trace_bound)
        return axes if stage.factored_value(axes) < stage.factored_value(L) else L

    def _discriminants(self, stage: JointProblem, seed: int) -> Matrix:
        """The leading directions between classes, scaled to fit f; short random ones where there are fewer."""
        n_features = stage.n_features
        most = self.most(stage)
        rank = most if self.n_components is not None else min(most, max(FIRST_RANK, n_features // 4))
        L = self._fitted(stage, self.coordinates.first_factor(rank))
        missing = rank - L.shape[1]
        length = FILLING * max(float(np.linalg.norm(L)), 1e-3) / n_features**0.5
        return np.hstack([L, length * np.random.RandomState(seed).standard_normal((n_features, missing))])

    def _fitted(self, stage: JointProblem, L: Matrix) -> Matrix:
        """L with its distances doubled or halved as long as that lowers f, which is convex in their scale."""
        best = factored.within_trace(L, stage.trace_bound)
        value = stage.factored_value(best)
        for times in (2.0, 0.5):
            for _ in range(MOST_FITTINGS):
                trial = factored.within_trace(best * times**0.5, stage.trace_bound)
                tried = stage.factored_value(trial)
                if not tried < value:
                    break
                best, value = trial, tried
        return best

    def descend(
        self, stage: JointProblem, state: JointState, max_iter: int, observe: StageObserver, *, certified: bool
    ) -> Solution:
        """Climb the staircase of ranks unless the rank is fixed; on a sample, to a tolerance that its noise allows."""
        return factored.minimise_factored(
            stage,
            state.start,
            max_rank=self.most(stage),
            tol=self.tol,
            max_iter=max_iter,
            observe=observe,
            resume=state.run if isinstance(state.run, factored.FactoredState) else None,
            certified=certified,
            scale=state.hint,
            coordinates=self.coordinates,
            preconditioner=self.preconditioner,
        )

    def batch_values(self, stage: JointProblem, point: Matrix) -> Array:
        return stage.factored_batch_values(point)

    def factor(self, point: Matrix) -> Matrix:
        return principal_axes(point, scatter=self.preconditioner.scatter)

    def rank(self, point: Matrix) -> int:
        return int(point.shape[1])


StageSolver: TypeAlias = ConvexSolver | FactoredSolver
