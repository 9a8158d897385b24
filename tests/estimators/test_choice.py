"""Settings chosen, and distances calibrated, on classes left out of the learning."""

import numpy as np
import pytest
from sklearn.base import clone

from samekind import EnsembleMetric, JointMetric, Metric, SparseBlockMetric
from samekind.estimators.data import TrainingData
from samekind.estimators.tuning import (
    CALIBRATED_ON,
    NEGLIGIBLE,
    Candidate,
    Trial,
    best_of,
    class_folds,
    judged_rows,
    more_folds,
)
from samekind.estimators.validation import max_groups_from
from samekind.evaluation import label_pairs
from samekind.store import ArrayStore, FeatureGroups
from tests import cases

SIZES = (6, 5, 4, 6, 5, 4, 5, 6)
pytestmark = pytest.mark.filterwarnings("ignore:On classes left out, plain Euclidean distance:UserWarning")

X, Y = cases.labelled_data(SIZES, 12, spread=2.0)
UNSEEN, LABELS = cases.labelled_data((5,) * 8, 12, seed=5, spread=2.0)
PAIRS, SAME = label_pairs(Y)


def choosing(**settings):
    fixed = {"max_groups": 2, "n_components": 3, "cv": 2, "random_state": 0}
    return EnsembleMetric(3, **fixed | settings)


@pytest.fixture(scope="module")
def chosen():
    return choosing().fit(X, Y)


# Choosing


def test_what_was_tried_is_reported(chosen):
    candidates = {trial.candidate for trial in chosen.trials_}
    assert {candidate.target for candidate in candidates} == {"none", "identity", "zero"}
    assert {candidate.normalise_groups for candidate in candidates} == {"scale", "unit", "none"}
    assert {candidate.weigh for candidate in candidates} == {0.0, 0.5, 1.0}
    assert {trial.normalise for trial in chosen.trials_} == {"none", "root", "unit"}
    assert all(0 <= trial.auc <= 1 and 0 <= trial.mean_average_precision <= 1 for trial in chosen.trials_)
    records = [record for record in chosen.history_ if record["step"] == "choice"]
    assert records == [trial.record() for trial in chosen.trials_]


