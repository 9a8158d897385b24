"""For scikit-learn's model selection: folds over classes, and scorers of codes of classes not learned from.

A metric is judged on classes that it was not trained on, so the test part of a fold is made of whole classes. For
example `GridSearchCV(estimator, grid, cv=ClassKFold(5), scoring=pair_auc_score)`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from samekind.evaluation._checks import check_at_least, check_labels
from samekind.evaluation.class_pairs import class_pairs
from samekind.evaluation.pairs import Distance
from samekind.evaluation.query_figures import query_figures
from samekind.evaluation.verification import RocCurve, roc_curve

IntArray = NDArray[np.int64]

_SCORED_PAIRS = 200_000  # of either kind, drawn evenly beyond it


class ClassKFold(BaseCrossValidator):
    """Folds whose test parts are whole classes, of which the training part has no sample.

    Classes are dealt, largest first, to the part with the fewest samples, so that parts are of similar size and each
    has a class of two samples or more as long as there are as many of these as parts. Classes of one are spread evenly.

    Parameters
    ----------
    n_splits : int
        Number of parts, at least 2 and at most the number of classes.
    shuffle : bool
        Whether chance changes the order in which classes of similar sizes (within a factor of two) are dealt.
    random_state : int, RandomState instance or None
        For `shuffle`.
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = 0) -> None:
        self.n_splits = check_at_least(n_splits, 2, "n_splits")
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.n_splits

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[IntArray]:
        if y is None:
            raise ValueError("ClassKFold deals classes: give their labels as y.")
        names, classes, sizes = np.unique(check_labels(y, "y"), return_inverse=True, return_counts=True)
        if len(names) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits}, but y has {len(names)} classes: a part needs one at least. "
                "Ask for fewer splits, or give more classes."
            )
        ranks = sizes.astype(np.float64)
        if self.shuffle:
            ranks *= check_random_state(self.random_state).uniform(1, 2, len(names))
        part_of_class = _deal(sizes, np.argsort(-ranks, kind="stable"), self.n_splits)
        for part in range(self.n_splits):
            yield np.flatnonzero(part_of_class[classes] == part)


def pair_auc_score(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Area under the ROC curve of pairs of `estimator.transform(X)`: how often a same-class pair is the closer one."""
    return _roc_curve(estimator, X, y).auc


def true_match_rate_score(estimator: Any, X: Any, y: ArrayLike, *, far: float = 1e-2) -> float:
    """Share of the same-class pairs that are called same where at most a share `far` of the others is.

    For another rate give `scoring=functools.partial(true_match_rate_score, far=1e-3)`.
    """
    return _roc_curve(estimator, X, y).true_match_rate_at(far)


def _roc_curve(estimator: Any, X: Any, y: ArrayLike) -> RocCurve:
    """Of the pairs of codes."""
    pairs = class_pairs(
        [(estimator.transform(X), y)], distance=_code_distance(estimator), max_pairs=_SCORED_PAIRS, random_state=0
    )
    same = np.repeat([True, False], [len(pairs.same), len(pairs.other)])
    return roc_curve(np.concatenate([pairs.same.distances, pairs.other.distances]), same)


def mean_average_precision_score(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Mean average precision of `estimator.transform(X)`, where every sample queries all the others."""
    figures = query_figures(estimator.transform(X), y, distance=_code_distance(estimator), n_neighbors=1)
    return float(np.nanmean(figures.average_precision))


def _code_distance(estimator: Any) -> Distance | None:
    """The distance of the model's codes, where it has one of its own; of a pipeline, its last step's."""
    steps = getattr(estimator, "steps", None)
    learner = steps[-1][1] if steps else estimator
    return getattr(getattr(learner, "metric_", None), "code_distance", None)


def _deal(sizes: IntArray, order: IntArray, n_parts: int) -> IntArray:
    """The part of each class, dealt in this order."""
    part_of = np.empty(len(sizes), dtype=np.int64)
    loads, n_classes = np.zeros(n_parts, dtype=np.int64), np.zeros(n_parts, dtype=np.int64)
    for place in order[sizes[order] > 1]:
        part_of[place] = part = np.lexsort((n_classes, loads))[0]
        loads[part] += sizes[place]
        n_classes[part] += 1
    alone = order[sizes[order] == 1]
    part_of[alone] = np.argsort(loads, kind="stable")[np.arange(len(alone)) % n_parts]
    return part_of
