"""L-BFGS: known optima, scipy's price, and runs that go on from a saved state with the same floats."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from samekind.solvers.optimise import lbfgs
from samekind.solvers.optimise.lbfgs import FEWEST, MAX_TRIES, MEMORY, MEMORY_BYTES, descend, n_remembered, started
from tests.solvers import saved


@dataclass
class Counted:
    """A function of a value and a gradient, and the values it gave."""

    value: Any
    gradient: Any
    values: list = field(default_factory=list)

    def __call__(self, x):
        self.values.append(self.value(x))
        return self.values[-1], self.gradient(x)


def rosenbrock():
    return Counted(scipy.optimize.rosen, scipy.optimize.rosen_der)


def quadratic(n=30, spread=1e3, seed=0):
    """`1 + 1/2 (x - p)^T H (x - p)` and its p."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(n, n)))
    H, p = axes * np.geomspace(1, spread, n) @ axes.T, rng.normal(size=n)
    return Counted(lambda x: 1 + float((x - p) @ H @ (x - p)) / 2, lambda x: H @ (x - p)), p


def barrier():
    """`sum(x - log x)`, at its least at 1 and not a number at 0 and below."""

    def value(x):
        with np.errstate(all="ignore"):
            return float(np.sum(x - np.log(x)))

    return Counted(value, lambda x: 1 - 1 / x)


def minimised(function, x0, ftol=1e-12, max_iter=2000, **options):
    return descend(function, started(function, x0), ftol=ftol, max_iter=max_iter, **options)


def observed(function, x0, **options):
    """The states of a run: at its start and after each iteration."""
    states = [started(function, x0)]
    last = descend(function, states[0], observe=states.append, **options)
    return states, last


def scipys(function, x0, ftol):
    options = {"maxcor": MEMORY, "maxiter": 10**4, "maxfun": 10**6, "ftol": ftol, "gtol": 0.0}
    return scipy.optimize.minimize(function, x0, jac=True, method="L-BFGS-B", options=options)


# -- where it ends, and at what price ---------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_a_convex_quadratic_ends_at_its_optimum_as_scipys_does(spread):
    function, p = quadratic(spread=spread)
    reference, found = scipys(function, np.zeros(30), 1e-14), minimised(function, np.zeros(30), 1e-14)
    assert found.at_rest
    assert found.value == pytest.approx(1.0, rel=1e-12)
    assert found.value <= reference.fun * (1 + 1e-12)
    np.testing.assert_allclose(found.x, p, atol=1e-5)


@pytest.mark.parametrize("n", [2, 10])
def test_rosenbrocks_valley_is_followed_to_its_end_as_by_scipy(n):
    x0 = np.tile([-1.2, 1.0], n // 2)
    reference, found = scipys(rosenbrock(), x0, 1e-14), minimised(rosenbrock(), x0, 1e-14)
    np.testing.assert_allclose(found.x, reference.x, atol=1e-4)
    np.testing.assert_allclose(found.x, np.ones(n), atol=1e-6)


@pytest.mark.parametrize("name", ["quadratic", "stretched quadratic", "valley", "long valley"])
def test_it_needs_few_more_evaluations_than_scipy(name):
    function, x0 = {
        "quadratic": (quadratic()[0], np.zeros(30)),
        "stretched quadratic": (quadratic(spread=1e4)[0], np.zeros(30)),
        "valley": (rosenbrock(), np.array([-1.2, 1.0])),
        "long valley": (rosenbrock(), np.tile([-1.2, 1.0], 10)),
    }[name]
    reference = scipys(function, x0, 1e-9)
    states, last = observed(function, x0, ftol=1e-13, max_iter=2000)
    needed = next(state.n_evaluations for state in [*states, last] if state.value <= reference.fun + 1e-9)
    assert needed <= 1.25 * reference.nfev + 5


def test_an_iteration_is_one_evaluation_as_a_rule():
    found = minimised(quadratic()[0], np.zeros(30))
    assert found.n_iter > 30
    assert found.n_evaluations <= 1.1 * found.n_iter + 3


def test_evaluations_are_counted():
    function = rosenbrock()
    assert minimised(function, np.array([-1.2, 1.0])).n_evaluations == len(function.values)


def test_it_ends_with_the_first_step_that_lowers_f_by_too_little():
    states, last = observed(quadratic()[0], np.zeros(30), ftol=1e-4, max_iter=2000)
    falls = [(before.value - after.value) / before.value for before, after in pairwise(states)]
    assert last is states[-1]
    assert [state.at_rest for state in states] == [False] * (len(states) - 1) + [True]
    assert falls[-1] <= 1e-4 < min(falls[:-1])


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**40])
def test_the_unit_of_f_does_not_matter(unit):
    function, _ = quadratic()
    plain, scaled = minimised(function, np.zeros(30)), minimised(lambda x: scale(unit, *function(x)), np.zeros(30))
    np.testing.assert_array_equal(scaled.x, plain.x)
    assert scaled.n_evaluations == plain.n_evaluations


