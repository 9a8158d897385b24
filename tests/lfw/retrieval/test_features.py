"""Features keep distances in principal directions, and figures are those of the codes."""

from dataclasses import replace

import numpy as np
import pytest

from samekind.evaluation import count_ranks, knn_error
from samekind.kernels.lengths import normalised
from samekind.lfw.retrieval.features import Features


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(14), [5, 4, 3, 2, 1, 6, 4, 4, 4, 4, 1, 1, 1, 1])
    X = (3 + 2 * rng.standard_normal((14, 8))[labels] + rng.standard_normal((len(labels), 8))).astype(np.float32)
    names = np.array([f"P{label:02d}" for label in labels])
    rows = [np.flatnonzero(np.isin(labels, chosen)) for chosen in (range(6), range(6, 10), [*range(6), *range(10, 14)])]
    return Features.scaled(X, names, *rows)


def test_training_images_have_mean_0_and_mean_variance_1(features):
    train = features.X[features.train].astype(np.float64)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-6)
    assert train.var(axis=0).mean() == pytest.approx(1, rel=1e-6)


def test_all_principal_directions_keep_distances(features):
    turned = features.X @ features.directions
    before, after = (((X[:, None] - X) ** 2).sum(axis=2) for X in (features.X, turned))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    few = features.principal(3)
    assert few.n_features == 3
    variances = few.X[few.train].var(axis=0)
    assert (np.diff(variances) <= 1e-6).all()
    assert features.principal(None) is features
    assert features.principal(100) is features


def test_people_with_more_images_and_no_more_of_each(features):
    X, y = features.training_samples(more_than=2, most=4)
    assert np.bincount(y).tolist() == [4, 4, 3, 4]
    assert len(X) == 15
    np.testing.assert_array_equal(features.training_samples()[0], features.X[features.train])


def test_figures_are_those_of_the_codes(features):
    components = np.random.default_rng(1).standard_normal((3, 8))
    codes = (features.X - features.origin) @ components.T.astype(np.float32)
    asked, labels = codes[features.queries], features.labels[features.queries]
    found = features.figures(components, n_jobs=1)
    assert found.error.value == knn_error(asked, labels, 3)
    assert found.map_q.value == count_ranks(asked, labels).figures().means()["average_precision"]
    mixed = count_ranks(asked, labels, distractors=codes[features.distractors]).figures().means()
    assert found.map_ql.value == mixed["average_precision"] < found.map_q.value
    assert found.map_q.low <= found.map_q.value <= found.map_q.high


def test_codes_of_every_method_are_normalised_alike(features):
    components = np.random.default_rng(1).standard_normal((3, 8))
    measured = features.X - features.origin
    by_root = replace(features, normalise="root")
    for own, codes in ((components, measured @ components.T.astype(np.float32)), (None, measured)):
        asked = normalised(codes, "root")[features.queries]
        expected = count_ranks(asked, features.labels[features.queries]).figures().means()["average_precision"]
        assert by_root.figures(own, n_jobs=1).map_q.value == expected
    assert by_root.figures(components, n_jobs=1) != features.figures(components, n_jobs=1)
    assert by_root.principal(3).normalise == "root"
