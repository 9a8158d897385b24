"""Memory budgets as people write them, and what each part of a fit may take of one."""

import re
from dataclasses import astuple, dataclass, field
from numbers import Integral

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Shares:
    """Fractions of a memory budget; together at most the whole."""

    tiles: float = 5 / 32  # temporaries of the tiles in work, see `tiles.largest_block`
    kept: float = 3 / 8  # tiles kept within one evaluation
    present: float = 3 / 8  # distances under the metric as it stands (Algorithm 1)
    pairs: float = 1 / 32  # which pairs of few samples are of one class
    classes: float = 1 / 16  # weights of same-class pairs, which the fast search stores separately

    def __post_init__(self) -> None:
        shares = astuple(self)
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(f"{self} add to {sum(shares):g}: each must be at least 0, all together at most 1.")


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes for the work over all pairs, handed out in named shares."""

    total: int
    shares: Shares = field(default_factory=Shares)

    @property
    def tiles(self) -> int:
        return int(self.total * self.shares.tiles)

    @property
    def kept(self) -> int:
        return int(self.total * self.shares.kept)

    @property
    def present(self) -> int:
        return int(self.total * self.shares.present)

    @property
    def pairs(self) -> int:
        return int(self.total * self.shares.pairs)

    @property
    def classes(self) -> int:
        return int(self.total * self.shares.classes)


def parse_bytes(budget: int | str, name: str = "memory_budget") -> int:
    """A positive number of bytes from a number or from a text like "512MB"."""
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?I?B)\s*", budget.upper())
        if match and match[2] in UNITS and float(match[1]) > 0:
            return max(1, int(float(match[1]) * UNITS[match[2]]))
    elif isinstance(budget, Integral) and not isinstance(budget, bool) and budget > 0:
        return int(budget)
    raise ValueError(
        f'{name}={budget!r} is no amount of memory: give a positive number of bytes or a text like "512MB" or "2GiB".'
    )
