"""Settings of step 2, the state of a fit in a form that can be resumed from, and its result."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from samekind.checkpoint import Resumable
from samekind.kernels.spectral import Matrix
from samekind.solvers.optimise.certificate import Certificate
from samekind.solvers.optimise.factored import FactoredState
from samekind.solvers.optimise.projected import ProjectedState

SolverState: TypeAlias = ProjectedState | FactoredState


@dataclass(frozen=True)
class JointOptions:
    """Settings of Algorithm 2.

    `anchors="all"` solves on all rows. With `"grow"` the factored solver begins on growing samples of anchor rows, and
    ends on all rows. With a number it ends on that many anchors, and the convex solver takes one sample of as many.
    """

    solver: Literal["convex", "factored"] = "convex"
    n_components: int | None = None
    tol: float = 1e-3
    max_iter: int = 500
    anchors: int | Literal["all", "grow"] = "all"
    seed: int = 0
    first_anchors: int = 1024  # in the first sample
    growth: int = 4  # ratio of the sizes of consecutive samples
    keep_every: int = 5  # iterations between two states to resume from


@dataclass(frozen=True)
class JointState(Resumable):
    """The stage, the point where it started, and the state of its solver once it runs."""

    stage: int
    start: Matrix  # A or L
    earlier_iterations: int = 0
    earlier_evaluations: int = 0
    run: SolverState | None = None
    safe: Matrix | None = None  # the last point that was a gain for the held-out anchors, if it is not the start
    values: tuple[float, ...] = ()  # f after the last iterations of this stage
    hint: float | None = None  # the scale where the stage before ended


@dataclass(frozen=True)
class JointResult:
    """`A = L L^T`."""

    L: Matrix  # (D, r), columns by falling length
    certificate: Certificate
    objective: float  # f at L L^T as returned, after any truncation
    objective_error: float  # its standard error; 0 where it is over all rows
    n_anchors: int  # of the last stage
    solver: str
    n_iter: int
    n_evaluations: int
    # Whether the gap was closed, before any cut to n_components; on samples, to within their noise. Over L of bounded
    # rank, where the gap need not close: whether L is stationary.
    converged: bool
    stopped: bool  # by the observer
