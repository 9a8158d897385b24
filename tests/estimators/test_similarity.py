"""`TwoCovariance`: the two-covariance model as an estimator."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from samekind import Metric, TwoCovariance
from samekind.estimators.steps import run_similarity
from samekind.evaluation import ClassKFold, mean_average_precision, pair_auc_score
from samekind.solvers.two_covariance import fit_two_covariance
from tests import cases
from tests.stores import disk_store

X, Y = cases.labelled_data((6, 5, 1, 4, 6, 2), 5, spread=2.0)
X = X + np.linspace(-3, 40, 5)  # far from the origin
NEW = np.random.default_rng(1).standard_normal((8, 5)) + X.mean(axis=0)
PAIRS = np.stack([NEW[:4], NEW[4:]], axis=1)


def distances(model, samples=NEW):
    codes = model.transform(samples)
    half = len(samples) // 2
    return model.metric_.code_distance(codes[:half], codes[half:])


def log_ratios(samples, mean, between, within):
    """Up to a constant, by the densities of pairs."""
    total, half = between + within, len(samples) // 2
    same = np.linalg.inv(np.block([[total, between], [between, total]]))
    other = np.kron(np.eye(2), np.linalg.inv(total))
    both = np.hstack([samples[:half] - mean, samples[half:] - mean])
    return -np.einsum("ij,jk,ik->i", both, same - other, both) / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distances_are_log_likelihood_ratios(dtype):
    data = X.astype(dtype)
    model = TwoCovariance(principal=None).fit(data, Y)
    _, classes = np.unique(Y, return_inverse=True)
    found = fit_two_covariance(data, classes, shrinkage=0.3, prior_classes=5.0, max_iter=15, tol=1e-3)
    expected = -2 * log_ratios(NEW, data.mean(axis=0, dtype=float), found.between, found.within)
    rtol = 1e-7 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(distances(model, NEW.astype(dtype)), expected, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.pair_distance(PAIRS), expected, rtol=rtol, atol=rtol)
    assert model.objectives_ == pytest.approx(found.objectives, rel=rtol)


def test_where_the_samples_lie_does_not_matter():
    """Scores are measured from the mean of the training samples."""
    one, other = TwoCovariance().fit(X, Y), TwoCovariance().fit(X + 100, Y)
    np.testing.assert_allclose(distances(other, NEW + 100), distances(one), rtol=1e-7)
    assert one.threshold_ == pytest.approx(other.threshold_)


def test_the_features_given_are_not_changed_and_their_mean_counts():
    Z = X.copy()
    similarity, _ = run_similarity(Z, Y, TwoCovariance())
    np.testing.assert_array_equal(Z, X)
    np.testing.assert_allclose(similarity(X)[:, :-1].mean(axis=0), 0, atol=1e-9)


def test_rotations_do_not_matter():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    one, other = TwoCovariance().fit(X, Y), TwoCovariance().fit(X @ turn, Y)
    np.testing.assert_allclose(distances(other, NEW @ turn), distances(one), rtol=1e-7)


def test_with_hardly_any_prior_no_linear_map_matters():
    T = np.random.default_rng(0).standard_normal((5, 5)) + 2 * np.eye(5)
    settings = {"shrinkage": 1e-9, "prior_classes": 0, "tol": 0}
    one, other = TwoCovariance(**settings).fit(X, Y), TwoCovariance(**settings).fit(X @ T, Y)
    np.testing.assert_allclose(distances(other, NEW @ T), distances(one), rtol=1e-5)


def test_without_variance_between_classes_all_distances_are_zero():
    alike = np.random.default_rng(0).standard_normal((4, 3))
    model = TwoCovariance().fit(np.tile(alike, (3, 1)), np.repeat([0, 1, 2], 4))
    np.testing.assert_allclose(distances(model, np.random.default_rng(1).standard_normal((6, 3))), 0, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"principal": 3}, {"prior_classes": 0}])
def test_weights_are_repeated_samples(settings):
    weights = np.arange(len(Y)) % 3
    repeated = np.repeat(np.arange(len(Y)), weights)
    one, other = TwoCovariance(**settings).fit(X, Y, weights), TwoCovariance(**settings).fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(distances(one), distances(other), rtol=1e-7)
    np.testing.assert_allclose(one.objectives_, other.objectives_)


def test_weights_go_with_the_samples_and_not_with_the_rows():
    weights, rows = 1.0 + np.arange(len(Y)) % 3, np.arange(len(Y))[::-1][:-4]
    one = TwoCovariance().fit(X, Y, weights, rows=rows)
    other = TwoCovariance().fit(X[rows], Y[rows], weights[rows])
    np.testing.assert_allclose(distances(one), distances(other), rtol=1e-7)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one for each sample"),
        (-np.ones(len(Y)), "at least 0"),
        (np.full(len(Y), np.nan), "NaN"),
        (np.zeros(len(Y)), "zero for all samples"),
        ((Y[0] == Y).astype(float), "not zero: y has 1 class"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        TwoCovariance().fit(X, Y, weights)


@pytest.mark.parametrize(
    "settings",
    [
        {"shrinkage": 0.0},
        {"shrinkage": 1.0},
        {"shrinkage": "automatic"},
        {"shrinkage": "auto"},
        {"prior_classes": -1.0},
        {"n_components": 0},
        {"principal": 0},
        {"max_iter": 0},
        {"tol": -1.0},
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        TwoCovariance(**settings).fit(X, Y)


def test_codes_have_as_many_numbers_as_asked_for_and_one():
    assert TwoCovariance(2).fit(X, Y).transform(NEW).shape == (8, 3)
    model = TwoCovariance().fit(X, Y)
    assert model.transform(NEW).shape == (8, 6)  # six classes, five features
    assert list(model.get_feature_names_out())[-1] == "twocovariance5"
    few = X[Y < 2], Y[Y < 2]
    assert TwoCovariance().fit(*few).transform(NEW).shape == (8, 6)
    assert TwoCovariance(prior_classes=0).fit(*few).transform(NEW).shape == (8, 2)  # two centres lie on a line


def test_unseen_classes_may_differ_where_those_seen_do_not():
    rng = np.random.default_rng(0)
    seen, unseen = np.repeat(np.eye(6)[:3], 8, axis=0), np.repeat(np.eye(6)[3:], 8, axis=0)
    labels = np.repeat(np.arange(3), 8)
    seen, unseen = (4 * each + rng.standard_normal(each.shape) for each in (seen, unseen))
    precisions = []
    for prior_classes in (0, 5):
        model = TwoCovariance(prior_classes=prior_classes).fit(seen, labels)
        codes = model.transform(unseen)
        precisions.append(mean_average_precision(codes, labels, distance=model.metric_.distance_function))
    assert precisions[0] < 0.7 < 0.9 < precisions[1]


def test_the_directions_that_tell_classes_apart_best_come_first():
    whole, short = (TwoCovariance(n, principal=None).fit(X, Y).metric_.similarity for n in (None, 2))
    np.testing.assert_allclose(short.components, whole.components[:2])
    assert (np.diff(whole.shares) >= 0).all()


def test_more_features_than_samples_and_constant_ones():
    rng = np.random.default_rng(0)
    wide = np.hstack([X, rng.standard_normal((len(X), 60)), np.full((len(X), 3), 7.0)])
    model = TwoCovariance().fit(wide, Y)
    assert np.isfinite(model.transform(wide)).all()
    moved = wide.copy()
    moved[:, -3:] += 5  # nothing is known of these
    np.testing.assert_allclose(model.transform(moved), model.transform(wide), atol=1e-7)


def test_one_large_class_and_many_of_one_sample():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(200, int), np.arange(1, 30)]
    data = rng.standard_normal((len(y), 4)) + 4 * rng.standard_normal((30, 4))[y]
    model = TwoCovariance().fit(data, y)
    same = model.pair_distance(np.stack([data[:50], data[50:100]], axis=1))
    other = model.pair_distance(np.stack([data[:29], data[200:]], axis=1))
    assert same.mean() < other.mean()


def test_what_is_said_of_the_fit():
    model = TwoCovariance(max_iter=3, tol=0).fit(X, Y)
    assert model.n_iter_ == 3 == len(model.objectives_) - 1
    assert not model.converged_
    assert (np.diff(model.objectives_) >= -1e-12).all()
    assert TwoCovariance(max_iter=500, tol=1e-4).fit(X, Y).converged_
    with pytest.raises(AttributeError, match="similarity term"):
        _ = model.components_
    with pytest.raises(ValueError, match="no quadratic form"):
        model.get_mahalanobis_matrix()


def test_the_threshold_tells_pairs_apart():
    model = TwoCovariance().fit(X, Y)
    i, j = np.triu_indices(len(Y), 1)
    pairs, same = np.stack([X[i], X[j]], axis=1), Y[i] == Y[j]
    right = model.predict_pairs(pairs) == same
    assert (right[same].mean() + right[~same].mean()) / 2 > 0.85
    assert model.pair_distance(pairs).min() < 0
    np.testing.assert_array_equal(model.pair_score(pairs), -model.pair_distance(pairs))
    model.calibrate(X, Y)
    probable = model.pair_probability(pairs)
    assert probable[same].mean() > 0.7 > 0.3 > probable[~same].mean()


def test_a_store_and_its_array_give_the_same(tmp_path):
    data = X.astype(np.float16)
    data = np.hstack([data, data[:, :1] ** 2])
    store = disk_store(tmp_path / "store", data, Y, {"a": 3, "b": 1})
    rows = np.arange(len(Y)) % 5 != 0
    array = TwoCovariance().fit(data.astype(np.float32), Y, rows=rows)
    made = TwoCovariance().fit(store, Y, rows=rows)
    assert made.metric_.similarity.components.dtype == np.float32
    np.testing.assert_allclose(
        distances(made, data.astype(np.float32)), distances(array, data.astype(np.float32)), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(made.transform(store), made.transform(data.astype(np.float32)), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="memory_budget"):
        TwoCovariance(memory_budget=100).fit(store, Y)


def test_a_grid_search_over_shrinkage_by_unseen_classes():
    search = GridSearchCV(TwoCovariance(), {"shrinkage": [0.1, 0.5]}, cv=ClassKFold(2), scoring=pair_auc_score)
    search.fit(X, Y)
    assert search.best_score_ > 0.7
    again = clone(search.best_estimator_).fit(X, Y)
    np.testing.assert_array_equal(again.transform(X), search.best_estimator_.transform(X))


def test_a_file_keeps_it(tmp_path):
    model = TwoCovariance().fit(X, Y)
    model.metric_.save(tmp_path / "model")
    loaded = Metric.load(tmp_path / "model")
    assert loaded == model.metric_
    np.testing.assert_array_equal(loaded.transform(NEW), model.transform(NEW))
    assert loaded.attributes["estimator"] == "TwoCovariance"
