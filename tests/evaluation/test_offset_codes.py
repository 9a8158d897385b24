"""Codes of a vector and a number, whose distances may be negative, in every figure."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.evaluation import (
    best_threshold,
    calibrate,
    evaluate_codes,
    label_pairs,
    mean_average_precision_score,
    pair_auc_score,
    pair_distances,
    verify,
    verify_codes,
)
from samekind.evaluation.query_figures import query_figures
from samekind.kernels.similarity import offset_distances


def offset_codes(n_classes=8, per_class=4, seed=0, dtype=np.float64):
    """Vectors with class structure, and numbers below zero that differ much."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), per_class)
    vectors = rng.standard_normal((n_classes, 3))[labels] + 0.5 * rng.standard_normal((len(labels), 3))
    return np.column_stack([vectors, -4 * rng.random(len(labels))]).astype(dtype), labels


def one_distance(a, b):
    return sum((p - q) ** 2 for p, q in zip(a[:-1], b[:-1], strict=True)) + a[-1] + b[-1]


def literal_figures(codes, labels):
    """Average precision, precision at 1, and error of the nearest neighbour, of each query."""
    found = []
    for i, (code, label) in enumerate(zip(codes, labels, strict=True)):
        others = sorted((one_distance(code, codes[j]), j) for j in range(len(codes)) if j != i)
        right = [labels[j] == label for _, j in others]
        precisions = [sum(right[: k + 1]) / (k + 1) for k in range(len(right)) if right[k]]
        found.append((np.mean(precisions), float(right[0]), float(not right[0])))
    return np.array(found).T


def other_name(a, b):
    """The same, which the search does not know."""
    return offset_distances(a, b)


@given(st.integers(0, 10_000), st.sampled_from([offset_distances, other_name]))
def test_retrieval_equals_a_loop(seed, distance):
    codes, labels = offset_codes(seed=seed)
    figures = query_figures(codes, labels, distance=distance, n_neighbors=1)
    precision, first, wrong = literal_figures(codes, labels)
    np.testing.assert_allclose(figures.average_precision, precision, atol=1e-12)
    np.testing.assert_array_equal(figures.recall_at_1, first)
    np.testing.assert_array_equal(figures.wrong, wrong)


def test_samples_with_the_id_of_a_query_are_left_out():
    codes, labels = offset_codes()
    twice, ids = np.concatenate([codes, codes]), list(range(len(codes))) * 2
    once = query_figures(codes, labels, distance=offset_distances, n_neighbors=1)
    both = query_figures(twice, np.tile(labels, 2), distance=offset_distances, ids=ids, n_neighbors=1)
    np.testing.assert_allclose(both.recall_at_1, np.tile(once.recall_at_1, 2))


def test_pair_distances_and_verification_equal_a_loop():
    codes, labels = offset_codes()
    pairs, same = label_pairs(labels, max_pairs=60, random_state=3)
    expected = [one_distance(codes[i], codes[j]) for i, j in pairs]
    assert min(expected) < 0
    np.testing.assert_allclose(pair_distances(codes, pairs, distance=offset_distances, chunk=7), expected)
    judged = verify_codes(codes, labels, distance=offset_distances, max_pairs=60, random_state=3)
    by_hand = verify(np.array(expected), same)
    assert judged.auc == pytest.approx(by_hand.auc)
    assert judged.auc != verify_codes(codes, labels, max_pairs=60, random_state=3).auc


@pytest.mark.parametrize("wrong", [lambda a, b: a, lambda a, b: np.full(len(a), np.nan)])
def test_a_distance_of_other_shape_or_without_numbers_is_refused(wrong):
    codes, labels = offset_codes()
    with pytest.raises(ValueError, match="one finite squared distance per row"):
        verify_codes(codes, labels, distance=wrong)


def shifted(codes, by):
    """All distances are larger by the same."""
    moved = codes.copy()
    moved[:, -1] += by / 2
    return moved


def test_thresholds_and_probabilities_move_with_the_distances():
    codes, labels = offset_codes(40, 5)
    low, high = (calibrate(shifted(codes, by), labels, distance=offset_distances) for by in (-30, 30))
    assert high.threshold - low.threshold == pytest.approx(60)
    assert high.threshold > 0 > low.threshold
    assert high.threshold_at(0.1) - low.threshold_at(0.1) == pytest.approx(60)
    assert low.false_match_rate(low.threshold_at(0.1)) == pytest.approx(0.1)
    distances = np.linspace(-20, 20, 9)
    np.testing.assert_allclose(low.probability(distances - 30), high.probability(distances + 30), rtol=1e-7)


@pytest.mark.parametrize("strategy", ["accuracy", "balanced", "logistic", "far"])
def test_the_best_threshold_may_be_negative(strategy):
    codes, labels = offset_codes(12, 5)
    pairs, same = label_pairs(labels)
    distances = pair_distances(codes, pairs, distance=offset_distances)
    one, other = (best_threshold(distances + by, same, strategy=strategy, far=0.1) for by in (0, -100))
    assert other == pytest.approx(one - 100, abs=1e-4)


def test_evaluation_does_not_depend_on_where_distances_start():
    codes, labels = offset_codes(12, 5)
    one, other = (evaluate_codes(shifted(codes, by), labels, distance=offset_distances) for by in (0, -50))
    for name, measure in one.measures.items():
        assert other.measures[name].value == pytest.approx(measure.value, abs=1e-9), name
    assert other.best_threshold == pytest.approx(one.best_threshold - 50)
    assert other.sections()


def test_scores_of_estimators_use_the_distance_of_the_model():
    """Negative distances are told apart: a search that took them for 0 would find ties."""
    codes, labels = offset_codes()
    codes = shifted(codes, -40)
    model = SimpleNamespace(transform=np.asarray, metric_=SimpleNamespace(code_distance=other_name))
    expected = np.mean(literal_figures(codes, labels)[0])
    assert mean_average_precision_score(model, codes, labels) == pytest.approx(expected)
    pairs = np.array(np.triu_indices(len(labels), 1)).T
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    by_hand = verify(pair_distances(codes, pairs, distance=offset_distances), same).auc
    assert pair_auc_score(model, codes, labels) == pytest.approx(by_hand)
