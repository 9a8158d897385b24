"""Projected quasi-Newton: problems with a known answer, monotone descent, honest bounds."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.kernels.spectral import project_trace_ball
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.optimise.projected import MOST_PROJECTIONS, minimise, strongly_convex_bound
from tests import cases, oracle
from tests.solvers import saved


@dataclass
class Orthant:
    """`1 + 1/2 sum h (x - p)^2` over x >= 0, at its least at max(p, 0)."""

    h: Any
    p: Any
    strong_convexity: float = 0.0
    rounding: float = 1e-14
    n_projections: int = MOST_PROJECTIONS
    calls: int = 0

    def value(self, x):
        return 1 + float(self.h @ (x - self.p) ** 2) / 2

    def value_and_gradient(self, x):
        self.calls += 1
        return self.value(x), self.h * (x - self.p)

    def project(self, x):
        return np.maximum(x, 0)

    def lower_bound(self, x, value, gradient):
        return strongly_convex_bound(self, self.strong_convexity, x, value, gradient)

    def estimated_gap(self, x, gradient):
        return self.value(x) - self.minimum

    @property
    def optimum(self):
        return np.maximum(self.p, 0)

    @property
    def minimum(self):
        return 1 + float(self.h @ (self.optimum - self.p) ** 2) / 2


@dataclass
class NearestMetric:
    """`1 + 1/2 ||A - P||^2` over A >= 0, tr A <= bound, at its least at P's projection."""

    P: Any
    bound: float
    strong_convexity: float = 1.0
    rounding: float = 1e-14
    n_projections: int = MOST_PROJECTIONS

    def value(self, A):
        return 1 + np.linalg.norm(A - self.P) ** 2 / 2

    def value_and_gradient(self, A):
        return self.value(A), A - self.P

    def project(self, A):
        return project_trace_ball(A, self.bound)

    def lower_bound(self, A, value, gradient):
        return strongly_convex_bound(self, self.strong_convexity, A, value, gradient)

    def estimated_gap(self, A, gradient):
        return self.value(A) - self.value(self.project(self.P))


@pytest.mark.parametrize("strong_convexity", [0.0, 1.0])
@pytest.mark.parametrize("bound", [0.5, 3.0, np.inf])
def test_the_nearest_metric_is_the_projection(bound, strong_convexity):
    P = cases.random_symmetric(4)
    problem = NearestMetric(P, bound, strong_convexity)
    solution = minimise(problem, np.zeros((4, 4)), tol=1e-12, max_iter=500)
    assert solution.converged
    np.testing.assert_allclose(solution.x, oracle.project_trace_ball(P, bound), atol=1e-6)


curved = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.float64, n, elements=st.floats(0.1, 100)),
        hnp.arrays(np.float64, n, elements=st.floats(-5, 5)),
    )
)


@given(curved)
def test_a_quadratic_over_the_orthant_reaches_its_closed_form(hp):
    h, p = hp
    problem = Orthant(h, p, strong_convexity=h.min())
    solution = minimise(problem, np.ones_like(p), tol=1e-10, max_iter=3000)
    assert solution.converged
    assert problem.minimum <= solution.value <= problem.minimum * (1 + 1e-10)
    assert solution.gap >= solution.value - problem.minimum - 1e-13
    np.testing.assert_allclose(solution.x, problem.optimum, atol=(2e-10 * problem.minimum / h.min()) ** 0.5)


@given(curved)
def test_it_reaches_it_without_strong_convexity_too(hp):
    h, p = hp
    problem = Orthant(h, p)
    solution = minimise(problem, np.ones_like(p), tol=1e-9, max_iter=3000)
    assert solution.converged
    assert solution.gap == np.inf
    assert problem.minimum <= solution.value <= problem.minimum * (1 + 1e-9)
    np.testing.assert_allclose(solution.x, problem.optimum, atol=(2e-9 * problem.minimum / h.min()) ** 0.5)


def test_a_start_outside_the_set_is_projected_first():
    problem = Orthant(np.ones(2), np.array([1.0, -1.0]), strong_convexity=1.0)
    solution = minimise(problem, np.array([-7.0, -7.0]), tol=1e-12, max_iter=100)
    np.testing.assert_allclose(solution.x, [1.0, 0.0], atol=1e-6)


def test_curvature_beats_plain_projected_gradient():
    h = np.geomspace(1e-3, 1, 30)
    problem = Orthant(h, np.ones(30))
    solution = minimise(problem, np.zeros(30), tol=1e-8, max_iter=2000)
    x, plain = np.zeros(30), 0
    while problem.value(x) > solution.value + 1e-15:
        x, plain = np.maximum(x - problem.value_and_gradient(x)[1] / h.max(), 0), plain + 1
    assert solution.value - 1 < 1e-8
    assert solution.n_iter < plain / 5


