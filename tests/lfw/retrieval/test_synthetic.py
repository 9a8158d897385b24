"""Synthetic features are the same each time, of the sizes asked for, and classes can be told apart."""

import numpy as np

from samekind.evaluation import mean_average_precision
from samekind.lfw.retrieval.synthetic import LikeLFW, like_sub_lfwext, unequal_sizes


def test_sizes_and_misnamed_samples():
    X, y = like_sub_lfwext(2_000, 30)
    assert X.shape == (2_000, 30)
    assert X.dtype == np.float32
    wrong = np.mean(y != np.repeat(np.arange(50), 40))
    assert 0.005 < wrong < 0.04
    again, _ = like_sub_lfwext(2_000, 30)
    np.testing.assert_array_equal(X, again)


def test_variances_are_those_of_the_formula():
    X, _ = LikeLFW(2513).samples(np.full(200, 5))
    variances = X.var(axis=0)
    assert 0.8 * 2513 < variances.sum() < 1.2 * 2513
    assert variances[:20].mean() > 5 * variances[500:520].mean()


def test_classes_can_be_told_apart_but_not_perfectly():
    X, y = LikeLFW(300).samples(np.full(30, 10))
    assert 0.2 < mean_average_precision(X, y) < 0.99


def test_unequal_classes_have_two_samples_or_more():
    sizes = unequal_sizes(1_000, 40)
    assert sizes.sum() == 1_000
    assert sizes.min() >= 2
    assert sizes.max() > 3 * np.median(sizes) / 2
