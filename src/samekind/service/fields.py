"""What JSON bodies and queries may hold: each field checked, unknown ones refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from samekind.service.errors import Refusal

LARGEST_ID = 2**63 - 1


def bad_request(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)


def parse_json(data: bytes) -> dict[str, Any]:
    """An object; numbers that JSON does not have (NaN) are refused."""
    try:
        content = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is no JSON: {str(error)[:100]}.") from error
    if not isinstance(content, dict):
        raise bad_request("The body must be a JSON object.")
    return content


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


class Fields:
    """The fields of an object, read one by one; `done` refuses what was not read."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._left = dict(content)

    def text(self, name: str, *, most: int, required: bool = False) -> str | None:
        value = self._left.pop(name, None)
        if value is None and not required:
            return None
        if not isinstance(value, str) or len(value) > most or (required and not value):
            raise bad_request(f"{name} must be a text of at most {most} characters{' and not empty' * required}.")
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
            raise bad_request(f"{name} must be a text of whole characters.")
        return value

    def needed_text(self, name: str, *, most: int) -> str:
        value = self.text(name, most=most, required=True)
        assert value is not None
        return value

    def whole(self, name: str, *, default: int, low: int, high: int) -> int:
        value = self._left.pop(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1.0 is an integer of JSON, too
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise bad_request(f"{name} must be a whole number from {low} to {high}.")
        return value

    def rate(self, name: str, *, default: float | None) -> float | None:
        value = self._left.pop(name, None)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
            raise bad_request(f"{name} must be a number above 0 and below 1.")
        return float(value)

    def texts(self, name: str, *, most: int, longest: int) -> list[str] | None:
        values = self._left.pop(name, None)
        if values is None:
            return None
        if not isinstance(values, list) or not 1 <= len(values) <= most:
            raise bad_request(f"{name} must be a list of 1 to {most} texts.")
        checked = [Fields({name: value}).text(name, most=longest, required=True) for value in values]
        return [value for value in checked if value is not None]

    def ids(self, name: str, *, most: int) -> list[int]:
        values = self._left.pop(name, None)
        if not isinstance(values, list) or not 1 <= len(values) <= most:
            raise bad_request(f"{name} must be a list of 1 to {most} whole numbers.")
        return [Fields({name: value}).whole(name, default=0, low=1, high=LARGEST_ID) for value in values]

    def done(self) -> None:
        if self._left:
            raise bad_request(f"There is no field {next(iter(self._left))[:40]!r} here.")


def parse_points(text: str) -> list[float]:
    """Six numbers separated by commas: x and y of left eye, right eye and mouth."""
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 6 or not all(math.isfinite(number) and abs(number) < 1e6 for number in numbers):
        raise bad_request("points must be six numbers separated by commas: x and y of left eye, right eye and mouth.")
    return numbers


def parse_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or not 1 <= int(text) <= LARGEST_ID:
        raise Refusal(404, "no_such_entry", "There is no such entry.")
    return int(text)
