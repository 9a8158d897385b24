"""L-BFGS on the factor: the staircase of ranks, the sphere, the trace."""

from itertools import pairwise

import numpy as np
import pytest

from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.optimise.factored import SETTLED, STATIONARY, _Free, _Sphere, minimise_factored, within_trace
from samekind.solvers.optimise.projected import minimise
from samekind.solvers.optimise.within_class import WithinClassWhitening
from tests import cases
from tests.solvers import saved

WIDTH = 8


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
    assert solution.x.shape[1] > rank
    assert solution.certificate.rank == solution.x.shape[1]
    assert solution.certificate.value == pytest.approx(best.value, rel=1e-6)


@pytest.mark.parametrize("max_rank", [1, 2])
def test_the_staircase_ends_at_max_rank(loss, max_rank):
    solution = minimise_factored(problem_of(loss), first_columns(1), max_rank=max_rank, tol=1e-6, max_iter=2000)
    assert solution.x.shape == (WIDTH, max_rank)
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

    def note_if_feasible(now):
        if np.vdot(now.x, now.x) <= trace_bound * (1 + 1e-9):
            seen.append(now.value)

    problem = problem_of(loss, 0.0, trace_bound)
    options = {"max_rank": WIDTH, "tol": 1e-6, "max_iter": max_iter, "observe": note_if_feasible}
    solution = minimise_factored(problem, first_columns(WIDTH), **options)
    assert solution.certificate.value <= min(seen) * (1 + 1e-9)


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0], ids=["unbounded", "bounded"])
def test_a_certificate_that_closes_early_ends_it_before_it_is_stationary(loss, trace_bound):
    tol, values = 1e-2, []
    problem = problem_of(loss, 1.0, trace_bound)
    options = {"max_rank": WIDTH, "max_iter": 2000, "observe": lambda now: values.append(now.value)}
    solution = minimise_factored(problem, first_columns(WIDTH), tol=tol, **options)
    assert solution.certificate.optimal
    assert STATIONARY * tol < (values[-2] - values[-1]) / values[-2] <= SETTLED * tol


def test_a_rank_too_small_is_widened_before_it_is_stationary():
    tol, values, ranks = 1e-4, [], []

    def note(now):
        values.append(now.value)
        ranks.append(now.x.shape[1])

    problem = problem_of("pairwise-equal")
    minimise_factored(problem, first_columns(1), max_rank=WIDTH, tol=tol, max_iter=2000, observe=note)
    last = ranks.index(2) - 1
    assert STATIONARY * tol < (values[last - 1] - values[last]) / values[last] <= SETTLED * tol


def test_a_rank_that_cannot_be_optimal_is_taken_down_until_it_is_stationary(loss):
    values = []
    options = {"max_rank": 1, "max_iter": 2000, "observe": lambda now: values.append(now.value)}
    solution = minimise_factored(problem_of(loss), first_columns(1), tol=1e-2, **options)
    assert not solution.certificate.optimal
    assert (values[-2] - values[-1]) / values[-2] <= STATIONARY * 1e-2


def coordinates_of(problem):
    return WithinClassWhitening.of(problem.Z, problem.objective.relation.class_sizes, map)


@pytest.mark.parametrize("round_classes", [False, True])
@pytest.mark.parametrize("surface", ["free", "sphere"])
def test_a_gradient_on_a_surface_by_finite_differences(loss, surface, round_classes):
    problem = problem_of(loss)
    rng = np.random.default_rng(0)
    coordinates = coordinates_of(problem) if round_classes else None
    made = _Sphere(coordinates, radius=1.3) if surface == "sphere" else _Free(coordinates)
    v, direction = rng.normal(size=(WIDTH, 2)), rng.normal(size=(WIDTH, 2))

    def value(at):
        return problem.factored_value_and_gradient(made.factor(at))[0]

    pulled = made.pull_back(v, problem.factored_value_and_gradient(made.factor(v))[1])
    assert np.vdot(pulled, direction) == pytest.approx(cases.directional_difference(value, v, direction), rel=1e-6)
    if surface == "sphere":
        assert np.linalg.norm(made.factor(v)) == pytest.approx(1.3, rel=1e-14)
        assert abs(np.vdot(pulled, v)) < 1e-12  # f does not change along the ray
    else:
        np.testing.assert_allclose(made.point(made.factor(v)), v, rtol=1e-12)


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0, 2.5], ids=["unbounded", "bounded", "almost bounded"])
def test_coordinates_change_the_way_and_not_the_end(loss, trace_bound):
    problem = problem_of(loss, trace_bound=trace_bound)
    options = {"max_rank": WIDTH, "tol": 1e-6, "max_iter": 2000}
    plain = minimise_factored(problem, first_columns(2), **options)
    other = minimise_factored(problem, first_columns(2), coordinates=coordinates_of(problem), **options)
    assert plain.certificate.optimal
    assert other.certificate.optimal
    assert other.certificate.value == pytest.approx(plain.certificate.value, rel=2e-6)
    assert not np.array_equal(other.x, plain.x)


