"""L-BFGS on the factor: the staircase of ranks, the sphere, the trace."""

import numpy as np
import pytest

from samekind.solvers.factored import _Sphere, minimise_factored, within_trace
from samekind.solvers.joint import JointProblem
from samekind.solvers.projected import minimise
from tests import cases

WIDTH = 8


@pytest.fixture(params=cases.BOTH_LOSSES)
def loss(request):
    return request.param


def problem_of(loss, ridge=0.05, trace_bound=np.inf):
    case = cases.case(loss, (8, 1, 6, 7, 8), WIDTH, block=30)
    return JointProblem(case.objective, case.Z, ridge, trace_bound)


def first_columns(rank, seed=0):
    return 0.1 * np.random.default_rng(seed).normal(size=(WIDTH, rank))


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0], ids=["unbounded", "bounded"])
@pytest.mark.parametrize("rank", [1, 2])
def test_a_rank_too_small_grows_until_it_is_optimal(loss, rank, trace_bound):
    problem = problem_of(loss, trace_bound=trace_bound)
    best = minimise(problem, np.zeros((WIDTH, WIDTH)), tol=1e-9, max_iter=3000)
    solution = minimise_factored(problem, first_columns(rank), max_rank=WIDTH, tol=1e-6, max_iter=2000)
    assert solution.certificate.optimal
    assert solution.converged
    assert solution.L.shape[1] > rank
    assert solution.certificate.rank == solution.L.shape[1]
    assert solution.certificate.value == pytest.approx(best.value, rel=1e-6)


@pytest.mark.parametrize("max_rank", [1, 2])
def test_the_staircase_ends_at_max_rank(loss, max_rank):
    solution = minimise_factored(problem_of(loss), first_columns(1), max_rank=max_rank, tol=1e-6, max_iter=2000)
    assert solution.L.shape == (WIDTH, max_rank)
    assert not solution.certificate.optimal
    assert solution.converged


def test_more_columns_give_lower_values(loss):
    values = [
        minimise_factored(
            problem_of(loss), first_columns(rank), max_rank=rank, tol=1e-6, max_iter=2000
        ).certificate.value
        for rank in (1, 2, 4)
    ]
    assert values[0] > values[1] * 1.0001
    assert values[1] >= values[2]


@pytest.mark.parametrize("max_iter", [7, 60])
@pytest.mark.parametrize("trace_bound", [1.0, 5.0, 20.0])
def test_running_out_of_iterations_never_returns_worse_than_was_seen(loss, trace_bound, max_iter):
    seen = []

    def note_if_feasible(L, value, iteration):
        if np.vdot(L, L) <= trace_bound * (1 + 1e-9):
            seen.append(value)

    problem = problem_of(loss, 0.0, trace_bound)
    options = {"max_rank": WIDTH, "tol": 1e-6, "max_iter": max_iter, "observe": note_if_feasible}
    solution = minimise_factored(problem, first_columns(WIDTH), **options)
    assert solution.certificate.value <= min(seen) * (1 + 1e-9)


def test_a_gradient_on_the_sphere_by_finite_differences(loss):
    problem = problem_of(loss)
    rng = np.random.default_rng(0)
    sphere = _Sphere((WIDTH, 2), radius=1.3)
    v, direction = rng.normal(size=2 * WIDTH), rng.normal(size=2 * WIDTH)

    def value(at):
        return problem.factored_value_and_gradient(sphere.factor(at))[0]

    pulled = sphere.pull_back(v, problem.factored_value_and_gradient(sphere.factor(v))[1])
    assert np.linalg.norm(sphere.factor(v)) == pytest.approx(1.3, rel=1e-14)
    assert pulled @ direction == pytest.approx(cases.directional_difference(value, v, direction), rel=1e-6)
    assert abs(pulled @ v) < 1e-12  # f does not change along the ray


@pytest.mark.parametrize(("bound", "trace"), [(2.0, 2.0), (100.0, 8.0), (np.inf, 8.0)])
def test_within_trace_shortens_only_what_is_too_long(bound, trace):
    L = np.ones((4, 2))
    shortened = within_trace(L, bound)
    assert np.vdot(shortened, shortened) == pytest.approx(trace, rel=1e-14)
    np.testing.assert_allclose(shortened / shortened[0, 0], L)
