"""Labels as a relation between samples, in tiles, and target neighbours."""

import numpy as np
import pytest

from samekind.compute.tiles import TilePlan
from samekind.kernels.exponentials import ABSENT
from samekind.kernels.laplacian import GramForm
from samekind.relation import Relation, class_count_error
from tests import cases, oracle


def related(labels):
    relation = Relation.from_labels(labels)
    return relation, np.asarray(labels)[relation.order]


@pytest.mark.parametrize("labels", [[2, 0, 2, 1, 0, 2], list("banana"), [True, False, True]], ids=str)
def test_order_puts_samples_in_class_order_and_keeps_theirs_within_a_class(labels):
    relation, ordered = related(labels)
    assert sorted(relation.order.tolist()) == list(range(len(labels)))
    assert ordered.tolist() == sorted(labels)
    for label in set(labels):
        places = [i for i in relation.order.tolist() if labels[i] == label]
        assert places == sorted(places)


@pytest.mark.parametrize("block", [1, 3, 7, 16, 50])
def test_tiles_hold_pi(block):
    _, labels = cases.labelled_data()
    relation, ordered = related(labels)
    for tile in TilePlan(len(labels), block).tiles():
        pairs = relation.tile(tile.rows, tile.cols)
        pi = [
            [oracle.pi(ordered, i, j) for j in range(tile.cols.start, tile.cols.stop)]
            for i in range(tile.rows.start, tile.rows.stop)
        ]
        others = pairs.others(np.zeros(tile.shape)) < ABSENT
        np.testing.assert_array_equal(spread(pairs, tile, "same").astype(int) - others, pi)


def spread(pairs, tile, name):
    """Places as a mask over the whole tile."""
    mask = np.zeros(tile.shape, dtype=bool)
    mask[getattr(pairs, name)] = True
    return mask


def test_tiles_of_two_classes_are_handed_on_as_they_are():
    relation, _ = related([0] * 4 + [1] * 4)
    D = np.ones((4, 4))
    assert relation.tile(slice(0, 4), slice(4, 8)).others(D) is D
    assert relation.tile(slice(1, 5), slice(4, 8)).others(D) is not D
    assert (D == 1).all()


def test_singletons_pair_with_nobody():
    relation, _ = related(list(range(6)))
    pairs = relation.tile(slice(0, 4), slice(2, 6))
    assert not len(pairs.same[0])
    np.testing.assert_array_equal(pairs.runs.alike, [[2, 3], [0, 1]])


def test_counts_are_the_papers():
    _, labels = cases.labelled_data()
    relation, ordered = related(labels)
    n = len(labels)
    for i in range(n):
        kinds = [oracle.pi(ordered, i, j) for j in range(n)]
        assert relation.n_same[i] == relation.n_targets[i] == kinds.count(1)
        assert relation.n_other[i] == kinds.count(-1)


def neighbors_of(relation):
    return [[j for j in row if j >= 0] for row in relation.neighbors.tolist()]


@pytest.mark.parametrize("k", [1, 2, 3, 20])
def test_target_neighbors_equal_sorting(k):
    X, labels = cases.labelled_data()
    relation, ordered = related(labels)
    Z = X[relation.order]
    chosen = relation.with_neighbors([Z], k, cases.PLENTY)
    assert neighbors_of(chosen) == oracle.target_neighbors(Z, ordered, k)
    assert chosen.n_targets.tolist() == [len(row) for row in oracle.target_neighbors(Z, ordered, k)]


@pytest.mark.parametrize("memory_budget", [0, 8, 100, 8 * 25, 8 * 60])
def test_a_small_memory_budget_gives_the_same_neighbors(memory_budget):
    X, labels = cases.labelled_data((9, 1, 4, 6, 2))
    relation, _ = related(labels)
    Z = X[relation.order]
    plenty = relation.with_neighbors([Z], 3, cases.PLENTY)
    scarce = relation.with_neighbors([Z], 3, memory_budget)
    assert neighbors_of(scarce) == neighbors_of(plenty)