@pytest.mark.parametrize(("bound", "trace"), [(2.0, 2.0), (100.0, 8.0), (np.inf, 8.0)])
def test_within_trace_shortens_only_what_is_too_long(bound, trace):
    L = np.ones((4, 2))
    shortened = within_trace(L, bound)
    assert np.vdot(shortened, shortened) == pytest.approx(trace, rel=1e-14)
    np.testing.assert_allclose(shortened / shortened[0, 0], L)


# -- one descent, without a certificate -------------------------------------------------------------------------------


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0, 2.5], ids=["unbounded", "bounded", "almost bounded"])
@pytest.mark.parametrize("rank", [1, 2])
def test_without_a_certificate_it_is_the_staircase_of_one_rank(loss, rank, trace_bound):
    problem = problem_of(loss, trace_bound=trace_bound)
    options = {"tol": 1e-6, "max_iter": 2000}
    plain = minimise_factored(problem, first_columns(rank), max_rank=WIDTH, certified=False, **options)
    reference = minimise_factored(problem, first_columns(rank), max_rank=rank, **options)
    assert plain.certificate is None
    assert plain.converged
    assert plain.x.shape == (WIDTH, rank)
    assert np.vdot(plain.x, plain.x) <= trace_bound * (1 + 1e-12)
    assert problem.value(plain.x @ plain.x.T) == pytest.approx(reference.certificate.value, rel=1e-5)
    assert plain.n_iter <= reference.n_iter


def test_without_a_certificate_it_asks_for_none(loss, monkeypatch):
    def forbidden(*args):
        raise AssertionError("certify was called")

    monkeypatch.setattr("samekind.solvers.optimise.factored.certify", forbidden)
    minimise_factored(problem_of(loss), first_columns(2), max_rank=WIDTH, tol=1e-3, max_iter=500, certified=False)


@pytest.mark.parametrize("max_iter", [1, 5])
def test_without_a_certificate_running_out_is_said(loss, max_iter):
    options = {"max_rank": 2, "tol": 1e-6, "max_iter": max_iter, "certified": False}
    solution = minimise_factored(problem_of(loss), first_columns(2), **options)
    assert solution.n_iter == max_iter
    assert not solution.converged


# -- going on from a saved state --------------------------------------------------------------------------------------


def assert_same_solution(one, other):
    assert one.x.tobytes() == other.x.tobytes()
    for name in ("certificate", "n_iter", "n_evaluations", "converged"):
        assert getattr(one, name) == getattr(other, name), name


def watched(problem, L0, **options):
    seen = []
    solution = minimise_factored(problem, L0, observe=seen.append, **options)
    return solution, seen


CLIMBS = {
    "one rank": (("triplet", 0.05, np.inf), WIDTH, {"max_rank": WIDTH, "tol": 1e-3}),
    "widened": (("pairwise-equal", 0.05, np.inf), 1, {"max_rank": WIDTH, "tol": 1e-4}),
    "widened on the sphere": (("pairwise-equal", 0.05, 0.5), 1, {"max_rank": WIDTH, "tol": 1e-4}),
    "every leg": (("triplet", 0.05, 1.0), 1, {"max_rank": WIDTH, "tol": 1e-5}),
    "few columns": (("triplet", 0.05, 1.0), 1, {"max_rank": 2, "tol": 1e-3}),
    "uncertified": (("triplet", 0.05, 2.5), 4, {"max_rank": WIDTH, "tol": 1e-3, "certified": False}),
    "cut short": (("triplet", 0.05, 1.0), 1, {"max_rank": WIDTH, "tol": 1e-5, "max_iter": 35}),
}


