import json
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score

from samekind.evaluation import (
    CalibrationDisplay,
    calibrate,
    evaluate_codes,
    flip_free_distances,
    knn_error,
    mean_average_precision,
    reliability,
    verify,
    write_report,
)
from samekind.evaluation import evaluating as module
from samekind.evaluation.class_pairs import MOST_SAMPLES


def sample(n=80, n_classes=10, width=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.append(rng.integers(n_classes, size=n - 1), n_classes)  # the last one alone
    return rng.normal(size=(n, width)) + 1.5 * rng.normal(size=(n_classes + 1, width))[labels], labels


def all_pairs(codes, labels):
    i, j = np.triu_indices(len(labels), 1)
    return i, j, np.square(codes[i] - codes[j]).sum(axis=1), labels[i] == labels[j]


def test_verification_equals_figures_of_all_pairs():
    codes, labels = sample()
    _, _, distances, same = all_pairs(codes, labels)
    found = evaluate_codes(codes, labels, threshold=8.0)
    assert found["accuracy"].value == pytest.approx((np.mean(distances[same] <= 8) + np.mean(distances[~same] > 8)) / 2)
    best = max((np.mean(distances[same] <= t) + np.mean(distances[~same] > t)) / 2 for t in distances)
    assert found["best_accuracy"].value == pytest.approx(best)
    assert found["auc"].value == pytest.approx(roc_auc_score(same, -distances))
    plain = verify(distances, same, far=0.01)
    assert found["eer"].value == pytest.approx(plain.eer)
    assert found["true_match_rate_at_0.01"].value == pytest.approx(plain.true_match_rate)
    assert (found.n_same, found.n_other) == (same.sum(), (~same).sum())
    assert (found.n_classes, found.n_samples, found.n_queries) == (11, 80, 79)


def test_retrieval_equals_literal_loops():
    codes, labels = sample()
    found = evaluate_codes(codes, labels)
    assert found["mean_average_precision"].value == pytest.approx(mean_average_precision(codes, labels))
    assert found["knn_error"].value == pytest.approx(knn_error(codes, labels, 3))
    D = cdist(codes, codes)
    first, precision = [], []
    for i in range(len(labels)):
        order = sorted((j for j in range(len(labels)) if j != i), key=lambda j: D[i, j])
        hits = labels[order] == labels[i]
        if hits.any():
            first.append(hits[0])
            precision.append(hits[: hits.sum()].mean())
    assert found["recall_at_1"].value == pytest.approx(np.mean(first))
    assert found["r_precision"].value == pytest.approx(np.mean(precision))


def test_tied_neighbours_count_by_their_share():
    codes, labels = np.array([[0.0], [1.0], [-1.0], [9.0], [9.5]]), [0, 0, 1, 1, 1]
    found = evaluate_codes(codes, labels)
    # First: one of two at distance 1. Second, third: their nearest is the first. Fourth and fifth find each other.
    assert found["recall_at_1"].value == pytest.approx((0.5 + 1 + 0 + 1 + 1) / 5)
    assert found["r_precision"].value == pytest.approx((0.5 + 1 + 0 + 0.5 + 0.5) / 5)


def test_a_draw_of_classes_weighs_pairs_and_queries_by_its_classes(monkeypatch):
    codes, labels = sample()
    drawn = np.random.default_rng(5).multinomial(11, np.full(11, 1 / 11)).astype(float)
    monkeypatch.setattr(module, "class_weights", lambda *_: np.tile(drawn, (3, 1)))
    found = evaluate_codes(codes, labels, threshold=8.0, calibration=calibrate(*sample(seed=1)))
    i, j, distances, same = all_pairs(codes, labels)
    w = np.where(same, drawn[labels[i]], drawn[labels[i]] * drawn[labels[j]])
    true = w[same] @ (distances[same] <= 8) / w[same].sum()
    false = w[~same] @ (distances[~same] <= 8) / w[~same].sum()
    assert found["accuracy"][1:] == pytest.approx([(1 + true - false) / 2] * 2)
    assert found["auc"][1:] == pytest.approx([roc_auc_score(same, -distances, sample_weight=w)] * 2)
    rate = found.false_match_rates[0]
    realised = w[~same] @ (distances[~same] <= rate.threshold) / w[~same].sum()
    assert rate.realised[1:] == pytest.approx([realised] * 2)
    D = cdist(codes, codes)
    np.fill_diagonal(D, np.inf)
    with_partner = labels != 10
    hits = (labels[D.argmin(axis=1)] == labels)[with_partner]
    assert found["recall_at_1"][1:] == pytest.approx([np.average(hits, weights=drawn[labels[with_partner]])] * 2)


def test_intervals_hold_the_value_and_shrink_with_more_classes():
    few, many = (evaluate_codes(*sample(8 * n, n), threshold=8.0) for n in (10, 160))
    for name, measure in few.measures.items():
        assert measure.low <= measure.value <= measure.high
        assert many[name].high - many[name].low < measure.high - measure.low


def test_calibration_is_compared_with_what_is_observed():
    calibration = calibrate(*sample(600, 60, seed=1))
    codes, labels = sample(400, 20)  # classes of about 20, whose pairs weigh less the larger the class
    found = evaluate_codes(codes, labels, calibration=calibration)
    i, _, distances, same = all_pairs(codes, labels)
    assert found.threshold == calibration.threshold
    predicted = calibration.probability(distances)
    sizes, most = np.bincount(labels)[labels[i]], MOST_SAMPLES * (MOST_SAMPLES - 1)
    w = np.where(same, most / np.maximum(sizes * (sizes - 1), most), 1.0)
    w = np.where(same, w / w[same].sum(), 1 / (~same).sum())
    for tenth in found.tenths:
        number = min(int(10 * tenth.predicted), 9)
        here = np.minimum((10 * predicted).astype(int), 9) == number
        assert tenth.n_pairs == here.sum()
        assert tenth.predicted == pytest.approx(np.average(predicted[here], weights=w[here]))
        assert tenth.observed == pytest.approx(np.average(same[here], weights=w[here]))
        assert tenth.weight == pytest.approx(w[here].sum() / 2)
    assert sum(tenth.n_pairs for tenth in found.tenths) == len(same)
    for rate, point in zip(found.false_match_rates, calibration.thresholds, strict=True):
        assert rate.threshold == point.threshold
        assert rate.realised.value == pytest.approx(np.mean(distances[~same] <= point.threshold))


def test_measures_without_support_are_absent_and_named():
    found = evaluate_codes(*sample(30, 5))
    assert "accuracy" not in found.measures
    assert "true_match_rate_at_0.001" not in found.measures
    with pytest.raises(KeyError, match=r"accuracy.*is not among.*auc"):
        found["accuracy"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_distance_of_its_own_is_used_throughout(wrapped):
    codes, labels = sample()
    flip_free = np.column_stack([codes, np.random.default_rng(0).random(len(codes)) * 3])
    distance = (lambda a, b: flip_free_distances(a, b)) if wrapped else flip_free_distances
    found = evaluate_codes(flip_free, labels, distance=distance)
    i, j = np.triu_indices(len(labels), 1)
    distances = flip_free_distances(flip_free[i], flip_free[j])
    assert found["auc"].value == pytest.approx(roc_auc_score(labels[i] == labels[j], -distances))
    D = np.zeros((len(labels), len(labels)))
    D[i, j] = D[j, i] = distances
    np.fill_diagonal(D, np.inf)
    assert found["recall_at_1"].value == pytest.approx((labels[D.argmin(axis=1)] == labels)[labels != 10].mean())


def test_samples_of_one_id_are_never_compared():
    codes, labels = sample()
    doubled = np.concatenate([codes, codes + 1e-6]), np.concatenate([labels, labels])
    names = [f"picture {number}" for number in range(80)]
    once, twice = evaluate_codes(codes, labels), evaluate_codes(*doubled, ids=[*names, *names])
    for name in ("auc", "eer", "recall_at_1"):
        assert twice[name].value == pytest.approx(once[name].value)
    assert evaluate_codes(*doubled)["auc"].value > once["auc"].value


def test_the_seed_decides_and_pairs_are_bounded():
    codes, labels = sample()
    first, again, other = (evaluate_codes(codes, labels, random_state=seed, max_pairs=200) for seed in (0, 0, 1))
    assert first == again != other
    assert max(first.n_same, first.n_other) <= 200


@pytest.mark.slow
def test_memory_stays_far_below_all_distances():
    codes, labels = sample(5000, 700)
    tracemalloc.start()
    try:
        evaluate_codes(codes, labels, memory_budget=2**22, max_pairs=20_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * 2**20  # all distances would take 200 MB


def test_json_table_and_sections_say_what_was_measured(tmp_path):
    calibration = calibrate(*sample(300, 40, seed=1))
    found = evaluate_codes(*sample(), calibration=calibration)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["measures"]["auc"]["value"] == found["auc"].value
    assert plain["false_match_rates"][0]["realised"]["low"] == found.false_match_rates[0].realised.low
    assert plain["n_queries"] == 79
    rows = {row[0]: row[1:] for row in found.table().rows}
    assert rows["Area under the ROC curve"] == list(found["auc"])
    assert len(rows) == len(found.measures)
    headings = [section.heading for section in found.sections()]
    assert headings == ["Evaluation", "Verification", "Distances", "Calibration"]
    html = write_report(tmp_path / "report.html", "Evaluation", found.sections()).read_text()
    assert "Predicted probability" in html
    assert "80 samples of 11 classes" in html
    assert len(evaluate_codes(*sample()).sections()) == 3


def test_reliability_of_few_pairs_by_hand():
    tenths = reliability([0.05, 0.95, 1.0, 0.92], [False, True, True, False])
    assert [tuple(tenth) for tenth in tenths] == [
        pytest.approx((0.05, 0.0, 1, 0.25)),
        pytest.approx(((0.95 + 1.0 + 0.92) / 3, 2 / 3, 3, 0.75)),
    ]
    heavy = reliability([0.05, 0.95, 1.0, 0.92], [False, True, True, False], weights=[1, 1, 1, 3])
    assert [tuple(tenth) for tenth in heavy] == [
        pytest.approx((0.05, 0.0, 1, 0.125)),
        pytest.approx(((0.95 * 2 + 1.0 * 2 + 0.92 * 3) / 7, 4 / 7, 3, 0.875)),
    ]
    for wrong in ([1, 1], [1, 0, 1, 1]):
        with pytest.raises(ValueError, match="weights must be one positive number for each pair"):
            reliability([0.05, 0.95, 1.0, 0.92], [False, True, True, False], weights=wrong)
    with pytest.raises(ValueError, match="between 0 and 1"):
        reliability([0.5, 1.5], [True, False])


def test_display_draws_the_tenths_with_more_pairs_larger():
    calibration = calibrate(*sample(300, 40, seed=1))
    _, _, distances, same = all_pairs(*sample())
    display = CalibrationDisplay.from_distances(distances, same, calibration, name="mine")
    tenths = reliability(calibration.probability(distances), same)
    np.testing.assert_array_equal(display.line_.get_xdata(), [tenth.predicted for tenth in tenths])
    np.testing.assert_array_equal(display.line_.get_ydata(), [tenth.observed for tenth in tenths])
    assert np.argmax(display.points_.get_sizes()) == np.argmax([tenth.n_pairs for tenth in tenths])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["mine"]
    with pytest.raises(ValueError, match="no pairs"):
        CalibrationDisplay([]).plot()


MISTAKES = {
    "threshold is NaN": lambda: evaluate_codes(*sample(), threshold=np.nan),
    "codes and labels must have the same length": lambda: evaluate_codes(sample()[0], [0, 1]),
    "n_neighbors=3, but a query has 2 samples": lambda: evaluate_codes(np.eye(3), [0, 0, 1]),
    "No query has a sample of its class": lambda: evaluate_codes(np.eye(5), range(5)),
    "No other-class pair": lambda: evaluate_codes(np.eye(5), np.zeros(5)),
    "ids must be one per sample, 80; got 2": lambda: evaluate_codes(*sample(), ids=[1, 2]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()
