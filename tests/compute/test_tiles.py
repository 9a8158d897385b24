"""Tile plans: every pair once, within the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.memory import MemoryBudget
from samekind.compute.tiles import LARGEST_BLOCK, THREADS, TILES_IN_WORK, Tile, TilePlan

plans = st.builds(TilePlan, st.integers(1, 40), st.integers(1, 50))


@given(plans)
def test_tiles_and_their_mirrors_cover_every_pair_once(plan):
    seen = np.zeros((plan.n_samples, plan.n_samples), dtype=int)
    for tile in plan.tiles():
        seen[tile.rows, tile.cols] += 1
        if tile.mirrored:
            seen[tile.cols, tile.rows] += 1
    assert (seen == 1).all()


@given(plans)
def test_counts_and_keys_agree_with_the_tiles(plan):
    tiles = list(plan.tiles())
    assert len(tiles) == plan.n_tiles == len({tile.key for tile in tiles})
    assert (
        sum(tile.size for tile in tiles if tile.mirrored) * 2 + sum(tile.size for tile in tiles if not tile.mirrored)
        == plan.n_samples**2
    )


@given(plans)
def test_strips_share_their_rows_and_start_on_the_diagonal_longest_first(plan):
    strips = plan.strips()
    assert [strip[0].rows for strip in strips] == plan.blocks()
    for strip in strips:
        assert {tile.rows.start for tile in strip} == {strip[0].rows.start}
        assert not strip[0].mirrored
    assert [len(strip) for strip in strips] == sorted((len(strip) for strip in strips), reverse=True)


@given(st.integers(1, 10**5), st.integers(0, 10**10), st.sampled_from([np.float32, np.float64]))
def test_temporaries_of_the_plan_for_a_budget_fit_their_share(n_samples, budget, dtype):
    memory = MemoryBudget(budget)
    plan = TilePlan.for_budget(n_samples, memory, dtype)
    taken = plan.block**2 * np.dtype(dtype).itemsize * TILES_IN_WORK * THREADS
    assert 1 <= plan.block <= LARGEST_BLOCK
    assert taken <= memory.tiles or plan.block == 1


def test_a_larger_budget_gives_larger_blocks():
    blocks = [TilePlan.for_budget(10**5, MemoryBudget(budget), np.float32).block for budget in (10**5, 10**7, 10**9)]
    assert blocks == sorted(set(blocks))
    assert blocks[-1] == LARGEST_BLOCK


@pytest.mark.parametrize(
    ("tile", "mirrored", "size"),
    [(Tile(slice(0, 3), slice(0, 3)), False, 9), (Tile(slice(0, 3), slice(3, 5)), True, 6)],
    ids=["diagonal", "off it"],
)
def test_only_tiles_off_the_diagonal_are_mirrored(tile, mirrored, size):
    assert tile.mirrored is mirrored
    assert tile.size == size


def test_a_plan_of_all_pairs_is_no_sample():
    plan = TilePlan(7, 3)
    assert not plan.is_sample
    assert plan.anchors.tolist() == list(range(7))
    assert plan.n_anchors == 7
    assert not plan.batches


def test_tiles_of_samples_are_distinguished_from_tiles_of_all_pairs():
    rows = np.arange(3)
    tiles = [
        Tile(slice(0, 3), slice(3, 5)),
        Tile(slice(0, 3), slice(0, 3)),
        Tile(rows, slice(3, 5), 0),
        Tile(rows, slice(3, 5), 1),
        Tile(rows, rows, 0),
        Tile(rows, rows, 3),
    ]
    assert len({tile.key for tile in tiles}) == len(tiles)