@given(curved, st.integers(0, 10**6))
def test_the_lower_bound_is_below_the_minimum_wherever_it_is_taken(hp, seed):
    h, p = hp
    problem = Orthant(h, p, strong_convexity=h.min())
    y = np.random.default_rng(seed).normal(size=len(p)) * 5  # outside of the set as well
    assert problem.lower_bound(y, *problem.value_and_gradient(y)) <= problem.minimum * (1 + 1e-12)


def test_the_lower_bound_is_the_minimum_at_the_optimum_and_nothing_without_strong_convexity():
    problem = Orthant(np.array([1.0, 4.0]), np.array([2.0, -1.0]), strong_convexity=1.0)
    at = problem.optimum, *problem.value_and_gradient(problem.optimum)
    assert problem.lower_bound(*at) == pytest.approx(problem.minimum, rel=1e-14)
    problem.strong_convexity = 0.0
    assert problem.lower_bound(*at) == -np.inf


def watched(problem, x0, **options):
    seen = []
    solution = minimise(problem, x0, observe=seen.append, **options)
    return solution, seen


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
def test_the_objective_never_rises(loss, dtype, ridge):
    case = cases.case(loss, dtype=dtype)
    problem = JointProblem(case.objective, case.Z, ridge, trace_bound=4.0)
    solution, seen = watched(problem, np.zeros((6, 6)), tol=1e-8, max_iter=150)
    values = [progress.value for progress in seen]
    assert len(values) == solution.n_iter >= 5
    assert [progress.iteration for progress in seen] == list(range(1, len(values) + 1))
    for before, after in pairwise(values):
        assert after <= before * (1 + problem.rounding)
    assert values[-1] == solution.value < problem.value(np.zeros((6, 6)))


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_every_reported_gap_holds_the_optimum(loss):
    case = cases.case(loss)
    problem = JointProblem(case.objective, case.Z, 0.1)
    best = minimise(problem, np.zeros((6, 6)), tol=1e-13, max_iter=5000)
    solution, seen = watched(problem, np.zeros((6, 6)), tol=1e-4, max_iter=500)
    assert solution.converged
    assert best.gap < 1e-12
    for progress in seen:
        assert progress.value - progress.gap <= best.value * (1 + 1e-12)
    assert solution.value - best.value <= solution.gap <= 1e-4 * solution.value


@lru_cache
def solved(loss):
    case = cases.case(loss, (3, 1, 4), 3)
    problem = JointProblem(case.objective, case.Z, 0.3, trace_bound=2.0)
    return problem, minimise(problem, np.zeros((3, 3)), tol=1e-9, max_iter=2000)


@given(seed=st.integers(0, 10**6), loss=st.sampled_from(cases.BOTH_LOSSES))
def test_the_lower_bound_of_a_metric_problem_is_below_its_optimum(seed, loss):
    problem, best = solved(loss)
    y = cases.random_symmetric(3, seed=seed)
    assert best.converged
    assert problem.lower_bound(y, *problem.value_and_gradient(y)) <= best.value


@pytest.mark.parametrize("iteration", [1, 4])
def test_an_observer_that_says_true_stops_the_run(iteration):
    case = cases.case("triplet")
    problem = JointProblem(case.objective, case.Z, 0.1)
    seen = []

    def enough(progress):
        seen.append(progress)
        return progress.iteration == iteration

    solution = minimise(problem, np.zeros((6, 6)), tol=1e-12, max_iter=500, observe=enough)
    assert solution.n_iter == len(seen) == iteration
    assert not solution.converged
    assert solution.value == seen[-1].value == problem.value(solution.x)
    np.testing.assert_array_equal(solution.x, seen[-1].x)


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_max_iter_is_kept(max_iter):
    problem = Orthant(np.geomspace(1e-3, 1, 9), np.ones(9), strong_convexity=1e-3)
    solution = minimise(problem, np.zeros(9), tol=1e-12, max_iter=max_iter)
    assert solution.n_iter == max_iter
    assert not solution.converged


def test_a_stall_with_an_open_gap_is_not_convergence():
    problem = Orthant(np.ones(3), np.ones(3))
    problem.estimated_gap = lambda x, gradient: np.inf
    solution = minimise(problem, np.zeros(3), tol=1e-3, max_iter=500)
    assert solution.value == pytest.approx(problem.minimum)
    assert solution.n_iter < 500
    assert not solution.converged


