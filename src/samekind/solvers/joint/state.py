"""The state of step 2, in a form that can be written to a file and resumed from."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from samekind.checkpoint import Resumable
from samekind.kernels.spectral import Matrix
from samekind.solvers.optimise import factored, projected

SolverState: TypeAlias = projected.ProjectedState | factored.FactoredState


@dataclass(frozen=True)
class JointState(Resumable):
    """The stage, the point where it started, and the state of its solver once it runs."""

    stage: int
    start: Matrix  # A or L
    earlier_iterations: int = 0
    earlier_evaluations: int = 0
    run: SolverState | None = None
    noise: NDArray[Any] | None = None  # f on batches of held-out anchors, at the last point that was a gain for them
    safe: Matrix | None = None  # that point, if it is not the start
    values: tuple[float, ...] = ()  # f after the last iterations of this stage
    hint: float | None = None  # curvature or scale where the stage before ended
