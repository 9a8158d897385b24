"""The state of a selection, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.checkpoint import Resumable
from samekind.kernels.spectral import Matrix
from samekind.model.block_metric import BlockMetric


class Remembering(Protocol):
    """A part of Algorithm 1 that may learn something in a round for later ones."""

    def memory(self) -> dict[str, Any]:
        """What it remembers of earlier rounds, for `recall`."""
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on with what was remembered."""
        return None


@dataclass(frozen=True)
class Step(Resumable):
    """One round: A <- alpha A + A_k."""

    group: int
    alpha: float
    A: Matrix


@dataclass(frozen=True)
class SelectionState(Resumable):
    """The state between two rounds: from its steps everything else is recomputed, to the last digit."""

    steps: tuple[Step, ...] = ()
    value: float = np.inf
    stopped_because: str = ""  # set when it is over
    search: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what the search remembers
    solver: Mapping[str, Any] = field(default_factory=dict)  # what the block solver remembers, as JSON


@dataclass(frozen=True)
class SelectionResult:
    metric: BlockMetric
    objective: float
    n_rounds: int
    stopped_because: str