def test_a_gap_within_the_rounding_of_f_is_closed():
    problem = Orthant(np.ones(3), np.ones(3), rounding=1e-6)
    problem.estimated_gap = lambda x, gradient: 0.9e-6
    assert minimise(problem, np.zeros(3), tol=0.0, max_iter=500).converged
    problem.estimated_gap = lambda x, gradient: 1.1e-6
    assert not minimise(problem, np.zeros(3), tol=0.0, max_iter=500).converged


def test_evaluations_are_counted():
    problem = Orthant(np.geomspace(1e-2, 1, 9), np.ones(9), strong_convexity=1e-2)
    solution = minimise(problem, np.zeros(9), tol=1e-6, max_iter=500)
    assert problem.calls == solution.n_evaluations


def test_a_first_curvature_is_taken_as_it_is():
    p = np.array([3.0, -2.0, 0.5])
    problem = Orthant(np.full(3, 4.0), p)
    solution = minimise(problem, np.ones(3), tol=1e-9, max_iter=1, curvature=4.0)
    np.testing.assert_array_equal(solution.x, problem.optimum)  # a quadratic's own curvature leads there in one step
    assert solution.n_evaluations == 2  # before and after


def test_a_first_curvature_far_off_costs_a_few_looks_only():
    case = cases.case("triplet")
    problem, similar = (JointProblem(case.objective, case.Z, ridge) for ridge in (0.1, 0.11))
    start, options = np.zeros((6, 6)), {"tol": 1e-6, "max_iter": 500}
    last = minimise(problem, start, **options).hint
    warm, flat, steep = (minimise(similar, start, curvature=guess, **options) for guess in (last, 1e-6, 1e6 * last))
    assert max(flat.n_evaluations, steep.n_evaluations) <= warm.n_evaluations + 12
    assert warm.value == pytest.approx(flat.value, rel=1e-6)
    assert warm.value == pytest.approx(steep.value, rel=1e-6)
    assert last / 100 < warm.hint < last * 100


# -- going on from a saved state --------------------------------------------------------------------------------------


def assert_same_solution(one, other):
    assert one.x.tobytes() == other.x.tobytes()
    for name in ("value", "gap", "n_iter", "n_evaluations", "converged", "hint"):
        assert getattr(one, name) == getattr(other, name), name


def resumable(name):
    """A problem, its start, and how far to go."""
    if name == "orthant":  # nothing bounds f from below
        return Orthant(np.geomspace(1e-2, 1, 9), np.ones(9)), np.zeros(9), {"tol": 1e-6, "max_iter": 500}
    loss, ridge, trace_bound = {
        "ridge": ("triplet", 0.1, np.inf),
        "bounded": ("triplet", 0.0, 2.0),
        "both": ("pairwise-equal", 0.1, 1.0),
        "neither": ("pairwise-equal", 0.0, np.inf),
        "to the last bit": ("triplet", 0.1, 1.0),
        "cut short": ("triplet", 0.1, np.inf),
    }[name]
    case = cases.case(loss, dtype=np.float32 if name == "to the last bit" else np.float64)
    limits = {"tol": {"to the last bit": 0.0}.get(name, 1e-9), "max_iter": 7 if name == "cut short" else 40}
    return JointProblem(case.objective, case.Z, ridge, trace_bound), np.zeros((6, 6)), limits


@pytest.mark.slow
@pytest.mark.parametrize("name", ["orthant", "ridge", "bounded", "both", "neither", "to the last bit", "cut short"])
def test_going_on_from_any_iteration_ends_with_the_same_floats(name):
    def reported(progress):
        return progress.value, progress.gap, progress.iteration

    seen = saved.assert_goes_on_from_any_iteration(watched, *resumable(name), assert_same_solution, reported)
    assert len(seen) > 6


def test_a_run_that_was_stopped_goes_on_as_if_it_was_not():
    problem, x0, options = resumable("ridge")
    solution = minimise(problem, x0, **options)
    states = []
    minimise(problem, x0, observe=lambda now: states.append(now.state) or now.iteration == 5, **options)
    assert_same_solution(minimise(problem, x0, resume=states[-1], **options), solution)


def test_progress_and_state_tell_the_same():
    problem, x0, options = resumable("both")
    _, seen = watched(problem, x0, **options)
    for progress in seen:
        state = progress.state
        assert progress.x is state.x
        assert (progress.value, progress.iteration) == (state.value, state.iteration)
        assert progress.gap == state.value - state.lower


def test_an_unknown_lower_bound_survives_a_file():
    problem, x0, options = resumable("neither")
    _, seen = watched(problem, x0, **options)
    assert saved.written_and_read(seen[-1].state).lower == -np.inf
