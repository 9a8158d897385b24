"""What a descent needs to know of a problem."""

from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from samekind.checkpoint import Resumable
from samekind.kernels.spectral import Matrix

Point: TypeAlias = NDArray[np.float64]
State = TypeVar("State", bound=Resumable)


class ProjectedProblem(Protocol):
    """min f(x) over a convex set."""

    @property
    def rounding(self) -> float:
        """Relative error to be expected in a value of f."""
        ...

    @property
    def n_projections(self) -> int:
        """Projections that cost as much as an evaluation of f, as many as are of use at the most."""
        ...

    def value_and_gradient(self, x: Point) -> tuple[float, Point]: ...

    def project(self, x: Point) -> Point: ...

    def lower_bound(self, x: Point, value: float, gradient: Point) -> float:
        """A lower bound of f, from its value and gradient at one point; -inf if there is none."""
        ...

    def estimated_gap(self, x: Point, gradient: Point) -> float:
        """An estimate of f less its minimum that does not depend on scale; used where nothing bounds f from below."""
        ...


class MetricProblem(ProjectedProblem, Protocol):
    """min f(A) over A >= 0, tr A <= trace_bound."""

    @property
    def trace_bound(self) -> float: ...

    def factored_value_and_gradient(self, L: Matrix) -> tuple[float, Matrix]:
        """f(L L^T), and its gradient by L."""
        ...
