"""`Metric`: all that crosses from training to use, a basis and components over it.

Distances are squared throughout: `||L^T (z(u) - z(v))||^2`, z the features of the basis and L^T the components. Where
codes are normalised by their lengths, it is the squared Euclidean distance of the codes that come out. A similarity
term adds one vector and one number to a code (`samekind.model.similarity`); what is then called a squared distance may
be negative, and only its order and its threshold mean something. A metric that was learned from pictures also knows
which regions of them it reads, and encodes pictures itself; how a picture's mirror image counts, which distance and
which threshold go with that, is part of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.feature_store import FeatureStore
from samekind.files import write_whole
from samekind.kernels.flips import flip_free_distances
from samekind.kernels.lengths import NORMALISATIONS, Normalise, normalised
from samekind.kernels.similarity import offset_distances, split_codes
from samekind.kernels.types import MIRRORS, Mirror
from samekind.model.basis import Basis
from samekind.model.calibration import Calibration
from samekind.model.fields import (
    Floats,
    as_json_keeps,
    checked_choice,
    checked_components,
    checked_finite,
    checked_mean,
    checked_threshold,
    finite_floats,
)
from samekind.model.file import ADVICE, ModelFileError, content_digest, read_model, to_bytes
from samekind.model.saved import NOT_OF_CODES, arrays_of, fields_from_file, notes_of
from samekind.model.similarity import Similarity

if TYPE_CHECKING:
    from samekind.images.extractor import Extractor
    from samekind.model.encoder import Encoder
    from samekind.model.explanation import Explanation

Attribute: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None

__all__ = ["Metric", "ModelFileError"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Metric:
    """A learned squared distance on a few columns of a feature vector; immutable, needs no solver.

    Parameters
    ----------
    basis : Basis
        Which columns are read, and the features that they become.
    components : (n_components, basis.n_codes) array or None
        The linear map; float32 and float64 are kept, float16 becomes float32, all else float64. None: the features of
        the basis are the codes.
    normalise : "none", "root" or "unit"
        What becomes of a code c: c, c / sqrt(||c||) or c / ||c||; one of length zero stays zero. With "unit" the
        squared distance is 2 - 2 cos of the angle between two codes. Lengths and angles depend on where codes are
        measured from, so "root" and "unit" need a mean: that of the training samples, or zeros if the origin is meant.
    mirror : "none", "mean" or "distances"
        How a picture's mirror image counts: not at all; by the mean of both descriptors, of which the code is made; or
        by the mean of the four distances between two pictures and their mirror images, as in the paper.
    threshold : float or None
        Two things are of the same kind when their squared distance is at most this.
    calibration : Calibration or None
        What is known of these distances on classes left out: probabilities, thresholds at false match rates.
    extractor : mapping or None
        How the selected columns come from a picture (crop, families, chosen regions), for `encode`.
    similarity : Similarity or None
        What is added to the squared distance of codes, and to the codes themselves. With it components may have no
        rows: then it is all that counts.
    attributes : mapping
        Notes on the training (loss, ridge, version ...), as JSON keeps them: tuples become lists.
    """

    basis: Basis
    components: Floats | None = None
    normalise: Normalise = "none"
    mirror: Mirror = "none"
    threshold: float | None = None
    calibration: Calibration | None = None
    extractor: Mapping[str, Any] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    similarity: Similarity | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.basis, Basis):
            raise ValueError(f"basis must be a Basis, but is {type(self.basis).__name__}.")
        if not isinstance(self.calibration, Calibration | None):
            raise ValueError(f"calibration must be None or a Calibration, but is {type(self.calibration).__name__}.")
        self._check_similarity()
        components = self.components
        checked = {
            "components": None if components is None else checked_components(components, self.basis.n_codes),
            "normalise": checked_choice("normalise", self.normalise, NORMALISATIONS),
            "mirror": checked_choice("mirror", self.mirror, MIRRORS),
            "threshold": checked_threshold(self.threshold),
            "extractor": None if self.extractor is None else as_json_keeps("extractor", self.extractor),
            "attributes": as_json_keeps("attributes", self.attributes),
        }
        if self.normalise != "none" and self.basis.mean is None:
            raise ValueError(
                f"normalise={self.normalise!r} measures codes from the mean of the training samples, but this metric "
                "has none. Give mean=X_train[:, columns].mean(axis=0), or mean=np.zeros(len(columns)) to measure from "
                "the origin."
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def linear(
        cls,
        components: ArrayLike,
        columns: ArrayLike,
        n_features: int,
        *,
        mean: ArrayLike | None = None,
        groups: tuple[str, ...] = (),
        feature_names: tuple[str, ...] | None = None,
        **fields: Any,
    ) -> Metric:
        """Components (n_components, n_columns) over plain columns."""
        basis = Basis.plain(columns, n_features, mean=mean, groups=groups, feature_names=feature_names)
        return cls(basis, components, **fields)  # type: ignore[arg-type]

    @property
    def n_components(self) -> int:
        """Length of the code that `transform` gives: with a similarity term, its vector and its number included."""
        own = self.n_distance_components
        return own if self.similarity is None else own + self.similarity.n_codes

    @property
    def n_distance_components(self) -> int:
        """How many numbers of a code, the first ones, come from the components and not from a similarity term."""
        return self.basis.n_codes if self.components is None else int(self.components.shape[0])

    @property
    def columns(self) -> NDArray[np.int64]:
        """The features that the metric reads, rising."""
        return self.basis.columns

    @property
    def n_columns(self) -> int:
        """How many of the features the metric reads."""
        return self.basis.n_columns

    @property
    def n_features(self) -> int:
        """Length of the full feature vector."""
        return self.basis.n_features

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the chosen feature groups, in order of choice."""
        return self.basis.groups

    @property
    def is_linear(self) -> bool:
        """Whether a distance depends on the difference of two vectors alone."""
        return self.normalise == "none" and self.basis.is_linear and self.similarity is None

    def full_components(self) -> Floats:
        """The components over all features, zero where none is read: (n_components, n_features).

        There are none where groups are normalised or a similarity term counts.
        """
        self._check_no_similarity("components over the features")
        if not self.basis.is_linear:
            raise ValueError(
                f"A metric with normalise_groups={self.basis.normalise!r} has no components over the features "
                "themselves: use transform."
            )
        over = self.basis.over_columns(self.components)
        full = np.zeros((self.n_components, self.n_features), dtype=over.dtype)
        full[:, self.columns] = over
        return full

    def get_mahalanobis_matrix(self) -> Floats:
        """The matrix A of ``d(u, v) = (u - v)^T A (u - v)``: (n_features, n_features).

        There is none where codes or groups are normalised or a similarity term counts.
        """
        self._check_no_similarity("Mahalanobis matrix")
        for name, value in (("normalise_groups", self.basis.normalise), ("normalise", self.normalise)):
            if value != "none":
                before = ', or with_normalise("none") for the matrix before normalisation' * (name == "normalise")
                raise ValueError(
                    f"A metric with {name}={value!r} has no Mahalanobis matrix: its distances depend on more than "
                    f"differences. Use pair_distance{before}."
                )
        over = self.basis.over_columns(self.components)
        full = np.zeros((self.n_features, self.n_features), dtype=over.dtype)
        full[np.ix_(self.columns, self.columns)] = over.T @ over
        return full

    def transform(self, X: Any, rows: ArrayLike | None = None) -> Floats:
        """Codes (n, n_components) of an array or of a store of feature groups; of some of its rows, or all.

        An array has all features, or the selected columns alone. float32 stays float32 (float16 becomes it);
        everything else is computed in float64.
        """
        if not isinstance(X, FeatureStore):
            X = finite_floats(X, "X")
            if X.ndim != 2:
                raise ValueError(
                    f"X must have two dimensions, (n_samples, n_features), but has shape {X.shape}. "
                    "For a single vector x give x.reshape(1, -1)."
                )
            self.basis.select(X[:0], "X")
        parts = [self._codes(part) for part in self.basis.read(X, rows)]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_components), X.dtype)

    def encode(
        self,
        images: Any,
        *,
        landmarks: Any = None,
        several: Literal["error", "largest", "central"] = "error",
        n_jobs: int | None = None,
    ) -> Floats:
        """Codes of pictures, of which only the chosen regions are computed: (n, n_components).

        Compare them with `code_distance`: with a similarity term it is no Euclidean distance. With
        `mirror="distances"` they have one number more.

        Parameters
        ----------
        images : sequence of paths or arrays, or one of them
            Arrays are grey (height, width) or RGB (height, width, 3): uint8, uint16, or floats from 0 to 1. They are
            cropped, aligned and smoothed as the training pictures were.
        landmarks : path of a CSV, mapping name -> points (3, 2), or None
            Left eye, right eye, middle of the mouth; for a metric whose training pictures were aligned by them. Names
            are paths as given, or the places in `images` as text.
        several : "error", "largest" or "central"
            What to do with several faces, for a metric whose training pictures were aligned by the detector.
        n_jobs : int or None
            Threads; None means all cores.
        """
        return self.encoder(landmarks=landmarks, several=several).encode(images, n_jobs)

    def encoder(self, *, landmarks: Any = None, several: Literal["error", "largest", "central"] = "error") -> Encoder:
        """What `encode` uses, for those who want pictures one by one."""
        from samekind.model.encoder import Encoder

        extractor = self.picture_extractor()
        return Encoder(extractor, extractor.aligner(landmarks, several), self.transform, self.n_components, self.mirror)

    def picture_extractor(self) -> Extractor:
        """What makes the selected columns of a picture; ValueError where the metric cannot read pictures."""
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
        return extractor

    @property
    def distance_function(self) -> Callable[[Floats, Floats], Floats] | None:
        """Squared distances of codes row by row, for those who compare many; None: squared Euclidean distance.

        With a similarity term they may be negative.
        """
        if self.similarity is not None:
            return offset_distances
        return flip_free_distances if self.mirror == "distances" else None

    def split_codes(self, codes: Floats) -> tuple[Floats, Floats]:
        """Vectors (n, r) and numbers (n,) of codes, whose squared distance is ||u - u'||^2 + s + s'."""
        return split_codes(codes, self.distance_function)

    def code_distance(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Squared distances (n,) of codes, row by row, as `transform` or `encode` gave them."""
        first, second = np.atleast_2d(finite_floats(a, "a")), np.atleast_2d(finite_floats(b, "b"))
        if first.shape[-1] != second.shape[-1]:
            raise ValueError(f"Codes of {first.shape[-1]} and {second.shape[-1]} numbers are of different metrics.")
        own, length = self.distance_function, self.n_components
        if own is not None and first.shape[-1] == length + (self.mirror == "distances"):
            with np.errstate(over="ignore", invalid="ignore"):
                return checked_finite("distances", own(first, second))
        if first.shape[-1] != length:
            raise ValueError(f"Codes have {first.shape[-1]} numbers, but those of this metric have {length}.")
        return _squared_lengths(first, second)

    def pair_distance(self, pairs: ArrayLike) -> Floats:
        """Squared distances (m,) of pairs (m, 2, n_features), or (m, 2, n_columns) for selected columns."""
        both = finite_floats(pairs, "pairs")
        if both.ndim != 3 or both.shape[1] != 2:
            raise ValueError(f"pairs must have shape (n_pairs, 2, n_features), but has {both.shape}.")
        both = self.basis.select(both, "pairs")
        first, second = both[:, 0], both[:, 1]
        if self.is_linear:  # subtracting before projecting keeps the digits of close pairs
            with np.errstate(over="ignore", invalid="ignore"):
                between = self._projected(self.basis.of_centred(first - second))
            return _squared_lengths(between)
        return self.code_distance(self._codes(first), self._codes(second))

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

    def pair_probability(self, pairs: ArrayLike, prior: float = 0.5) -> NDArray[np.float64]:
        """Probability that the two of each pair are of the same kind, if a share `prior` of all pairs is."""
        if self.calibration is None:
            raise ValueError(
                "This metric is not calibrated, so it knows no probabilities: learn it with cv= or calibrate it on "
                "classes left out (EnsembleMetric.calibrate)."
            )
        return self.calibration.probability(self.pair_distance(pairs), prior)

    def distance(self, a: ArrayLike, b: ArrayLike) -> float:
        """Squared distance of two vectors."""
        u, v = finite_floats(a, "a"), finite_floats(b, "b")
        if u.ndim != 1 or u.shape != v.shape:
            raise ValueError(f"a and b must be two vectors of one length, but have shapes {u.shape}, {v.shape}.")
        return float(self.pair_distance(np.stack([u, v])[np.newaxis])[0])

    def explain(
        self,
        a: Any,
        b: Any,
        *,
        threshold: float | None = None,
        landmarks: Any = None,
        several: Literal["error", "largest", "central"] = "error",
    ) -> Explanation:
        """What each chosen group adds to the squared distance of two things, and how it speaks for "same" or against.

        `a` and `b` are vectors, as `distance` takes them, or pictures, as `encode` takes them, with its other
        parameters. The terms of all groups sum to the distance (`samekind.model.explanation`). `threshold` takes the
        place of the metric's own.
        """
        from samekind.model.explanation import explain_features

        if all(isinstance(each, np.ndarray | list | tuple) and np.ndim(each) == 1 for each in (a, b)):
            u, v = self.basis.select(np.atleast_2d(finite_floats(a, "a")), "a"), finite_floats(b, "b")
            return explain_features(self, u, self.basis.select(np.atleast_2d(v), "b"), threshold)
        encoder = self.encoder(landmarks=landmarks, several=several)
        names = (str(each) if isinstance(each, str | os.PathLike) else str(at) for at, each in enumerate((a, b)))
        features = [encoder.features(each, name) for each, name in zip((a, b), names, strict=True)]
        return explain_features(self, features[0], features[1], threshold, encoder.extractor.rectangles())

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The squared distance as a picklable function of two vectors."""
        return self.distance

    def with_threshold(self, threshold: float | None) -> Metric:
        """The same metric with another threshold, on squared distances."""
        return replace(self, threshold=threshold)

    def with_calibration(self, calibration: Calibration) -> Metric:
        """The same metric, calibrated; its threshold is that of even odds."""
        return replace(self, calibration=calibration, threshold=calibration.threshold)

    def with_normalise(self, normalise: Normalise, mean: ArrayLike | None = None) -> Metric:
        """The same components with codes normalised otherwise, from another `mean` where one is given.

        Threshold and calibration are dropped, since distances change. With a similarity term nothing can be changed:
        it was learned from this mean, and weighed against codes that are normalised so.
        """
        if self.similarity is not None and (mean is not None or normalise != self.normalise):
            raise ValueError(
                f"The similarity term of this metric was weighed against codes with normalise={self.normalise!r}, "
                "measured from its mean: learn it again to have them otherwise."
            )
        basis = self.basis if mean is None else replace(self.basis, mean=checked_mean(mean, self.n_columns))
        return replace(self, basis=basis, normalise=normalise, threshold=None, calibration=None)

    def with_mirror(self, mirror: Mirror) -> Metric:
        """The same metric with mirror images counting otherwise; threshold and calibration are dropped."""
        return replace(self, mirror=mirror, threshold=None, calibration=None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all; equal metrics give equal bytes."""
        write_whole(path, to_bytes(arrays_of(self), notes_of(self)))

    @property
    def fingerprint(self) -> str:
        """A digest of what codes depend on: equal for models whose codes may be compared with each other."""
        notes = {
            name: value for name, value in notes_of(self).items() if name not in NOT_OF_CODES and value is not None
        }
        return content_digest(arrays_of(self), notes)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read what `save` wrote, now or in an earlier version; `ModelFileError` if any byte is not as written."""
        arrays, notes = read_model(path)
        try:
            return cls(**fields_from_file(arrays, notes))
        except KeyError as error:
            raise ModelFileError(f"{os.fspath(path)}: the file lacks {error}. {ADVICE}") from error
        except (ValueError, TypeError) as error:
            raise ModelFileError(
                f"{os.fspath(path)}: the file does not hold a valid metric: {error} {ADVICE}"
            ) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric):
            return NotImplemented
        mine, others = arrays_of(self), arrays_of(other)
        return (
            mine.keys() == others.keys()
            and all(mine[name].dtype == others[name].dtype for name in mine)
            and all(np.array_equal(mine[name], others[name]) for name in mine)
            and notes_of(self) == notes_of(other)
        )

    def __hash__(self) -> int:
        return hash((self.basis, self.threshold, self.normalise, self.mirror))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled, and unpickled arrays would be writable: build anew.
        extractor = None if self.extractor is None else dict(self.extractor)
        used = (self.normalise, self.mirror, self.threshold, self.calibration)
        return type(self), (self.basis, self.components, *used, extractor, dict(self.attributes), self.similarity)

    def __repr__(self) -> str:
        how = {"normalise": self.normalise, "normalise_groups": self.basis.normalise, "mirror": self.mirror}
        said = "".join(f", {name}={value!r}" for name, value in how.items() if value != "none")
        if self.similarity is not None:
            said += f", similarity={self.similarity.n_codes}"
        return (
            f"Metric(n_components={self.n_components}, n_columns={self.n_columns}, "
            f"n_features={self.n_features}, n_groups={len(self.groups)}, threshold={self.threshold}{said})"
        )

    def _codes(self, selected: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            features = self.basis(selected)
        return self.codes_of_features(features)

    def codes_of_features(self, Z: Floats) -> Floats:
        """Codes of the features (n, basis.n_codes) that the basis gives; ValueError where they are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            codes = normalised(self._projected(Z), self.normalise)
            if self.similarity is not None:
                codes = np.hstack([codes, self.similarity(Z)])
        return checked_finite("codes", codes)

    def _check_similarity(self) -> None:
        if self.similarity is None:
            return
        if not isinstance(self.similarity, Similarity):
            raise ValueError(f"similarity must be None or a Similarity, but is {type(self.similarity).__name__}.")
        if self.similarity.components.shape[1] != self.basis.n_codes:
            raise ValueError(
                f"This similarity reads {self.similarity.components.shape[1]} features, but the basis has "
                f"{self.basis.n_codes}."
            )
        if self.mirror == "distances":
            raise ValueError('A similarity term takes mirror="none" or "mean", not "distances".')

    def _check_no_similarity(self, what: str) -> None:
        if self.similarity is not None:
            raise ValueError(
                f"A metric with a similarity term has no {what}: its distances are no quadratic form. Use transform "
                "and code_distance, or pair_distance."
            )

    def _projected(self, Z: Floats) -> Floats:
        if self.components is None:
            return Z
        codes: Floats = Z @ self.components.T.astype(Z.dtype, copy=False)
        return codes


def _squared_lengths(first: Floats, second: Floats | float = 0.0) -> Floats:
    """Of the rows of a difference."""
    with np.errstate(over="ignore", invalid="ignore"):
        between = first - second
        return checked_finite("distances", np.einsum("ij,ij->i", between, between))
