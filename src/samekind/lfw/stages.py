"""What is learned for each split: step 1 of each family, step 2 of each at the usual level, and of all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Stage(NamedTuple):
    """A step on what some families of descriptors show."""

    step: int
    families: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of its files."""
        return f"step{self.step}-{'+'.join(self.families)}"

    @property
    def title(self) -> str:
        return f"{' + '.join(self.families)}, step {self.step}"


def stages_of(families: Sequence[str]) -> list[Stage]:
    """In an order in which each finds what it needs; families at other levels count among all of them only."""
    alone = [family for family in families if "@" not in family or len(families) == 1]
    single = [Stage(step, (family,)) for family in families for step in (1, 2) if step == 1 or family in alone]
    return single if len(families) == 1 else [*single, Stage(2, tuple(families))]
