"""What every function here asks of its arrays, and how it says so."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_floats(values: ArrayLike) -> NDArray[Any]:
    """float32 and float64 stay as they are; all else becomes float64."""
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def check_codes(codes: ArrayLike, name: str = "codes") -> NDArray[Any]:
    array = as_floats(codes)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be (n_samples, n_components), with one at least of each; got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold NaN or infinite values. Leave those samples out, or repair them, first.")
    return array


def check_labels(labels: ArrayLike, name: str = "labels") -> NDArray[Any]:
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, one label per sample; got shape {array.shape}.")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} hold NaN. Leave out the samples whose class is not known.")
    return array


def check_same_length(a: NDArray[Any], a_name: str, b: NDArray[Any], b_name: str) -> None:
    if len(a) != len(b):
        raise ValueError(f"{a_name} and {b_name} must have the same length; got {len(a)} and {len(b)}.")


def check_distances(distances: ArrayLike) -> NDArray[Any]:
    array = as_floats(distances)
    if array.ndim != 1:
        raise ValueError(f"distances must be one-dimensional, one per pair; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError("distances hold NaN or infinite values. Leave those pairs out, or repair them, first.")
    return array


def check_same(same: ArrayLike) -> NDArray[np.bool_]:
    """Booleans, or numbers that are all 0 or 1: -1 for "other" would count as true."""
    array = np.asarray(same)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise ValueError("same must be boolean: True for a same-class pair, False for any other. Use `pi == 1`.")
    return array.astype(np.bool_)


def check_pairs(distances: ArrayLike, same: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Distances and kinds of pairs, of which both kinds are there."""
    distances, same = check_distances(distances), check_same(same)
    if distances.shape != same.shape:
        raise ValueError(f"distances and same must have the same shape; got {distances.shape} and {same.shape}.")
    if not same.any():
        raise ValueError(f"None of the {len(same)} pairs is a same-class pair. Give at least one of each kind.")
    if same.all():
        raise ValueError(f"All of the {len(same)} pairs are same-class pairs. Give at least one of each kind.")
    return distances, same


def check_far(far: float) -> float:
    if not 0 < far <= 1:
        raise ValueError(f"far, the false match rate to keep, must be above 0 and at most 1; got {far!r}.")
    return float(far)


def check_at_least(value: int, least: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
    return int(value)