@pytest.mark.parametrize("memory_budget", [0, 8 * 9, 8 * 9 * 4, 8 * 60])
def test_chunks_of_classes_stay_within_the_budget(memory_budget):
    relation, _ = related(cases.labelled_data((9, 1, 4, 6, 2))[1])
    chunks = list(relation._class_chunks(memory_budget, None))
    cells = [sum((r.stop - r.start) * (c.stop - c.start) for r, c in chunk) for chunk in chunks]
    one_row = 9  # the least that can be done at a time
    assert max(cells) <= max(memory_budget // 8, one_row)
    assert sum(cells) == 9**2 + 4**2 + 6**2 + 2**2


def test_several_panels_equal_one():
    X, labels = cases.labelled_data((9, 1, 4, 6, 2))
    relation, _ = related(labels)
    Z = X[relation.order]
    whole = relation.with_neighbors([Z], 3, cases.PLENTY)
    for memory_budget in (100, cases.PLENTY):
        parts = relation.with_neighbors([Z[:, :1], Z[:, 1:4], Z[:, 4:]], 3, memory_budget)
        assert neighbors_of(parts) == neighbors_of(whole)


@pytest.mark.parametrize("size", [6, 40])
def test_ties_between_neighbors_go_to_the_lowest_index(size):
    Z = (np.arange(2 * size) % 3).astype(float)[:, None]  # whole numbers: equal distances are equal to the bit
    labels = np.repeat([0, 1], size)
    chosen = Relation.from_labels(labels).with_neighbors([Z], 4, cases.PLENTY)
    assert neighbors_of(chosen) == oracle.target_neighbors(Z, labels, 4)


@pytest.mark.parametrize("block", [1, 4, 50])
def test_target_masks_see_both_ends_of_a_tile(block):
    X, labels = cases.labelled_data()
    relation, ordered = related(labels)
    targets = oracle.target_neighbors(X[relation.order], ordered, 2)
    relation = relation.with_neighbors([X[relation.order]], 2, cases.PLENTY)
    for tile in TilePlan(len(labels), block).tiles():
        pairs = relation.tile(tile.rows, tile.cols)
        rows, cols = range(tile.rows.start, tile.rows.stop), range(tile.cols.start, tile.cols.stop)
        np.testing.assert_array_equal(spread(pairs, tile, "targets"), [[j in targets[i] for j in cols] for i in rows])
        np.testing.assert_array_equal(
            spread(pairs, tile, "targets_back"), [[i in targets[j] for j in cols] for i in rows]
        )


@pytest.mark.parametrize("k", [4, 100])
def test_all_neighbors_given_equal_none_given(k):
    largest = max(cases.SIZES)
    assert k >= largest - 1
    case = cases.case("triplet")
    relation = case.objective.relation.with_neighbors([case.Z], k, cases.PLENTY)
    every = cases.case_of("triplet", case.Z, case.labels).objective
    chosen = type(every)(
        cases.package_loss("triplet").bind(relation),
        relation,
        every.plan,
        every.executor,
        every.memory,
        every.dtype,
    )
    source = cases.under(case.Z, cases.random_psd(6))
    value, G = chosen.value_and_form(source, GramForm(case.Z))
    expected, G_expected = case.objective.value_and_form(source, GramForm(case.Z))
    assert value == expected
    np.testing.assert_array_equal(G, G_expected)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "a"], r"y has 1 class .*'a'.*at least 2 are needed"),
        ([1, 2, 3], "All 3 classes of y have a single sample"),
        ([1, 2, 2], None),
    ],
)
def test_labels_that_nothing_can_be_learned_from_are_named(labels, message):
    said = class_count_error(np.array(labels))
    if message is None:
        assert said is None
    else:
        with pytest.raises(ValueError, match=message):
            raise ValueError(said)


def test_a_single_class_is_named_as_it_is_written():
    assert class_count_error(np.array(["only", "only"])).startswith("y has 1 class ('only'), and at least 2 are needed")
