import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from samekind.evaluation import (
    RocCurve,
    accuracy,
    best_threshold,
    label_pairs,
    pair_distances,
    roc_curve,
    verify,
    verify_codes,
)

few_values = st.sampled_from([0.0, 0.5, 1.0, 1.5, np.nextafter(1.5, 2), 7.0])
any_value = st.floats(0, 1e6, allow_nan=False)


@st.composite
def judged_pairs(draw, values=few_values | any_value):
    """Distances and kinds, both kinds there, ties likely."""
    n = draw(st.integers(2, 14))
    distances = np.array(draw(st.lists(values, min_size=n, max_size=n)))
    same = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    same[:2] = True, False
    order = draw(st.permutations(range(n)))
    return distances[list(order)], same[list(order)]


def every_distinct_threshold(distances):
    return [-np.inf, *np.unique(distances)]


def balanced_score(distances, same, threshold):
    called = distances <= threshold
    return (called[same].mean() + (~called[~same]).mean()) / 2


def false_match_rate(distances, same, threshold):
    return np.mean(distances[~same] <= threshold)


@settings(deadline=None)
@given(judged_pairs())
def test_accuracy_threshold_is_the_best_of_all(pairs):
    distances, same = pairs
    best = max(np.mean((distances <= t) == same) for t in every_distinct_threshold(distances))
    assert accuracy(distances, same, best_threshold(distances, same)) == best


@settings(deadline=None)
@given(judged_pairs())
def test_balanced_threshold_is_the_best_of_all(pairs):
    distances, same = pairs
    chosen = best_threshold(distances, same, strategy="balanced")
    best = max(balanced_score(distances, same, t) for t in every_distinct_threshold(distances))
    assert balanced_score(distances, same, chosen) == pytest.approx(best, abs=1e-12)


@settings(deadline=None)
@given(judged_pairs(), st.sampled_from([1e-3, 0.2, 1 / 3, 0.5, 1.0]))
def test_far_threshold_keeps_the_rate_and_no_larger_distance_would(pairs, far):
    distances, same = pairs
    chosen = best_threshold(distances, same, strategy="far", far=far)
    assert false_match_rate(distances, same, chosen) <= far
    larger = distances[distances > chosen]
    assert all(false_match_rate(distances, same, t) > far for t in larger)


@pytest.mark.parametrize("strategy", ["accuracy", "balanced", "logistic", "far"])
@settings(deadline=None)
@given(pairs=judged_pairs(st.floats(0, 100, width=32)))
def test_threshold_of_float32_distances_means_the_same_in_both_precisions(strategy, pairs):
    distances, same = pairs[0].astype(np.float32), pairs[1]
    chosen = best_threshold(distances, same, strategy=strategy, far=0.3)
    np.testing.assert_array_equal(distances <= np.float32(chosen), distances.astype(np.float64) <= chosen)


def test_threshold_lies_midway_between_neighbours():
    distances, same = np.array([1.0, 2.0, 6.0, 9.0]), np.array([True, True, False, False])
    for options in ({"strategy": "accuracy"}, {"strategy": "balanced"}, {"strategy": "far", "far": 0.1}):
        assert best_threshold(distances, same, **options) == 4.0


@pytest.mark.parametrize("gap", [0.5, 4.0], ids=["overlapping", "apart"])
@pytest.mark.parametrize("rare", [1, 20])
def test_logistic_threshold_lies_midway_between_kinds_of_like_spread(gap, rare):
    """However many there are of each."""
    steps = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    distances = np.concatenate([10 + steps, np.tile(10 + gap + steps, rare)])
    same = np.arange(len(distances)) < len(steps)
    assert best_threshold(distances, same, strategy="logistic") == pytest.approx(10 + gap / 2, abs=1e-3)


def test_logistic_threshold_is_that_of_a_regression_by_hand():
    rng = np.random.default_rng(0)
    distances, same = np.concatenate([rng.gamma(4, 1, 60), rng.gamma(9, 1, 90)]), np.arange(150) < 60
    weights, signs = np.where(same, 1 / 60, 1 / 90), np.where(same, 1, -1)

    def loss(w):
        return weights @ np.logaddexp(0, -signs * (w[0] - w[1] * distances))

    intercept, slope = scipy.optimize.minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-9}).x
    assert best_threshold(distances, same, strategy="logistic") == pytest.approx(intercept / slope, rel=1e-3)


