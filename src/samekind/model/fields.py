"""What the fields of a metric may be: each checked, and made the metric's own."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.schema import short

Floats: TypeAlias = NDArray[np.floating[Any]]

MOST_FEATURES = 2**31 - 1


def finite_floats(values: ArrayLike, name: str) -> Floats:
    """``values`` as float32 or float64, the precision it came in."""
    array = _real_array(values, name)
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    try:
        floats: Floats = array.astype(np.float32 if single else np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}.") from error
    if not np.isfinite(floats).all():
        raise ValueError(f"{name} holds NaN or infinite values; remove or fill them first.")
    return floats


def checked_finite(what: str, values: Floats) -> Floats:
    """What was computed, unless it overflowed: infinity would pass for an answer."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"The {what} come out as infinity or as no number: the features, or the numbers of this metric, are too "
            "large. Scale the features, or use another model."
        )
    return values


def _real_array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged lists
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"{name} must hold real numbers, but its type is {array.dtype}.")
    return array


def read_only(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A copy of our own that nobody can write to."""
    own = np.array(array, dtype=dtype, order="C", copy=True)
    own.setflags(write=False)
    return own


def checked_components(components: ArrayLike, n_columns: int) -> Floats:
    floats = finite_floats(components, "components")
    if floats.ndim != 2 or floats.shape[1] != n_columns:
        raise ValueError(
            f"components must have shape (n_components, {n_columns}), one column for each feature of the basis, "
            f"but has {floats.shape}."
        )
    return read_only(floats, floats.dtype.type)


def checked_columns(columns: ArrayLike, n_features: int) -> NDArray[np.int64]:
    array = _real_array(columns, "columns")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"columns must be integers in one dimension, but are {array.dtype} of shape {array.shape}.")
    own = read_only(array, np.int64)
    if (np.diff(own) <= 0).any():
        raise ValueError("columns must be strictly increasing: sorted, and each feature once.")
    if own.size and (own[0] < 0 or own[-1] >= n_features):
        raise ValueError(
            f"columns must lie between 0 and n_features - 1 = {n_features - 1}, but go from {own[0]} to {own[-1]}."
        )
    return own


def checked_n_features(n_features: object) -> int:
    try:
        number = operator.index(n_features)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if not 1 <= number <= MOST_FEATURES:
        raise ValueError(f"n_features must be a positive integer up to {MOST_FEATURES}, but is {short(n_features)}.")
    return number


def checked_threshold(threshold: object) -> float | None:
    if threshold is None:
        return None
    try:
        number = float(threshold)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(threshold, str | bytes | bool):
        raise ValueError(f"threshold must be None or a finite number, but is {short(threshold)}.")
    return number


def checked_power(weigh: object) -> float:
    try:
        number = float(weigh)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0) or isinstance(weigh, str | bytes | bool):
        raise ValueError(f"weigh must be a number of at least 0, but is {short(weigh)}.")
    return number


def checked_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    # A lone string is iterable too, but as letters.
    listed = (None,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{name} must be a sequence of strings, but is {short(names)}.")
    return tuple(str(each) for each in listed)


def checked_feature_names(names: Iterable[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    checked = checked_names("feature_names", names)
    if len(checked) != n_features:
        raise ValueError(f"feature_names must hold n_features = {n_features} names, but holds {len(checked)}.")
    return checked


def checked_mean(mean: ArrayLike, n_columns: int) -> Floats:
    floats = finite_floats(mean, "mean")
    if floats.shape != (n_columns,):
        raise ValueError(f"mean must have shape ({n_columns},), one number for each of columns, not {floats.shape}.")
    return read_only(floats, floats.dtype.type)


def checked_choice(name: str, choice: object, choices: Sequence[str]) -> str:
    if not isinstance(choice, str) or choice not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but is {short(choice)}.")
    return str(choice)


def as_json_keeps(name: str, notes: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy by way of JSON, so that a metric equals itself after a file."""
    if not isinstance(notes, Mapping):
        raise ValueError(f"{name} must be a mapping of names and values, but is {short(notes)}.")
    try:
        kept = json.loads(json.dumps(dict(notes), allow_nan=False, default=_numpy_to_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be a mapping that JSON can hold: {error}.") from error
    return MappingProxyType(kept)


def _numpy_to_plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON type")
