"""What the estimators share: checking data, using the metric, calibrating its threshold."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from samekind._version import __version__
from samekind.estimators.data import TrainingData, checked_rows, is_store
from samekind.estimators.work_sizes import WorkSizes
from samekind.evaluation.pairs import label_pairs
from samekind.evaluation.verification import best_threshold
from samekind.feature_store import FeatureStore
from samekind.kernels.lengths import Normalise
from samekind.kernels.types import Array, IntArray
from samekind.model.basis import Basis
from samekind.model.calibration import OperatingPoint
from samekind.model.metric import Metric
from samekind.model.similarity import Similarity
from samekind.relation import class_count_error

MAX_THRESHOLD_PAIRS = 100_000
PAIRS_AT_ONCE = 8_192


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A learned squared distance, small between things of the same kind.

    Fitted estimators hold a `Metric` (`metric_`), and everything here is read from it.
    """

    metric_: Metric
    history_: list[dict[str, Any]]
    _work_sizes: ClassVar[WorkSizes] = WorkSizes()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def components_(self) -> Array:
        """L^T over all features, (n_components, n_features): `transform(X)` is `(X - mean) @ components_.T`, mean that
        of the training samples, and then normalised. There are none where groups are normalised sample by sample, or
        where a similarity term counts."""
        metric = self._fitted_metric()
        if metric.similarity is not None:
            raise AttributeError("components_: with a similarity term codes are not linear. Use transform.")
        if not metric.basis.is_linear:
            raise AttributeError(
                f"components_: with normalise_groups={metric.basis.normalise!r} codes are not linear in the "
                "features. Use transform, or metric_.basis and metric_.components."
            )
        return metric.full_components()

    @property
    def threshold_(self) -> float | None:
        """Two things are of the same kind when their squared distance is at most this."""
        return self._fitted_metric().threshold

    @property
    def thresholds_(self) -> tuple[OperatingPoint, ...]:
        """Thresholds at false match rates from 1e-1 to 1e-4, as far as the classes left out support them."""
        calibration = self._fitted_metric().calibration
        if calibration is None:
            raise AttributeError("thresholds_: this metric is not calibrated. Fit with cv=, or call calibrate(X, y).")
        return calibration.thresholds

    @property
    def n_iter_(self) -> int:
        """Rounds of selection plus iterations of joint learning."""
        self._fitted_metric()
        return sum(record["step"] != "choice" for record in self.history_)

    def transform(self, X: Any, rows: ArrayLike | None = None) -> Array:
        """Codes (n_samples, n_components) of an array or a store, to be compared by Euclidean distance.

        Where a similarity term counts, by `metric_.code_distance`: the last number of a code is not of its vector.

        `rows` (sample numbers or a mask) of X, or all.
        """
        metric = self._fitted_metric()
        if not is_store(X):
            X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return metric.transform(X, None if rows is None else checked_rows(rows, len(X), once=False))

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Squared distances (m,) of pairs (m, 2, n_features)."""
        return self._fitted_metric().pair_distance(pairs)

    def pair_score(self, pairs: ArrayLike) -> Array:
        """The negative of `pair_distance`: the higher, the more alike."""
        return self._fitted_metric().pair_score(pairs)

    def predict_pairs(self, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Whether the two of each pair are of the same kind: squared distance at most `threshold_`."""
        return self._fitted_metric().predict_pairs(pairs)

    def pair_probability(self, pairs: ArrayLike, prior: float = 0.5) -> NDArray[np.float64]:
        """Probability that the two of each pair are of the same kind, if a share `prior` of all pairs is."""
        return self._fitted_metric().pair_probability(pairs, prior)

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The squared distance as a function of two vectors."""
        return self._fitted_metric().get_metric()

    def get_mahalanobis_matrix(self) -> Array:
        """A (n_features, n_features), with `d(u, v) = (u - v)^T A (u - v)`; none where codes or groups
        are normalised."""
        return self._fitted_metric().get_mahalanobis_matrix()

    def calibrate_threshold(
        self,
        pairs: ArrayLike,
        same: ArrayLike,
        strategy: Literal["accuracy", "balanced", "logistic", "far"] = "accuracy",
        far: float | None = None,
    ) -> Self:
        """Set `threshold_` from pairs (m, 2, n_features) that are known to be the same or not.

        "accuracy" and "balanced" take the threshold with the highest (balanced) accuracy on these pairs, "far" the
        largest one whose false match rate is at most `far`. Take pairs that were not used for fitting.
        """
        threshold = best_threshold(self.pair_distance(pairs), same, strategy=strategy, far=far)
        self.metric_ = self._fitted_metric().with_threshold(threshold)
        return self

    def calibrate(self, X: Any, y: ArrayLike, rows: ArrayLike | None = None) -> Self:
        """Learn threshold, probabilities and thresholds at false match rates from classes that were not in `fit`.

        X is an array or a store, y one label per sample, `rows` some of them.
        """
        from samekind.estimators.use import codes_in_use

        metric = self._fitted_metric()
        labels = column_or_1d(y)
        places = checked_rows(rows, len(labels))
        if not is_store(X):
            X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        self._calibrate([(codes_in_use(metric, X, places), labels[places])], "held-out classes")
        return self

    def _calibrate(self, parts: list[tuple[Array, NDArray[Any]]], source: str | None = None) -> None:
        from samekind.evaluation import calibrate

        metric = self._fitted_metric()
        try:
            calibration = calibrate(parts=parts, distance=metric.distance_function, source=source)
        except ValueError as error:
            raise ValueError(f"The classes left out cannot calibrate the metric: {error}") from error
        self.metric_ = metric.with_calibration(calibration)

    def _set_threshold(self, X: Any, rows: IntArray, y: NDArray[Any]) -> None:
        """Without classes left out: the best threshold on balanced pairs of the training samples."""
        from samekind.estimators.use import codes_in_use

        metric = self._fitted_metric()
        pairs, same = label_pairs(y, max_pairs=MAX_THRESHOLD_PAIRS)
        codes = codes_in_use(metric, X, rows)
        parts = (pairs[start : start + PAIRS_AT_ONCE].T for start in range(0, len(pairs), PAIRS_AT_ONCE))
        distances = np.concatenate([metric.code_distance(codes[i], codes[j]) for i, j in parts])
        self.metric_ = metric.with_threshold(best_threshold(distances, same, strategy="balanced"))

    def _metric(
        self,
        basis: Basis,
        components: Array | None,
        data: TrainingData,
        normalise: Normalise,
        similarity: Similarity | None = None,
        **notes: Any,
    ) -> Metric:
        """The learned metric, without the estimator."""
        names = getattr(self, "feature_names_in_", None)
        numbers = {name: k for k, name in enumerate(data.groups.names)}
        return Metric(
            replace(basis, feature_names=names),
            components,
            normalise=normalise,
            mirror=getattr(self, "mirror", "none"),
            extractor=data.extractor([numbers[name] for name in basis.groups]),
            attributes={"samekind": __version__, "estimator": type(self).__name__, **notes},
            similarity=similarity,
        )

    @property
    def _n_features_out(self) -> int:
        return self._fitted_metric().n_components

    def _fitted_metric(self) -> Metric:
        check_is_fitted(self, "metric_")
        return self.metric_

    def _checked_data(self, X: Any, y: Any, rows: ArrayLike | None) -> tuple[Any, NDArray[Any], IntArray]:
        """X, an array or a store; the rows of it to learn from; their labels."""
        if is_store(X):
            y, places = self._checked_store(X, y, rows)
        else:
            X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
            places = checked_rows(rows, len(X))
            y = y[places]
        with warnings.catch_warnings():
            # Many classes with one or two samples, as of people in photographs, are no sign of a mistake here.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(y)
        problem = class_count_error(y)
        if problem:
            raise ValueError(problem)
        return X, y, places

    def _checked_store(
        self, store: FeatureStore, y: ArrayLike, rows: ArrayLike | None
    ) -> tuple[NDArray[Any], IntArray]:
        store.check_complete()
        labels = column_or_1d(y)
        if len(labels) != len(store):
            raise ValueError(
                f"y has {len(labels)} labels, but the store has {len(store)} samples: give one label for each, and "
                "choose among them with rows=."
            )
        self.n_features_in_ = int(store.group_sizes.sum())
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        places = checked_rows(rows, len(store))
        return labels[places], places
