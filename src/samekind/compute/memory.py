"""Memory budgets as people write them."""

import re
from numbers import Integral

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(budget: int | str) -> int:
    """A positive number of bytes from a number or from a text like "512MB"."""
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?I?B)\s*", budget.upper())
        if match and match[2] in UNITS and float(match[1]) > 0:
            return max(1, int(float(match[1]) * UNITS[match[2]]))
    elif isinstance(budget, Integral) and not isinstance(budget, bool) and budget > 0:
        return int(budget)
    raise ValueError(
        f"memory_budget={budget!r} is no amount of memory: "
        'give a positive number of bytes or a text like "512MB" or "2GiB".'
    )
