"""`EnsembleMetric(compare_by=...)`: the two-covariance model beside step 2's metric, or in its place."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric, TwoCovariance
from samekind.estimators import ensemble, two_steps
from samekind.estimators.steps import run_similarity
from samekind.estimators.tuning import SHRINKAGES, best_of, class_folds
from samekind.estimators.two_steps import SIMILARITY_WEIGHT
from samekind.evaluation import ClassKFold, label_pairs, pair_auc_score
from samekind.evaluation.calibrating import calibrate
from samekind.kernels.similarity import offset_distances
from samekind.store import ArrayStore, FeatureGroups
from tests import cases

pytestmark = pytest.mark.filterwarnings("ignore:On classes left out, plain Euclidean distance:UserWarning")

SIZES = (6, 5, 4, 6, 5, 4, 5, 6)
X, Y = cases.labelled_data(SIZES, 12, spread=2.0)
X = X + np.linspace(-3, 5, 12)
PAIRS, SAME = label_pairs(Y)
RIDGE = 0.05


def learner(**settings):
    fixed = {
        "max_groups": 3,
        "normalise_groups": "unit",
        "weigh": 0.5,
        "normalise": "root",
        "cv": None,
        "random_state": 0,
        "joint": JointMetric(target="identity", ridge=RIDGE),
        "similarity": TwoCovariance(shrinkage=0.2),
    }
    return EnsembleMetric(3, **fixed | settings)


@pytest.fixture(scope="module")
def fitted():
    return {by: learner(compare_by=by).fit(X, Y) for by in ("distance", "similarity", "sum")}


def distances(model, pairs=PAIRS, samples=X):
    codes = model.transform(samples)
    return model.metric_.code_distance(codes[pairs[:, 0]], codes[pairs[:, 1]])


# Step by step


def test_similarity_is_the_two_covariance_model_on_the_features_of_the_basis(fitted):
    model = fitted["similarity"]
    Z = model.basis_.transform(X, np.arange(len(X)))
    by_hand = TwoCovariance(shrinkage=0.2).fit(Z, Y)
    np.testing.assert_allclose(distances(model), distances(by_hand, samples=Z), rtol=1e-6, atol=1e-8)
    assert model.metric_.n_distance_components == 0
    assert model.metric_.normalise == "none"
    assert model.basis_ == fitted["distance"].basis_
    assert model.certificate_ is None


@pytest.mark.parametrize("joint", [JointMetric(target="identity", ridge=RIDGE), None])
@pytest.mark.parametrize("n_components", [None, 3])
def test_a_sum_is_the_metric_and_twice_the_similarity_in_units_of_spread(joint, n_components):
    own, similar = (
        learner(compare_by=by, joint=joint, n_components=n_components).fit(X, Y) for by in ("distance", "similarity")
    )
    both = learner(compare_by="sum", joint=joint, n_components=n_components and 2 * n_components).fit(X, Y)
    other = np.argwhere(Y[:, np.newaxis] != Y)
    weight = SIMILARITY_WEIGHT * distances(own, other).std() / distances(similar, other).std()
    expected = distances(own) + weight * distances(similar)
    np.testing.assert_allclose(distances(both), expected, rtol=1e-6, atol=1e-8)
    assert both.metric_.n_components == own.metric_.n_components + similar.metric_.n_components
    assert both.ridge_ == own.ridge_
    assert both.objective_ == own.objective_


def test_distance_has_no_similarity_term(fitted):
    assert fitted["distance"].metric_.similarity is None
    assert EnsembleMetric().compare_by == "distance"


@pytest.mark.parametrize("by", ["similarity", "sum"])
def test_an_array_and_a_store_of_it_learn_the_same(fitted, by):
    store = ArrayStore(X, FeatureGroups.parse(3, 12))
    model = learner(compare_by=by, selection=SparseBlockMetric(whiten=None)).set_params(feature_groups=1).fit(store, Y)
    np.testing.assert_allclose(distances(model), distances(fitted[by]), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.transform(store), model.transform(X))


@pytest.mark.parametrize("by", ["similarity", "sum"])
def test_where_the_samples_lie_does_not_matter(fitted, by):
    moved = learner(compare_by=by).fit(X + 50, Y)
    np.testing.assert_allclose(distances(moved, samples=X + 50), distances(fitted[by]), rtol=1e-4, atol=1e-6)


def test_only_classes_of_enough_samples_count():
    joint = JointMetric(target="identity", ridge=RIDGE, min_per_class=5)
    model = learner(compare_by="similarity", joint=joint).fit(X, Y)
    large = np.isin(Y, np.flatnonzero(np.bincount(Y) >= 5))
    by_hand = TwoCovariance(shrinkage=0.2).fit(model.basis_.transform(X, np.flatnonzero(large)), Y[large])
    Z = model.basis_.transform(X, np.arange(len(X)))
    np.testing.assert_allclose(distances(model), distances(by_hand, samples=Z), rtol=1e-6, atol=1e-8)


# Lengths of codes


def test_both_parts_of_a_sum_share_the_length_that_is_asked_for():
    model = learner(compare_by="sum", n_components=7).fit(X, Y)
    assert model.metric_.n_distance_components == 4
    assert len(model.metric_.similarity.components) == 3
    assert model.transform(X).shape[1] == 8
    longer = learner(compare_by="sum", n_components=7, similarity=TwoCovariance(6, shrinkage=0.2)).fit(X, Y)
    assert len(longer.metric_.similarity.components) == 6


def test_codes_that_are_shorter_than_asked_for_are_named():
    without = TwoCovariance(prior_classes=0)  # eight classes: seven directions
    model = learner(compare_by="similarity", similarity=without, n_components=8)
    with pytest.warns(UserWarning, match="Codes have 7 numbers, fewer than the 8 that were asked for"):
        model.fit(X, Y)


# Choosing


def choosing(**settings):
    return learner(**{"cv": 2, "joint": None, "similarity": None, "normalise": "none", "n_components": 3} | settings)


def test_shrinkage_is_chosen_on_classes_left_out():
    model = choosing(compare_by="similarity").fit(X, Y)
    assert [trial.candidate.shrinkage for trial in model.trials_] == list(SHRINKAGES)
    assert {trial.candidate.compare_by for trial in model.trials_} == {"similarity"}
    taken = best_of(model.trials_).candidate.shrinkage
    fixed = learner(compare_by="similarity", similarity=TwoCovariance(shrinkage=taken), n_components=3).fit(X, Y)
    np.testing.assert_allclose(distances(model), distances(fixed), rtol=1e-6, atol=1e-8)


def test_a_shrinkage_that_is_given_is_kept():
    model = choosing(compare_by="similarity", similarity=TwoCovariance(shrinkage=0.45)).fit(X, Y)
    assert [trial.candidate.shrinkage for trial in model.trials_] == [0.45]


def test_auto_tries_all_three_and_takes_the_best():
    model = choosing(compare_by="auto").fit(X, Y)
    by = [trial.candidate.compare_by for trial in model.trials_]
    assert set(by) == {"distance", "similarity", "sum"}
    assert by.index("similarity") > by.index("distance")
    assert by[-1] == "sum"
    scores = {each: max(t.score for t in model.trials_ if t.candidate.compare_by == each) for each in set(by)}
    taken = "distance" if model.metric_.similarity is None else "sum"
    if not model.metric_.n_distance_components:
        taken = "similarity"
    assert scores[taken] >= max(scores.values()) - 0.1
    assert "; and two-covariance model, shrinkage" in str(model.trials_[-1].candidate)


def test_auto_without_classes_left_out_is_distance():
    assert choosing(compare_by="auto", cv=None).fit(X, Y).metric_.similarity is None


def test_a_sum_is_taken_where_it_is_asked_for():
    model = choosing(compare_by="sum").fit(X, Y)
    assert model.metric_.similarity is not None
    assert model.metric_.n_distance_components
    assert model.metric_.calibration is not None


@pytest.mark.parametrize("by", ["similarity", "sum"])
def test_the_score_of_a_trial_is_that_of_folds_by_hand(by):
    from samekind.evaluation import verify_codes

    fixed = {"compare_by": by, "joint": JointMetric(target="identity", ridge=RIDGE)}
    model = learner(**fixed, cv=2).fit(X, Y)
    (trial,) = [trial for trial in model.trials_ if trial.candidate.compare_by == by]
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    aucs = []
    for rest, held in class_folds(Y, 2, seed):
        fold = learner(**fixed).fit(X[rest], Y[rest])
        aucs.append(verify_codes(fold.transform(X[held]), Y[held], distance=offset_distances).auc)
    assert trial.auc == pytest.approx(np.mean(aucs), abs=0.01)


def test_few_classes_are_calibrated_by_rule():
    few = Y < 4
    model = learner(compare_by="similarity", cv="auto", similarity=None).fit(X[few], Y[few])
    assert [trial.candidate.shrinkage for trial in model.trials_] == [SHRINKAGES[0]]
    assert model.metric_.calibration is not None
    assert model.metric_.normalise == "none"


@pytest.mark.parametrize("by", ["similarity", "sum"])
def test_codes_that_calibrate_have_the_scale_of_the_final_metric(by, monkeypatch):
    """Distances of a fold are multiplied, vectors and numbers alike, so that means between classes agree."""
    given = []
    monkeypatch.setattr(
        "samekind.evaluation.calibrate", lambda parts, **rest: given.append(parts) or calibrate(parts=parts, **rest)
    )
    model = learner(compare_by=by, cv=2).fit(X, Y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))

    def mean(codes, labels):
        return np.mean(two_steps.between_classes(codes, labels, offset_distances))

    final = mean(model.transform(X), Y)
    for (codes, labels), (rest, held) in zip(given[0], class_folds(Y, 2, seed), strict=True):
        np.testing.assert_array_equal(labels, Y[held])
        fold = learner(compare_by=by).fit(X[rest], Y[rest])
        times = final / mean(fold.transform(X[rest]), Y[rest])
        expected = times * distances(fold, np.array(np.triu_indices(len(held), 1)).T, X[held])
        i, j = np.triu_indices(len(held), 1)
        np.testing.assert_allclose(offset_distances(codes[i], codes[j]), expected, rtol=0.05, atol=0.05 * final)


# Leaks


def test_classes_left_out_never_reach_the_model_of_a_fold(monkeypatch):
    seen = []
    monkeypatch.setattr(
        two_steps, "run_similarity", lambda Z, y, step, **more: seen.append(y) or run_similarity(Z, y, step, **more)
    )
    learner(compare_by="sum", cv=2).fit(X, Y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    folds = class_folds(Y, 2, seed)
    learned = [set(y) for y in seen]
    for rest, held in folds:
        assert set(Y[rest]) in learned
        assert not set(Y[rest]) & set(Y[held])
    assert learned.count(set(Y)) == 1  # the final fit
    assert all(any(each == set(Y[rest]) for rest, _ in folds) for each in learned if each != set(Y))


def test_samples_left_out_do_not_change_the_codes_of_a_fold():
    fixed = {"compare_by": "similarity", "cv": 2}
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    rest, _ = class_folds(Y, 2, seed)[0]
    made = []
    for noise in (0.0, 1.0):
        changed = X + noise * np.random.default_rng(5).standard_normal(X.shape)
        changed[rest] = X[rest]
        fits = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                two_steps,
                "run_similarity",
                lambda Z, y, step, fits=fits, **more: (
                    fits.append((set(y), run_similarity(Z, y, step, **more))) or fits[-1][1]
                ),
            )
            learner(**fixed).fit(changed, Y)
        made += [result[0].components for classes, result in fits if classes == set(Y[rest])][:1]
    np.testing.assert_array_equal(*made)


# Parameters


def test_nested_names_and_clones():
    model = EnsembleMetric(3).set_params(similarity__shrinkage=0.4, compare_by="sum")
    assert (model.similarity.shrinkage, clone(model).similarity.shrinkage) == (0.4, 0.4)
    assert model.get_params()["similarity__principal"] == 300
    assert EnsembleMetric(3).set_params(similarity__principal=7).similarity.shrinkage == "auto"


def test_a_grid_search_over_shrinkage():
    search = GridSearchCV(
        learner(compare_by="similarity"),
        {"similarity__shrinkage": [0.1, 0.6]},
        cv=ClassKFold(2),
        scoring=pair_auc_score,
    ).fit(X, Y)
    assert search.best_estimator_.similarity.shrinkage == search.best_params_["similarity__shrinkage"]
    np.testing.assert_allclose(
        distances(search.best_estimator_),
        distances(learner(compare_by="similarity", similarity=search.best_estimator_.similarity).fit(X, Y)),
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compare_by": "cosine"}, "compare_by"),
        ({"compare_by": "sum", "mirror": "distances"}, 'takes mirror="none" or "mean"'),
        ({"similarity": JointMetric()}, "similarity=.*must be a TwoCovariance or None"),
        ({"similarity": TwoCovariance(shrinkage=2)}, "shrinkage"),
        ({"similarity": TwoCovariance(max_iter=0)}, "max_iter"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        learner(**settings).fit(X, Y)


def test_it_can_be_stopped():
    model = learner(compare_by="sum", cv=2, callback=lambda event: True).fit(X, Y)
    assert np.isfinite(model.transform(X)).all()
    assert model.metric_.similarity is None  # step 1 alone


def test_the_work_of_a_similarity_is_planned():
    planned = {}
    for by in ("distance", "similarity", "sum"):
        with pytest.MonkeyPatch.context() as patch:
            found = []
            made = ensemble.stages_of_final_fit
            patch.setattr(
                ensemble,
                "stages_of_final_fit",
                lambda *given, made=made, found=found: found.extend(made(*given)) or made(*given),
            )
            learner(compare_by=by).fit(X, Y)
        planned[by] = next(stage for stage in found if stage.step == "joint")
    assert planned["sum"].work > planned["distance"].work
    assert planned["sum"].work > planned["similarity"].work > 0


def test_codes_of_a_sum_are_as_long_as_asked_for(recwarn):
    model = learner(compare_by="sum", n_components=6).fit(X, Y)
    assert model.metric_.n_distance_components == len(model.metric_.similarity.components) == 3
    assert not [warning for warning in recwarn if "fewer than" in str(warning.message)]


@pytest.mark.filterwarnings("ignore")
def test_codes_of_a_sum_that_are_shorter_are_said():
    with pytest.warns(UserWarning, match="fewer than the 100"):
        learner(compare_by="sum", n_components=100).fit(X, Y)
