import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from samekind.evaluation import (
    ClassKFold,
    flip_free_distances,
    mean_average_precision,
    mean_average_precision_score,
    pair_auc_score,
)


class Plain(TransformerMixin, BaseEstimator):
    """Codes are the features."""

    def __init__(self, distance=None):
        self.distance = distance
        if distance is not None:
            self.metric_ = SimpleNamespace(code_distance=distance)

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def transform(self, X):
        return np.asarray(X)


def problem(n=120, n_classes=12, width=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, width)) + 2 * rng.normal(size=(n_classes, width))[labels], labels


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(1, 9), min_size=4, max_size=30), st.integers(2, 4), st.booleans(), st.integers(0, 3))
def test_parts_are_whole_classes_that_cover_all_samples_once(sizes, n_splits, shuffle, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    folds = list(ClassKFold(n_splits, shuffle=shuffle, random_state=seed).split(np.zeros((len(y), 1)), y))
    assert len(folds) == n_splits
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(len(y)))
    for train, test in folds:
        assert not set(y[train]) & set(y[test])
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
    counts = np.array(sizes)
    largest = [max((counts[name] for name in set(y[test])), default=0) for _, test in folds]
    if (counts > 1).sum() >= n_splits:
        assert min(largest) > 1
    alone = [sum(counts[name] == 1 for name in set(y[test])) for _, test in folds]
    assert max(alone) - min(alone) <= 1
    n_tested = [len(test) for _, test in folds]
    assert max(n_tested) - min(n_tested) <= counts.max() + 1


def test_parts_are_decided_by_the_seed_and_the_labels_alone():
    X, y = problem()
    tests = [[test for _, test in ClassKFold(3, random_state=seed).split(X, y)] for seed in (0, 0, 1)]
    assert all(np.array_equal(a, b) for a, b in zip(tests[0], tests[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(tests[0], tests[2], strict=True))
    named = [test for _, test in ClassKFold(3).split(X, np.array([f"{label:03d}" for label in y]))]
    assert all(np.array_equal(a, b) for a, b in zip(tests[0], named, strict=True))


def test_splitter_shows_its_settings():
    assert repr(ClassKFold(4, shuffle=False)) == "ClassKFold(n_splits=4, random_state=0, shuffle=False)"
    assert ClassKFold(4).get_n_splits() == 4


MISTAKES = {
    "n_splits=5, but y has 3 classes": lambda: next(ClassKFold(5).split(np.zeros((6, 1)), [0, 0, 1, 1, 2, 2])),
    "n_splits must be an integer of at least 2; got 1": lambda: ClassKFold(1),
    "labels as y": lambda: next(ClassKFold(2).split(np.zeros((6, 1)))),
    "y hold NaN": lambda: next(ClassKFold(2).split(np.zeros((3, 1)), [0, 1, np.nan])),
    "No same-class pair": lambda: pair_auc_score(Plain(), np.eye(3), [0, 1, 2]),
    "No query has a sample": lambda: mean_average_precision_score(Plain(), np.eye(3), [0, 1, 2]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()


def test_scores_are_those_of_all_pairs_and_queries():
    X, y = problem()
    i, j = np.triu_indices(len(y), 1)
    distances = np.square(X[i] - X[j]).sum(axis=1)
    assert pair_auc_score(Plain(), X, y) == pytest.approx(roc_auc_score(y[i] == y[j], -distances))
    assert mean_average_precision_score(Plain(), X, y) == pytest.approx(mean_average_precision(X, y))


@pytest.mark.parametrize("wrapped", [False, True])
def test_scores_use_the_distance_of_the_model(wrapped):
    X, y = problem()
    X[:, -1] = np.abs(X[:, -1])  # a flip-free code ends in a length
    distance = (lambda a, b: flip_free_distances(a, b)) if wrapped else flip_free_distances
    model = Plain(distance)
    n = len(y)
    D = np.array([[flip_free_distances(X[i : i + 1], X[j : j + 1])[0] for j in range(n)] for i in range(n)])
    i, j = np.triu_indices(n, 1)
    assert pair_auc_score(model, X, y) == pytest.approx(roc_auc_score(y[i] == y[j], -D[i, j]))
    precisions = []
    for i in range(n):
        order = sorted((j for j in range(n) if j != i), key=lambda j: D[i, j])
        hits = np.flatnonzero(y[order] == y[i])
        precisions.append(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))
    assert mean_average_precision_score(model, X, y) == pytest.approx(np.mean(precisions))
    assert mean_average_precision_score(model, X, y) != mean_average_precision_score(Plain(), X, y)
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert pair_auc_score(pipeline, X, y) == pair_auc_score(model, X, y) != pair_auc_score(Plain(), X, y)


@pytest.mark.parametrize("scoring", [pair_auc_score, mean_average_precision_score])
def test_grid_search_over_a_metric_learner_and_a_pipeline(scoring):
    X, y = problem()
    nca = NeighborhoodComponentsAnalysis(random_state=0, max_iter=5)
    search = GridSearchCV(nca, {"n_components": [1, 4]}, cv=ClassKFold(3), scoring=scoring, error_score="raise")
    assert search.fit(X, y).best_params_ == {"n_components": 4}
    pipeline = make_pipeline(StandardScaler(), PCA())
    search = GridSearchCV(
        pipeline, {"pca__n_components": [1, 5]}, cv=ClassKFold(3), scoring=scoring, error_score="raise"
    )
    assert search.fit(X, y).best_params_ == {"pca__n_components": 5}
    assert len(cross_val_score(pipeline, X, y, cv=ClassKFold(4), scoring=scoring)) == 4


def test_names_are_there_without_importing_scikit_learn():
    script = "import sys, samekind.evaluation as e; assert 'ClassKFold' in dir(e); assert 'sklearn' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