def climb(name):
    """A problem, its first factor, and how far to go."""
    arguments, rank, options = CLIMBS[name]
    return problem_of(*arguments), first_columns(rank), {"max_iter": 2000} | options


def assert_resumable(problem, L0, options):
    def reported(progress):
        return progress.value, progress.iteration, progress.x.tobytes()

    seen = saved.assert_goes_on_from_any_iteration(watched, problem, L0, options, assert_same_solution, reported)
    return [progress.state for progress in seen]


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIMBS)
def test_going_on_from_any_iteration_ends_with_the_same_floats(name):
    assert_resumable(*climb(name))


@pytest.mark.slow
def test_going_on_while_the_tolerance_shrinks_ends_with_the_same_floats(loss, monkeypatch):
    monkeypatch.setattr("samekind.solvers.optimise.factored._widened", lambda *args: None)
    options = {"max_rank": WIDTH, "tol": 1e-7, "max_iter": 2000}
    states = assert_resumable(problem_of(loss, 0.0, 1.0), first_columns(4), options)
    assert {state.settles for state in states} == {True, False}
    assert {state.tightenings for state in states} >= {0, 1}
    assert sum(state.tightenings > 0 for state in states) > 1


def test_the_climbs_above_pass_through_all_there_is_to_resume():
    states = {name: [now.state for now in watched(*climb(name)[:2], **climb(name)[2])[1]] for name in CLIMBS}
    ranks = {name: {state.run.x.shape[1] for state in path} for name, path in states.items()}
    assert [state.leg for state in states["one rank"]] == ["free"] * len(states["one rank"])
    assert len(ranks["widened"]) > 1
    on_the_sphere = [state.leg == "sphere" for state in states["widened on the sphere"]]
    assert on_the_sphere == sorted(on_the_sphere)
    assert len({state.run.x.shape for state in states["widened on the sphere"] if state.leg == "sphere"}) > 1
    for name in ("every leg", "uncertified"):
        assert {state.leg for state in states[name]} == {"free", "sphere", "inside"}
    assert ranks["few columns"] == {1, 2}
    assert len(ranks["uncertified"]) == 1
    assert len(states["cut short"]) == CLIMBS["cut short"][2]["max_iter"]
    assert len({state.leg for state in states["cut short"]}) > 1


def test_a_run_that_was_stopped_goes_on_as_if_it_was_not():
    problem, L0, options = climb("every leg")
    solution, seen = watched(problem, L0, **options)
    for iteration in range(1, len(seen), 6):
        states = []

        def enough(now, states=states, iteration=iteration):
            states.append(now.state)
            return now.iteration == iteration

        stopped = minimise_factored(problem, L0, observe=enough, **options)
        assert stopped.n_iter == iteration
        assert_same_solution(minimise_factored(problem, L0, resume=states[-1], **options), solution)


def test_iterations_and_evaluations_are_counted_over_all_legs(monkeypatch):
    calls, evaluate = [], JointProblem.factored_value_and_gradient
    monkeypatch.setattr(
        JointProblem, "factored_value_and_gradient", lambda self, L: calls.append(L) or evaluate(self, L)
    )
    problem, L0, options = climb("uncertified")
    solution, seen = watched(problem, L0, **options)
    assert [now.iteration for now in seen] == [now.state.run.n_iter for now in seen] == list(range(1, len(seen) + 1))
    assert solution.n_evaluations == len(calls)
    for before, after in pairwise(seen):
        assert after.state.run.n_evaluations > before.state.run.n_evaluations


def test_each_point_is_multiplied_by_its_coordinates_once(loss):
    class Counted(WithinClassWhitening):
        def factor(self, M):
            points.append(M)
            return super().factor(M)

    points, problem = [], problem_of(loss, trace_bound=20.0)
    plain = coordinates_of(problem)
    counted = Counted(plain.W, plain.inverse, plain.between, plain.map_)
    options = {"max_rank": 2, "tol": 1e-4, "max_iter": 2000, "certified": False}
    solution, seen = watched(problem, first_columns(2), coordinates=counted, **options)
    assert len(seen) > 5
    assert len(points) <= solution.n_evaluations + 1


def test_progress_tells_a_factor_and_its_value():
    problem, L0, options = climb("every leg")
    _, seen = watched(problem, L0, **options)
    for now in seen:
        assert now.x.shape == now.state.run.x.shape
        assert now.value == problem.factored_value_and_gradient(now.x)[0]