def test_with_fewer_samples_than_features_step2_is_not_tried_without_step1():
    """A free metric on all directions that the samples span fits any labels; asked for, it is learned all the same."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 3)
    wide = rng.normal(size=(8, 60))[y] + rng.normal(size=(len(y), 60))
    model = choosing(max_groups=None, n_components=None).fit(wide, y)
    assert model.basis_.n_codes > len(y)
    assert {trial.candidate.target for trial in model.trials_} == {"none", "identity"}
    asked = choosing(max_groups=None, n_components=None, joint=JointMetric(target="zero")).fit(wide, y)
    assert {trial.candidate.target for trial in asked.trials_} == {"zero"}


def best(model):
    return best_of(model.trials_)


def test_the_best_is_taken_and_learned_on_all_classes(chosen):
    taken = best(chosen)
    assert taken.score > np.median([trial.score for trial in chosen.trials_])
    assert chosen.metric_.normalise == taken.normalise
    assert chosen.basis_.weigh == taken.candidate.weigh
    assert chosen.basis_.normalise == {"scale": "none"}.get(
        taken.candidate.normalise_groups, taken.candidate.normalise_groups
    )
    same = choosing(
        cv=None,
        normalise=taken.normalise,
        normalise_groups=taken.candidate.normalise_groups,
        weigh=taken.candidate.weigh,
    )
    if taken.candidate.target == "none":
        assert chosen.certificate_ is None
    else:
        same.set_params(joint=JointMetric(target=taken.candidate.target, ridge=chosen.ridge_[1]))
        np.testing.assert_allclose(chosen.transform(X), same.fit(X, Y).transform(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("target", ["zero", "identity"])
def test_settings_that_are_given_are_kept(target):
    model = choosing(normalise_groups="unit", weigh=0.0, normalise="root", joint=JointMetric(target=target, ridge=0.05))
    model.fit(X, Y)
    assert {trial.candidate.target for trial in model.trials_} == {target}
    assert {trial.normalise for trial in model.trials_} == {"root"}
    assert (model.basis_.normalise, model.basis_.weigh, model.metric_.normalise) == ("unit", 0.0, "root")
    assert model.ridge_[1] == 0.05
    assert model.metric_.calibration is not None
    fixed = clone(model).set_params(cv=None).fit(X, Y)
    np.testing.assert_array_equal(model.transform(X), fixed.transform(X))


def test_the_score_of_a_trial_is_that_of_folds_by_hand():
    """Step 1, step 2 and what lies between are learned on the other classes alone."""
    from samekind.evaluation import mean_average_precision, verify_codes

    settings = {"normalise_groups": "scale", "weigh": 0.5, "normalise": "unit", "joint": JointMetric(target="zero")}
    model = choosing(**settings).fit(X, Y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    aucs, precisions = [], []
    (ridge,) = {trial.candidate.times for trial in model.trials_ if trial.candidate.times == 1}
    for rest, held in class_folds(Y, 2, seed):
        fold = choosing(**settings).set_params(cv=None, random_state=0).fit(X[rest], Y[rest])
        codes = fold.transform(X[held])
        aucs.append(verify_codes(codes, Y[held]).auc)
        precisions.append(mean_average_precision(codes, Y[held]))
    (trial,) = [trial for trial in model.trials_ if trial.candidate.times == ridge]
    assert trial.auc == pytest.approx(np.mean(aucs), abs=0.01)
    assert trial.mean_average_precision == pytest.approx(np.mean(precisions), abs=0.01)


def test_the_same_seed_makes_the_same_choice(chosen):
    again = choosing(n_jobs=1).fit(X, Y)
    assert again.trials_ == chosen.trials_
    assert again.metric_ == chosen.metric_


@pytest.mark.parametrize("cv", [2, 3, 0.25])
def test_folds_are_as_many_as_asked_for(cv):
    seen = []
    model = choosing(cv=cv, normalise_groups="none", weigh=1.0, normalise="none", callback=seen.append)
    model.set_params(joint__target="identity", joint__ridge=0.1).fit(X, Y)
    parts = {record.get("part", "") for record in model.history_ if record["step"] != "choice"}
    assert parts == {"", *(f"fold {number}" for number in range(1, (1 if isinstance(cv, float) else cv) + 1))}
    assert {event.part for event in seen} == parts
    assert len(model.trials_) == 1


def test_few_classes_leave_nothing_out():
    few = Y < 3
    model = choosing(cv="auto").fit(X[few], Y[few])
    assert model.trials_ == []
    assert model.metric_.calibration is None
    assert model.threshold_ > 0
    with pytest.raises(AttributeError, match=r"not calibrated. Fit with cv=, or call calibrate"):
        model.thresholds_  # noqa: B018
    with pytest.raises(ValueError, match="not calibrated"):
        model.pair_probability(X[PAIRS[:2]])


def test_without_folds_the_rules_hold():
    model = choosing(cv=None).fit(X, Y)
    assert model.trials_ == []
    assert (model.basis_.normalise, model.basis_.weigh, model.metric_.normalise) == ("none", 0.5, "none")
    assert len(model.ridge_) == 1  # step 1 alone
    assert model.certificate_ is None
    assert model.metric_.n_components == 3
    assert choosing(cv=None, n_components=None).fit(X, Y).metric_.n_components == model.basis_.n_codes


UNORDERED = [[5, 0, 3], [1, 2], [4, 11, 7, 6], [8], [10, 9]]  # groups whose columns do not rise


@pytest.mark.parametrize("n_classes", [2, 5])
def test_with_few_classes_plain_distance_counts_as_much_as_step_1(n_classes):
    few = np.isin(Y, range(n_classes))
    model = EnsembleMetric(UNORDERED, random_state=0).fit(X[few], Y[few])
    assert model.metric_.normalise == "root"
    step1 = EnsembleMetric(UNORDERED, normalise_groups="scale", weigh=0.5, random_state=0).fit(X[few], Y[few])
    learned = step1.get_mahalanobis_matrix()
    covariance = np.cov(X[few].T, bias=True)
    plain = np.eye(12) * np.trace(learned @ covariance) / np.trace(covariance)
    found = model.metric_.with_normalise("none").get_mahalanobis_matrix()
    np.testing.assert_allclose(found, (learned + plain) / 2, rtol=1e-6, atol=1e-9)
    assert model.selected_group_names_ == step1.selected_group_names_
    assert {trial.candidate.plain for trial in model.trials_} <= {True}


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [
        (6, {}),
        (5, {"max_groups": 5}),
        (5, {"normalise_groups": "scale"}),
        (5, {"weigh": 0.5}),
        (5, {"joint": JointMetric(target="identity", ridge=0.1)}),
    ],
)
def test_plain_distance_does_not_count_with_more_classes_or_given_settings(n_classes, settings):
    some = np.isin(Y, range(n_classes))
    model = EnsembleMetric(UNORDERED, random_state=0, cv=2, **settings).fit(X[some], Y[some])
    assert not any(trial.candidate.plain for trial in model.trials_)
    assert model.metric_.groups == tuple(model.selected_group_names_)


def test_plain_distance_that_is_better_is_said_so():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 4)
    data = rng.standard_normal((24, 10))
    data[:, 0] += 5 * labels  # one group tells all classes; only noise may be chosen
    with pytest.warns(UserWarning, match="plain Euclidean distance of all features .* is better than what was learned"):
        EnsembleMetric([[5, 6], [7, 8]], cv=2, normalise_groups="none", weigh=1.0).fit(data, labels)


def test_folds_leave_whole_classes_out():
    for cv, n_folds in (("auto", 3), (2, 2), (4, 4), (0.25, 1), (None, 0)):
        folds = class_folds(Y, cv, 0)
        assert len(folds) == n_folds
        for rest, held in folds:
            assert not set(Y[rest]) & set(Y[held])
            assert sorted([*rest, *held]) == list(range(len(Y)))
    assert len(class_folds(np.repeat(np.arange(5), 3), "auto", 0)) == 2
    assert class_folds(np.arange(50) // 2 % 3, "auto", 0) == []
    many = np.repeat(np.arange(300), 10)
    ((rest, held),) = class_folds(many, "auto", 0)
    assert len(np.unique(many[held])) == 60


def test_more_folds_to_calibrate_on_where_one_is_enough_to_choose_on():
    many = np.repeat(np.arange(300), 10)
    folds = [*class_folds(many, "auto", 0), *more_folds(many, "auto", 0)]
    assert len(folds) == CALIBRATED_ON
    held = [set(many[held]) for _, held in folds]
    assert [len(classes) for classes in held] == [60] * CALIBRATED_ON
    assert len(set().union(*held)) == 60 * CALIBRATED_ON
    assert all(not classes & set(many[rest]) for classes, (rest, _) in zip(held, folds, strict=True))
    for cv in (0.2, 3, None):
        assert more_folds(many, cv, 0) == []
    assert more_folds(Y, "auto", 0) == []


def test_what_is_chosen_on_one_fold_is_calibrated_on_the_classes_of_all():
    rng = np.random.RandomState(0)
    labels = np.repeat(np.arange(20), 4)
    data = rng.standard_normal((80, 6)) + 2 * rng.standard_normal((20, 6))[labels]
    model = cases.with_sizes(EnsembleMetric(2, max_groups=2, cv="auto"), many_samples=30).fit(data, labels)
    assert model.metric_.calibration.n_classes == 12
    assert all(len(trial.precisions) == 4 for trial in model.trials_)
    parts = {record["part"] for record in model.history_ if record.get("part")}
    assert parts == {"fold 1", "fold 2", "fold 3"}


def test_judged_samples_are_of_whole_classes():
    kept = judged_rows(np.arange(len(Y)), Y, 0, most=20)
    assert 0 < len(kept) <= 20
    assert not set(Y[kept]) & set(np.delete(Y, kept))
    np.testing.assert_array_equal(judged_rows(np.arange(20), Y, 0, most=20), np.arange(20))


def test_the_simplest_of_those_about_as_good_is_taken():
    """Within what is negligible, or a standard error of the difference over classes."""

    def trial(ridge, *precisions):
        return Trial(Candidate("none", 1.0, "identity", ridge), "none", 0.9, precisions)

    best = trial(0.1, 0.9, 0.8, 0.7)
    hardly_worse = trial(1.0, *(precision - NEGLIGIBLE for precision in best.precisions))
    worse = trial(2.0, *(precision - 3 * NEGLIGIBLE for precision in best.precisions))
    worse_by_chance = trial(3.0, 0.9, 0.9, 0.5)
    assert best_of([worse, hardly_worse, best]) is hardly_worse
    assert best_of([best, hardly_worse]) is best
    assert best_of([worse, best]) is best
    assert best_of([worse_by_chance, best]) is worse_by_chance


# Calibration


def test_a_fit_with_folds_is_calibrated(chosen):
    calibration = chosen.metric_.calibration
    assert calibration.source == "cross-fitting over classes"
    assert (calibration.n_classes, calibration.n_samples) == (len(SIZES), len(Y))
    assert chosen.threshold_ == calibration.threshold
    assert chosen.thresholds_ == calibration.thresholds
    probabilities = chosen.pair_probability(X[PAIRS])
    np.testing.assert_array_equal(probabilities, calibration.probability(chosen.pair_distance(X[PAIRS])))
    assert probabilities[SAME].mean() > probabilities[~SAME].mean() + 0.2
    assert (chosen.pair_probability(X[PAIRS], prior=0.01) <= probabilities).all()


def test_calibration_survives_a_file(chosen, tmp_path):
    chosen.metric_.save(tmp_path / "model")
    loaded = Metric.load(tmp_path / "model")
    assert loaded == chosen.metric_
    np.testing.assert_array_equal(loaded.pair_probability(X[PAIRS]), chosen.pair_probability(X[PAIRS]))


@pytest.mark.parametrize(
    "learner", [SparseBlockMetric(3), JointMetric(3), choosing(cv=None)], ids=lambda it: type(it).__name__
)
def test_classes_left_out_calibrate_any_learner(learner):
    model = clone(learner).fit(X, Y)
    before = model.metric_
    assert model.calibrate(UNSEEN, LABELS) is model
    calibration = model.metric_.calibration
    assert calibration.source == "held-out classes"
    assert (calibration.n_classes, calibration.n_samples) == (8, 40)
    assert calibration.n_same == 8 * 10
    assert model.threshold_ == calibration.threshold
    np.testing.assert_array_equal(model.transform(X), before.transform(X))
    rows = LABELS < 5
    some = clone(learner).fit(X, Y).calibrate(UNSEEN, LABELS, rows=rows).metric_.calibration
    assert some == clone(learner).fit(X, Y).calibrate(UNSEEN[rows], LABELS[rows]).metric_.calibration
    assert some != calibration


def test_classes_that_cannot_calibrate_are_refused():
    model = JointMetric(3).fit(X, Y)
    with pytest.raises(ValueError, match="The classes left out cannot calibrate the metric: "):
        model.calibrate(UNSEEN[:5], np.arange(5))
    assert model.metric_.calibration is None


# Stopping


@pytest.mark.parametrize("n_events", [1, 3, 5, 12])
def test_a_fit_that_is_stopped_while_choosing_is_usable(n_events):
    """Its metric is that of step 1, on the classes of a fold if it came no further."""
    seen = []

    def stop(event):
        seen.append(event)
        return len(seen) == n_events

    model = choosing(callback=stop, n_components=None).fit(X, Y)
    assert n_events <= len(seen) <= n_events + 1  # of each fold under way
    assert seen[-1].part.startswith("fold")
    assert np.ptp(model.transform(X)) > 0
    assert model.threshold_ > 0
    assert len(model.selected_groups_) == len(model.metric_.groups) > 0
    assert model.metric_.with_normalise("none") == model.step1_metric_
    assert model.metric_.calibration is None


def test_a_fit_that_is_stopped_after_choosing_is_not_calibrated_by_another_metric():
    fixed = {"normalise_groups": "scale", "weigh": 0.5, "n_components": None}
    model = choosing(callback=lambda event: not event.part and event.step == "selection", **fixed).fit(X, Y)
    assert model.trials_
    assert model.metric_.calibration is None
    alone = SparseBlockMetric(3, max_groups=2, random_state=0, callback=lambda event: True).fit(X, Y)
    assert model.step1_metric_.basis == alone.metric_.basis
    stopped_in_step_2 = choosing(callback=lambda event: not event.part and event.step == "joint", **fixed).fit(X, Y)
    assert stopped_in_step_2.metric_.calibration is not None


def test_rounds_and_whitened_dimensions_follow_the_samples():
    assert [max_groups_from("auto", 1_000, n) for n in (10, 200, 600, 10**5)] == [20, 33, 100, 200]
    assert max_groups_from("auto", 5, 10**5) == 5
    store = ArrayStore(np.zeros((2_000, 4)), FeatureGroups.parse(2, 4))
    dims = [
        TrainingData.from_samples(store, np.zeros(n), np.arange(n), 1).whitened_dims("auto") for n in (9, 200, 2_000)
    ]
    assert dims == [10, 28, 45]
