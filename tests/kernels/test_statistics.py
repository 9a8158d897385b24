"""Figures of samples of numbers."""

import numpy as np
import pytest

from samekind.kernels.statistics import standard_error


def test_a_standard_error_is_that_of_the_mean():
    assert standard_error(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert standard_error(np.array([1.0])) == 0
    draws = np.random.default_rng(0).normal(size=(2000, 16))
    assert np.mean([standard_error(draw) for draw in draws]) == pytest.approx(0.25, rel=0.05)
