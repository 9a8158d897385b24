"""Tiles of distances: made, summed, kept, updated."""

import numpy as np
import pytest

from samekind.compute.executor import Executor
from samekind.compute.sources import FactoredDistances, KeptTiles, PresentDistances, Scaled, ScaledSum, fitting
from samekind.compute.tiles import TilePlan
from tests import cases, oracle

N = 13
PLAN = TilePlan(N, 4)  # 10 tiles, the first of 16 cells
Z = np.random.default_rng(0).normal(size=(N, 3))
A = cases.random_psd(3)


@pytest.mark.parametrize("block", [1, 4, 13, 30])
def test_factored_distances_equal_the_oracles(block):
    plan = TilePlan(N, block)
    L = np.linalg.cholesky(A)
    literal = oracle.distances(Z, A)
    assert cases.relative_error(cases.dense(FactoredDistances.quadratic(Z, Z @ A), plan), literal) < 1e-13
    assert cases.relative_error(cases.dense(FactoredDistances.euclidean(Z @ L), plan), literal) < 1e-13


def test_a_scaled_sum_scales_the_first_and_leaves_it_alone():
    D0 = KeptTiles(cases.under(Z, np.eye(3)), PLAN, 8, cases.PLENTY)
    before = cases.dense(D0, PLAN)
    total = cases.dense(ScaledSum(0.3, D0, cases.under(Z, A)), PLAN)
    literal = 0.3 * oracle.distances(Z, np.eye(3)) + oracle.distances(Z, A)
    assert cases.relative_error(total, literal) < 1e-13
    np.testing.assert_array_equal(cases.dense(D0, PLAN), before)


def test_scaled_distances_leave_the_present_ones_alone():
    D0 = KeptTiles(cases.under(Z, A), PLAN, 8, cases.PLENTY)
    before = cases.dense(D0, PLAN)
    np.testing.assert_array_equal(cases.dense(Scaled(0.3, D0), PLAN), 0.3 * before)
    np.testing.assert_array_equal(cases.dense(D0, PLAN), before)


class Counting:
    """A source that counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def tile(self, tile):
        self.asked += 1
        return np.full((tile.rows.stop - tile.rows.start, tile.cols.stop - tile.cols.start), float(self.asked))


@pytest.mark.parametrize(("room", "kept"), [(0, 0), (16 * 8 - 1, 0), (16 * 8, 1), (16 * 8 * 3, 3), (10**6, 10)])
def test_kept_tiles_are_made_once_as_far_as_they_fit(room, kept):
    source = Counting()
    tiles = KeptTiles(source, PLAN, 8, room)
    for _ in range(3):
        for tile in PLAN.tiles():
            tiles.tile(tile)
    assert len(tiles.kept) == kept
    assert source.asked == kept + 3 * (PLAN.n_tiles - kept)


def test_fitting_takes_the_first_tiles_and_never_more_than_the_room():
    tiles = list(PLAN.tiles())
    for room in range(0, 8 * N * N, 50):
        chosen = fitting(PLAN, 8, room)
        assert sum(tile.size * 8 for tile in tiles if tile.key in chosen) <= room
        assert chosen == {tile.key for tile in tiles[: len(chosen)]}


def updated(present, steps):
    """The oracle's metric after the same steps."""
    M = np.zeros((3, 3))
    for alpha, L in steps:
        present.update(alpha, (Z @ L).astype(present.codes.dtype), Executor(1))
        M = alpha * M + L @ L.T
    return M


STEPS = [
    (alpha, np.random.default_rng(seed).normal(size=(3, rank)))
    for seed, (alpha, rank) in enumerate([(1.0, 2), (0.6, 1), (1.7, 3), (0.0, 2), (1.1, 1)])
]


# float32: each update rounds once more
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-6)])
@pytest.mark.parametrize(("tiles", "kept"), [(0, 0), (3, 3), (100, 10)], ids=["keeps none", "some", "all"])
@pytest.mark.parametrize("n_steps", range(len(STEPS) + 1))
def test_present_distances_follow_the_metric(tiles, kept, n_steps, dtype, rtol):
    present = PresentDistances(PLAN, dtype, tiles * 16 * np.dtype(dtype).itemsize)
    M = updated(present, STEPS[:n_steps])
    D = cases.dense(present, PLAN)
    assert len(present.kept) == (kept if n_steps else 0)
    assert len(present.keeps) == kept
    if n_steps:
        assert cases.relative_error(D, oracle.distances(Z, M)) < rtol
    else:
        np.testing.assert_array_equal(D, 0)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_present_distances_are_the_same_by_any_number_of_threads(n_jobs):
    alone, together = (PresentDistances(PLAN, np.float32, 5 * 16 * 4) for _ in range(2))
    for alpha, L in STEPS:
        codes = (Z @ L).astype(np.float32)
        alone.update(alpha, codes, Executor(1))
        together.update(alpha, codes, Executor(n_jobs))
    np.testing.assert_array_equal(cases.dense(together, PLAN), cases.dense(alone, PLAN))


def test_codes_are_not_gathered_where_all_tiles_are_kept():
    present = PresentDistances(PLAN, np.float64, cases.PLENTY)
    updated(present, STEPS)
    assert present.codes.shape == (N, 0)
