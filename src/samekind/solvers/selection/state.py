"""Where a selection stands, and what it ends with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.spectral import Matrix
from samekind.solvers.selection.blocks import BlockMetric


class Step(NamedTuple):
    """One round: A <- alpha A + A_k."""

    group: int
    alpha: float
    A: Matrix


@dataclass(frozen=True)
class SelectionState:
    """Where a selection stands between two rounds: from its steps everything else is made again, to the last digit."""

    steps: tuple[Step, ...] = ()
    value: float = np.inf
    stopped_because: str = ""  # set when it is over
    search: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what the search remembers
    solver: Mapping[str, Any] = field(default_factory=dict)  # what the block solver remembers, as JSON

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        blocks = {f"block {at}": step.A for at, step in enumerate(self.steps)}
        return blocks | {f"memory {name}": array for name, array in self.search.items()}

    def facts(self) -> dict[str, Any]:
        """What a file keeps as JSON."""
        return {
            "groups": [step.group for step in self.steps],
            "alphas": [step.alpha for step in self.steps],
            "value": self.value,
            "stopped_because": self.stopped_because,
            "memory": dict(self.solver),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> "SelectionState":
        """From `arrays()` and `facts()`."""
        taken = zip(facts["groups"], facts["alphas"], strict=True)
        steps = tuple(Step(int(k), float(alpha), arrays[f"block {at}"]) for at, (k, alpha) in enumerate(taken))
        search = {name.removeprefix("memory "): array for name, array in arrays.items() if name.startswith("memory ")}
        return cls(steps, float(facts["value"]), str(facts["stopped_because"]), search, facts["memory"])


@dataclass(frozen=True)
class SelectionResult:
    metric: BlockMetric
    objective: float
    n_rounds: int
    stopped_because: str
