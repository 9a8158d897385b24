"""Normalised codes: learning does not see them, threshold and transform agree on them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric
from samekind.estimators.data import TrainingData
from samekind.evaluation import label_pairs
from samekind.model.basis import ROWS_AT_ONCE
from tests import cases
from tests.cases import with_settings
from tests.stores import disk_store

X, Y = cases.labelled_data((6, 5, 4, 6, 5, 4), 12, spread=2.0)
X += 5
FIRST, SECOND = np.triu_indices(len(Y), 1)
PAIRS = np.stack([X[FIRST], X[SECOND]], axis=1)
LEARNERS = {
    "blocks": SparseBlockMetric(3, max_groups=2, random_state=0),
    "joint": JointMetric(3, random_state=0),
    "ensemble": EnsembleMetric(
        3, max_groups=2, n_components=3, random_state=0, cv=None, normalise="none", normalise_groups="scale"
    ),
}

normalising = pytest.mark.parametrize("normalise", ["root", "unit"])
both_losses = pytest.mark.parametrize("loss", ["pairwise", "triplet"])


@pytest.fixture(params=LEARNERS)
def learner(request):
    return clone(LEARNERS[request.param])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return disk_store(tmp_path_factory.mktemp("normalise") / "store", X, Y, {"a": 3, "b": 3})


@pytest.fixture(scope="module")
def large_store(tmp_path_factory):
    """The same samples again and again: more than are read at once."""
    times = ROWS_AT_ONCE // len(X) + 2
    folder = tmp_path_factory.mktemp("normalise") / "large"
    return disk_store(folder, np.tile(X, (times, 1)), np.tile(Y, times), {"a": 3, "b": 3}, shard_rows=500)


def of_store(learner):
    return clone(learner).set_params(**{} if isinstance(learner, JointMetric) else {"feature_groups": 1})


def divided(codes, normalise):
    lengths = np.linalg.norm(codes, axis=1, keepdims=True)
    return codes / (lengths if normalise == "unit" else np.sqrt(lengths))


def squared(codes):
    return ((codes[FIRST] - codes[SECOND]) ** 2).sum(axis=1)


@normalising
@both_losses
def test_learning_does_not_see_it(learner, loss, normalise):
    plain = clone(learner).set_params(loss=loss).fit(X, Y)
    ours = learner.set_params(loss=loss, normalise=normalise).fit(X, Y)
    np.testing.assert_array_equal(ours.components_, plain.components_)
    assert ours.objective_ == plain.objective_
    assert (ours.metric_.normalise, plain.metric_.normalise) == (normalise, "none")
    assert ours.metric_.with_normalise("none") == plain.metric_.with_threshold(None)


@normalising
def test_codes_are_measured_from_the_mean_of_the_samples_learned_from(learner, normalise):
    rows = np.flatnonzero(Y < 4)
    ours = learner.set_params(normalise=normalise).fit(X, Y, rows=rows)
    np.testing.assert_allclose(ours.metric_.basis.mean, X[np.ix_(rows, ours.metric_.columns)].mean(axis=0), rtol=1e-12)
    centred = (X - X[rows].mean(axis=0)) @ ours.components_.T
    np.testing.assert_allclose(ours.transform(X), divided(centred, normalise), rtol=1e-9)
    np.testing.assert_allclose(ours.pair_distance(PAIRS), squared(ours.transform(X)), rtol=1e-9)
    assert ours.get_metric()(X[0], X[1]) == pytest.approx(squared(ours.transform(X))[0])


@normalising
@both_losses
def test_the_threshold_is_the_best_on_pairs_of_normalised_codes(learner, loss, normalise):
    ours = learner.set_params(loss=loss, normalise=normalise).fit(X, Y)
    pairs, same = label_pairs(Y)
    codes = ours.transform(X)
    distances = ((codes[pairs[:, 0]] - codes[pairs[:, 1]]) ** 2).sum(axis=1)
    right = [np.mean((distances <= t) == same) for t in distances]
    assert np.mean((distances <= ours.threshold_) == same) == max(right) > 0.6
    np.testing.assert_array_equal(ours.predict_pairs(X[pairs]), distances <= ours.threshold_)


@pytest.mark.parametrize("whiten", [None, 45])
def test_a_store_is_normalised_as_its_array(learner, large_store, whiten):
    store, rows = large_store, np.flatnonzero(Y < 4)
    ours = with_settings(of_store(learner), normalise="unit", whiten=whiten).fit(store, store.labels, rows=rows)
    everything = store.panel(range(4), np.arange(len(store))).astype(np.float64)
    columns = ours.metric_.columns
    np.testing.assert_allclose(ours.metric_.basis.mean, everything[np.ix_(rows, columns)].mean(axis=0), atol=1e-5)
    centred = (everything[:, columns] - everything[np.ix_(rows, columns)].mean(axis=0)) @ ours.components_[:, columns].T
    np.testing.assert_allclose(ours.transform(store), divided(centred, "unit"), atol=1e-4)


@pytest.mark.parametrize("at_once", [1, 7, 2048])
def test_the_mean_is_that_of_the_samples_however_many_are_read_at_once(store, at_once):
    rows = np.flatnonzero(Y < 4)
    data = TrainingData.from_samples(store, store.labels, rows, 1)
    everything = store.panel(range(4), np.arange(len(store))).astype(np.float64)
    np.testing.assert_allclose(
        data.mean([3, 1], at_once=at_once), everything[rows][:, [*range(3, 6), *range(9, 12)]].mean(axis=0), rtol=1e-12
    )


def test_there_is_no_matrix(learner):
    with pytest.raises(ValueError, match="no Mahalanobis matrix"):
        learner.set_params(normalise="unit").fit(X, Y).get_mahalanobis_matrix()


def test_calibration_keeps_it(learner):
    ours = learner.set_params(normalise="unit").fit(X, Y)
    ours.calibrate_threshold(PAIRS, Y[FIRST] == Y[SECOND], strategy="far", far=0.05)
    assert ours.metric_.normalise == "unit"
    assert 0 < (squared(ours.transform(X)) <= ours.threshold_)[Y[FIRST] != Y[SECOND]].mean() <= 0.05


@normalising
@pytest.mark.parametrize("whiten", [None, 3])
def test_a_metric_of_nothing_finds_all_alike(normalise, whiten):
    with pytest.warns(ConvergenceWarning, match="The learned metric is zero"):
        ours = SparseBlockMetric(2, normalise=normalise, whiten=whiten).fit(np.ones_like(X), Y)
    assert not ours.transform(X).any()
    assert not ours.pair_distance(PAIRS).any()


# Groups, between the two steps


@normalising
@both_losses
def test_step_2_learns_from_groups_divided_by_their_lengths(loss, normalise):
    ours = EnsembleMetric(
        3, max_groups=2, n_components=3, random_state=0, loss=loss, normalise_groups=normalise, weigh=0.0, cv=None
    )
    ours.set_params(joint__target="zero").fit(X, Y)
    parts = []
    for k in ours.selected_groups_:
        columns = np.arange(3 * k, 3 * k + 3)
        rows = ours.step1_metric_.full_components()[:, columns]
        rows = rows[np.abs(rows).any(axis=1)]
        z = (X[:, columns] - X[:, columns].mean(axis=0)) @ (rows.T / np.linalg.norm(rows, axis=1))
        parts.append(z / np.sqrt((z**2).mean(axis=1, keepdims=True)) ** {"root": 0.5, "unit": 1}[normalise])
    Z = np.hstack(parts)
    second = JointMetric(3, loss=loss, random_state=0, ridge=ours.ridge_[1]).fit(Z, Y)
    assert ours.objective_ == pytest.approx(second.objective_, rel=1e-4)
    codes = ours.transform(X)
    np.testing.assert_allclose(squared(codes), squared(Z @ second.components_.T), rtol=0.02, atol=1e-3)
    np.testing.assert_allclose(ours.pair_distance(PAIRS), squared(codes), rtol=1e-9)


@pytest.mark.parametrize("normalise", ["none", "scale", "root", "unit"])
@pytest.mark.parametrize("whiten", [None, 45])
def test_a_store_and_an_array_give_the_same_groups(store, normalise, whiten):
    options = {"max_groups": 2, "n_components": 2, "random_state": 0, "cv": None}
    options |= {"normalise_groups": normalise, "normalise": "none"}
    ours = with_settings(EnsembleMetric(**options), whiten=whiten).fit(store, store.labels)
    everything = store.panel(range(4), np.arange(len(store)))
    other = with_settings(EnsembleMetric(3, families=[0, 0, 1, 1], **options), whiten=whiten)
    other.fit(everything, store.labels)
    np.testing.assert_allclose(ours.transform(store), other.transform(everything), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(ours.transform(store), ours.transform(everything), rtol=1e-4, atol=1e-5)


def test_there_are_no_components_over_the_features():
    ours = clone(LEARNERS["ensemble"]).set_params(normalise_groups="unit").fit(X, Y)
    assert not hasattr(ours, "components_")
    with pytest.raises(AttributeError, match="with normalise_groups='unit' codes are not linear"):
        ours.components_  # noqa: B018
    with pytest.raises(ValueError, match="no Mahalanobis matrix"):
        ours.get_mahalanobis_matrix()
