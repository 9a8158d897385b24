"""One pass over a group gives what NumPy makes of it in several, bit by bit."""

import numpy as np

from samekind.kernels.stacks import mirror_means_less, roots_less

RNG = np.random.default_rng(0)
SIZE = 5  # of groups in stacks of width 8


def group():
    Z = np.zeros((7, 8), np.float32)
    Z[:, :SIZE] = RNG.random((7, SIZE))
    return Z


MEAN = RNG.random(8).astype(np.float32)


def test_roots_are_those_of_numpy_and_what_follows_stays_zero():
    Z = group()
    expected = np.sqrt(Z[:, :SIZE]) - MEAN[:SIZE]
    roots_less(Z, SIZE, MEAN)
    np.testing.assert_array_equal(Z[:, :SIZE], expected)
    assert (Z[:, SIZE:] == 0).all()


def test_mirror_means_are_those_of_numpy_and_what_follows_stays_zero():
    Z, others = group(), group()
    places, signs = np.array([3, 0, 4, 2, 1], np.uintp), np.array([1, -1, 1, 1, -1], np.float32)
    expected = (Z[:, :SIZE] + signs * others[:, places]) * np.float32(0.5) - MEAN[:SIZE]
    mirror_means_less(Z, others, places, signs, MEAN)
    np.testing.assert_array_equal(Z[:, :SIZE], expected)
    assert (Z[:, SIZE:] == 0).all()
