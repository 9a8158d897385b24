"""Where step 2 stands, in a form that can be written down and gone on from."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from samekind.checkpoint import Resumable
from samekind.kernels.spectral import Matrix
from samekind.solvers.optimise import factored, projected

SolverState: TypeAlias = projected.ProjectedState | factored.FactoredState


@dataclass(frozen=True)
class JointState(Resumable):
    """Where step 2 stands: the stage, where it started, and the state of its solver once it is under way."""

    stage: int
    start: Matrix  # A or L
    earlier_iterations: int = 0
    earlier_evaluations: int = 0
    run: SolverState | None = None
    noise: NDArray[Any] | None = None  # f as batches of held-out anchors had it where it had last fallen for them too
    safe: Matrix | None = None  # that point, if it is not the start
    values: tuple[float, ...] = ()  # f after the last iterations of this stage
    hint: float | None = None  # curvature or scale where the stage before ended
