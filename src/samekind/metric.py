"""`Metric`: all that crosses from training to use.

Distances are squared throughout: ``d(u, v) = ||L (u - v)||^2`` on the selected columns, ``L`` the components.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.files import write_whole

Floats: TypeAlias = NDArray[np.floating[Any]]
Attribute: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None

_FORMAT = "samekind.metric"
_FORMAT_VERSION = 1
_NOTES = "samekind"
_CHECKSUM = "sha256"
_LONGEST_HEADER = 100_000_000  # safetensors reads no longer one
_ADVICE = "Give a file that Metric.save wrote, or copy this one again from where it came."


class ModelFileError(ValueError):
    """A file is not a metric that can be trusted: damaged, foreign, or of a newer version."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Metric:
    """A learned squared distance on a few columns of a feature vector; immutable, needs no solver.

    Parameters
    ----------
    components : (n_components, n_columns) array
        The linear map; float32 and float64 are kept, float16 becomes float32, all else float64.
    columns : (n_columns,) array of int
        The features that the metric reads, strictly increasing.
    n_features : int
        Length of the full feature vector.
    threshold : float or None
        Two things are of the same kind when their squared distance is at most this.
    groups : tuple of str
        Names of the selected feature groups, in order of choice.
    feature_names : tuple of str or None
        Names of all ``n_features`` features.
    attributes : mapping
        Notes on the training (loss, ridge, version ...), as JSON keeps them: tuples become lists.
    """

    components: Floats
    columns: NDArray[np.int64]
    n_features: int
    threshold: float | None = None
    groups: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_features = _checked_n_features(self.n_features)
        columns = _checked_columns(self.columns, n_features)
        checked = {
            "components": _checked_components(self.components, len(columns)),
            "columns": columns,
            "n_features": n_features,
            "threshold": _checked_threshold(self.threshold),
            "groups": _checked_names("groups", self.groups),
            "feature_names": _checked_feature_names(self.feature_names, n_features),
            "attributes": _checked_attributes(self.attributes),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_components(self) -> int:
        """Length of the code that `transform` gives."""
        return int(self.components.shape[0])

    @property
    def n_columns(self) -> int:
        """How many of the features the metric reads."""
        return int(self.components.shape[1])

    def full_components(self) -> Floats:
        """The components over all features, zero where none is read: (n_components, n_features)."""
        full = np.zeros((self.n_components, self.n_features), dtype=self.components.dtype)
        full[:, self.columns] = self.components
        return full

    def get_mahalanobis_matrix(self) -> Floats:
        """The matrix A of ``d(u, v) = (u - v)^T A (u - v)``: (n_features, n_features)."""
        full = np.zeros((self.n_features, self.n_features), dtype=self.components.dtype)
        full[np.ix_(self.columns, self.columns)] = self.components.T @ self.components
        return full

    def transform(self, X: ArrayLike) -> Floats:
        """Map rows of all features, or of the selected columns alone, to codes (n, n_components).

        Euclidean distances between codes are the metric's. float32 stays float32 (float16 becomes it);
        everything else is computed in float64.
        """
        rows = _finite_floats(X, "X")
        if rows.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, (n_samples, n_features), but has shape {rows.shape}. "
                "For a single vector x give x.reshape(1, -1)."
            )
        return self._project(self._select(rows, "X"))

    def pair_distance(self, pairs: ArrayLike) -> Floats:
        """Squared distances (m,) of pairs (m, 2, n_features), or (m, 2, n_columns) for selected columns."""
        both = _finite_floats(pairs, "pairs")
        if both.ndim != 3 or both.shape[1] != 2:
            raise ValueError(f"pairs must have shape (n_pairs, 2, n_features), but has {both.shape}.")
        both = self._select(both, "pairs")
        # Subtracting before projecting keeps the digits of close pairs.
        codes = self._project(both[:, 0] - both[:, 1])
        distances: Floats = np.einsum("ij,ij->i", codes, codes)
        return distances

    def pair_score(self, pairs: ArrayLike) -> Floats:
        """Likeness of pairs: the negative of `pair_distance`."""
        return -self.pair_distance(pairs)

    def predict_pairs(self, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Whether the two of each pair are of the same kind: squared distance at most ``threshold``."""
        if self.threshold is None:
            raise ValueError(
                "This metric has no threshold, so it cannot say same or different. "
                "Set one with metric.with_threshold(t), t being a squared distance."
            )
        # In float64, or the threshold would be rounded to the precision of the distances.
        same: NDArray[np.bool_] = self.pair_distance(pairs).astype(np.float64) <= self.threshold
        return same

    def distance(self, a: ArrayLike, b: ArrayLike) -> float:
        """Squared distance of two vectors."""
        u, v = _finite_floats(a, "a"), _finite_floats(b, "b")
        if u.ndim != 1 or u.shape != v.shape:
            raise ValueError(f"a and b must be two vectors of one length, but have shapes {u.shape}, {v.shape}.")
        return float(self.pair_distance(np.stack([u, v])[np.newaxis])[0])

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The squared distance as a picklable function of two vectors."""
        return self.distance

    def with_threshold(self, threshold: float | None) -> Metric:
        """The same metric with another threshold, on squared distances."""
        return replace(self, threshold=threshold)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all; equal metrics give equal bytes."""
        write_whole(path, _to_bytes(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read what `save` wrote; `ModelFileError` if any byte of it is not as written."""
        with _open_model(Path(path)) as file:
            try:
                return cls(**_read_fields(file))
            except ModelFileError as error:
                raise ModelFileError(f"{os.fspath(path)}: {error}") from error
            except (ValueError, TypeError) as error:
                raise ModelFileError(
                    f"{os.fspath(path)}: the file does not hold a valid metric: {error} {_ADVICE}"
                ) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric):
            return NotImplemented
        return (
            self.components.dtype == other.components.dtype
            and np.array_equal(self.components, other.components)
            and np.array_equal(self.columns, other.columns)
            and _notes(self) == _notes(other)
        )

    def __hash__(self) -> int:
        return hash((self.n_features, self.threshold, self.columns.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled, and unpickled arrays would be writable: build anew.
        notes = (self.threshold, self.groups, self.feature_names, dict(self.attributes))
        return type(self), (self.components, self.columns, self.n_features, *notes)

    def __repr__(self) -> str:
        return (
            f"Metric(n_components={self.n_components}, n_columns={self.n_columns}, "
            f"n_features={self.n_features}, n_groups={len(self.groups)}, threshold={self.threshold})"
        )

    def _select(self, values: Floats, name: str) -> Floats:
        """The selected columns along the last axis, whichever of the two widths was given."""
        width = values.shape[-1]
        if width == self.n_columns:
            return values
        if width == self.n_features:
            return values[..., self.columns]
        raise ValueError(
            f"{name} has {width} columns, but this metric takes {self.n_features} (all features) "
            f"or {self.n_columns} (the selected columns alone)."
        )

    def _project(self, selected: Floats) -> Floats:
        codes: Floats = selected @ self.components.T.astype(selected.dtype, copy=False)
        return codes


def _finite_floats(values: ArrayLike, name: str) -> Floats:
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


def _real_array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged lists
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"{name} must hold real numbers, but its type is {array.dtype}.")
    return array


def _read_only(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A copy of our own that nobody can write to."""
    own = np.array(array, dtype=dtype, order="C", copy=True)
    own.setflags(write=False)
    return own


def _checked_components(components: ArrayLike, n_columns: int) -> Floats:
    floats = _finite_floats(components, "components")
    if floats.ndim != 2 or floats.shape[1] != n_columns:
        raise ValueError(
            f"components must have shape (n_components, {n_columns}), one column for each of columns, "
            f"but has {floats.shape}."
        )
    return _read_only(floats, floats.dtype.type)


def _checked_columns(columns: ArrayLike, n_features: int) -> NDArray[np.int64]:
    array = _real_array(columns, "columns")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"columns must be integers in one dimension, but are {array.dtype} of shape {array.shape}.")
    own = _read_only(array, np.int64)
    if (np.diff(own) <= 0).any():
        raise ValueError("columns must be strictly increasing: sorted, and each feature once.")
    if own.size and (own[0] < 0 or own[-1] >= n_features):
        raise ValueError(
            f"columns must lie between 0 and n_features - 1 = {n_features - 1}, but go from {own[0]} to {own[-1]}."
        )
    return own


def _checked_n_features(n_features: object) -> int:
    try:
        number = operator.index(n_features)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"n_features must be a positive integer, but is {n_features!r}.")
    return number


def _checked_threshold(threshold: object) -> float | None:
    if threshold is None:
        return None
    try:
        number = float(threshold)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(threshold, str | bytes | bool):
        raise ValueError(f"threshold must be None or a finite number, but is {threshold!r}.")
    return number


def _checked_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    # A lone string is iterable too, but as letters.
    listed = (None,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not all(isinstance(each, str) for each in listed):
        raise ValueError(f"{name} must be a sequence of strings, but is {names!r}.")
    return tuple(str(each) for each in listed)


def _checked_feature_names(names: Iterable[str] | None, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    checked = _checked_names("feature_names", names)
    if len(checked) != n_features:
        raise ValueError(f"feature_names must hold n_features = {n_features} names, but holds {len(checked)}.")
    return checked


def _checked_attributes(attributes: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """A copy by way of JSON, so that a metric equals itself after a file."""
    try:
        kept = json.loads(json.dumps(dict(attributes), allow_nan=False, default=_numpy_to_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"attributes must be a mapping that JSON can hold: {error}.") from error
    return MappingProxyType(kept)


def _numpy_to_plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON type")


# The file: safetensors with `components`, `columns` and a checksum of every other byte of the file, so that
# whatever changes is noticed. All else is one JSON text, because safetensors shuffles several entries.


def _notes(metric: Metric) -> dict[str, Any]:
    return {
        "n_features": metric.n_features,
        "threshold": metric.threshold,
        "groups": list(metric.groups),
        "feature_names": None if metric.feature_names is None else list(metric.feature_names),
        "attributes": dict(metric.attributes),
    }


def _to_bytes(metric: Metric) -> bytes:
    from safetensors.numpy import save

    notes = {"format": _FORMAT, "format_version": _FORMAT_VERSION, **_notes(metric)}
    tensors = {
        "components": metric.components,
        "columns": metric.columns,
        _CHECKSUM: np.zeros(hashlib.sha256().digest_size, dtype=np.uint8),
    }
    data = bytes(save(tensors, {_NOTES: json.dumps(notes, sort_keys=True, allow_nan=False)}))
    head = data[: 8 + int.from_bytes(data[:8], "little")]
    if len(head) > _LONGEST_HEADER:
        raise ValueError(
            f"feature_names and attributes take {len(head):,} bytes, but a model file has room for "
            f"{_LONGEST_HEADER:,}; shorten the names or leave them out."
        )
    place = _checksum_place(_parse_header(head), len(head))
    return data[: place.start] + _checksum(data, place) + data[place.stop :]


def _open_model(path: Path) -> BinaryIO:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder; give the model file itself", str(path))
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        problem = "There is no such model file; check the path, or save a metric there first"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from error


def _read_fields(file: BinaryIO) -> dict[str, Any]:
    """The arguments of `Metric`, once the file is known to be as it was written."""
    # The header first: a huge file of another kind is refused before it fills the memory.
    head = _read_head(file)
    header = _parse_header(head)
    notes = _checked_notes(header)
    data = head + file.read()
    _verify(data, _checksum_place(header, len(head)))
    tensors = _tensors(data)
    try:
        arrays = {name: tensors[name] for name in ("components", "columns")}
        return arrays | {
            name: notes[name] for name in ("n_features", "threshold", "groups", "feature_names", "attributes")
        }
    except KeyError as error:
        raise ModelFileError(f"the file lacks {error}. {_ADVICE}") from error


def _read_head(file: BinaryIO) -> bytes:
    """The length of the header and the header itself, as bytes."""
    size = file.read(8)
    if not size:
        raise ModelFileError(f"the file is empty. {_ADVICE}")
    length = int.from_bytes(size, "little")
    # Checked before reading: a foreign file may seem to ask for terabytes.
    if len(size) < 8 or length > _LONGEST_HEADER:
        raise ModelFileError(f"the file is not a samekind metric. {_ADVICE}")
    text = file.read(length)
    if len(text) < length:
        raise ModelFileError(f"the file ends too soon, or is not a samekind metric. {_ADVICE}")
    return size + text


def _parse_header(head: bytes) -> dict[str, Any]:
    try:
        header = json.loads(head[8:])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ModelFileError(f"the file is not a samekind metric, or its header is damaged. {_ADVICE}")
    return header


def _checked_notes(header: dict[str, Any]) -> dict[str, Any]:
    try:
        notes = json.loads(header["__metadata__"][_NOTES])
        found, version = notes["format"], notes["format_version"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the file is not a samekind metric, or its header is damaged. {_ADVICE}") from error
    if found != _FORMAT:
        raise ModelFileError(f"the file holds {found!r}, not {_FORMAT!r}. {_ADVICE}")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"the file is damaged: its format version reads {version!r}. {_ADVICE}")
    if version > _FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format version {version}, but this samekind reads up to {_FORMAT_VERSION}. "
            "Upgrade samekind: pip install --upgrade samekind."
        )
    checked: dict[str, Any] = notes
    return checked


def _checksum_place(header: dict[str, Any], data_start: int) -> slice:
    try:
        start, stop = header[_CHECKSUM]["data_offsets"]
        return slice(data_start + operator.index(start), data_start + operator.index(stop))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"the file is damaged: it has no checksum. {_ADVICE}") from error


def _checksum(data: bytes, place: slice) -> bytes:
    """SHA-256 of all bytes around the place where it is kept."""
    around = hashlib.sha256(data[: place.start])
    around.update(data[place.stop :])
    return around.digest()


def _verify(data: bytes, place: slice) -> None:
    if data[place] != _checksum(data, place):
        raise ModelFileError(f"the file is damaged: it was cut short or altered after it was saved. {_ADVICE}")


def _tensors(data: bytes) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelFileError(f"the file is not readable as safetensors ({error}). {_ADVICE}") from error
