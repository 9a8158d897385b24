"""Where step 2 stands, in a form that can be written down and gone on from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.spectral import Matrix
from samekind.solvers.optimise import factored, projected

SolverState: TypeAlias = projected.ProjectedState | factored.FactoredState


@dataclass(frozen=True)
class JointState:
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        arrays = {"start": self.start, "values": np.array(self.values)}
        given = {"noise": self.noise, "safe": self.safe}
        arrays |= {name: array for name, array in given.items() if array is not None}
        return arrays | ({} if self.run is None else {f"run {name}": a for name, a in self.run.arrays().items()})

    def facts(self) -> dict[str, Any]:
        """What a file keeps as JSON."""
        return {
            "stage": self.stage,
            "earlier_iterations": self.earlier_iterations,
            "earlier_evaluations": self.earlier_evaluations,
            "hint": self.hint,
            "run": None if self.run is None else self.run.facts(),
            "solver": "factored" if isinstance(self.run, factored.FactoredState) else "convex",
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "JointState":
        """From `arrays()` and `facts()`."""
        kind = factored.FactoredState if facts["solver"] == "factored" else projected.ProjectedState
        run = {name.removeprefix("run "): array for name, array in arrays.items() if name.startswith("run ")}
        return cls(
            int(facts["stage"]),
            arrays["start"],
            int(facts["earlier_iterations"]),
            int(facts["earlier_evaluations"]),
            None if facts["run"] is None else kind.restored(run, facts["run"]),
            arrays.get("noise"),
            arrays.get("safe"),
            tuple(arrays["values"].tolist()),
            None if facts["hint"] is None else float(facts["hint"]),
        )
