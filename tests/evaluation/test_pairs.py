import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samekind.evaluation import label_pairs, pair_distances

labels_strategy = st.lists(st.sampled_from("abcd"), min_size=2, max_size=12).filter(
    lambda labels: 1 < len(set(labels)) < len(labels)
)


@settings(deadline=None)
@given(labels_strategy, st.integers(2, 80), st.integers(0, 5))
def test_label_pairs_are_true_distinct_ordered_and_balanced(labels, max_pairs, seed):
    pairs, same = label_pairs(labels, max_pairs=max_pairs, random_state=seed)
    labels = np.array(labels)
    n = len(labels)
    every_pair = [(i, j) for i in range(n) for j in range(i + 1, n)]
    n_same = sum(labels[i] == labels[j] for i, j in every_pair)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert pairs.max() < n
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    np.testing.assert_array_equal(labels[pairs[:, 0]] == labels[pairs[:, 1]], same)
    assert same.sum() == (~same).sum() == min(max_pairs // 2, n_same, len(every_pair) - n_same)


def test_label_pairs_are_all_there_when_there_is_room():
    labels = [0, 1, 0, 1]
    pairs, same = label_pairs(labels)
    assert {tuple(pair) for pair in pairs[same]} == {(0, 2), (1, 3)}
    assert len(pairs) == 4


def test_label_pairs_are_uniform():
    labels = np.array([0, 0, 0, 0, 1, 1, 2])  # 7 same-class pairs, 14 others
    drawn = [label_pairs(labels, max_pairs=6, random_state=seed) for seed in range(1500)]
    for kind, total in ((True, 7), (False, 14)):
        chosen = np.concatenate([pairs[same == kind] for pairs, same in drawn])
        _, counts = np.unique(chosen, axis=0, return_counts=True)
        expected = 1500 * 3 / total
        assert len(counts) == total
        np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(expected))


def test_label_pairs_are_determined_by_the_seed():
    labels = np.arange(1000) % 30
    first, again, other = (label_pairs(labels, max_pairs=100, random_state=seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_label_pairs_of_many_samples_stay_small():
    pairs, same = label_pairs(np.arange(200_000) % 3, max_pairs=1000)  # 2e10 pairs to choose from
    assert pairs.shape == (1000, 2)
    assert (pairs >= 0).all()
    np.testing.assert_array_equal(pairs[:, 0] % 3 == pairs[:, 1] % 3, same)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_pair_distances_equal_a_literal_loop(chunk, dtype):
    codes = np.random.default_rng(0).normal(scale=20, size=(9, 4)).astype(dtype)
    pairs = np.array([(i, j) for i in range(9) for j in range(i + 1, 9)])
    literal = [sum((float(a) - float(b)) ** 2 for a, b in zip(codes[i], codes[j], strict=True)) for i, j in pairs]
    np.testing.assert_allclose(pair_distances(codes, pairs, chunk=chunk), literal, rtol=1e-14)


def test_pair_distances_keep_small_differences_far_from_the_origin():
    codes = np.array([[4096.0], [4096.0 + 2**-8]], dtype=np.float32)
    assert pair_distances(codes, [[0, 1]])[0] == 2.0**-16


MISTAKES = {
    "No same-class pair: each of the 3": lambda: label_pairs([1, 2, 3]),
    "No other-class pair: all 3": lambda: label_pairs(["a", "a", "a"]),
    "two samples; got 1": lambda: label_pairs(["a"]),
    "labels must be one-dimensional": lambda: label_pairs([[1, 1, 2]]),
    "labels hold NaN": lambda: label_pairs([1.0, 1.0, np.nan]),
    "max_pairs must be": lambda: label_pairs([1, 1, 2], max_pairs=1),
    "n_pairs, 2": lambda: pair_distances(np.eye(3), [0, 1]),
    "samples 0 to 2; got indices from 0 to 3": lambda: pair_distances(np.eye(3), [[0, 3]]),
    "got indices from -1": lambda: pair_distances(np.eye(3), [[0, -1]]),
    "chunk must be": lambda: pair_distances(np.eye(3), [[0, 1]], chunk=0),
    "codes hold NaN": lambda: pair_distances([[np.inf], [0.0]], [[0, 1]]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()
