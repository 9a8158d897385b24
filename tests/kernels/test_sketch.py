"""The split Laplacian: its parts add up, and what is sketched of it comes as near as the rank allows."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.kernels import blocks
from samekind.kernels.laplacian import BlockForm
from samekind.kernels.sketch import ClassLayout, Range, SplitForm
from tests import cases, oracle

A = cases.random_psd(6)
SIZES = (5, 1, 4, 2, 1, 3)
MANY = (6, 1, 9, 3, 7, 2, 1, 8, 5, 6)  # N = 48
NO_BOUND = 10**9

class_sizes = st.lists(st.integers(1, 7), min_size=1, max_size=8).map(np.array)


def block_diagonal(layout, entries):
    """The matrix that a layout's entries stand for, by loops."""
    C, at = np.zeros((layout.n_samples,) * 2), 0
    for start, size in zip(layout.starts, layout.sizes, strict=True):
        for i in range(size):
            for j in range(size):
                C[start + i, start + j] = entries[at]
                at += 1
    assert at == len(entries)
    return C


# -- where same-class pairs lie ---------------------------------------------------------------------------------------


@given(class_sizes, st.integers(0, 120))
def test_a_layout_has_the_small_classes_that_fit_but_none_of_one_sample(sizes, most_cells):
    layout = ClassLayout.of(sizes, most_cells)
    starts = np.cumsum(sizes) - sizes
    taken, room = [], most_cells
    for size, start in sorted(zip(sizes.tolist(), starts.tolist(), strict=True)):
        room -= size**2
        if room >= 0 and size > 1:
            taken.append((start, size))
    assert list(zip(layout.starts.tolist(), layout.sizes.tolist(), strict=True)) == sorted(taken)
    assert layout.offsets[-1] == sum(size**2 for _, size in taken) <= most_cells
    assert layout.n_samples == sizes.sum()


@given(class_sizes, st.integers(0, 120), st.integers(0, 10**6))
def test_places_and_products_are_those_of_the_dense_matrix(sizes, most_cells, seed):
    layout = ClassLayout.of(sizes, most_cells)
    rng = np.random.default_rng(seed)
    entries = rng.normal(size=layout.offsets[-1])
    C = block_diagonal(layout, entries)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    i, j = np.nonzero(codes[:, None] == codes)
    chosen, places = layout.places(i, j)
    covered = np.isin(codes, codes[layout.starts])
    assert chosen.tolist() == np.flatnonzero(covered[i]).tolist()
    np.testing.assert_array_equal(entries[places], C[i[chosen], j[chosen]])
    Y = rng.normal(size=(len(codes), 3))
    np.testing.assert_allclose(layout.times(entries, Y), C @ Y, atol=1e-13)


# -- the three parts --------------------------------------------------------------------------------------------------


def into_of(objective, source):
    weights = objective.weights(source)
    return lambda form: weights.into(form)[1]


def same_of(objective):
    return lambda rows, cols: objective.relation.tile(rows, cols).same


def both_ends(objective, source):
    """`H + H^T` of any plan, put together."""
    weights = objective.weights(source)
    total = np.zeros((objective.plan.n_samples,) * 2)
    everyone = np.arange(len(total))
    for tile in objective.plan.tiles():
        H = weights.source.tile(tile).H
        at = np.ix_(everyone[tile.rows], everyone[tile.cols])
        total[at] += H
        total.T[at] += H
    return total


def laplacian_of(M):
    return np.diag(M.sum(axis=1)) - M


def plans(case):
    rng = np.random.RandomState(0)
    yield case.objective
    yield case.objective.sampled(5, rng)
    yield case.objective.sampled_pairs(12, rng)


@pytest.mark.parametrize("most_cells", [NO_BOUND, 20, 0], ids=["all classes kept", "some", "none"])
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
def test_the_three_parts_add_up_to_the_laplacian(loss, most_cells):
    case = cases.case(loss, SIZES)
    source, N = cases.under(case.Z, A), len(case.Z)
    W = case.reference.weights(oracle.distances(case.Z, A))
    np.testing.assert_allclose(laplacian_of(both_ends(case.objective, source)), oracle.laplacian(W), atol=1e-13)
    layout = ClassLayout.of(case.objective.relation.class_sizes, most_cells)
    alike = case.labels[:, None] == case.labels
    kept = alike & np.isin(case.labels, case.labels[layout.starts])
    for objective in plans(case):
        M = both_ends(objective, source)
        split = into_of(objective, source)(SplitForm(np.eye(N), layout, same_of(objective)))
        C = block_diagonal(layout, split.same)
        np.testing.assert_allclose(np.diag(split.degrees) - C - split.others, laplacian_of(M), atol=1e-13)
        np.testing.assert_allclose(C, np.where(kept, M, 0), atol=1e-13)
        np.testing.assert_allclose(split.others, np.where(kept, 0, M), atol=1e-13)


