"""`Metric`: all that crosses from training to use.

Distances are squared throughout: ``d(u, v) = ||L (u - v)||^2`` on the selected columns, ``L`` the components. Where
codes, or groups, are normalised by their lengths, it is the squared Euclidean distance of the codes that come out.
A metric that was learned from pictures also knows which regions of them it reads, and encodes pictures itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.files import write_whole
from samekind.groupcodes import GroupCodes
from samekind.kernels.lengths import NORMALISATIONS, Normalise, normalised
from samekind.metricfields import (
    Floats,
    as_json_keeps,
    checked_choice,
    checked_columns,
    checked_components,
    checked_feature_names,
    checked_mean,
    checked_n_features,
    checked_names,
    checked_threshold,
    finite_floats,
)
from samekind.modelfile import ADVICE, ModelFileError, read_model, to_bytes

if TYPE_CHECKING:
    from samekind.encoder import Encoder, FlipFree

Attribute: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None

__all__ = ["Metric", "ModelFileError"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Metric:
    """A learned squared distance on a few columns of a feature vector; immutable, needs no solver.

    Parameters
    ----------
    components : (n_components, n_columns) array, or (n_components, n_codes) where there are `group_codes`
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
    mean : (n_columns,) array or None
        Taken off the selected columns before they are projected. Distances do not see it (rounding does), unless
        codes are normalised.
    extractor : mapping or None
        How the selected columns come from a picture (crop, families, chosen regions), for `encode`.
    normalise : "none", "root" or "unit"
        What becomes of a code c: c, c / sqrt(||c||) or c / ||c||; one of length zero stays zero. With "unit" the
        squared distance is 2 - 2 cos of the angle between two codes. Lengths and angles depend on where codes are
        measured from, so "root" and "unit" need a mean: that of the training samples, or zeros if the origin is meant.
    group_codes : GroupCodes or None
        What the components are over, where it is not the selected columns themselves but features of each group,
        divided by their length; these need a mean too.
    """

    components: Floats
    columns: NDArray[np.int64]
    n_features: int
    threshold: float | None = None
    groups: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    mean: Floats | None = None
    extractor: Mapping[str, Any] | None = None
    normalise: Normalise = "none"
    group_codes: GroupCodes | None = None

    def __post_init__(self) -> None:
        n_features = checked_n_features(self.n_features)
        columns = checked_columns(self.columns, n_features)
        checked = {
            "components": checked_components(self.components, _width(self.group_codes, len(columns))),
            "columns": columns,
            "n_features": n_features,
            "threshold": checked_threshold(self.threshold),
            "groups": checked_names("groups", self.groups),
            "feature_names": checked_feature_names(self.feature_names, n_features),
            "attributes": as_json_keeps("attributes", self.attributes),
            "mean": None if self.mean is None else checked_mean(self.mean, len(columns)),
            "extractor": None if self.extractor is None else as_json_keeps("extractor", self.extractor),
            "normalise": checked_choice("normalise", self.normalise, NORMALISATIONS),
        }
        _check_centre(self)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_components(self) -> int:
        """Length of the code that `transform` gives."""
        return int(self.components.shape[0])

    @property
    def n_columns(self) -> int:
        """How many of the features the metric reads."""
        return len(self.columns)

    @property
    def normalise_groups(self) -> Normalise:
        """How groups are normalised before they are joined."""
        return "none" if self.group_codes is None else self.group_codes.normalise

    @property
    def is_linear(self) -> bool:
        """Whether a distance depends on the difference of two vectors alone."""
        return self.normalise == "none" and self.group_codes is None

    def full_components(self) -> Floats:
        """The components over all features, zero where none is read: (n_components, n_features).

        There are none where groups are normalised.
        """
        if self.group_codes is not None:
            raise ValueError(
                f"A metric with normalise_groups={self.normalise_groups!r} has no components over the features "
                "themselves: use transform."
            )
        full = np.zeros((self.n_components, self.n_features), dtype=self.components.dtype)
        full[:, self.columns] = self.components
        return full

    def get_mahalanobis_matrix(self) -> Floats:
        """The matrix A of ``d(u, v) = (u - v)^T A (u - v)``: (n_features, n_features).

        There is none where codes or groups are normalised.
        """
        if self.group_codes is not None:
            raise ValueError(
                f"A metric with normalise_groups={self.normalise_groups!r} has no Mahalanobis matrix: its "
                "distances depend on more than differences. Use pair_distance."
            )
        if self.normalise != "none":
            raise ValueError(
                f"A metric with normalise={self.normalise!r} has no Mahalanobis matrix: its distances depend on more "
                'than differences. Use pair_distance, or with_normalise("none") for the matrix before normalisation.'
            )
        full = np.zeros((self.n_features, self.n_features), dtype=self.components.dtype)
        full[np.ix_(self.columns, self.columns)] = self.components.T @ self.components
        return full

    def transform(self, X: ArrayLike) -> Floats:
        """Map rows of all features, or of the selected columns alone, to codes (n, n_components).

        Euclidean distances between codes are the metric's: ``(X - mean) @ components.T``, then normalised; with
        `group_codes` the components are applied to what these make of ``X - mean``. float32 stays float32 (float16
        becomes it); everything else is computed in float64.
        """
        rows = finite_floats(X, "X")
        if rows.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, (n_samples, n_features), but has shape {rows.shape}. "
                "For a single vector x give x.reshape(1, -1)."
            )
        return self._codes(self._select(rows, "X"))

    def encode(
        self,
        images: Any,
        *,
        flip_free: FlipFree = False,
        landmarks: Any = None,
        several: Literal["error", "largest"] = "error",
        n_jobs: int | None = None,
    ) -> Floats:
        """Codes of pictures, of which only the chosen regions are computed: (n, n_components).

        Parameters
        ----------
        images : sequence of paths or arrays, or one of them
            Arrays are grey (height, width) or RGB (height, width, 3): uint8, uint16, or floats from 0 to 1. They are
            cropped, aligned and smoothed as the training pictures were.
        flip_free : bool or "mean"
            True: codes of n_components + 1 numbers, [m, sqrt(v)], from those of a picture and its mirror image;
            `samekind.evaluation.flip_free_distances` compares them. "mean": codes of the mean of their descriptors, as
            long as others, and compared like them.
        landmarks : path of a CSV, mapping name -> points (3, 2), or None
            Left eye, right eye, middle of the mouth; for a metric whose training pictures were aligned by them. Names
            are paths as given, or the places in `images` as text.
        several : "error" or "largest"
            What to do with several faces, for a metric whose training pictures were aligned by the detector.
        n_jobs : int or None
            Threads; None means all cores.
        """
        return self.encoder(flip_free=flip_free, landmarks=landmarks, several=several).encode(images, n_jobs)

    def encoder(
        self, *, flip_free: FlipFree = False, landmarks: Any = None, several: Literal["error", "largest"] = "error"
    ) -> Encoder:
        """What `encode` uses, for those who want pictures one by one."""
        from samekind.encoder import Encoder
        from samekind.images.extractor import Extractor

        if self.extractor is None:
            raise ValueError(
                "This metric was learned from plain features and cannot read pictures: use transform(X), or learn one "
                "from a store of pictures (samekind extract, samekind fit)."
            )
        extractor = Extractor.from_json(self.extractor)
        if extractor.n_features != self.n_columns:
            raise ValueError(
                f"This metric reads {self.n_columns} columns, but its extractor makes {extractor.n_features}: the "
                "two do not belong together."
            )
        return Encoder(extractor, extractor.aligner(landmarks, several), self.transform, self.n_components, flip_free)

    def pair_distance(self, pairs: ArrayLike) -> Floats:
        """Squared distances (m,) of pairs (m, 2, n_features), or (m, 2, n_columns) for selected columns."""
        both = finite_floats(pairs, "pairs")
        if both.ndim != 3 or both.shape[1] != 2:
            raise ValueError(f"pairs must have shape (n_pairs, 2, n_features), but has {both.shape}.")
        both = self._select(both, "pairs")
        first, second = both[:, 0], both[:, 1]
        # Subtracting before projecting keeps the digits of close pairs.
        between = self._project(first - second) if self.is_linear else self._codes(first) - self._codes(second)
        distances: Floats = np.einsum("ij,ij->i", between, between)
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
        u, v = finite_floats(a, "a"), finite_floats(b, "b")
        if u.ndim != 1 or u.shape != v.shape:
            raise ValueError(f"a and b must be two vectors of one length, but have shapes {u.shape}, {v.shape}.")
        return float(self.pair_distance(np.stack([u, v])[np.newaxis])[0])

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The squared distance as a picklable function of two vectors."""
        return self.distance

    def with_threshold(self, threshold: float | None) -> Metric:
        """The same metric with another threshold, on squared distances."""
        return replace(self, threshold=threshold)

    def with_normalise(self, normalise: Normalise, mean: ArrayLike | None = None) -> Metric:
        """The same components with codes normalised otherwise, from another `mean` where one is given.

        The threshold is dropped, since distances change: choose one anew, and set it with `with_threshold`.
        """
        mean = self.mean if mean is None else checked_mean(mean, self.n_columns)
        return replace(self, normalise=normalise, mean=mean, threshold=None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all; equal metrics give equal bytes."""
        arrays = {"components": self.components, "columns": self.columns}
        if self.mean is not None:
            arrays["mean"] = self.mean
        if self.group_codes is not None:
            arrays |= self.group_codes.arrays
        write_whole(path, to_bytes(arrays, _notes(self)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read what `save` wrote; `ModelFileError` if any byte of it is not as written."""
        arrays, notes = read_model(path)
        try:
            group_codes = _group_codes(arrays, notes)
            return cls(**{**arrays, **notes, "group_codes": group_codes})
        except (ValueError, TypeError) as error:
            raise ModelFileError(
                f"{os.fspath(path)}: the file does not hold a valid metric: {error} {ADVICE}"
            ) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric):
            return NotImplemented
        return (
            self.components.dtype == other.components.dtype
            and np.array_equal(self.components, other.components)
            and np.array_equal(self.columns, other.columns)
            and _equal_or_absent(self.mean, other.mean)
            and self.group_codes == other.group_codes
            and _notes(self) == _notes(other)
        )

    def __hash__(self) -> int:
        return hash((self.n_features, self.threshold, self.normalise, self.columns.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled, and unpickled arrays would be writable: build anew.
        extractor = None if self.extractor is None else dict(self.extractor)
        notes = (self.threshold, self.groups, self.feature_names, dict(self.attributes), self.mean, extractor)
        return type(self), (self.components, self.columns, self.n_features, *notes, self.normalise, self.group_codes)

    def __repr__(self) -> str:
        normalise = "" if self.normalise == "none" else f", normalise={self.normalise!r}"
        if self.group_codes is not None:
            normalise += f", normalise_groups={self.normalise_groups!r}"
        return (
            f"Metric(n_components={self.n_components}, n_columns={self.n_columns}, "
            f"n_features={self.n_features}, n_groups={len(self.groups)}, threshold={self.threshold}{normalise})"
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

    def _codes(self, selected: Floats) -> Floats:
        if self.mean is not None:
            selected = selected - self.mean.astype(selected.dtype, copy=False)
        return normalised(self._project(selected), self.normalise)

    def _project(self, selected: Floats) -> Floats:
        read = selected if self.group_codes is None else self.group_codes(selected)
        codes: Floats = read @ self.components.T.astype(selected.dtype, copy=False)
        return codes


def _width(group_codes: object, n_columns: int) -> int:
    """What components are over."""
    if group_codes is None:
        return n_columns
    if not isinstance(group_codes, GroupCodes):
        raise ValueError(f"group_codes must be None or GroupCodes, but is {type(group_codes).__name__}.")
    if len(group_codes.columns) != n_columns:
        raise ValueError(f"group_codes read {len(group_codes.columns)} columns, but the metric has {n_columns}.")
    return group_codes.n_codes


def _group_codes(arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> GroupCodes | None:
    """What a model file has of them, taken out of its arrays and notes."""
    values, rows, columns = (arrays.pop(f"group_{name}", None) for name in ("values", "rows", "columns"))
    normalise = notes.pop("normalise_groups", None)
    if normalise is None:
        return None
    if values is None or rows is None or columns is None:
        raise ValueError("its groups are normalised, but what they are is missing.")
    return GroupCodes(values, rows, columns, normalise)


def _check_centre(metric: Metric) -> None:
    if metric.mean is None and not metric.is_linear:
        option, lengths = ("normalise", "codes") if metric.group_codes is None else ("normalise_groups", "groups")
        raise ValueError(
            f"{option}={getattr(metric, option)!r} measures {lengths} from the mean of the training samples, but this "
            "metric has none. Give mean=X_train[:, columns].mean(axis=0), or mean=np.zeros(len(columns)) to measure "
            "from the origin."
        )


def _equal_or_absent(a: Floats | None, b: Floats | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b)


def _notes(metric: Metric) -> dict[str, Any]:
    return {
        "n_features": metric.n_features,
        "threshold": metric.threshold,
        "groups": list(metric.groups),
        "feature_names": None if metric.feature_names is None else list(metric.feature_names),
        "attributes": dict(metric.attributes),
        "extractor": None if metric.extractor is None else dict(metric.extractor),
        "normalise": metric.normalise,
        "normalise_groups": None if metric.group_codes is None else metric.normalise_groups,
    }
