import numpy as np
import pytest

from samekind.evaluation import label_pairs, pair_distances, reliability
from samekind.evaluation.calibrating import Weighted, calibrate, monotone_knots
from samekind.evaluation.class_pairs import MOST_SAMPLES, class_pairs
from samekind.kernels.flips import flip_free_distances


def gaussian_classes(n_classes, seed, width=12, spread=0.0):
    """Classes of one to twelve samples; between them the spread falls with the dimension, within it does not."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), np.minimum(rng.geometric(0.3, n_classes), 12))
    centres = rng.normal(size=(n_classes, width)) * 3 / np.sqrt(np.arange(1, width + 1))
    scale = np.exp(spread * rng.normal(size=n_classes))[labels, np.newaxis]
    return centres[labels] + scale * rng.normal(size=(len(labels), width)), labels


def judged(codes, labels, max_pairs=400_000):
    pairs, same = label_pairs(labels, max_pairs=max_pairs, random_state=1)
    return pair_distances(codes, pairs), same


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_predicted_probabilities_are_observed_on_other_classes_in_every_tenth(spread):
    calibration = calibrate(*gaussian_classes(800, 0, spread=spread))
    distances, same = judged(*gaussian_classes(2000, 1, spread=spread))
    predicted = calibration.probability(distances)
    for tenth in range(10):
        here = (predicted >= tenth / 10) & (predicted < (tenth + 1) / 10)
        assert here.sum() > 100
        assert abs(predicted[here].mean() - same[here].mean()) < 0.03, tenth


def one_large_class(n_classes, seed, n_large):
    """Classes of four samples each, and one whose samples lie farther apart."""
    rng = np.random.default_rng(seed)
    labels = np.append(np.repeat(np.arange(1, n_classes), 4), np.zeros(n_large, int))
    scale = np.where(labels == 0, 1.3, 1.0)[:, np.newaxis]
    return 1.2 * rng.normal(size=(n_classes, 12))[labels] + scale * rng.normal(size=(len(labels), 12)), labels


def test_a_large_class_does_not_decide_what_is_predicted_for_others():
    # 1,770 of its pairs stand beside 2,394 of 399 other classes; by samples it is 60 beside 1,596.
    calibration = calibrate(*one_large_class(400, 0, n_large=60))
    distances, same = judged(*one_large_class(1000, 1, n_large=4), max_pairs=60_000)
    tenths = reliability(calibration.probability(distances), same)
    assert sum(tenth.weight * abs(tenth.predicted - tenth.observed) for tenth in tenths) < 0.04


def test_weights_of_pairs_by_hand():
    labels = np.repeat([0, 1, 2, 3], [1, 3, MOST_SAMPLES, 41])
    pairs = class_pairs([(np.random.default_rng(0).normal(size=(len(labels), 2)), labels)])
    sums = np.bincount(pairs.same.first, pairs.same_weights())
    np.testing.assert_allclose(sums, [0, 3, *2 * [MOST_SAMPLES * (MOST_SAMPLES - 1) / 2]])


def test_a_weight_counts_as_so_many_pairs():
    rng = np.random.default_rng(0)
    same, other, times = rng.normal(1, 0.5, 300), Weighted.sorted(rng.normal(2, 0.5, 500)), rng.integers(1, 4, 300)
    weighted, repeated = (
        monotone_knots(each, other, 10)
        for each in (Weighted.sorted(same, times), Weighted.sorted(np.repeat(same, times)))
    )
    np.testing.assert_allclose(weighted, repeated)


def test_thresholds_keep_their_false_match_rates_on_other_classes():
    calibration = calibrate(*gaussian_classes(150, 2))
    distances, same = judged(*gaussian_classes(2000, 3))
    other = distances[~same]
    assert [point.false_match_rate for point in calibration.thresholds] == [1e-1, 1e-2, 1e-3, 1e-4]
    assert 0.5e-2 < np.mean(other <= calibration.threshold_at(1e-2)) < 2e-2
    assert 0.5e-1 < np.mean(other <= calibration.threshold_at(1e-1)) < 2e-1
    for rate in (0.3, 0.03):
        assert calibration.false_match_rate(calibration.threshold_at(rate)) == pytest.approx(rate)


def test_rates_and_thresholds_are_those_of_all_pairs():
    codes, labels = gaussian_classes(40, 4)
    calibration = calibrate(codes, labels)
    i, j = np.triu_indices(len(labels), 1)
    distances, same = np.square(codes[i] - codes[j]).sum(axis=1), labels[i] == labels[j]
    assert (calibration.n_same, calibration.n_other) == (same.sum(), (~same).sum())
    assert (calibration.n_classes, calibration.n_samples) == (40, len(labels))
    for point in calibration.thresholds:
        kept = np.mean(distances[~same] <= point.threshold)
        assert 0 <= point.false_match_rate - kept < 1 / calibration.n_other
        assert point.true_match_rate == np.mean(distances[same] <= point.threshold)
        assert calibration.threshold_at(point.false_match_rate) == pytest.approx(point.threshold)


def test_intervals_cover_the_rates_on_other_classes():
    distances, same = judged(*gaussian_classes(2000, 5))
    hits = []
    for seed in range(60):
        point = calibrate(*gaussian_classes(60, 100 + seed)).thresholds[1]
        low, high = point.false_match_interval
        hits.append([low <= np.mean(distances[~same] <= point.threshold) <= high])
        low, high = point.true_match_interval
        hits[-1].append(low <= np.mean(distances[same] <= point.threshold) <= high)
    covered = np.mean(hits, axis=0)
    assert (covered >= 0.85).all(), covered


def test_intervals_are_wider_than_those_of_independent_pairs():
    codes, labels = gaussian_classes(30, 6)
    calibration = calibrate(codes, labels)
    low, high = calibration.thresholds[0].false_match_interval
    assert high - low > 2 * 1.96 * 2 * np.sqrt(0.1 * 0.9 / calibration.n_other)


def test_probability_is_even_at_the_threshold_and_never_rises():
    calibration = calibrate(*gaussian_classes(100, 7))
    grid = np.linspace(0, 2 * calibration.tail_thresholds[-1], 5000)
    assert (np.diff(calibration.probability(grid)) <= 0).all()
    assert calibration.probability(calibration.threshold) == pytest.approx(0.5)
    assert len(calibration.distances) <= 20


@pytest.mark.parametrize("drawn", [False, True])
def test_the_order_of_the_samples_does_not_matter(drawn):
    bounded = {"max_pairs": 500} if drawn else {}
    codes, labels = gaussian_classes(30, 8)
    order = np.random.default_rng(0).permutation(len(labels))
    calibration = calibrate(codes, labels, **bounded)
    assert calibrate(codes[order], labels[order], **bounded) == calibration
    assert (calibration.n_other <= 500) == drawn


def test_a_distance_of_its_own_is_used():
    codes, labels = gaussian_classes(40, 9)
    flip_free = np.column_stack([codes, np.random.default_rng(0).random(len(codes))])
    calibration = calibrate(flip_free, labels, distance=flip_free_distances)
    i, j = np.triu_indices(len(labels), 1)
    distances = flip_free_distances(flip_free[i], flip_free[j])[labels[i] != labels[j]]
    assert np.mean(distances <= calibration.threshold_at(0.1)) == pytest.approx(0.1, abs=1e-3)
    assert calibrate(codes, labels, distance=lambda a, b: 4 * np.square(a - b).sum(axis=1)).threshold == pytest.approx(
        4 * calibrate(codes, labels).threshold
    )


def test_pairs_are_formed_within_parts_only():
    codes, labels = gaussian_classes(60, 10)
    first = labels < 30
    parts = [(codes[first], labels[first]), (1000 + codes[~first], labels[~first])]
    calibration = calibrate(parts=parts)
    sizes = np.bincount(labels)
    assert calibration.source == "cross-fitting over classes"
    assert calibration.n_classes == 60
    assert calibration.n_same == (sizes * (sizes - 1) // 2).sum()
    assert calibration.n_other == sum(n * (n - 1) // 2 for n in (first.sum(), (~first).sum())) - calibration.n_same
    assert calibration.tail_thresholds[-1] < 1000
    for point in calibration.thresholds:
        low, high = point.false_match_interval
        assert low < point.false_match_rate < high


def test_rates_that_few_pairs_or_classes_cannot_support_are_left_out():
    codes, labels = gaussian_classes(12, 11)
    calibration = calibrate(codes, labels)
    supported = [rate for rate in (1e-1, 1e-2, 1e-3, 1e-4) if rate * calibration.n_other >= 10]
    assert 0 < len(supported) < 4
    assert [point.false_match_rate for point in calibration.thresholds] == supported
    with pytest.raises(ValueError, match="Leave out more classes"):
        calibration.threshold_at(1e-4)
    three = calibrate(np.random.default_rng(0).normal(size=(90, 2)), np.arange(90) % 3)
    assert three.thresholds == three.tail_rates == ()
    assert any("Only 3 labels" in line for line in three.describe())


def test_kinds_that_do_not_overlap_get_finite_odds_and_a_threshold_between_them():
    labels = np.arange(40) // 4
    codes = np.eye(10)[labels] * 10 + np.random.default_rng(0).normal(size=(40, 10)) * 0.01
    calibration = calibrate(codes, labels)
    assert 0.1 < calibration.threshold < 199
    assert 0.9 < calibration.probability(0.0) < 1
    assert 0 < calibration.probability(200.0) < 0.1


def test_equal_codes_tell_nothing():
    calibration = calibrate(np.ones((40, 2)), np.arange(40) // 4)
    np.testing.assert_array_equal(calibration.probability([0.0, 1.0]), 0.5)


def test_distances_that_mislead_give_even_odds():
    same, other = np.random.default_rng(0).normal(5, 1, 500), np.linspace(0, 3, 500)
    assert monotone_knots(Weighted.sorted(same), Weighted.sorted(other), 20)[1] == (0.0,)


def test_few_classes_cannot_claim_certainty():
    same, other = Weighted.sorted(np.linspace(0, 1, 10_000)), Weighted.sorted(np.linspace(2, 3, 10_000))
    odds = [monotone_knots(same, other, n_classes)[1][0] for n_classes in (4, 400)]
    np.testing.assert_allclose(odds, np.log([9, 801]))


CODES, LABELS = gaussian_classes(6, 0)
MISTAKES = {
    "one of the two": lambda: calibrate(CODES, LABELS, parts=[(CODES, LABELS)]),
    "codes and labels, or parts": lambda: calibrate(CODES),
    "parts is empty": lambda: calibrate(parts=[]),
    "codes and labels must have the same length": lambda: calibrate(CODES, LABELS[1:]),
    "No same-class pair": lambda: calibrate(CODES, np.arange(len(CODES))),
    "No other-class pair": lambda: calibrate(CODES, np.zeros(len(CODES))),
    "one finite squared distance per row": lambda: calibrate(CODES, LABELS, distance=lambda a, b: a - b),
    "NaN or infinite": lambda: calibrate(CODES, LABELS, distance=lambda a, b: np.full(len(a), np.nan)),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()
