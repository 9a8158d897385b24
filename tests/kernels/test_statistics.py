"""Noise of estimates, and what the values of a descent lead to expect."""

import numpy as np
import pytest

from samekind.kernels.statistics import expected_gain, iterations_left, standard_error, within_noise


def test_a_standard_error_is_that_of_the_mean():
    assert standard_error(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert standard_error(np.array([1.0])) == 0
    draws = np.random.default_rng(0).normal(size=(2000, 16))
    assert np.mean([standard_error(draw) for draw in draws]) == pytest.approx(0.25, rel=0.05)


def test_a_gain_counts_when_most_batches_have_it():
    rng = np.random.default_rng(0)
    for gain, noise in [(0.0, True), (-1.0, True), (1.0, False), (1e-6, False)]:
        assert within_noise(np.full(16, gain)) is noise
    for gain, noise in [(0.05, True), (5.0, False)]:
        assert within_noise(gain + rng.normal(size=16)) is noise


def test_what_is_to_come_is_that_of_gains_that_shrink_evenly():
    values = [5 + 0.8**at for at in range(8)]
    assert expected_gain(values) == pytest.approx(values[-1] - 5)
    assert expected_gain(values[-7:]) == expected_gain(values)
    assert expected_gain(values[-6:]) == np.inf  # too few to tell
    assert expected_gain([8.0, 7, 6, 5, 4, 3, 2]) == np.inf  # they do not shrink
    assert expected_gain([3.0, 2, 1, 0.5, 0.5, 0.5, 0.5]) == 0


def test_iterations_left_are_those_until_gains_that_shrink_evenly_are_small():
    values = [5 + 0.8**at for at in range(5)]  # the gain of iteration n is 0.25 * 0.8^n
    left = iterations_left(values, 1e-3)
    assert 0.25 * 0.8 ** (4 + left) == pytest.approx(1e-3 * values[-1])
    assert iterations_left(values, 0.5) == 0
    assert iterations_left(values[:2], 1e-3) is None  # too few to tell
    assert iterations_left([3.0, 2.0, 2.0], 1e-3) is None  # they do not shrink
