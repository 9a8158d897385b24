"""What the three estimators share: checking data, using the metric, calibrating its threshold."""

import warnings
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from samekind.estimators.data import checked_rows, codes_of, is_store
from samekind.evaluation.verification import best_threshold
from samekind.kernels.types import Array, IntArray
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
        """L^T over all features, (n_components, n_features): `transform(X)` is `X @ components_.T`, less the mean of
        the training samples where they were whitened or codes are normalised, and then normalised. There are none
        where groups are normalised."""
        metric = self._fitted_metric()
        if metric.group_codes is not None:
            raise AttributeError(
                f"components_: with normalise_groups={metric.normalise_groups!r} codes are not linear in the "
                "features. Use transform, or metric_.group_codes and metric_.components."
            )
        return metric.full_components()

    @property
    def threshold_(self) -> float | None:
        """Two things are of the same kind when their squared distance is at most this."""
        return self._fitted_metric().threshold

    @property
    def n_iter_(self) -> int:
        """Rounds of selection plus iterations of joint learning."""
        self._fitted_metric()
        return len(self.history_)

    def transform(self, X: Any, rows: ArrayLike | None = None) -> Array:
        """Codes (n_samples, n_components) of an array or a store, to be compared by Euclidean distance.

        `rows` (sample numbers or a mask) of X, or all.
        """
        metric = self._fitted_metric()
        if is_store(X):
            return codes_of(X, checked_rows(rows, len(X)), metric)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return metric.transform(X if rows is None else X[checked_rows(rows, len(X))])

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
            # That many classes have a sample or two, as people have photographs, is no sign of a mistake here.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(y)
        problem = class_count_error(y)
        if problem:
            raise ValueError(problem)
        return X, y, places

    def _checked_store(self, store: Any, y: ArrayLike, rows: ArrayLike | None) -> tuple[NDArray[Any], IntArray]:
        if not getattr(store, "complete", True):
            raise ValueError(
                f"The store {store.path} is unfinished: {len(store)} of {store.planned} pictures are in it. Run the "
                "same `samekind extract` again to finish it."
            )
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
