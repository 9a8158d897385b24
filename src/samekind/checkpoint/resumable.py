"""States of solvers as arrays and JSON, and back, to the last bit.

A state is a frozen dataclass of numbers, texts, arrays, tuples and mappings of these, and other states. Its arrays are
numbered; JSON holds the rest, with the number of an array in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

_ARRAY, _TUPLE, _MAPPING, _STATE, _FIELDS, _FLOAT = "array", "tuple", "mapping", "state", "fields", "float"


class Resumable:
    """Base of the states that a solver can go on from."""

    _kinds: ClassVar[dict[str, type[Resumable]]] = {}

    def __init_subclass__(cls) -> None:
        Resumable._kinds[cls.__name__] = cls

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        return self._encoded()[0]

    def facts(self) -> dict[str, Any]:
        """What a file keeps as JSON."""
        return self._encoded()[1]

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """From `arrays()` and `facts()`."""
        made = _decoded(facts, arrays)
        if not isinstance(made, cls):
            raise ValueError(f"This is the state of a {type(made).__name__}, but one of a {cls.__name__} is needed.")
        return made

    def _encoded(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        tree: dict[str, Any] = _encoded(self, arrays)
        return arrays, tree


def _encoded(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Resumable):
        named = {each.name: getattr(value, each.name) for each in fields(value)}  # type: ignore[arg-type]
        return {_STATE: type(value).__name__, _FIELDS: {name: _encoded(each, arrays) for name, each in named.items()}}
    if isinstance(value, tuple):
        return {_TUPLE: [_encoded(each, arrays) for each in value]}
    if isinstance(value, Mapping):
        return {_MAPPING: {name: _encoded(each, arrays) for name, each in value.items()}}
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):  # JSON has none of these
        return {_FLOAT: str(value)}
    return value


def _decoded(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(value, Mapping):
        return value
    if _ARRAY in value:
        return np.array(arrays[value[_ARRAY]])
    if _FLOAT in value:
        return float(value[_FLOAT])
    if _TUPLE in value:
        return tuple(_decoded(each, arrays) for each in value[_TUPLE])
    if _MAPPING in value:
        return {name: _decoded(each, arrays) for name, each in value[_MAPPING].items()}
    kind = Resumable._kinds[value[_STATE]]
    return kind(**{name: _decoded(each, arrays) for name, each in value[_FIELDS].items()})
