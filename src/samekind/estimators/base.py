"""What the three estimators share: checking data, using the metric, calibrating its threshold."""

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from samekind.evaluation.verification import best_threshold
from samekind.kernels.types import Array
from samekind.metric import Metric
from samekind.relation import class_count_error


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A learned squared distance, small between things of the same kind.

    Fitted estimators hold a `Metric` (`metric_`), and everything here is read from it.
    """

    metric_: Metric
    history_: list[dict[str, Any]]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def components_(self) -> Array:
        """L^T over all features, (n_components, n_features): `transform(X)` is `X @ components_.T`."""
        return self._fitted_metric().full_components()

    @property
    def threshold_(self) -> float | None:
        """Two things are of the same kind when their squared distance is at most this."""
        return self._fitted_metric().threshold

    @property
    def n_iter_(self) -> int:
        """Rounds of selection plus iterations of joint learning."""
        self._fitted_metric()
        return len(self.history_)

    def transform(self, X: ArrayLike) -> Array:
        """Codes (n_samples, n_components), to be compared by Euclidean distance."""
        metric = self._fitted_metric()
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return metric.transform(X)

    def pair_distance(self, pairs: ArrayLike) -> Array:
        """Squared distances (m,) of pairs (m, 2, n_features)."""
        return self._fitted_metric().pair_distance(pairs)

    def pair_score(self, pairs: ArrayLike) -> Array:
        """The negative of `pair_distance`: the higher, the more alike."""
        return self._fitted_metric().pair_score(pairs)

    def predict_pairs(self, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Whether the two of each pair are of the same kind: squared distance at most `threshold_`."""
        return self._fitted_metric().predict_pairs(pairs)

    def get_metric(self) -> Callable[[ArrayLike, ArrayLike], float]:
        """The squared distance as a function of two vectors."""
        return self._fitted_metric().get_metric()

    def get_mahalanobis_matrix(self) -> Array:
        """A (n_features, n_features), with `d(u, v) = (u - v)^T A (u - v)`."""
        return self._fitted_metric().get_mahalanobis_matrix()

    def calibrate_threshold(
        self,
        pairs: ArrayLike,
        same: ArrayLike,
        strategy: Literal["accuracy", "balanced", "far"] = "accuracy",
        far: float | None = None,
    ) -> Self:
        """Set `threshold_` from pairs (m, 2, n_features) that are known to be the same or not.

        "accuracy" and "balanced" take the threshold with the highest (balanced) accuracy on these pairs, "far" the
        largest one whose false match rate is at most `far`. Take pairs that were not used for fitting.
        """
        threshold = best_threshold(self.pair_distance(pairs), same, strategy=strategy, far=far)
        self.metric_ = self._fitted_metric().with_threshold(threshold)
        return self

    @property
    def _n_features_out(self) -> int:
        return self._fitted_metric().n_components

    def _fitted_metric(self) -> Metric:
        check_is_fitted(self, "metric_")
        return self.metric_

    def _checked_data(self, X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
        checked: tuple[Array, NDArray[Any]] = validate_data(
            self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        check_classification_targets(checked[1])
        problem = class_count_error(checked[1])
        if problem:
            raise ValueError(problem)
        return checked