def test_logistic_thresholds_of_few_pairs_scatter_less_than_the_best_ones():
    rng, found = np.random.default_rng(0), {"logistic": [], "balanced": []}
    same = np.arange(200) < 100
    for _ in range(40):
        distances = np.concatenate([rng.normal(4, 1, 100), rng.normal(7, 1, 100)])
        for strategy, thresholds in found.items():
            thresholds.append(best_threshold(distances, same, strategy=strategy))
    assert np.mean(found["logistic"]) == pytest.approx(5.5, abs=0.05)
    assert np.std(found["logistic"]) < 0.6 * np.std(found["balanced"])


@pytest.mark.parametrize("distances", [[5.0, 6.0, 1.0, 2.0], [3.0, 3.0, 3.0, 3.0]], ids=["reversed", "equal"])
def test_logistic_threshold_without_anything_to_go_by_is_the_balanced_one(distances):
    same = np.array([True, True, False, False])
    assert best_threshold(distances, same, strategy="logistic") == best_threshold(distances, same, strategy="balanced")


def test_balanced_and_accuracy_differ_when_one_kind_is_rare():
    distances = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    same = np.array([False, False, False, True, False, False])
    assert best_threshold(distances, same) < 1.0
    assert 4.0 < best_threshold(distances, same, strategy="balanced") < 5.0


def test_equal_distances_are_not_split():
    distances, same = np.ones(4), np.array([True, True, True, False])
    assert accuracy(distances, same, best_threshold(distances, same)) == 0.75
    assert best_threshold(distances, same, strategy="far", far=0.5) < 1.0


@pytest.mark.parametrize("below", [1.0, np.nextafter(1.0, 2)])
def test_neighbouring_floats_leave_no_room_for_a_middle(below):
    above = np.nextafter(below, 2)
    chosen = best_threshold([below, above], [True, False])
    assert below <= chosen < above


@settings(deadline=None, max_examples=50)
@given(judged_pairs())
def test_auc_and_points_equal_those_of_sklearn(pairs):
    distances, same = pairs
    roc = roc_curve(distances, same)
    false_rate, true_rate, thresholds = sklearn_roc_curve(same, -distances, drop_intermediate=False)
    assert roc.auc == pytest.approx(roc_auc_score(same, -distances))
    np.testing.assert_allclose(roc.false_match_rate, false_rate)
    np.testing.assert_allclose(roc.true_match_rate, true_rate)
    np.testing.assert_array_equal(roc.thresholds, -thresholds)


@settings(deadline=None)
@given(judged_pairs(), st.data())
def test_whole_weights_equal_repeated_pairs(pairs, data):
    distances, same = pairs
    weights = np.array(data.draw(st.lists(st.integers(1, 4), min_size=len(same), max_size=len(same))))
    weighted = roc_curve(distances, same, weights=weights)
    repeated = roc_curve(np.repeat(distances, weights), np.repeat(same, weights))
    np.testing.assert_allclose(weighted.false_match_rate, repeated.false_match_rate)
    np.testing.assert_allclose(weighted.true_match_rate, repeated.true_match_rate)


@settings(deadline=None)
@given(judged_pairs())
def test_rising_transform_of_distances_leaves_auc_and_eer(pairs):
    distances, same = pairs
    before, after = roc_curve(distances, same), roc_curve(rankdata(distances, "dense") ** 3, same)
    assert (before.auc, before.eer) == (after.auc, after.eer)


@settings(deadline=None)
@given(judged_pairs())
def test_eer_lies_on_the_curve_where_both_errors_are_equal(pairs):
    roc = roc_curve(*pairs)
    # The curve as a dense polyline: linear in between points, as the rate is defined.
    along = np.linspace(0, len(roc.thresholds) - 1, 4_001)
    places = np.arange(len(roc.thresholds))
    false_rate = np.interp(along, places, roc.false_match_rate)
    miss_rate = 1 - np.interp(along, places, roc.true_match_rate)
    nearest = np.argmin(np.abs(false_rate - miss_rate))
    assert roc.eer == pytest.approx(false_rate[nearest], abs=5e-3)


def test_eer_by_hand():
    roc = RocCurve(np.array([0.0, 0.1, 1.0]), np.array([0.0, 0.6, 1.0]), np.array([-np.inf, 1.0, 2.0]))
    # On the segment (0.1, 0.6) - (1, 1): 0.1 + 0.9 s = 1 - (0.6 + 0.4 s) gives s = 3/13.
    assert roc.eer == pytest.approx(0.1 + 0.9 * 3 / 13)


