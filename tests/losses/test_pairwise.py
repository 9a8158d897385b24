"""The pairwise loss (Eq. 3-6): which pairs count, and how much."""

import math

import numpy as np
import pytest

from samekind.losses import PairwiseLoss
from samekind.relation import Relation
from tests import cases, oracle


@pytest.mark.parametrize("loss", cases.PAIRWISE_LOSSES)
def test_every_pair_counts_but_no_sample_with_itself(loss):
    case = cases.case(loss)
    ends = cases.both_ends(case.objective, cases.under(case.Z, cases.random_psd(6)))
    np.testing.assert_array_equal(np.diag(ends), 0)
    assert np.count_nonzero(ends) == len(ends) ** 2 - len(ends)


@pytest.mark.parametrize("balance", ["equal", "samples"])
@pytest.mark.parametrize("threshold", [0.5, 3.0, 40.0])
def test_balance_gives_both_kinds_half_of_the_value_at_zero(threshold, balance):
    relation = Relation.from_labels([0] * 7 + [1] * 2 + [2])
    case = cases.case_of("pairwise-equal", np.zeros((10, 1)), np.array([0] * 7 + [1] * 2 + [2]))
    bound = PairwiseLoss(threshold, balance).bind(relation)
    _, anchors = bound.anchors(np.zeros((10, 0)))
    same, other = oracle.softplus(-threshold), oracle.softplus(threshold)
    value = sum(
        bound.tile_value(
            np.zeros((t.rows.stop - t.rows.start, t.cols.stop - t.cols.start)), pairs, anchors.of(t.rows), t.mirrored
        )
        for t in case.objective.plan.tiles()
        for pairs in [relation.tile(t.rows, t.cols)]
    )
    assert value == pytest.approx((same + other) / 2 / math.log(2), rel=1e-12)


def test_literal_balance_is_the_mean_over_all_pairs_and_selves():
    case = cases.case_of("pairwise-literal", np.zeros((4, 1)), np.array([0, 0, 1, 1]))
    same, other = oracle.softplus(-cases.THRESHOLD), oracle.softplus(cases.THRESHOLD)
    value = case.objective.value(cases.under(case.Z, np.ones((1, 1))))
    assert value == pytest.approx((4 * same + 8 * other) / 16 / math.log(2), rel=1e-12)


def test_the_value_of_tall_tiles_does_not_lose_the_product_trick():
    # More rows than one product of factors (32) holds, all of them at the margin, where each factor is 2.
    labels = np.repeat([0, 1], 100)
    case = cases.case_of("pairwise-literal", np.zeros((200, 1)), labels, block=100)
    distances = cases.under(np.where(labels, np.sqrt(cases.THRESHOLD), 0.0)[:, None], np.ones((1, 1)))
    expected = (2 * 100**2 * math.log(2) + 2 * 100 * 99 * oracle.softplus(-cases.THRESHOLD)) / 200**2 / math.log(2)
    assert case.objective.value(distances) == pytest.approx(expected, rel=1e-12)


def test_by_samples_a_class_counts_as_its_samples_and_not_as_its_pairs():
    labels = np.array([0] * 12 + [1] * 3 + [2])
    relation = Relation.from_labels(labels)
    for balance, weights in (("samples", [12, 3]), ("equal", [12 * 11, 3 * 2])):
        shares = PairwiseLoss(14.0, balance).bind(relation).shares_same
        pulls = [(shares * relation.n_same)[labels == label].sum() for label in (0, 1)]
        np.testing.assert_allclose(np.divide(pulls, sum(pulls)), np.divide(weights, sum(weights)))
        assert (shares * relation.n_same)[labels == 2] == 0


@pytest.mark.parametrize(("count_others", "count_same"), [(0.0, 1.0), (3.0, 1.0), (1.0, 2.0), (0.0, 2.0)])
def test_pairs_count_as_often_as_their_tile_says(count_others, count_same):
    case = cases.case("pairwise-samples")
    D, rows = oracle.distances(case.Z, cases.random_psd(6)), slice(0, len(case.labels))
    loss, relation = case.objective.loss, case.objective.relation
    _, anchors = loss.anchors(np.zeros((len(D), 0)))
    value, H = loss.tile_weights(D, relation.tile(rows, rows, count_others, count_same), anchors, None)
    same = case.labels[:, None] == case.labels
    counts = np.where(same, count_same, count_others)
    assert cases.relative_error(H, counts * case.reference.weights(D)) < 1e-9
    one_kind = [loss.tile_value(D, relation.tile(rows, rows, *only), anchors, False) for only in ((1, 0), (0, 1))]
    assert value == pytest.approx(np.dot(one_kind, [count_others, count_same]), rel=1e-12)
    assert sum(one_kind) == pytest.approx(case.reference.value(D), rel=1e-9)
