"""A sample that stands for all rows in step 2, made to agree with looks at all rows.

A look tells f and its gradient over all rows at one point. The sample is tilted, by a linear term, so that it has that
value and gradient at the best look, and bent, by a quadratic one, so that its gradients at the other looks are right
too, as far as a convex term can do that: where a sample curves too little, steps on it would go too far.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.spectral import Matrix
from samekind.objective import Objective
from samekind.solvers.jointproblem import JointProblem

REMEMBERED = 3  # looks that the sample is bent to: where earlier ones were, f curved more
BENDS = 1e-6  # share of the strongest bend below which one is rounding


@dataclass(frozen=True)
class Sight:
    """f and its gradient at A, over all rows and as the sample has them."""

    A: Matrix
    value: float
    gradient: Matrix
    own_value: float
    own_gradient: Matrix


@dataclass(frozen=True)
class Looks:
    """What looks at all rows have told; its arrays are never written to."""

    best: Sight | None = None
    steps: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))  # (m, D D) from the best to the next
    lacks: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))  # how much more the gradient changed
    n: int = 0
    n_in_vain: int = 0  # that found no better point, one after another
    promise: float = np.inf  # what the sample says would be gained next

    @property
    def level(self) -> float:
        """f where it is least so far."""
        return np.inf if self.best is None else self.best.value

    def with_one(self, seen: Sight) -> "Looks":
        if self.best is None:
            none = np.zeros((0, seen.A.size))
            return Looks(seen, none, none, 1)
        step = seen.A - self.best.A
        lack = (seen.gradient - self.best.gradient) - (seen.own_gradient - self.best.own_gradient)
        better = seen.value < self.best.value
        return Looks(
            seen if better else self.best,
            np.vstack([self.steps, step.ravel()])[-REMEMBERED:],
            np.vstack([self.lacks, lack.ravel()])[-REMEMBERED:],
            self.n + 1,
            0 if better else self.n_in_vain + 1,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        if self.best is None:
            return {}
        best = {f"best {of.name}": np.asarray(getattr(self.best, of.name)) for of in fields(Sight)}
        return best | {"steps": self.steps, "lacks": self.lacks}

    def facts(self) -> dict[str, int | float | None]:
        """What a file keeps as JSON, which knows no infinity."""
        return {
            "n": self.n,
            "n_in_vain": self.n_in_vain,
            "promise": self.promise if np.isfinite(self.promise) else None,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "Looks":
        """From `arrays()` and `facts()`."""
        if "steps" not in arrays:
            return cls()
        told = {name.removeprefix("best "): a for name, a in arrays.items() if name.startswith("best ")}
        best = Sight(told["A"], float(told["value"]), told["gradient"], float(told["own_value"]), told["own_gradient"])
        promise = np.inf if facts["promise"] is None else float(facts["promise"])
        return cls(best, arrays["steps"], arrays["lacks"], int(facts["n"]), int(facts["n_in_vain"]), promise)


@dataclass(frozen=True)
class TiltedProblem:
    """`f_sample(A) + <tilt, A> + offset + 1/2 ||bend (A - base)||^2`."""

    sample: JointProblem
    base: Matrix
    tilt: Matrix
    offset: float
    bend: NDArray[np.float64]  # (m, D D)

    @classmethod
    def to(cls, looks: Looks, sample: JointProblem) -> "TiltedProblem":
        """The sample, set right by looks."""
        best = looks.best
        assert best is not None
        tilt = best.gradient - best.own_gradient
        offset = best.value - best.own_value - float(np.vdot(tilt, best.A))
        return cls(sample, best.A, tilt, offset, bend_to(looks.steps, looks.lacks))

    @property
    def objective(self) -> Objective:
        return self.sample.objective

    @property
    def rounding(self) -> float:
        return self.sample.rounding

    @property
    def n_projections(self) -> int:
        return self.sample.n_projections

    def value_and_gradient(self, A: Matrix) -> tuple[float, Matrix]:
        value, G = self.sample.value_and_gradient(A)
        bent = self.bend @ (A - self.base).ravel()
        value += float(np.vdot(self.tilt, A)) + self.offset + float(bent @ bent) / 2
        return value, G + self.tilt + (bent @ self.bend).reshape(A.shape)

    @property
    def trace_bound(self) -> float:
        return self.sample.trace_bound

    def project(self, A: Matrix) -> Matrix:
        return self.sample.project(A)

    def estimated_gap(self, A: Matrix, G: Matrix) -> float:
        return self.sample.estimated_gap(A, G)

    def lower_bound(self, A: Matrix, value: float, G: Matrix) -> float:
        return self.sample.lower_bound(A, value, G)


def bend_to(steps: NDArray[np.float64], lacks: NDArray[np.float64]) -> NDArray[np.float64]:
    """F with `F^T F steps = lacks`, as far as F^T F can: `lacks^T (steps lacks^T)^-1 lacks`, its positive part."""
    if not len(steps):
        return np.zeros((0, steps.shape[1]))
    crossing = steps @ lacks.T
    strengths, directions = np.linalg.eigh((crossing + crossing.T) / 2)
    bends = strengths > BENDS * np.abs(strengths).max()
    bend: NDArray[np.float64] = (directions[:, bends] / np.sqrt(strengths[bends])).T @ lacks
    return bend
