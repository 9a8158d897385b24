"""More features than samples: the same metric as in all features, found in the span of the samples."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from samekind.solvers.joint import algorithm, monitor
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.span import has_span, in_span
from samekind.solvers.joint.state import JointState
from tests import cases, oracle
from tests.cases import solve_joint

SIZES = (3, 4, 1, 4)
WIDTH = 20
RIDGE = 0.1


def problem_of(loss, centre=0.0, trace_bound=np.inf, sizes=SIZES, width=WIDTH):
    case = cases.case(loss, sizes, width, block=30)
    return JointProblem(case.objective, case.Z, RIDGE, trace_bound, centre)


def in_all_features(monkeypatch, problem, **options):
    with monkeypatch.context() as patch:
        patch.setattr(algorithm, "has_span", lambda problem: False)
        return solve_joint(problem, **options)


def whole_metric(result):
    A = result.L @ result.L.T
    return A if result.span is None else A + result.outside * (np.eye(len(A)) - result.span @ result.span.T)


def test_the_span_is_orthonormal_and_keeps_the_samples():
    problem = problem_of("triplet")
    inside, V = in_span(problem)
    assert V.shape == (WIDTH, sum(SIZES) - 1)
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-12)
    np.testing.assert_allclose(inside.Z @ V.T, problem.Z, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("trace_bound", [np.inf, 0.5], ids=["free", "bounded"])
@pytest.mark.parametrize("centre", [0.0, 0.05])
def test_objective_and_distances_are_those_in_all_features(loss, solver, centre, trace_bound, monkeypatch):
    problem = problem_of(loss, centre, trace_bound)
    options = {"solver": solver, "tol": 1e-7, "max_iter": 2000}
    result, reference = solve_joint(problem, **options), in_all_features(monkeypatch, problem, **options)
    A, B = whole_metric(result), whole_metric(reference)
    assert result.certificate.optimal
    assert result.objective == pytest.approx(reference.objective, rel=2e-7)
    assert problem.value(A) == pytest.approx(result.objective, rel=1e-9)
    assert np.trace(A) <= trace_bound * (1 + 1e-9)
    np.testing.assert_allclose(A, B, atol=3 * (2e-7 * result.objective / RIDGE) ** 0.5)
    D = oracle.distances(problem.Z, A)
    np.testing.assert_allclose(D, oracle.distances(problem.Z, B), atol=0.02 * D.max())
    if np.isinf(trace_bound):
        assert result.outside == centre
    else:
        assert (result.span is None) == (centre > 0)  # the bound counts what lies outside of the span too


@pytest.mark.parametrize("centre", [0.0, 0.05])
def test_a_bound_on_the_rank_holds_outside_of_the_span_too(loss, solver, centre):
    problem = problem_of(loss, centre)
    events = []
    result = solve_joint(problem, solver=solver, n_components=2, tol=1e-6, max_iter=2000, observe=events.append)
    best = solve_joint(problem, solver=solver, tol=1e-6, max_iter=2000)
    assert result.L.shape == (WIDTH, 2)
    assert result.outside == 0
    assert result.span is not None
    assert problem.value(result.L @ result.L.T) == pytest.approx(result.objective, rel=1e-9)
    if solver == "factored":
        assert events[-1].objective == pytest.approx(result.objective, rel=1e-6)
        assert result.certificate.value == pytest.approx(result.objective, rel=1e-9)
        assert result.certificate.gap >= result.objective - best.objective


def test_samples_in_few_dimensions_span_those():
    X, labels = cases.labelled_data(SIZES, 3)
    X = X @ np.random.default_rng(0).normal(size=(3, WIDTH))
    case = cases.case_of("triplet", X, labels)
    result = solve_joint(JointProblem(case.objective, case.Z, RIDGE), tol=1e-5)
    assert result.span.shape == (WIDTH, 3)
    assert result.L.shape[1] <= 3


def test_as_many_samples_as_features_are_left_alone():
    assert not has_span(problem_of("triplet", sizes=(7, 7, 7)))
    assert has_span(problem_of("triplet", sizes=(7, 7, 6)))
    assert solve_joint(problem_of("triplet", sizes=(7, 7, 7)), max_iter=3).span is None


def test_columns_fall_in_length_with_their_largest_entry_positive(loss, solver):
    L = solve_joint(problem_of(loss), solver=solver, tol=1e-4).L
    inner = L.T @ L
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-9)
    assert (np.diff(np.diag(inner)) <= 1e-12).all()
    assert (L[np.abs(L).argmax(axis=0), np.arange(L.shape[1])] > 0).all()


@pytest.mark.parametrize("centre", [0.0, 0.05])
def test_from_any_state_it_ends_with_the_same_bits(loss, solver, centre, monkeypatch):
    monkeypatch.setattr(monitor, "KEEP_EVERY", 3)
    problem, states = problem_of(loss, centre), []

    def keep(state):
        states.append(({name: array.copy() for name, array in state.arrays().items()}, json.dumps(state.facts())))

    options = {"solver": solver, "tol": 1e-5}
    whole = solve_joint(problem, keep=keep, **options)
    assert len(states) > 2
    for arrays, facts in states:
        again = solve_joint(problem, resume=JointState.restored(arrays, json.loads(facts)), **options)
        np.testing.assert_array_equal(again.L, whole.L)
        np.testing.assert_array_equal(again.span, whole.span)
        assert again.certificate == whole.certificate
        assert (again.objective, again.outside) == (whole.objective, whole.outside)


def test_ten_times_as_many_features_as_samples_are_much_faster(solver, monkeypatch):
    problem = replace(problem_of("pairwise-equal", sizes=(5,) * 8, width=400), centre=0.0)
    seconds = []
    for solve in (solve_joint, lambda *args, **options: in_all_features(monkeypatch, *args, **options)):
        start = time.thread_time()
        solve(problem, solver=solver, tol=1e-2, max_iter=20)
        seconds.append(time.thread_time() - start)
    assert seconds[0] < seconds[1] / 4