def test_only_what_is_asked_for_is_multiplied():
    case = cases.case("triplet", SIZES)
    source = cases.under(case.Z, A)
    layout = ClassLayout.of(case.objective.relation.class_sizes, NO_BOUND)
    Y = np.random.default_rng(0).normal(size=(len(case.Z), 3))
    into, same = into_of(case.objective, source), same_of(case.objective)
    smooth = into(SplitForm(np.eye(len(Y)), layout, same)).others
    np.testing.assert_allclose(into(SplitForm(Y, layout, same)).others, smooth @ Y, atol=1e-13)


# -- the sketch -------------------------------------------------------------------------------------------------------


def sketching(loss, sizes=MANY, most_cells=NO_BOUND, objective=None, **panels):
    """What `Range` needs of some weights, the Laplacian itself, and its smooth part."""
    case = cases.case(loss, sizes, block=20)
    objective = objective(case.objective) if objective else case.objective
    source = cases.under(case.Z, A)
    layout = replace(ClassLayout.of(objective.relation.class_sizes, most_cells), **panels)
    into, same = into_of(objective, source), same_of(objective)
    smooth = into(SplitForm(np.eye(len(case.Z)), layout, same)).others
    return case, (into, layout, same), laplacian_of(both_ends(objective, source)), smooth


def dense(laplacian):
    C = block_diagonal(laplacian.layout, laplacian.same.astype(np.float64))
    Q = laplacian.Q.astype(np.float64)
    return np.diag(laplacian.degrees.astype(np.float64)) - C - Q @ laplacian.B @ Q.T


def sample_of_rows(objective):
    return objective.sampled(20, np.random.RandomState(1))


def one_round(directions, into, layout, same, rank, rng):
    Y = directions.with_probes(rank, rng)
    return directions.sketch(into(SplitForm(Y, layout, same)), Y, layout, rank)


def sketched(given_weights, n_samples, rank, *, n_rounds=1):
    """The sketch after some rounds on the same weights."""
    directions = Range.first(n_samples, rank, np.random.RandomState(0))
    for seed in range(n_rounds):
        laplacian, directions = one_round(directions, *given_weights, rank, np.random.RandomState(seed))
    return laplacian


def block_of(laplacian, X, padding=0):
    """`Z^T (laplacian) Z` of one group, Z being X less its mean; columns of zeros may stand beside it."""
    beside = np.zeros((len(X), padding), np.float32)
    made = laplacian.blocks(np.hstack([X - X.mean(axis=0), beside])[np.newaxis])[0]
    size = X.shape[1]
    assert not made[size:].any()
    assert not made[:, size:].any()
    return made[:size, :size]


@pytest.mark.parametrize("objective", [None, sample_of_rows], ids=["all pairs", "a sample"])
@pytest.mark.parametrize("most_cells", [NO_BOUND, 60], ids=["all classes kept", "some"])
@pytest.mark.parametrize(("big_class", "panel_rows"), [(1000, 1), (6, 4)], ids=["small classes", "big ones"])
@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_at_full_rank_nothing_is_missed(loss, big_class, panel_rows, most_cells, objective):
    panels = {"big_class": big_class, "panel_rows": panel_rows}
    case, given_weights, exact, _ = sketching(loss, most_cells=most_cells, objective=objective, **panels)
    N = len(case.Z)
    laplacian = sketched(given_weights, N, N + 5)
    assert laplacian.rank <= N
    assert laplacian.missed < 1e-5
    assert cases.relative_error(dense(laplacian), exact) < 1e-5
    X = 3 + np.random.default_rng(1).normal(size=(N, 21)).astype(np.float32)
    groups = [slice(0, 8), slice(8, 9), slice(9, 18), slice(18, 21)]
    whole = objective(case.objective) if objective else case.objective
    Z = (X - X.mean(axis=0)).astype(np.float64)
    _, expected = whole.weights(cases.under(case.Z, A)).into(BlockForm(Z, groups))
    for columns, G in zip(groups, expected, strict=True):
        for padding in (0, 3):
            made = block_of(laplacian, X[:, columns], padding)
            assert made.dtype == np.float64
            assert cases.relative_error(made, G) < 1e-4


def test_a_stack_of_groups_is_as_each_of_them():
    _, given_weights, _, _ = sketching("triplet", (30,) * 5)
    laplacian = sketched(given_weights, 150, 6)
    stack = np.random.default_rng(0).normal(size=(5, 150, 7)).astype(np.float32)
    blocks = laplacian.blocks(stack)
    assert blocks.shape == (5, 7, 7)
    for Z, block in zip(stack, blocks, strict=True):
        np.testing.assert_array_equal(laplacian.blocks(Z[np.newaxis])[0], block)


