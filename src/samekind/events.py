"""What a solver reports while it works; an observer may ask it to stop."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Event:
    """One round of selection or one iteration of joint learning."""

    step: str  # "selection" or "joint"
    iteration: int  # counted from 1
    total: int  # the most that there can be
    objective: float
    rank: int
    details: dict[str, Any] = field(default_factory=dict)
    family: Hashable | None = None  # whose groups are chosen from
    left: float | None = None  # work to come in this step, in iterations like this one; None: unknown
    part: str = ""  # of the fit: a fold of classes left out, or "" for the final fit on all
    # Of joint learning: the metric as it stands, (rank, n_features) over the features of step 2, computed when called.
    components: Callable[[], NDArray[np.float64]] | None = field(default=None, repr=False, compare=False)

    def record(self) -> dict[str, Any]:
        """A flat row for a history."""
        row = {"step": self.step, "iteration": self.iteration, "objective": self.objective, "rank": self.rank}
        row |= self.details | ({} if self.family is None else {"family": self.family})
        return row | ({"part": self.part} if self.part else {})


Observer: TypeAlias = Callable[[Event], bool | None]
"""Called with each event; True asks the solver to stop and return what it has."""


def unobserved(event: Event) -> None:
    return None
