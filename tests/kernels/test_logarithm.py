"""Logarithms of many small matrices in lanes, against numpy's eigendecomposition in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.kernels.logarithm import LANES, symmetric_logarithms


def upper(M):
    rows, columns = np.triu_indices(M.shape[-1])
    return M[..., rows, columns]


def logarithms(C):
    eigenvalues, V = np.linalg.eigh(C)
    return (V * np.log(eigenvalues)[:, None]) @ V.transpose(0, 2, 1)


def with_condition(rng, n, side, condition):
    V = np.linalg.qr(rng.standard_normal((n, side, side)))[0]
    eigenvalues = condition ** -rng.uniform(0, 1, (n, side))
    eigenvalues[:, 0], eigenvalues[:, -1] = 1, 1 / condition
    C = (V * eigenvalues[:, None]) @ V.transpose(0, 2, 1)
    return (C + C.transpose(0, 2, 1)) / 2


@pytest.mark.slow
@given(st.integers(1, 9), st.integers(1, 2 * LANES + 3), st.floats(1, 1e4), st.integers(0, 10**6))
def test_it_is_numpys_logarithm(side, n, condition, seed):
    C = with_condition(np.random.default_rng(seed), n, side, condition)
    # An eigenvalue is known to float32's eps times the largest one: that is what its logarithm can be off by.
    np.testing.assert_allclose(symmetric_logarithms(upper(C)), upper(logarithms(C)), atol=5e-7 * condition + 5e-6)


def test_matrices_of_large_condition_converge_too():
    C = with_condition(np.random.default_rng(0), 500, 9, 1e6)
    logs = symmetric_logarithms(upper(C))
    assert np.isfinite(logs).all()
    # Compared as matrices: exp(log C) is C to float32.
    full = np.zeros((500, 9, 9))
    rows, columns = np.triu_indices(9)
    full[:, rows, columns] = full[:, columns, rows] = logs
    eigenvalues, V = np.linalg.eigh(full)
    np.testing.assert_allclose((V * np.exp(eigenvalues)[:, None]) @ V.transpose(0, 2, 1), C, atol=5e-6)


@pytest.mark.parametrize("side", [1, 2, 9])
def test_diagonal_matrices_have_the_logarithms_of_their_entries(side):
    values = np.linspace(0.5, 3, side).astype(np.float32)
    logs = symmetric_logarithms(upper(np.diag(values))[np.newaxis])
    np.testing.assert_array_max_ulp(logs[0], upper(np.diag(np.log(values))), maxulp=2)


def test_equal_eigenvalues_are_no_trouble():
    logs = symmetric_logarithms(upper(np.stack([2 * np.eye(9)] * 3)))
    np.testing.assert_allclose(logs, upper(np.stack([np.log(2) * np.eye(9)] * 3)), atol=1e-7)