def test_groups_of_several_threads_do_not_meet():
    _, given_weights, _, _ = sketching("triplet", (30,) * 5)
    laplacian = sketched(given_weights, 150, 6)
    groups = [np.random.default_rng(k).normal(size=(150, 1 + k % 12)).astype(np.float32) for k in range(60)]
    alone = [block_of(laplacian, X) for X in groups]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda X: block_of(laplacian, X), groups))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_more_rank_misses_less(loss):
    case, given_weights, exact, smooth = sketching(loss)
    X = np.random.default_rng(1).normal(size=(len(case.Z), 40)).astype(np.float32)
    Z = (X - X.mean(axis=0)).astype(np.float64)
    missed, errors, block_errors = [], [], []
    for rank in (1, 4, 12, 30):
        laplacian = sketched(given_weights, len(case.Z), rank, n_rounds=3)
        assert laplacian.rank == rank
        missed.append(laplacian.missed)
        errors.append(np.linalg.norm(dense(laplacian) - exact) / np.linalg.norm(smooth))
        block_errors.append(np.linalg.norm(block_of(laplacian, X) - Z.T @ exact @ Z))
    assert missed == sorted(missed, reverse=True)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 4
    assert block_errors[-1] < block_errors[0] / 3
    np.testing.assert_allclose(missed, errors, rtol=0.4)  # by eight random probes


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_rounds_on_the_same_weights_come_near_to_the_best_directions_of_their_rank(loss):
    rank = 20
    _, given_weights, exact, smooth = sketching(loss)
    best = np.linalg.norm(np.sort(np.abs(np.linalg.eigvalsh(smooth)))[:-rank])
    directions = Range.first(len(exact), rank, np.random.RandomState(0))
    missed, errors = [], []
    for seed in range(8):
        laplacian, directions = one_round(directions, *given_weights, rank, np.random.RandomState(seed))
        missed.append(laplacian.missed)
        errors.append(np.linalg.norm(dense(laplacian) - exact))
        np.testing.assert_allclose(directions.Q.T @ directions.Q, np.eye(rank), atol=1e-5)
    assert min(errors) >= best * (1 - 1e-6)
    assert errors[0] > 1.6 * best
    assert max(errors[4:]) < 1.5 * best
    assert max(missed[4:]) < 0.9 * missed[0]


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_while_all_distances_are_equal_many_small_classes_need_one_direction(loss):
    """The vector of ones: but for a class's own pairs, all weights are then the same."""
    case = cases.case(loss, (3,) * 40, block=60)
    objective, nowhere = case.objective, cases.under(case.Z, np.zeros((6, 6)))
    layout = ClassLayout.of(objective.relation.class_sizes, NO_BOUND)
    laplacian = sketched((into_of(objective, nowhere), layout, same_of(objective)), 120, 1)
    assert laplacian.missed < 0.2


def test_the_rank_of_the_next_round_is_the_one_asked_for():
    _, given_weights, _, _ = sketching("triplet")
    rng = np.random.RandomState(0)
    directions = Range.first(48, 3, rng)
    for rank in (3, 12, 5, 1000):
        before = directions.Q.shape[1]
        laplacian, directions = one_round(directions, *given_weights, rank, rng)
        assert laplacian.rank == before
        assert directions.Q.shape == (48, min(rank, 48))
        assert directions.Q.dtype == np.float32


def test_weights_of_nothing_are_sketched_as_nothing(strict_warnings):
    case, (into, layout, same), _, _ = sketching("pairwise-equal")

    def nothing(form):
        split = into(form)
        return replace(split, degrees=0 * split.degrees, same=0 * split.same, others=0 * split.others)

    rng = np.random.RandomState(0)
    laplacian, following = one_round(Range.first(48, 4, rng), nothing, layout, same, 4, rng)
    assert laplacian.missed == 0
    assert following.Q.shape[1] == 0
    np.testing.assert_array_equal(block_of(laplacian, case.Z.astype(np.float32)), np.zeros((6, 6)))


# -- one group, compiled ----------------------------------------------------------------------------------------------


panels = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4), st.integers(1, 9)), max_size=6)


@given(panels, st.integers(1, 9), st.integers(0, 4), st.integers(0, 10**6))
def test_a_group_is_weighted_as_numpy_would(panels, width, n_beside, seed):
    n, rng = 18, np.random.default_rng(seed)
    X, degrees, entries = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((n, width), n, sum(rows * cols for *_, rows, cols in panels))
    )
    C, listed, at = np.zeros((n, n)), np.zeros((len(panels), 5), np.intp), 0
    for p, (row, col, rows, cols) in enumerate(panels):
        listed[p] = row, col, rows, cols, at
        C[row : row + rows, col : col + cols] += entries[at : at + rows * cols].reshape(rows, cols)
        at += rows * cols
    out = np.full((n, width + n_beside), -7, np.float32)
    before = X.copy()
    blocks.weighted(X, degrees, listed, entries, out)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(out[:, :width], (np.diag(degrees) - C) @ X, atol=2e-5)
    assert (out[:, width:] == -7).all()