def test_true_match_rate_at_far_steps_and_does_not_interpolate():
    roc = RocCurve(np.array([0.0, 0.1, 1.0]), np.array([0.0, 0.6, 1.0]), np.array([-np.inf, 1.0, 2.0]))
    assert [roc.true_match_rate_at(far) for far in (0.05, 0.1, 0.5, 1.0)] == [0.0, 0.6, 0.6, 1.0]


@pytest.mark.parametrize(("sign", "auc", "eer", "matched"), [(1, 1.0, 0.0, 1.0), (-1, 0.0, 1.0, 0.0)])
def test_perfect_and_inverted_separation(sign, auc, eer, matched):
    distances = 10 + sign * np.array([-3.0, -2.0, -1.0, 1.0, 2.0])
    result = verify(distances, np.array([True, True, True, False, False]))
    assert (result.auc, result.eer, result.true_match_rate) == (auc, eer, matched)
    assert (result.n_same, result.n_other) == (3, 2)
    assert (result.accuracy == 1.0) == (sign == 1)


def test_verify_says_where_its_threshold_comes_from():
    distances = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    same = np.array([False, False, True, False, False])
    chosen, given_one = verify(distances, same), verify(distances, same, threshold=2.5, far=0.5)
    assert chosen.threshold != best_threshold(distances, same, strategy="accuracy")
    assert chosen.threshold_source == "these pairs"
    assert chosen.threshold == best_threshold(distances, same, strategy="balanced")
    assert chosen.accuracy == accuracy(distances, same, chosen.threshold)
    assert (given_one.threshold_source, given_one.threshold, given_one.accuracy) == ("given", 2.5, 0.4)
    assert (given_one.far, given_one.true_match_rate) == (0.5, 1.0)


def test_a_pair_at_the_threshold_is_called_same():
    assert accuracy([1.0, 2.0], [True, False], 1.0) == 1.0
    assert accuracy([1.0, 2.0], [True, False], 2.0) == 0.5


def test_float32_distances_meet_a_given_threshold_unrounded():
    distance = np.float32(0.1)  # a little above 0.1
    assert accuracy(np.array([distance, 1], dtype=np.float32), [True, False], 0.1) == 0.5


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000))
def test_verify_codes_joins_its_parts(seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2], 5)
    codes = rng.normal(size=(15, 3)) + labels[:, None]
    pairs, same = label_pairs(labels, max_pairs=40, random_state=seed)
    expected = verify(pair_distances(codes, pairs), same, far=0.1)
    assert verify_codes(codes, labels, far=0.1, max_pairs=40, random_state=seed) == expected


TWO = [1.0, 2.0], [True, False]
MISTAKES = {
    "None of the 2 pairs": lambda: roc_curve([1.0, 2.0], [False, False]),
    "All of the 2 pairs": lambda: verify([1.0, 2.0], [True, True]),
    "distances hold NaN": lambda: best_threshold([1.0, np.nan], [True, False]),
    "same shape; got \\(3,\\) and \\(2,\\)": lambda: accuracy([1.0, 2.0, 3.0], [True, False], 1),
    "one per pair; got shape \\(1, 2\\)": lambda: roc_curve([[1.0, 2.0]], [[True, False]]),
    "same must be boolean": lambda: roc_curve([1.0, 2.0], [1, -1]),
    "threshold is NaN": lambda: accuracy(*TWO, np.nan),
    "at most 1; got 0": lambda: verify(*TWO, far=0),
    "at most 1; got 1.5": lambda: best_threshold(*TWO, strategy="far", far=1.5),
    "at most 1; got nan": lambda: roc_curve(*TWO).true_match_rate_at(np.nan),
    "needs far": lambda: best_threshold(*TWO, strategy="far"),
    "got 'best'": lambda: best_threshold(*TWO, strategy="best"),
    "weights and same": lambda: roc_curve(*TWO, weights=[1.0]),
    "not negative": lambda: roc_curve(*TWO, weights=[1.0, -1.0]),
    "some weight": lambda: roc_curve(*TWO, weights=[1.0, 0.0]),
    "codes must be \\(n_samples": lambda: verify_codes([1.0, 2.0], [1, 1]),
    "codes and labels must have the same length; got 3 and 2": lambda: verify_codes(np.eye(3), [1, 1]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()
