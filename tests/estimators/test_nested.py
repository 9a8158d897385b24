"""Steps inside an estimator: nested names, clones, and scikit-learn's model selection over classes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric
from samekind.evaluation.model_selection import (
    ClassKFold,
    mean_average_precision_score,
    pair_auc_score,
    true_match_rate_score,
)
from tests import cases

X, Y = cases.labelled_data((6, 5, 4, 6, 5, 4, 5, 6), 12, spread=2.0)


def quick(**settings):
    """One candidate, no folds inside."""
    fixed = {
        "max_groups": 2,
        "normalise_groups": "scale",
        "weigh": 0.5,
        "normalise": "none",
        "cv": None,
        "random_state": 0,
    }
    return EnsembleMetric(3, **fixed | settings)


def test_nested_names_make_the_steps():
    model = quick().set_params(selection__ridge=0.3, joint__ridge=0.7, joint__n_neighbors=2)
    assert isinstance(model.selection, SparseBlockMetric)
    assert isinstance(model.joint, JointMetric)
    assert (model.selection.ridge, model.joint.ridge, model.joint.n_neighbors) == (0.3, 0.7, 2)
    assert {"selection__ridge", "joint__ridge", "selection__search", "joint__solver"} <= model.get_params().keys()
    assert model.fit(X, Y).ridge_ == (0.3, 0.7)


def test_steps_made_by_nested_names_are_those_of_none():
    """Naming a setting at its default changes nothing."""
    named = quick().set_params(selection__ridge="auto", joint__ridge="auto").fit(X, Y)
    np.testing.assert_array_equal(named.transform(X), quick().fit(X, Y).transform(X))


def test_a_step_and_its_settings_may_be_set_at_once():
    model = quick().set_params(joint=JointMetric(target="zero"), joint__ridge=0.2)
    assert (model.joint.target, model.joint.ridge) == ("zero", 0.2)


def test_unknown_nested_names_are_refused():
    with pytest.raises(ValueError, match=r"Invalid parameter 'rigde' for estimator JointMetric"):
        quick().set_params(joint__rigde=1)
    with pytest.raises(ValueError, match=r"Invalid parameter 'steps' for estimator EnsembleMetric"):
        quick().set_params(steps__ridge=1)


def test_a_clone_has_steps_of_its_own():
    model = quick(joint=JointMetric(ridge=0.2), selection=SparseBlockMetric(ridge=0.1))
    other = clone(model)
    assert other.joint is not model.joint
    other.set_params(joint__ridge=0.9)
    assert model.joint.ridge == 0.2
    clone(model).fit(X, Y)
    assert not hasattr(model.joint, "metric_")


def test_fit_leaves_parameters_as_they_were():
    model = quick(joint=JointMetric(ridge=0.2), selection=SparseBlockMetric(ridge=0.1), loss="triplet", n_components=3)
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(X, Y)
    assert {name: repr(value) for name, value in model.get_params().items()} == before
    assert not hasattr(model.joint, "metric_")
    assert not hasattr(model.selection, "metric_")


def test_a_basis_survives_a_clone():
    basis = SparseBlockMetric(3, max_groups=2, random_state=0).fit(X, Y).basis_
    model = quick(selection=basis)
    assert clone(model).selection == basis
    np.testing.assert_array_equal(clone(model).fit(X, Y).transform(X), model.fit(X, Y).transform(X))


def test_settings_of_both_steps_go_to_both():
    model = quick(loss="triplet", n_components=2, joint=JointMetric(), selection=SparseBlockMetric()).fit(X, Y)
    alone = SparseBlockMetric(3, max_groups=2, loss="triplet", random_state=0).fit(X, Y)
    assert model.step1_metric_.basis == alone.metric_.basis
    assert model.metric_.n_components == 2


def test_what_the_ensemble_does_not_set_the_steps_say():
    model = quick(
        max_groups=None,
        joint=JointMetric(2, loss="triplet", target="zero"),
        selection=SparseBlockMetric(max_groups=3, loss="pairwise"),
    ).fit(X, Y)
    alone = SparseBlockMetric(3, max_groups=3, random_state=0).fit(X, Y)
    assert model.step1_metric_.basis == alone.metric_.basis
    assert model.metric_.n_components == 2
    second = JointMetric(2, loss="triplet", ridge=model.ridge_[1], random_state=0)
    Z = model.basis_.transform(X) / np.sqrt(np.mean(model.basis_.weights**2))
    assert second.fit(Z, Y).objective_ == pytest.approx(model.objective_, rel=1e-4)


@pytest.mark.parametrize("scoring", [pair_auc_score, mean_average_precision_score, true_match_rate_score])
def test_grid_search_over_nested_settings_and_classes(scoring):
    grid = {"joint__ridge": [0.01, 1.0], "selection__ridge": [0.01, 0.1]}
    folds = ClassKFold(2)
    search = GridSearchCV(quick(), grid, cv=folds, scoring=scoring).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    assert best.ridge_ == (search.best_params_["selection__ridge"], search.best_params_["joint__ridge"])
    by_hand = [
        scoring(quick().set_params(**search.best_params_).fit(X[train], Y[train]), X[test], Y[test])
        for train, test in folds.split(X, Y)
    ]
    assert search.best_score_ == pytest.approx(np.mean(by_hand), rel=1e-12)
    assert all(not set(Y[train]) & set(Y[test]) for train, test in folds.split(X, Y))


@pytest.mark.parametrize("far", [1e-1, 1e-2])
def test_a_true_match_rate_can_be_the_score(far):
    model = quick().fit(X, Y)
    codes = model.transform(X)
    same = Y[:, np.newaxis] == Y
    upper = np.triu_indices(len(Y), 1)
    distances, same = ((codes[:, np.newaxis] - codes) ** 2).sum(axis=2)[upper], same[upper]
    others = np.sort(distances[~same])
    allowed = others[int(far * len(others))]  # the first distance at which there are too many false matches
    by_hand = np.mean(distances[same] < allowed)
    assert true_match_rate_score(model, X, Y, far=far) == pytest.approx(by_hand)
    assert by_hand < pair_auc_score(model, X, Y)


def test_grid_search_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), quick())
    grid = {"ensemblemetric__joint__target": ["zero", "identity"]}
    search = GridSearchCV(pipeline, grid, cv=ClassKFold(2), scoring=pair_auc_score).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    "learner", [SparseBlockMetric(3, max_groups=2), JointMetric(3), quick()], ids=lambda learner: type(learner).__name__
)
def test_every_learner_is_judged_on_classes_left_out(learner):
    scores = cross_val_score(learner, X, Y, cv=ClassKFold(3), scoring=pair_auc_score)
    assert scores.shape == (3,)
    assert (scores > 0.5).all()
