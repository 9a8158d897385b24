"""scikit-learn's own checks, and what every estimator here promises beyond them."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from samekind import EnsembleMetric, JointMetric, Metric, SparseBlockMetric, TwoCovariance
from tests.cases import with_settings

ESTIMATORS = [
    SparseBlockMetric(max_iter=30),
    JointMetric(max_iter=30),
    EnsembleMetric(selection=SparseBlockMetric(max_iter=30), joint=JointMetric(max_iter=30, target="auto")),
    EnsembleMetric(normalise_groups="unit", cv=None),
    JointMetric(max_iter=30, normalise="unit"),
    JointMetric(max_iter=30, target="identity"),
    TwoCovariance(),
    EnsembleMetric(compare_by="sum", cv=None),
]


# No exception is needed: every check passes (scikit-learn itself skips array API input unless it is switched on).
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(params=[SparseBlockMetric, JointMetric, EnsembleMetric], ids=lambda cls: cls.__name__)
def learner(request):
    return request.param


@pytest.fixture
def data(rng):
    y = np.repeat([0, 1, 2], [14, 9, 7])
    X = rng.standard_normal((30, 6))
    X[:, :2] += 3 * np.array([[0, 1], [1, 0], [-1, -1]])[y]
    return X, y


def small(learner, **parameters):
    """Whose codes are linear in the features."""
    groups = {} if learner is JointMetric else {"feature_groups": 2}
    linear = {"normalise": "none"} if learner is EnsembleMetric else {}
    return with_settings(learner(**groups, **linear), tol=1e-4, **parameters)


@pytest.mark.parametrize("loss", ["pairwise", "triplet"])
def test_codes_components_and_matrix_give_one_distance(learner, loss, data):
    X, y = data
    model = small(learner, loss=loss).fit(X, y)
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    differences = X[:-1] - X[1:]
    expected = np.einsum("ij,jk,ik->i", differences, model.get_mahalanobis_matrix(), differences)
    np.testing.assert_allclose(model.pair_distance(pairs), expected, rtol=1e-9)
    np.testing.assert_allclose(model.pair_score(pairs), -expected, rtol=1e-9)
    codes = model.transform(X)
    np.testing.assert_allclose(((codes[:-1] - codes[1:]) ** 2).sum(axis=1), expected, rtol=1e-9)
    np.testing.assert_allclose(codes, (X - X.mean(axis=0)) @ model.components_.T, rtol=1e-9, atol=1e-12)
    assert model.get_metric()(X[0], X[1]) == pytest.approx(expected[0])
    assert model.components_.shape == (model.metric_.n_components, 6)


def test_fitted_attributes_are_there(learner, data):
    X, y = data
    model = small(learner).fit(X, y)
    assert model.n_features_in_ == 6
    assert model.n_iter_ == len(model.history_) >= 1
    assert model.threshold_ == model.metric_.threshold > 0
    assert isinstance(model.metric_, Metric)
    assert all({"step", "iteration", "objective", "rank"} <= set(record) for record in model.history_)
    if learner is not JointMetric:
        assert set(model.selected_groups_) <= {0, 1, 2}
        first_choices = list(dict.fromkeys(r["group"] for r in model.history_ if r["step"] == "selection"))
        assert list(model.selected_groups_) == first_choices
    if learner is EnsembleMetric:
        assert model.certificate_ is None  # step 1 alone, unless step 2 is asked for
        model = small(learner).set_params(joint__ridge=0.1).fit(X, y)
    if learner is not SparseBlockMetric:
        assert model.certificate_.optimal


def test_objective_never_rises_within_a_step(learner, data):
    X, y = data
    history = small(learner).fit(X, y).history_
    for step in ("selection", "joint"):
        objectives = [record["objective"] for record in history if record["step"] == step]
        assert all(b <= a * (1 + 1e-12) for a, b in pairwise(objectives))


@pytest.mark.parametrize("loss", ["pairwise", "triplet"])
def test_callback_stops_the_fit_and_leaves_a_usable_estimator(learner, loss, data):
    X, y = data
    seen = []

    def stop_at_second(event):
        seen.append(event)
        return len(seen) == 2

    model = small(learner, loss=loss, callback=stop_at_second, ridge=0.001).fit(X, y)
    assert len(seen) == 2 == model.n_iter_
    assert np.isfinite(model.transform(X)).all()
    assert np.ptp(model.transform(X)) > 0
    if learner is EnsembleMetric:
        assert model.certificate_ is None
        assert model.metric_.with_threshold(None) == model.step1_metric_


def test_a_callback_that_returns_nothing_changes_nothing(learner, data):
    X, y = data
    events = []
    watched = small(learner, callback=events.append).fit(X, y)
    np.testing.assert_array_equal(watched.components_, small(learner).fit(X, y).components_)
    assert [event.objective for event in events] == [record["objective"] for record in watched.history_]


def test_verbose_draws_a_progress_bar(learner, data, capsys):
    X, y = data
    small(learner, verbose=1).fit(X, y)
    drawn = capsys.readouterr().out
    assert "objective" in drawn
    assert "rank" in drawn
    small(learner).fit(X, y)
    assert capsys.readouterr().out == ""


def test_threads_do_not_change_the_answer(learner, data):
    X, y = data
    one, three = (small(learner, n_jobs=n).fit(X, y).components_ for n in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_sample_order_does_not_change_the_answer(learner, data, rng):
    X, y = data
    shuffled = rng.permutation(len(X))
    A, B = (small(learner).fit(X[i], y[i]).get_mahalanobis_matrix() for i in (slice(None), shuffled))
    np.testing.assert_allclose(A, B, rtol=1e-6, atol=1e-9)


def test_float32_stays_float32_and_agrees(learner, data):
    X, y = data
    double, single = small(learner).fit(X, y), small(learner).fit(X.astype(np.float32), y)
    assert single.components_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.get_mahalanobis_matrix(), double.get_mahalanobis_matrix(), rtol=5e-2, atol=5e-3)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-3)


def test_labels_may_be_strings(learner, data):
    X, y = data
    named = np.array(["ant", "bee", "cat"])[y]
    np.testing.assert_array_equal(small(learner).fit(X, named).components_, small(learner).fit(X, y).components_)


def test_calibrated_threshold_is_the_best_on_its_pairs(learner, data):
    X, y = data
    model = small(learner).fit(X, y)
    i, j = np.triu_indices(len(X), 1)
    pairs, same = np.stack([X[i], X[j]], axis=1), y[i] == y[j]
    before = np.mean(model.predict_pairs(pairs) == same)
    assert model.calibrate_threshold(pairs, same) is model
    assert np.mean(model.predict_pairs(pairs) == same) >= before
    model.calibrate_threshold(pairs, same, strategy="far", far=0.05)
    assert model.predict_pairs(pairs)[~same].mean() <= 0.05
    assert model.metric_.threshold == model.threshold_


def test_metric_survives_a_file(learner, data, tmp_path):
    X, y = data
    model = small(learner).fit(X, y)
    model.metric_.save(tmp_path / "model.safetensors")
    loaded = Metric.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.transform(X[:, loaded.columns]), model.transform(X))
    assert loaded.threshold == model.threshold_


def test_works_in_a_pipeline_with_pandas_output(learner, data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    pipeline = make_pipeline(StandardScaler(), clone(small(learner))).set_output(transform="pandas")
    codes = pipeline.fit(frame, y).transform(frame)
    assert list(codes.columns) == list(pipeline[-1].get_feature_names_out())
    assert codes.columns[0] == f"{learner.__name__.lower()}0"
    assert pipeline[-1].metric_.basis.feature_names == tuple("abcdef")
