"""Samples that stand for all rows: right at the looks, convex, and nothing lost in a file."""

import json
from functools import lru_cache

import numpy as np
import pytest

from samekind.solvers.jointproblem import JointProblem
from samekind.solvers.tilts import REMEMBERED, Looks, Sight, TiltedProblem, bend_to
from tests import cases

SIZES = (4,) * 40
WIDTH = 6
RIDGE = 0.05


@lru_cache
def problems(loss):
    """All rows, and the samples of a fifth of the classes."""
    made = cases.case(loss, SIZES, WIDTH, block=160)
    whole = JointProblem(made.objective, made.Z, RIDGE, 2.0)
    return whole, whole.among_classes(0.2, np.random.RandomState(0))


def a_point(seed):
    M = 0.2 * np.random.default_rng(seed).normal(size=(WIDTH, WIDTH))
    return M @ M.T


def looked(whole, sample, seeds):
    looks = Looks()
    for seed in seeds:
        A = a_point(seed)
        looks = looks.with_one(Sight(A, *whole.value_and_gradient(A), *sample.value_and_gradient(A)))
    return looks


def test_a_tilted_sample_has_the_value_and_gradient_of_all_rows_where_it_is_best(loss):
    whole, sample = problems(loss)
    for seeds in ([0], [0, 1, 2]):
        looks = looked(whole, sample, seeds)
        best = min((a_point(seed) for seed in seeds), key=whole.value)
        value, gradient = whole.value_and_gradient(best)
        assert np.linalg.norm(gradient - sample.value_and_gradient(best)[1]) > 0.01 * np.linalg.norm(gradient)
        there, slope = TiltedProblem.to(looks, sample).value_and_gradient(best)
        assert there == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(slope, gradient, atol=1e-9)


def test_its_gradient_is_that_of_its_value(loss):
    whole, sample = problems(loss)
    tilted = TiltedProblem.to(looked(whole, sample, range(4)), sample)
    A, towards, h = a_point(7), a_point(8) - a_point(9), 1e-4
    ahead, behind = (tilted.value_and_gradient(A + way * h * towards)[0] for way in (1, -1))
    slope = float(np.vdot(tilted.value_and_gradient(A)[1], towards))
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-4)


def test_it_never_curves_less_than_the_sample(loss):
    whole, sample = problems(loss)
    tilted = TiltedProblem.to(looked(whole, sample, range(5)), sample)
    for one, other in ((1, 2), (3, 4), (7, 9)):
        step = a_point(other) - a_point(one)
        bends = [
            float(np.vdot(p.value_and_gradient(a_point(other))[1] - p.value_and_gradient(a_point(one))[1], step))
            for p in (tilted, sample)
        ]
        assert bends[0] >= bends[1] - 1e-12


def test_without_other_looks_it_is_the_sample_and_something_linear(loss):
    whole, sample = problems(loss)
    tilted = TiltedProblem.to(looked(whole, sample, [0]), sample)
    assert len(tilted.bend) == 0
    for seed in (1, 2):
        A = a_point(seed)
        lack = tilted.value_and_gradient(A)[1] - sample.value_and_gradient(A)[1]
        np.testing.assert_allclose(lack, tilted.tilt, atol=1e-12)


def test_a_bend_is_exact_where_what_is_lacking_is_quadratic_and_convex():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    H = root @ root.T
    steps = rng.normal(size=(4, 9))
    bend = bend_to(steps, steps @ H)
    np.testing.assert_allclose(steps @ bend.T @ bend, steps @ H, rtol=1e-8)


def test_a_bend_leaves_out_what_is_not_convex():
    steps = np.eye(3)
    lacks = np.diag([2.0, -1.0, 1e-12])
    bend = bend_to(steps, lacks)
    np.testing.assert_allclose(bend.T @ bend, np.diag([2.0, 0, 0]), atol=1e-15)
    assert len(bend_to(steps[:1], -lacks[:1])) == 0
    assert bend_to(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)


def test_looks_keep_the_best_and_count_those_in_vain(loss):
    whole, sample = problems(loss)
    seeds = sorted(range(6), key=lambda seed: whole.value(a_point(seed)))
    looks = looked(whole, sample, [seeds[2], seeds[0], seeds[3], seeds[4]])
    assert (looks.n, looks.n_in_vain) == (4, 2)
    np.testing.assert_array_equal(looks.best.A, a_point(seeds[0]))
    assert looks.level == looks.best.value
    np.testing.assert_allclose(looks.steps[0], (a_point(seeds[0]) - a_point(seeds[2])).ravel())
    np.testing.assert_allclose(looks.steps[1], (a_point(seeds[3]) - a_point(seeds[0])).ravel())
    better = looked(whole, sample, [seeds[2], seeds[3], seeds[1]])
    assert better.n_in_vain == 0
    assert Looks().level == np.inf


def test_only_the_last_looks_are_remembered(loss):
    whole, sample = problems(loss)
    looks = looked(whole, sample, range(REMEMBERED + 4))
    assert looks.steps.shape == looks.lacks.shape == (REMEMBERED, WIDTH**2)
    assert looks.n == REMEMBERED + 4


def test_looks_go_through_arrays_and_json(loss):
    whole, sample = problems(loss)
    for looks in (Looks(), looked(whole, sample, [0]), looked(whole, sample, [0, 1, 2])):
        again = Looks.restored(looks.arrays(), json.loads(json.dumps(looks.facts())))
        assert again.facts() == looks.facts()
        assert again.arrays().keys() == looks.arrays().keys()
        for name, array in looks.arrays().items():
            np.testing.assert_array_equal(again.arrays()[name], array)
