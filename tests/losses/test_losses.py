"""What every loss has: value, weights and gradient (Eq. 3-6, 9-11) as literal loops have them."""

import numpy as np
import pytest

from samekind.kernels.laplacian import GramForm
from tests import cases, oracle


@pytest.fixture(params=cases.ALL_LOSSES)
def loss(request):
    return request.param


def assert_as_the_oracles(case, A, tolerance):
    D = oracle.distances(case.Z, A)
    W = case.reference.weights(D)
    value, G = case.objective.value_and_form(cases.under(case.Z, A), GramForm(case.Z))
    assert value == pytest.approx(case.reference.value(D), rel=tolerance)
    assert cases.relative_error(cases.both_ends(case.objective, cases.under(case.Z, A)), W + W.T) < tolerance
    assert cases.relative_error(G, oracle.gradient(case.Z, W)) < tolerance


@pytest.mark.parametrize("sizes", [cases.SIZES, (6, 5), (1, 7)], ids=str)
@pytest.mark.parametrize("A", [cases.random_psd(6), cases.random_symmetric(6)], ids=["psd", "indefinite"])
def test_value_weights_and_gradient_equal_the_oracles(loss, sizes, A):
    assert_as_the_oracles(cases.case(loss, sizes), A, 1e-9)


def test_float32_agrees_as_far_as_float32_goes(loss):
    # Distances reach 30, so each carries an error of 30 * 6e-8 = 2e-6, and so do the exponents.
    case, A = cases.case(loss, dtype=np.float32), cases.random_psd(6)
    assert oracle.distances(case.Z, A).max() < 30
    assert_as_the_oracles(case, A, 1e-5)


def test_the_oracles_two_gradients_agree(loss):
    case = cases.case(loss)
    W = case.reference.weights(oracle.distances(case.Z, cases.random_psd(6)))
    assert cases.relative_error(oracle.gradient(case.Z, W), oracle.laplacian_gradient(case.Z, W)) < 1e-12
