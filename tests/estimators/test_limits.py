"""Where one estimator must equal another, and what both steps must find."""

import warnings

import numpy as np
import pytest

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric
from samekind.estimators.validation import LARGEST_CONVEX, solver_from
from samekind.evaluation import label_pairs
from tests.cases import with_settings

LOSSES = ["pairwise", "triplet"]


def planted(rng, n_groups=12, informative=(3, 7), size=3, n_classes=6, per_class=8):
    """Noise everywhere, and class means in a few groups."""
    y = np.repeat(np.arange(n_classes), per_class)
    X = rng.standard_normal((len(y), n_groups * size))
    for k in informative:
        X[:, k * size : (k + 1) * size] += 3 * rng.standard_normal((n_classes, size))[y]
    return X, y


def plain(learner):
    """The paper's two steps and nothing between them, for an estimator of both."""
    between = {"normalise_groups": "none", "weigh": 0.0, "principal": None, "normalise": "none", "cv": None}
    return between if learner is EnsembleMetric else {}


@pytest.mark.parametrize("loss", LOSSES)
def test_one_group_and_one_round_equals_a_joint_metric_without_trace_bound(rng, loss):
    X, y = planted(rng, n_groups=2, informative=(0,))
    block = SparseBlockMetric([np.arange(6)], loss=loss, max_groups=1, ridge=0.05, tol=1e-9, max_iter=5000).fit(X, y)
    joint = JointMetric(loss=loss, solver="convex", ridge=0.05, tol=1e-9, max_iter=5000).fit(X, y)
    assert block.objective_ == pytest.approx(joint.objective_, rel=1e-8)
    np.testing.assert_allclose(block.get_mahalanobis_matrix(), joint.get_mahalanobis_matrix(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("learner", [SparseBlockMetric, EnsembleMetric])
def test_planted_groups_are_found_first(rng, loss, learner):
    X, y = planted(rng)
    model = with_settings(learner(3, loss=loss, max_groups=2), ridge=0.1, **plain(learner)).fit(X, y)
    assert set(model.selected_groups_) == {3, 7}
    read = np.flatnonzero(np.abs(model.components_).sum(axis=0))
    assert set(read) <= {*range(9, 12), *range(21, 24)}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_group_order_does_not_change_the_answer(rng, loss):
    X, y = planted(rng)
    groups = {f"g{k}": np.arange(3 * k, 3 * k + 3) for k in range(12)}
    turned = dict(reversed(groups.items()))
    a, b = (SparseBlockMetric(g, loss=loss, max_groups=4, tol=1e-6).fit(X, y) for g in (groups, turned))
    assert a.selected_group_names_ == b.selected_group_names_
    np.testing.assert_allclose(a.get_mahalanobis_matrix(), b.get_mahalanobis_matrix(), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_step_2_goes_below_step_1(rng, loss):
    """Its feasible set holds step 1's metric, at the same ridge."""
    X, y = planted(rng)
    steps = {"selection": SparseBlockMetric(ridge=0.1, tol=1e-6)}
    steps["joint"] = JointMetric(ridge=0.1, tol=1e-6, solver="convex", target="zero")
    model = EnsembleMetric(3, loss=loss, max_groups=4, **steps, **plain(EnsembleMetric)).fit(X, y)
    step1 = [r["objective"] for r in model.history_ if r["step"] == "selection"][-1]
    assert model.objective_ <= step1 * (1 + 1e-9)


@pytest.mark.parametrize("learner", [SparseBlockMetric, JointMetric, EnsembleMetric])
def test_many_classes_of_one_sample_are_nothing_to_warn_of(rng, learner):
    """Faces are like that: most people have a single photograph."""
    X = rng.standard_normal((30, 4))
    y = np.concatenate([[0, 0, 1, 1], np.arange(2, 28)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        learner().fit(X, y)


def test_unequal_groups_slices_and_names(rng):
    X, y = planted(rng)
    groups = {"left": slice(0, 9), "signal": [9, 10, 11], "one": [12], "right": slice(13, None)}
    model = EnsembleMetric(groups, max_groups=2, cv=None).set_params(selection__ridge=0.1).fit(X, y)
    assert model.selected_group_names_[0] in {"signal", "right"}
    assert model.metric_.groups == tuple(model.selected_group_names_)


def test_families_are_selected_apart_and_joined(rng):
    X, y = planted(rng, informative=(1, 8))
    families = ["low"] * 6 + ["high"] * 6
    model = EnsembleMetric(3, families=families, max_groups=1, cv=None).set_params(selection__ridge=0.1).fit(X, y)
    assert list(model.selected_groups_) == [1, 8]
    assert set(model.stopped_because_) == {"low", "high"}
    assert {r.get("family") for r in model.history_ if r["step"] == "selection"} == {"low", "high"}
    alone = SparseBlockMetric([np.arange(3 * k, 3 * k + 3) for k in range(6)], max_groups=1, ridge=0.1).fit(X, y)
    np.testing.assert_allclose(
        model.step1_metric_.get_mahalanobis_matrix()[:18, :18], alone.get_mahalanobis_matrix()[:18, :18]
    )


@pytest.mark.slow
@pytest.mark.parametrize("normalise_groups", ["none", "scale", "unit"])
@pytest.mark.parametrize("loss", LOSSES)
def test_step_1_of_both_is_step_1_alone_whatever_lies_between(rng, loss, normalise_groups):
    X, y = planted(rng)
    both = EnsembleMetric(3, loss=loss, max_groups=3, normalise_groups=normalise_groups, weigh=0.5, cv=None).fit(X, y)
    alone = SparseBlockMetric(3, loss=loss, max_groups=3).fit(X, y)
    assert both.step1_metric_.basis == alone.metric_.basis
    np.testing.assert_array_equal(both.step1_metric_.transform(X), alone.transform(X))
    np.testing.assert_allclose(
        both.step1_metric_.get_mahalanobis_matrix(), alone.get_mahalanobis_matrix(), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("normalise_groups", ["auto", "unit"])
def test_a_fit_that_is_stopped_in_step_1_gives_the_metric_of_step_1(rng, normalise_groups):
    X, y = planted(rng)
    seen = []
    stopped = EnsembleMetric(
        3, max_groups=3, normalise_groups=normalise_groups, cv=None, callback=lambda event: seen.append(event) or True
    ).fit(X, y)
    assert [event.step for event in seen] == ["selection"]
    alone = SparseBlockMetric(3, max_groups=3, callback=lambda event: True).fit(X, y)
    np.testing.assert_array_equal(stopped.transform(X), alone.transform(X))
    assert stopped.threshold_ == alone.threshold_
    assert stopped.certificate_ is None


def test_all_target_neighbours_equal_none_given(rng):
    X, y = planted(rng, n_groups=3, informative=(1,))
    a, b = (SparseBlockMetric(3, loss="triplet", n_neighbors=k).fit(X, y).components_ for k in (None, 7))
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    c, d = (JointMetric(loss="triplet", n_neighbors=k, tol=1e-11, max_iter=5000).fit(X, y) for k in (None, 7))
    assert c.objective_ == pytest.approx(d.objective_, rel=1e-10)
    np.testing.assert_allclose(c.components_, d.components_, rtol=1e-6, atol=1e-6)


def test_few_target_neighbours_change_the_answer(rng):
    X, y = planted(rng, n_groups=3, informative=(1,))
    a, b = (JointMetric(loss="triplet", n_neighbors=k).fit(X, y).objective_ for k in (None, 1))
    assert b < a  # only the easiest partner has to be near


@pytest.mark.parametrize("solver", ["convex", "factored"])
def test_trace_bound_active_and_inactive(rng, solver):
    X, y = planted(rng, n_groups=3, informative=(1,))
    free = JointMetric(solver=solver, tol=1e-6).fit(X, y)
    trace = float(np.trace(free.get_mahalanobis_matrix()))
    bound = JointMetric(solver=solver, tol=1e-6, trace_bound=trace / 3).fit(X, y)
    loose = JointMetric(solver=solver, tol=1e-6, trace_bound=trace * 3).fit(X, y)
    assert np.trace(bound.get_mahalanobis_matrix()) == pytest.approx(trace / 3, rel=1e-6)
    assert bound.certificate_.trace_multiplier > 0
    assert bound.certificate_.optimal
    assert loose.objective_ == pytest.approx(free.objective_, rel=1e-5)
    assert loose.certificate_.trace_multiplier == 0


def test_n_components_of_the_convex_solver_keeps_leading_eigenvectors(rng):
    X, y = planted(rng, n_groups=3, informative=(1,))
    full = JointMetric(solver="convex", tol=1e-6).fit(X, y)
    two = JointMetric(2, solver="convex", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(two.components_, full.components_[:2], rtol=1e-9, atol=1e-12)


def test_rank_restricted_factored_metric_knows_that_it_is_not_the_optimum(rng):
    X, y = planted(rng, n_groups=3, informative=(0, 1, 2))
    full = JointMetric(solver="factored", tol=1e-6).fit(X, y)
    one = JointMetric(1, solver="factored", tol=1e-6).fit(X, y)
    assert one.components_.shape == (1, 9)
    assert full.certificate_.optimal
    assert not one.certificate_.optimal
    assert one.certificate_.gap >= one.objective_ - full.objective_ > 0


def test_auto_takes_the_factored_solver_for_short_codes(rng):
    X, y = planted(rng, n_groups=3, informative=(1,))
    assert JointMetric(2).fit(X, y).solver_ == "factored"
    assert JointMetric().fit(X, y).solver_ == "convex"


@pytest.mark.parametrize(
    ("n_features", "n_components", "n_samples", "chosen"),
    [
        (10, None, 100, "convex"),
        (10, 5, 100, "convex"),
        (10, 4, 100, "factored"),
        (LARGEST_CONVEX, None, 100, "convex"),
        (LARGEST_CONVEX + 1, None, 100, "factored"),
        (1000, None, 4_999, "factored"),
        (1000, None, 5_000, "convex"),
        (1000, 499, 5_000, "factored"),
    ],
)
def test_auto_takes_the_cheaper_solver(n_features, n_components, n_samples, chosen):
    assert solver_from("auto", n_features, n_components, n_samples) == chosen


@pytest.mark.parametrize("n_components", [2, None])
@pytest.mark.parametrize("loss", ["pairwise", "triplet"])
def test_auto_is_the_solver_it_names(rng, loss, n_components):
    X, y = rng.normal(size=(40, 8)), np.repeat(np.arange(5), 8)
    auto = JointMetric(n_components, loss=loss, random_state=0).fit(X, y)
    named = JointMetric(n_components, loss=loss, solver=auto.solver_, random_state=0).fit(X, y)
    assert auto.solver_ == solver_from("auto", 8, n_components, 40)
    np.testing.assert_array_equal(auto.components_, named.components_)


@pytest.mark.parametrize("loss", LOSSES)
def test_selection_stops_early_and_says_why(rng, loss):
    """Of three groups two are constant: once the first is at its optimum, nothing is left to gain."""
    X, y = planted(rng, n_groups=3, informative=(0,))
    X[:, 3:] = 5.0
    model = SparseBlockMetric(3, loss=loss, ridge=0.05, tol=1e-12, max_iter=5000).fit(X, y)
    assert list(model.selected_groups_) == [0]
    assert model.n_iter_ < 3
    assert model.stopped_because_.startswith("no group lowers the objective any more, after ")


def test_ridge_auto_follows_the_dimensions(rng):
    X, y = planted(rng)
    assert JointMetric().fit(X, y).ridge_ == pytest.approx(36 / 1600)
    assert SparseBlockMetric(3, max_groups=2).fit(X, y).ridge_ == pytest.approx(6 / 1600)


@pytest.mark.parametrize("learner", [SparseBlockMetric, JointMetric, EnsembleMetric])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_threshold_is_the_best_balanced_one_on_training_pairs(rng, loss, learner):
    """Of either loss: the pairwise loss's own threshold is where its slope is steepest, not where errors are fewest."""
    X, y = planted(rng)
    parameters = {} if learner is JointMetric else {"feature_groups": 3, "max_groups": 2}
    model = with_settings(learner(**parameters, loss=loss), **plain(learner)).fit(X, y)
    pairs, same = label_pairs(y)
    distances = model.pair_distance(X[pairs])

    def balanced(threshold):
        called = distances <= threshold
        return (called[same].mean() + (~called[~same]).mean()) / 2

    assert balanced(model.threshold_) == pytest.approx(max(balanced(t) for t in distances), abs=1e-12)
    assert balanced(model.threshold_) > 0.9


@pytest.mark.parametrize("learner", [SparseBlockMetric, JointMetric])
def test_the_threshold_does_not_stay_where_the_loss_has_it(rng, learner):
    X, y = planted(rng, n_groups=3, informative=(1,))
    found = {learner(threshold=given).fit(X, y).threshold_ for given in (9.0, 14.0)}
    assert len(found) == 2
    assert not found & {9.0, 14.0}


# Settings that were once refused, ignored or wrong


@pytest.mark.slow
@pytest.mark.parametrize("learner", [SparseBlockMetric, EnsembleMetric])
@pytest.mark.parametrize("loss", LOSSES)
def test_there_may_be_more_rounds_than_groups(rng, loss, learner):
    """A group may be chosen again, and is improved then."""
    X, y = planted(rng, n_groups=3, informative=(0, 2))
    settings = plain(learner) | {"ridge": 0.01}
    once, often = (with_settings(learner(3, loss=loss, max_groups=n), **settings).fit(X, y) for n in (3, 6))
    assert len(often.selected_groups_) <= 3
    rounds = [[r["objective"] for r in model.history_ if r["step"] == "selection"] for model in (once, often)]
    assert len(rounds[0]) <= 3 < len(rounds[1]) <= 6
    assert rounds[1][-1] < rounds[0][-1]


@pytest.mark.slow
def test_the_first_lines_of_the_readme_work_on_small_data(rng):
    """Forty rounds where there are five groups, and shorter codes than there are features."""
    X, y = planted(rng, n_groups=5, informative=(1, 3), size=4, n_classes=4)
    model = EnsembleMetric(feature_groups=4, loss="triplet", max_groups=40, n_components=5, cv=None)
    assert model.fit(X, y).transform(X).shape == (len(X), 5)
    assert len(model.selected_groups_) <= 5


@pytest.mark.parametrize("loss", LOSSES)
def test_classes_that_are_separated_without_error_do_not_keep_the_solver_busy(rng, loss):
    """Distances that grow without end would bring the loss to 0, and its gap is never small beside it."""
    X, y = planted(rng, n_groups=5, informative=(1, 3), size=9, n_classes=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = JointMetric(target="identity", loss=loss).fit(X, y)
    assert model.converged_
    assert model.objective_ < 0.1
    assert model.n_iter_ < 200


@pytest.mark.parametrize("max_groups", ["auto", None])
def test_rounds_may_be_left_to_the_data(rng, max_groups):
    X, y = planted(rng)
    model = SparseBlockMetric(3, max_groups=max_groups).fit(X, y)
    assert model.n_iter_ <= 12
    assert model.ridge_ == pytest.approx(36 / 1600)


@pytest.mark.parametrize("solver", ["convex", "factored"])
def test_an_infinite_trace_bound_is_none(rng, solver):
    X, y = planted(rng, n_groups=3, informative=(1,))
    a, b = (JointMetric(solver=solver, trace_bound=bound, random_state=0).fit(X, y) for bound in (None, np.inf))
    assert a.metric_ == b.metric_


@pytest.mark.parametrize("families", [{3: "a", 7: "b", 10: "a"}, {"3": "a", "7": "b", "10": "a"}, ["a", "b", "a"]])
@pytest.mark.parametrize("names", [(3, 7, 10), ("3", "7", "10")])
def test_groups_and_families_may_go_by_integers(rng, families, names):
    X, y = planted(rng, n_groups=3, informative=(0, 1))
    groups = {name: slice(3 * k, 3 * k + 3) for k, name in enumerate(names)}
    model = EnsembleMetric(groups, families=families, max_groups=1, cv=None).fit(X, y)
    assert model.selected_group_names_ == ["3", "7"]
    assert list(model.stopped_because_) == ["a", "b"]


@pytest.mark.parametrize("learner", [SparseBlockMetric, JointMetric])
def test_whiten_true_keeps_all_directions_and_false_does_not_whiten(rng, learner):
    X, y = planted(rng, n_groups=3, informative=(1,))
    X *= np.logspace(-1, 2, 9)
    groups = {} if learner is JointMetric else {"feature_groups": 3}
    plain, off = (learner(whiten=whiten, **groups).fit(X, y) for whiten in (None, False))
    assert plain.metric_ == off.metric_
    on, most = (learner(whiten=whiten, **groups).fit(X, y) for whiten in (True, 9))
    assert on.metric_ == most.metric_
    assert on.metric_ != plain.metric_
    if learner is SparseBlockMetric:
        assert {block.shape for block in on.blocks_.values()} == {(3, 3)}
        assert {b.shape for b in SparseBlockMetric(3, whiten=1).fit(X, y).blocks_.values()} == {(1, 1)}


@pytest.mark.parametrize("learner", [SparseBlockMetric, JointMetric, EnsembleMetric])
def test_whitened_data_far_from_zero_are_the_same_data(rng, learner):
    X, y = planted(rng, n_groups=3, informative=(1,))
    groups = {} if learner is JointMetric else {"feature_groups": 3}
    settings = plain(learner) | {"whiten": True, "random_state": 0}
    near, far = (with_settings(learner(**groups), **settings).fit(X + at, y) for at in (0, 1e7))
    np.testing.assert_allclose(near.transform(X), far.transform(X + 1e7), atol=1e-3)  # whitened in float32
    assert far.threshold_ == pytest.approx(near.threshold_, rel=1e-3)


def test_few_samples_of_each_class_may_be_enough(rng):
    X, y = planted(rng)
    first_three = np.concatenate([np.flatnonzero(y == label)[:3] for label in range(6)])
    limited = SparseBlockMetric(3, max_groups=2, max_per_class=3).fit(X, y)
    alone = SparseBlockMetric(3, max_groups=2).fit(X[first_three], y[first_three])
    assert limited.basis_ == alone.basis_


@pytest.mark.parametrize("learner", [SparseBlockMetric, JointMetric, EnsembleMetric])
def test_small_classes_may_be_left_out(rng, learner):
    X, y = planted(rng)
    y[-6:] = np.arange(100, 106)  # of one sample each; class 5 keeps two
    groups = {} if learner is JointMetric else {"feature_groups": 3, "max_groups": 2}
    kept = np.isin(y, np.arange(5))
    settings = plain(learner) | {"loss": "pairwise"}
    limited = with_settings(learner(**groups), min_per_class=3, **settings).fit(X, y)
    alone = with_settings(learner(**groups), **settings).fit(X[kept], y[kept])
    np.testing.assert_allclose(limited.transform(X), alone.transform(X), rtol=1e-9, atol=1e-9)


def test_step_1_may_be_held_to_some_groups(rng):
    X, y = planted(rng)
    model = SparseBlockMetric(3, max_groups=4).fit(X, y, groups=[7, 1, 2])
    assert set(model.selected_groups_) <= {1, 2, 7}
    assert model.selected_groups_[0] == 7
    assert model.selected_group_names_ == [str(k) for k in model.selected_groups_]
    cut = X[:, [*range(3, 9), *range(21, 24)]]
    np.testing.assert_allclose(
        model.transform(X), SparseBlockMetric(3, max_groups=4).fit(cut, y).transform(cut), rtol=1e-9, atol=1e-12
    )
    for bad in ([], [1, 1], [12], [-1]):
        with pytest.raises(ValueError, match="groups must be numbers of feature groups from 0 to 11"):
            SparseBlockMetric(3).fit(X, y, groups=bad)


def test_where_no_group_helps_both_steps_say_so_and_stay_usable():
    X, y = np.ones((12, 6)), np.repeat(np.arange(4), 3)
    for cv in (None, 2):
        with pytest.warns(UserWarning, match="The learned metric is zero"):
            model = EnsembleMetric(2, cv=cv).fit(X, y)
        assert model.transform(X).shape == (12, 1)
        assert not model.transform(X).any()
        assert not model.step1_metric_.transform(X).any()
        assert model.selected_groups_.tolist() == []


# Step 2 around the identity


@pytest.mark.parametrize("loss", LOSSES)
def test_a_large_ridge_around_the_identity_leaves_euclidean_distance(rng, loss):
    X, y = planted(rng, n_groups=3, informative=(1,))
    model = JointMetric(loss=loss, target="identity", ridge=1e6).fit(X, y)
    A = model.get_mahalanobis_matrix()
    np.testing.assert_allclose(A, A[0, 0] * np.eye(9), atol=1e-4 * A[0, 0])
    weak = JointMetric(loss=loss, target="identity", ridge=1e-3).fit(X, y).get_mahalanobis_matrix()
    assert np.abs(weak / weak[0, 0] - np.eye(9)).max() > 0.1


def test_codes_around_the_identity_are_as_long_as_the_features_or_as_asked(rng):
    X, y = planted(rng, n_groups=3, informative=(1,))
    full = JointMetric(target="identity").fit(X, y)
    assert full.transform(X).shape == (len(X), 9)
    assert (full.ridge_, full.solver_) == (0.1, "convex")
    short = JointMetric(4, target="identity").fit(X, y)
    assert short.transform(X).shape == (len(X), 4)
    # Cut to directions of the full codes: distances can only become smaller.
    i, j = np.triu_indices(len(X), 1)
    pairs = np.stack([X[i], X[j]], axis=1)
    assert (short.pair_distance(pairs) <= full.pair_distance(pairs) * (1 + 1e-9)).all()


def test_a_target_left_to_a_joint_metric_alone_is_zero(rng):
    X, y = planted(rng, n_groups=3, informative=(1,))
    auto, zero = (JointMetric(target=target).fit(X, y) for target in ("auto", "zero"))
    assert auto.metric_ == zero.metric_
