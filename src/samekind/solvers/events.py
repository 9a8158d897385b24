"""What a solver tells while it works; whoever listens may ask it to stop."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias


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
    left: float | None = None  # work to come, in iterations like this one; None: unknown

    def record(self) -> dict[str, Any]:
        """A flat row for a history."""
        row = {"step": self.step, "iteration": self.iteration, "objective": self.objective, "rank": self.rank}
        return row | self.details | ({} if self.family is None else {"family": self.family})


Observer: TypeAlias = Callable[[Event], bool | None]
"""Called with each event; True asks the solver to stop and return what it has."""


def unobserved(event: Event) -> None:
    return None