def scale(unit, value, gradient):
    return unit * value, unit * gradient


def test_rounding_ends_a_run_that_nothing_else_does():
    function, p = quadratic()
    states, found = observed(function, np.zeros(30), ftol=0.0, max_iter=10**6)
    assert found.at_rest
    assert [state.n_iter for state in states] == list(range(found.n_iter + 1))
    assert found.n_evaluations < 400
    np.testing.assert_allclose(found.x, p, atol=1e-7)


def test_noise_ends_a_run_early_if_it_is_known():
    function, _ = quadratic()
    noisy = Counted(lambda x: float(np.float32(function.value(x))), function.gradient)
    known = minimised(noisy, np.zeros(30), 0.0, rounding=1e-6)
    unknown = minimised(noisy, np.zeros(30), 0.0)
    assert known.at_rest
    assert known.value == pytest.approx(1.0, rel=1e-5)
    assert known.n_evaluations < unknown.n_evaluations


@pytest.mark.parametrize("max_iter", [0, 1, 5])
def test_max_iter_is_kept(max_iter):
    found = minimised(rosenbrock(), np.array([-1.2, 1.0]), max_iter=max_iter)
    assert found.n_iter == max_iter
    assert not found.at_rest


@pytest.mark.parametrize("iteration", [1, 7])
def test_an_observer_that_says_true_stops_the_run(iteration):
    seen = []
    found = minimised(
        rosenbrock(), np.array([-1.2, 1.0]), observe=lambda state: seen.append(state) or state.n_iter == iteration
    )
    assert [state.n_iter for state in seen] == list(range(1, iteration + 1))
    assert found is seen[-1]
    assert not found.at_rest


def test_a_stationary_start_is_the_end():
    function, p = quadratic()
    found = minimised(function, p)
    assert (found.at_rest, found.n_iter, found.n_evaluations, found.value) == (True, 0, 1, 1.0)


def test_nothing_to_move_is_the_end():
    found = minimised(lambda x: (2.0, x), np.zeros(0))
    assert (found.at_rest, found.n_iter, found.value) == (True, 0, 2.0)
    saved.assert_same_bits(saved.written_and_read(found), found)


# -- steps ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.floats(-3, 3))
def test_the_objective_never_rises_and_is_what_it_says(seed, log_spread):
    function, _ = quadratic(8, 10**log_spread, seed)
    states, last = observed(function, np.zeros(8), ftol=1e-15, max_iter=300)
    for before, after in pairwise([*states, last]):
        assert after.value <= before.value
    assert last.value == function(last.x)[0]
    np.testing.assert_array_equal(last.gradient, function(last.x)[1])


def test_every_step_meets_the_weak_wolfe_conditions():
    states, _ = observed(rosenbrock(), np.array([-1.2, 1.0]), ftol=1e-12, max_iter=500)
    for before, after in pairwise(states):
        step = after.x - before.x
        assert after.value <= before.value + 0.9e-4 * before.gradient @ step
        assert after.gradient @ step >= 0.91 * before.gradient @ step


def test_the_memory_is_short_and_holds_steps_of_positive_curvature_only():
    states, last = observed(rosenbrock(), np.tile([-1.2, 1.0], 10), ftol=1e-12, max_iter=60)
    assert len(last.steps) == len(last.changes) == MEMORY < last.n_iter
    for state in states:
        assert all(step @ change > 0 for step, change in zip(state.steps, state.changes, strict=True))
    np.testing.assert_array_equal(last.steps[-1], last.x - states[-2].x)
    np.testing.assert_array_equal(last.changes[-1], last.gradient - states[-2].gradient)


@pytest.mark.parametrize("bend", [0.0, -1.0], ids=["straight", "bent downwards"])
def test_a_step_without_positive_curvature_is_not_remembered(bend):
    function = Counted(lambda x: 1e6 + float(np.sum(bend * x**2 / 2 - x)), lambda x: bend * x - 1)
    found = minimised(function, np.ones(3), max_iter=1)
    assert found.n_iter == 1
    assert found.value < 1e6 - 4.5
    assert found.steps == found.changes == ()


def test_the_direction_is_that_of_the_bfgs_matrix():
    states, _ = observed(rosenbrock(), np.array([-1.2, 1.0, 0.5, 2.0]), ftol=0.0, max_iter=MEMORY - 2)
    state = states[-1]
    H = state.scale * np.eye(4)
    for s, y in zip(state.steps, state.changes, strict=True):
        left = np.eye(4) - np.outer(s, y) / (s @ y)
        H = left @ H @ left.T + np.outer(s, s) / (s @ y)
    assert len(state.steps) == MEMORY - 2
    np.testing.assert_allclose(lbfgs._direction(state), -H @ state.gradient, rtol=1e-7)


