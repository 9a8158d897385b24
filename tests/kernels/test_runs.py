"""Runs of columns as lists of cells."""

import numpy as np

from samekind.kernels.runs import Runs

RUNS = Runs(np.array([0, 2, 4, 3]), np.array([2, 2, 1, 6]), np.array([1, -1, 0, 9]))  # two of them empty


def test_cells_are_those_of_every_run_in_order():
    i, j = RUNS.alike
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 0), (0, 1), (3, 3), (3, 4), (3, 5)]


def test_a_sample_does_not_meet_itself():
    i, j = RUNS.same
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 0), (3, 3), (3, 4), (3, 5)]


def test_its_bytes_are_those_of_its_arrays():
    """All cells twice: how many are without themselves is not known before they are made."""
    own = sum(array.nbytes for array in (RUNS.first, RUNS.last, RUNS.own))
    assert RUNS.nbytes == own + 2 * sum(array.nbytes for array in RUNS.alike)
