import numpy as np
import pytest

from samekind.kernels.principal import leading_directions, projected, weighted_mean


def samples(N, D, dtype=np.float64):
    return (np.random.default_rng(0).standard_normal((N, D)) * np.linspace(3, 1, D) + 4).astype(dtype)


@pytest.mark.parametrize(("N", "D"), [(30, 5), (5, 30), (6, 6)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_are_those_of_a_singular_value_decomposition(N, D, dtype):
    Z = samples(N, D, dtype)
    mean = weighted_mean(Z)
    made = leading_directions(Z, 3, mean, at_once=20)  # several blocks
    expected = np.linalg.svd(Z.astype(float) - mean)[2][:3].T
    assert made.dtype == dtype
    np.testing.assert_allclose(np.abs(np.sum(made * expected, axis=0)), 1, rtol=1e-5 if dtype == np.float32 else 1e-9)
    codes = projected(Z, made, mean, at_once=20)
    np.testing.assert_allclose(codes, (Z - mean) @ made, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("N", "D"), [(12, 4), (4, 12)])
def test_weights_are_repeated_samples(N, D):
    Z, weights = samples(N, D), np.arange(1, N + 1)
    repeated = np.repeat(Z, weights, axis=0)
    mean = weighted_mean(Z, weights.astype(float))
    np.testing.assert_allclose(mean, repeated.mean(axis=0))
    np.testing.assert_allclose(
        leading_directions(Z, 3, mean, weights.astype(float)), leading_directions(repeated, 3, mean), atol=1e-9
    )


@pytest.mark.parametrize(("N", "D"), [(20, 6), (6, 20)])
def test_directions_without_variance_are_left_out(N, D):
    Z = samples(N, 2) @ np.random.default_rng(1).standard_normal((2, D))
    assert leading_directions(Z, 5, weighted_mean(Z)).shape == (D, 2)
    assert leading_directions(np.ones((N, D)), 5, np.ones(D)).shape == (D, 1)
