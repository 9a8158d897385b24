"""The triplet loss (Eq. 9-11): the surrogate, its weights, and distances of very different scales."""

import numpy as np
import pytest

from samekind.kernels.laplacian import GramForm
from samekind.kernels.reductions import shared_exponent_range
from samekind.losses import TripletLoss
from tests import cases, oracle


@pytest.fixture(params=cases.TRIPLET_LOSSES)
def loss(request):
    return request.param


def test_the_oracles_log_space_value_is_the_mean_over_triplets(loss):
    case = cases.case(loss)
    D = oracle.distances(case.Z, cases.random_psd(6, scale=0.5))
    assert case.reference.value(D) == pytest.approx(case.reference.value_from_triplets(D), rel=1e-12)


@pytest.mark.parametrize("beta", [0.01, 1.0, 1e6])
def test_beta_scales_as_in_the_surrogate(beta):
    case = cases.case("triplet")
    D = oracle.distances(case.Z, cases.random_psd(6))
    bound = TripletLoss(beta).bind(case.objective.relation)
    literal = oracle.Triplet(case.labels, beta).value(D)
    everything = slice(0, len(D))
    statistics, _ = bound.statistics(D, case.objective.relation.tile(everything, everything), False)
    assert bound.anchors(statistics)[0] == pytest.approx(literal, rel=1e-12)


def test_the_loss_of_equal_distances_is_one():
    # psi_beta(e^0) = 1, whatever beta and the classes: every anchor is as near to its own as to the others.
    case = cases.case("triplet")
    assert case.objective.value(cases.under(case.Z, np.zeros((6, 6)))) == pytest.approx(1.0, rel=1e-14)


def test_anchors_without_a_partner_pull_nothing_but_are_pushed():
    case = cases.case("triplet")
    singletons = [i for i, label in enumerate(case.labels) if list(case.labels).count(label) == 1]
    source = cases.under(case.Z, cases.random_psd(6))
    ends = cases.both_ends(case.objective, source)
    assert len(singletons) == 2
    np.testing.assert_array_equal(case.objective.weights(source).source.anchors.factors[singletons], 0)
    assert (ends[singletons].sum(axis=1) < 0).all()
    np.testing.assert_array_equal(ends[np.ix_(singletons, singletons)], 0)


def test_on_some_anchors_it_is_the_mean_over_those_that_have_a_partner(loss):
    case = cases.case(loss)
    D, everything = oracle.distances(case.Z, cases.random_psd(6)), slice(0, len(case.labels))
    alone = next(i for i in range(len(D)) if i not in case.reference.anchors)
    some = case.reference.anchors[::3]
    case.reference.anchors = some
    statistics, _ = case.objective.loss.statistics(D, case.objective.relation.tile(everything, everything), False)
    value, anchors = case.objective.loss.on_anchors(np.array([alone, *some])).anchors(statistics)
    assert value == pytest.approx(case.reference.value(D), rel=1e-12)
    np.testing.assert_array_equal(np.flatnonzero(anchors.factors), some)


def test_the_weights_of_an_anchor_sum_to_zero(loss):
    case = cases.case(loss)
    W = case.reference.weights(oracle.distances(case.Z, cases.random_psd(6)))
    np.testing.assert_allclose(W.sum(axis=1), 0, atol=1e-15)
    ends = cases.both_ends(case.objective, cases.under(case.Z, cases.random_psd(6)))
    assert abs(ends.sum()) < 1e-14


def test_equation_11_as_printed_is_not_the_gradient():
    case = cases.case("triplet")
    A, direction = cases.random_psd(6, scale=0.3), cases.random_symmetric(6, seed=1)
    D = oracle.distances(case.Z, A)
    slope = cases.directional_difference(lambda M: case.reference.value(oracle.distances(case.Z, M)), A, direction)
    softmax = np.vdot(oracle.gradient(case.Z, case.reference.weights(D)), direction)
    printed = np.vdot(oracle.gradient(case.Z, case.reference.weights_as_printed_in_eq_11(D)), direction)
    assert softmax == pytest.approx(slope, rel=1e-7)
    assert abs(printed - slope) > 0.5 * abs(slope)


def far_apart_case(loss, away, block):
    """A class far from the rest, and one sample far from its class: rows whose nearest others are 1 to `away` off."""
    X, labels = cases.labelled_data((5, 1, 4, 3), 6)
    X[labels == 3] += away
    X[np.flatnonzero(labels == 2)[0]] -= away
    return cases.case_of(loss, X, labels, block=block)


@pytest.mark.parametrize("away", [30.0, 1e3])
@pytest.mark.parametrize("block", [3, 5, 13])
def test_rows_of_very_different_scales_agree_with_log_space(loss, away, block, strict_warnings):
    # Distances reach 6e6 (2e7 between the two far ends), so they are known to about 1e-9, and exponents with them.
    case = far_apart_case(loss, away, block)
    A = np.eye(6)
    D = oracle.distances(case.Z, A)
    W = case.reference.weights(D)
    source = cases.under(case.Z, A)
    value, G = case.objective.value_and_form(source, GramForm(case.Z))
    ends = cases.both_ends(case.objective, source)
    assert value == pytest.approx(case.reference.value(D), rel=1e-9)
    np.testing.assert_allclose(ends, W + W.T, rtol=1e-8, atol=1e-10 * np.abs(W).max())
    assert cases.relative_error(G, oracle.gradient(case.Z, W)) < 1e-8


@pytest.mark.parametrize("away", [30.0, 1e3])
def test_those_cases_have_tiles_that_one_exponential_serves_and_tiles_that_need_two(away):
    case = far_apart_case("triplet", away, 3)
    D = oracle.distances(case.Z, np.eye(6))
    log_sums = np.array(
        [-oracle.log_sum_exp([-D[i][k] for k in others]) for i, others in enumerate(case.reference.others)]
    )
    mirrored = [tile for tile in case.objective.plan.tiles() if tile.mirrored]
    apart = [np.ptp(np.append(log_sums[tile.rows], log_sums[tile.cols])) for tile in mirrored]
    assert min(apart) < shared_exponent_range(np.dtype(np.float64)) < max(apart)


def test_float32_rows_of_very_different_scales_stay_finite(loss, strict_warnings):
    # Distances reach 2e7, known to about 1 in float32; so are the z_i, and the value is their mean over ln(1 + beta).
    there = far_apart_case(loss, 1e3, 5)
    case = cases.case_of(loss, there.Z.astype(np.float32), there.labels)
    value, G = case.objective.value_and_form(cases.under(case.Z, np.eye(6)), GramForm(case.Z))
    literal = case.reference.value(oracle.distances(case.Z, np.eye(6)))
    assert literal > 100
    assert value == pytest.approx(literal, rel=1e-6, abs=1 / np.log1p(cases.BETA))
    assert np.isfinite(G).all()
    assert np.abs(G).max() > 0
