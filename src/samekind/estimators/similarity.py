"""The two-covariance model as an estimator."""

from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.compute.memory import parse_bytes
from samekind.estimators.base import MetricLearner
from samekind.estimators.data import TrainingData, is_store
from samekind.estimators.steps import run_similarity
from samekind.estimators.validation import check_count, check_number
from samekind.relation import class_count_error
from samekind.store import FeatureStore
from samekind.threads import single_threaded_blas


class TwoCovariance(MetricLearner):
    """A learned similarity: the log-likelihood ratio of the two-covariance model (PLDA, joint Bayesian).

    Class centres and the samples around them are Gaussian, with a covariance each. Two samples are compared by how much
    likelier they are with one centre than with two; -2 times its logarithm takes the place of the squared distance,
    may be negative, and is ||u - u'||^2 + s + s' for codes of a vector u and a number s. It learns in seconds.

    Parameters
    ----------
    n_components : int or None
        Numbers of u at the most, those that tell classes apart best. None: all.
    principal : int or None
        It is learned on so many principal directions of the features. None: on all.
    shrinkage : float
        Share, below 1, of a covariance that is equal in all directions in that within classes: the weight of its prior.
        Few samples want more.
    prior_classes : float
        The prior of the covariance of class centres counts as so many classes, whose centres vary equally in all
        directions. With few training classes, unseen ones differ in other directions as well, which it lets count;
        with hundreds it hardly matters. 0: none, the centres of K classes vary in K - 1 directions.
    max_iter, tol : int, float
        Rounds of expectation maximisation at the most; it ends where a round raises the log-likelihood of a sample by
        less than `tol`.
    memory_budget : int or str
        For features of a store.

    Attributes
    ----------
    metric_ : Metric
        What was learned, to be saved and used without the estimator.
    objectives_ : tuple of float
        Log-likelihood and log-prior of a sample, before each round and after the last: never falling.
    converged_ : bool
        Whether the last round gained less than `tol`. A model that has not converged is often as good.
    threshold_, n_iter_, n_features_in_

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from samekind import TwoCovariance
    >>> X, y = load_digits(return_X_y=True)
    >>> TwoCovariance(n_components=8).fit(X[:300] / 16, y[:300]).transform(X / 16).shape
    (1797, 9)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        principal: int | None = 300,
        shrinkage: float | Literal["auto"] = 0.3,
        prior_classes: float = 5.0,
        max_iter: int = 15,
        tol: float = 1e-3,
        memory_budget: int | str = "1GB",
    ):
        self.n_components = n_components
        self.principal = principal
        self.shrinkage = shrinkage
        self.prior_classes = prior_classes
        self.max_iter = max_iter
        self.tol = tol
        self.memory_budget = memory_budget

    def fit(
        self,
        X: ArrayLike | FeatureStore,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        rows: ArrayLike | None = None,
    ) -> Self:
        """Learn from X, (n_samples, n_features) or a store of feature groups, and class labels y.

        A sample of weight w counts as w samples, for example 0 or 2. `rows` (sample numbers or a mask) chooses samples
        to learn from.
        """
        samples, y, rows = self._checked_data(X, y, rows)
        self.check_settings()
        weights = None
        if sample_weight is not None:
            weights = _checked_weights(sample_weight, len(samples))[rows]
            if not weights.any():
                raise ValueError("sample_weight is zero for all samples: there is nothing to learn from.")
            counting = weights > 0
            y, rows, weights = y[counting], rows[counting], weights[counting]
            if problem := class_count_error(y):
                raise ValueError(f"Of the samples whose sample_weight is not zero: {problem}")
        if self.shrinkage == "auto":
            raise ValueError(
                'shrinkage="auto" is for EnsembleMetric, which chooses it on classes left out: give a number.'
            )
        data = TrainingData.from_samples(samples, y, rows, 1 if is_store(samples) else [slice(None)])
        with single_threaded_blas():
            Z = data.everything(np.arange(len(rows)), parse_bytes(self.memory_budget))
            similarity, model = run_similarity(Z, y, self, weights)
        basis = data.plain_basis()
        assert basis.mean is not None
        similarity = replace(similarity, shift=similarity.shift - similarity.components @ basis.mean)
        nothing = np.zeros((0, basis.n_codes), data.dtype)
        self.metric_ = self._metric(basis, nothing, data, "none", similarity)
        self.objectives_, self.converged_ = model.objectives, model.converged
        self.history_ = [{"step": "similarity", "objective": value} for value in model.objectives[1:]]
        self._set_threshold(data.X, data.rows, y)
        return self

    def check_settings(self) -> None:
        """Raise a ValueError that names the parameter that is wrong."""
        for name in ("n_components", "principal"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_count("max_iter", self.max_iter)
        check_number("tol", self.tol, at_least=0)
        check_number("prior_classes", self.prior_classes, at_least=0)
        if self.shrinkage != "auto" and not 0 < check_number("shrinkage", self.shrinkage) < 1:
            raise ValueError(f"shrinkage={self.shrinkage!r} must be above 0 and below 1.")


def _checked_weights(sample_weight: ArrayLike, n_samples: int) -> NDArray[np.float64]:
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_samples,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"sample_weight must be {n_samples} numbers of at least 0, one for each sample, but has shape "
            f"{weights.shape}{'' if np.isfinite(weights).all() else ', with NaN or infinite values'}."
        )
    return weights
