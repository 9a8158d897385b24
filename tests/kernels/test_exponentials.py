"""The compiled tiles against NumPy's, and NumPy's against the definition."""

import numpy as np
import pytest

from samekind.kernels import exponentials, fused
from samekind.kernels.exponentials import ABSENT, FUSED_FROM, LEAST_WEIGHT
from samekind.kernels.runs import Runs

SMALL = [(1, 1), (3, 5), (33, 64), (65, 31), (160, 204)]  # done by NumPy
LARGE = [(3, 11_000), (33, 1_001), (65, 511), (200, 330)]  # compiled
SHAPES = SMALL + LARGE


def test_shapes_are_of_both_kinds():
    assert max(n * m for n, m in SMALL) < FUSED_FROM <= min(n * m for n, m in LARGE)


def distances(shape, scale=20.0):
    D = (scale * np.random.default_rng(0).random(shape)).astype(np.float32)
    D[0, 0] = ABSENT
    return D


@pytest.mark.parametrize("shape", SHAPES)
def test_exp_sums(shape):
    D = distances(shape)
    E = np.exp(2.0 - D.astype(np.float64))
    rows, cols = exponentials.exp_sums(2.0, D)
    np.testing.assert_allclose(rows, E.sum(axis=1), rtol=3e-6)
    np.testing.assert_allclose(cols, E.sum(axis=0), rtol=3e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_exp_times_sum(shape):
    D, rng = distances(shape), np.random.default_rng(1)
    u, v = rng.random(shape[0]), -rng.random(shape[1])
    u, v = u.astype(np.float32), v.astype(np.float32)
    expected = np.exp(2.0 - D.astype(np.float64)) * np.add.outer(u, v)
    np.testing.assert_allclose(exponentials.exp_times_sum(2.0, D, u, v), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_zero_or_large_enough_for_products_of_normal_numbers(shape):
    D = distances(shape, scale=150.0)
    u, v = np.full(shape[0], 1e-9, np.float32), np.full(shape[1], 2e-9, np.float32)
    E = np.exp(2.0 - D.astype(np.float64))
    pairs = {
        "softmin": (exponentials.exp_times_sum(2.0, D, u, v), 3e-9 * E),
        "sigmoid": (exponentials.sigmoid_and_softplus_sum(2.0, D, -1e-9)[0], -1e-9 * E / (1 + E)),
    }
    for H, expected in pairs.values():
        kept = np.abs(expected) >= 1.001 * LEAST_WEIGHT
        np.testing.assert_allclose(H[kept], expected[kept], rtol=1e-6)
        assert not H[np.abs(expected) <= 0.999 * LEAST_WEIGHT].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_row_and_column_sums(shape):
    H = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    rows, cols = exponentials.row_and_column_sums(H)
    np.testing.assert_allclose(rows, H.sum(axis=1, dtype=np.float64), atol=1e-4)
    np.testing.assert_allclose(cols, H.sum(axis=0, dtype=np.float64), atol=1e-4)
    back, forth = exponentials.row_and_column_sums(H.T)
    np.testing.assert_allclose(back, cols, atol=1e-4)
    np.testing.assert_allclose(forth, rows, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_go_into_memory_that_is_there(shape):
    D = distances(shape)
    expected, total = exponentials.sigmoid_and_softplus_sum(14.0, D, -0.5)
    out = np.full_like(D, 7)
    H, again = exponentials.sigmoid_and_softplus_sum(14.0, D, -0.5, out)
    assert H is out
    assert again == total
    np.testing.assert_array_equal(H, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threshold", [1.0, 14.0])
def test_sigmoid_and_softplus_sum(shape, threshold):
    D = distances(shape, 60.0)
    margin = threshold - D.astype(np.float64)
    H, total = exponentials.sigmoid_and_softplus_sum(threshold, D, -0.5)
    np.testing.assert_allclose(H, -0.5 * np.exp(-np.logaddexp(0, -margin)), rtol=1e-5, atol=1e-30)
    assert total == pytest.approx(np.logaddexp(0, margin).sum(), rel=1e-6, abs=1e-7 * D.size)
    assert H[0, 0] == 0


def runs_of(shape, seed=2):
    """Some empty, some beyond a product's factors, some with their own sample inside."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, shape[1], shape[0])
    last = np.minimum(first + rng.integers(0, shape[1] + 1, shape[0]), shape[1])
    own = np.where(rng.random(shape[0]) < 0.5, rng.integers(-1, shape[1], shape[0]), -1)
    first[0], last[0], own[0] = 0, shape[1], 0
    return Runs(first, last, own)


@pytest.mark.parametrize("shape", SHAPES)
def test_softplus_over_runs(shape):
    D, runs, rng = distances(shape, 60.0), runs_of(shape), np.random.default_rng(3)
    scales, before = rng.random(shape[0]), rng.random(shape).astype(np.float32)
    H, expected, total = before.copy(), before.astype(np.float64), 0.0
    for i in range(shape[0]):
        for j in range(runs.first[i], runs.last[i]):
            if j != runs.own[i]:
                margin = float(D[i, j]) - 14.0
                total += scales[i] * np.logaddexp(0, margin)
                expected[i, j] = scales[i] * np.exp(-np.logaddexp(0, -margin))
    made = exponentials.softplus_over_runs(14.0, D, runs, scales, H)
    np.testing.assert_allclose(H, expected, rtol=1e-5)
    assert made == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_runs(shape):
    D, runs = distances(shape), runs_of(shape)
    kept, expected = D.copy(), D.copy()
    for row, first, last in zip(expected, runs.first, runs.last, strict=True):
        row[first:last] = ABSENT
    np.testing.assert_array_equal(exponentials.without_runs(D, runs), expected)
    np.testing.assert_array_equal(D, kept)


@pytest.mark.parametrize("width", [4, FUSED_FROM])
def test_far_pairs_count_nothing_and_nothing_overflows(width):
    D = np.full((2, width), 1e6, np.float32)
    D[0, 1:4] = 0.0, ABSENT, 90.0
    rows, cols = exponentials.exp_sums(0.0, D)
    np.testing.assert_allclose(rows, [1, 0], atol=1e-30)
    np.testing.assert_allclose(cols, np.arange(width) == 1, atol=1e-30)
    H, total = exponentials.sigmoid_and_softplus_sum(14.0, D, 1.0)
    assert np.isfinite(H).all()
    assert total == pytest.approx(np.logaddexp(0, 14.0), rel=1e-6)


def test_the_compiled_exponential_is_right_over_its_whole_range():
    x = np.linspace(-86.9, 87.9, 100_001).astype(np.float32)
    raised = np.where(x < 0, 2.0**60, 1.0).astype(np.float32)  # weights that are not too small to count
    made = fused.exp_times_sum(np.float32(0), -x[None, :], np.zeros(1, np.float32), raised)[0]
    np.testing.assert_allclose(made / raised, np.exp(x.astype(np.float64)), rtol=3e-7)


def test_small_and_double_precision_tiles_need_no_compiler(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a small tile went to the compiler")

    for name in ("exp_sums", "exp_times_sum", "sigmoid_and_softplus_parts", "softplus_over_runs", "fill_runs", "sums"):
        monkeypatch.setattr(fused, name, refuse)
    for D in (np.ones((10, 10), np.float32), np.ones((300, 300), np.float64)):
        exponentials.exp_sums(0.0, D)
        exponentials.exp_times_sum(0.0, D, np.ones(len(D)), np.ones(len(D)))
        exponentials.sigmoid_and_softplus_sum(1.0, D, 1.0)
        runs = Runs(*(np.full(len(D), column) for column in (0, 3, 1)))
        exponentials.softplus_over_runs(1.0, D, runs, np.ones(len(D)), np.zeros_like(D))
        exponentials.without_runs(D, runs)
        exponentials.row_and_column_sums(D)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_scaled_sum(shape, turned):
    D, rng = distances(shape), np.random.default_rng(5)
    D0 = rng.random(shape[::-1]).astype(np.float32).T if turned else rng.random(shape).astype(np.float32)
    out = np.empty_like(D)
    exponentials.scaled_sum(D0, 0.3, D, out)
    np.testing.assert_allclose(out, 0.3 * D0.astype(np.float64) + D, rtol=1e-6)
    exponentials.scaled_sum(D0, 0.3, D, D)
    np.testing.assert_array_equal(D, out)
