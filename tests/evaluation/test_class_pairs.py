import tracemalloc

import numpy as np
import pytest

from samekind.evaluation import class_pairs as module
from samekind.evaluation.class_bootstrap import class_weights, false_match_rates, interval, true_match_rates
from samekind.evaluation.class_pairs import class_pairs


def sample(n=60, n_classes=9, width=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)) + 100, rng.integers(n_classes, size=n)


def literal(codes, labels):
    """(class, class, distance) of all pairs, by loops."""
    return [
        (*sorted((labels[i], labels[j])), float(np.sum((codes[i] - codes[j]) ** 2)))
        for i in range(len(labels))
        for j in range(i + 1, len(labels))
    ]


@pytest.mark.parametrize("cells", [20, 2_000_000])
def test_all_pairs_with_their_classes_equal_a_literal_loop(cells):
    codes, labels = sample()
    parts = [module._in_order(codes, labels)]
    expected = sorted(literal(codes, labels))
    for kind in (True, False):
        found = module._pooled(parts, kind, 1, None, np.random.default_rng(0), module._AtOnce(cells, rows=7))
        wanted = np.array([row for row in expected if (row[0] == row[1]) == kind])
        got = np.array(sorted(zip(found.first, found.second, found.distances, strict=True)))
        np.testing.assert_array_equal(got[:, :2], wanted[:, :2])
        np.testing.assert_allclose(got[:, 2], wanted[:, 2], rtol=1e-9)


def test_drawn_pairs_are_even_over_all_pairs():
    codes, labels = np.arange(24.0)[:, np.newaxis] ** 2, np.arange(24) // 4  # all distances differ by pair or so
    every = class_pairs([(codes, labels)]).other.distances
    values, multiplicity = np.unique(every, return_counts=True)
    counts = np.zeros(len(values))
    for seed in range(600):
        drawn = class_pairs([(codes, labels)], max_pairs=100, random_state=seed).other.distances
        assert 90 <= len(drawn) <= 100
        counts += np.bincount(np.searchsorted(values, drawn), minlength=len(values))
    expected = counts.sum() * multiplicity / multiplicity.sum()
    np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(expected.max()))


def test_memory_is_bounded_by_the_pairs_kept_not_by_all_pairs():
    codes, labels = np.random.default_rng(0).normal(size=(6000, 3)), np.arange(6000) // 3
    tracemalloc.start()
    try:
        pairs = class_pairs([(codes, labels)], max_pairs=100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(pairs.other) > 95_000
    assert peak < 96 * 2**20  # all distances would take 288 MB


def test_weighted_rates_equal_literal_sums_over_drawn_classes():
    codes, labels = sample()
    pairs = class_pairs([(codes, labels), (codes[:20] + 1, labels[:20] + 9)])
    weights = class_weights(pairs.n_classes, 5, np.random.default_rng(0))
    assert (weights.sum(axis=1) == pairs.n_classes).all()
    rows = [*literal(codes, labels), *literal(codes[:20], labels[:20] + 9)]
    threshold = 4.0
    for w, true_rate, false_rate in zip(
        weights, true_match_rates(pairs, threshold, weights), false_match_rates(pairs, threshold, weights), strict=True
    ):
        same = [(w[a], d <= threshold) for a, b, d in rows if a == b]
        other = [(w[a] * w[b], d <= threshold) for a, b, d in rows if a != b]
        assert true_rate == pytest.approx(sum(v for v, hit in same if hit) / sum(v for v, _ in same))
        assert false_rate == pytest.approx(sum(v for v, hit in other if hit) / sum(v for v, _ in other))


def test_interval_is_the_middle_of_the_defined_values():
    low, high = interval(np.append(np.arange(1001.0), np.nan))
    assert (low, high) == pytest.approx((25.0, 975.0), rel=1e-12)
    assert np.isnan(interval(np.array([np.nan]))).all()