def test_a_memory_that_leads_uphill_is_dropped():
    function, p = quadratic()
    state = started(function, np.zeros(30))
    misled = replace(state, steps=(state.gradient,), changes=(-state.gradient,))
    assert lbfgs._direction(misled) @ state.gradient > 0
    found = descend(function, misled, ftol=1e-14, max_iter=500)
    np.testing.assert_allclose(found.x, p, atol=1e-5)


def test_a_gradient_that_lies_moves_nothing():
    function, _ = quadratic()
    liar = Counted(function.value, lambda x: -function.gradient(x))
    states, found = observed(liar, np.zeros(30), ftol=1e-12, max_iter=100)
    np.testing.assert_array_equal(found.x, np.zeros(30))
    assert found.at_rest
    assert len(states) == 1  # no iteration is reported
    assert found.n_evaluations <= 1 + MAX_TRIES


@pytest.mark.parametrize("first", [1e-9, 1e-3, 1.0, 1e3, 1e9])
def test_a_first_scale_far_off_costs_some_evaluations_only(first):
    function, p = quadratic()
    found = descend(function, started(function, np.zeros(30), first), ftol=1e-14, max_iter=500)
    assert found.n_evaluations <= minimised(function, np.zeros(30), 1e-14).n_evaluations + 25
    np.testing.assert_allclose(found.x, p, atol=1e-5)


def test_the_first_step_would_halve_f_if_it_went_on_as_it_starts():
    function = Counted(lambda x: float(np.cosh(x).sum()), np.sinh)
    x = np.array([3.0, -4.0])
    state = started(function, x)
    step = state.scale * state.gradient
    assert step @ state.gradient <= state.value / 2 * (1 + 1e-12)
    assert np.linalg.norm(step) <= 0.1 * np.linalg.norm(x) * (1 + 1e-12)
    state = started(function, 10 * x)  # steep: its own height is what bounds the step
    assert state.scale * state.gradient @ state.gradient == pytest.approx(state.value / 2)


@pytest.mark.parametrize("first", [0.1, 1e2, 1e6])
def test_steps_to_where_f_is_not_finite_are_shortened(first):
    function = barrier()
    x0 = np.array([0.05, 3.0, 40.0])
    found = descend(function, started(function, x0, first), ftol=1e-14, max_iter=500)
    assert np.isnan(function.values).any() or first < 1
    assert found.at_rest
    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-6)


def test_a_gradient_that_is_not_finite_is_not_stepped_to():
    function, _ = quadratic()
    x0 = np.zeros(30)
    holed = Counted(function.value, lambda x: function.gradient(x) if not x.any() else np.full(30, np.nan))
    found = minimised(holed, x0)
    assert found.at_rest
    np.testing.assert_array_equal(found.x, x0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_start_where_f_is_not_finite_is_named(value):
    with pytest.raises(ValueError, match="not finite"):
        started(lambda x: (value, x), np.ones(3))


# -- going on from a saved state --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quadratic", "valley", "barrier", "to the last bit"])
def test_going_on_from_any_iteration_ends_with_the_same_floats(name):
    function, x0, ftol = {
        "quadratic": (quadratic()[0], np.zeros(30), 1e-9),
        "valley": (rosenbrock(), np.tile([-1.2, 1.0], 2), 1e-12),
        "barrier": (barrier(), np.array([0.05, 3.0, 40.0]), 1e-12),
        "to the last bit": (quadratic(5)[0], np.zeros(5), 0.0),
    }[name]
    states, last = observed(function, x0, ftol=ftol, max_iter=500)
    assert len(states) > 10
    for k, state in enumerate(states):
        saved.assert_same_bits(saved.written_and_read(state), state)
        tail = []
        again = descend(function, saved.written_and_read(state), ftol=ftol, max_iter=500, observe=tail.append)
        saved.assert_same_bits(again, last)
        assert len(tail) == len(states) - 1 - k
        for one, other in zip(tail, states[k + 1 :], strict=True):
            saved.assert_same_bits(one, other)


def test_max_iter_counts_the_iterations_before_a_saved_state():
    states, _ = observed(rosenbrock(), np.array([-1.2, 1.0]), ftol=1e-12, max_iter=10)
    found = descend(rosenbrock(), states[4], ftol=1e-12, max_iter=10)
    saved.assert_same_bits(found, states[10])


def test_fewer_pairs_are_remembered_of_large_points():
    """All of them together within their bytes, but never fewer than a few."""
    large = np.empty(MEMORY_BYTES // 8 // 16)
    assert n_remembered(np.zeros(3)) == MEMORY
    assert n_remembered(large) == 8
    assert n_remembered(np.empty(MEMORY_BYTES // 8)) == FEWEST
