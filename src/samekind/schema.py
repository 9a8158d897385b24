"""What may stand in a file: every value that is read from JSON is checked here, for its type and its range.

Whoever knows what the parts of a file mean says so in terms of these functions, before anything else sees a value:

    samekind.images.description   crop, families and regions of an extractor, in models and in stores
    samekind.store.manifest       manifest and shard records of a store
    samekind.model                basis, metric and calibration

A value that is not as it must be raises a ValueError, which says where it stands, what it is and what is needed.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Collection
from typing import Any

MOST_PARTS = 10_000_000  # values in one JSON text: each takes up to a hundred bytes of memory
LONGEST_TEXT = 100_000  # letters
LARGEST_COUNT = 2**53  # which a float holds exactly


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says; ValueError where it says nothing, or too much to hold."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if sum(data.count(each) for each in (b",", b"[", b"{")) > MOST_PARTS:
        raise ValueError(f"it has more than {MOST_PARTS:,} values")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its lists stand too deep in each other") from error


def short(value: object) -> str:
    """A value as it can stand in a message, however large it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        return f"a {type(value).__name__}"


def checked_record(value: Any, where: str, needed: Collection[str], optional: Collection[str] = ()) -> dict[str, Any]:
    """An object with all of the needed names, and no others but the optional ones."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object of names and values, but is {short(value)}.")
    missing = [name for name in needed if name not in value]
    if missing:
        raise ValueError(f"{where} lacks {missing[0]!r}.")
    unknown = [name for name in value if name not in needed and name not in optional]
    if unknown:
        raise ValueError(f"{where} has {short(unknown[0])}, which this samekind does not know.")
    return value


def checked_list(value: Any, where: str, least: int = 0, most: int | None = None) -> list[Any]:
    """A list of at least, and at most, so many values."""
    if not isinstance(value, list) or len(value) < least or (most is not None and len(value) > most):
        size = f"{least:,} values or more" if most is None else f"{least:,} to {most:,} values"
        is_ = f"has {len(value):,}" if isinstance(value, list) else f"is {short(value)}"
        raise ValueError(f"{where} must be a list of {size}, but {is_}.")
    return value


def checked_text(value: Any, where: str, longest: int = LONGEST_TEXT) -> str:
    """A text."""
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"{where} must be a text of at most {longest:,} letters, but is {short(value)}.")
    return value


def checked_one_of(value: Any, where: str, choices: Collection[str]) -> str:
    """One of some texts."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{where} must be one of {', '.join(choices)}, but is {short(value)}.")
    return value


def checked_flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{where} must be true or false, but is {short(value)}.")
    return value


def checked_whole(value: Any, where: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    """A whole number in a range; neither true nor 1.0 is one."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{where} must be a whole number from {least} to {most}, but is {short(value)}.")
    return value


def checked_number(value: Any, where: str, least: float, most: float) -> float:
    """A finite number in a range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{where} must be a number from {least:g} to {most:g}, but is {short(value)}.")
    number = float(value)
    assert math.isfinite(number)
    return number
