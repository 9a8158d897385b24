"""The ridge centred on a multiple of the identity: both solvers agree, and centre 0 is the paper's ridge."""

from dataclasses import replace

import numpy as np
import pytest

from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.stage_solvers import ConvexSolver, FactoredSolver
from samekind.solvers.optimise.certificate import certify
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.optimise.within_class import WithinClassWhitening
from tests import cases, oracle
from tests.cases import solve_joint

SIZES = (8, 1, 6, 7, 8)
WIDTH = 8
RIDGE = 0.3


@pytest.fixture(params=[0.0, 0.7], ids=["centre 0", "centre 0.7"])
def centre(request):
    return request.param


def problem_of(loss, centre=0.7, ridge=RIDGE, trace_bound=np.inf, sizes=SIZES, width=WIDTH):
    case = cases.case(loss, sizes, width, block=30)
    return JointProblem(case.objective, case.Z, ridge, trace_bound, centre)


def preconditioner_of(problem):
    return Preconditioner.of(problem.Z, problem.objective.relation.class_sizes, problem.ridge)


def test_the_value_is_the_oracles_with_a_shifted_penalty(loss, centre):
    case = cases.case(loss)
    A = cases.random_psd(6)
    plain = oracle.objective(case.Z, A, case.reference, 0.0)
    value = JointProblem(case.objective, case.Z, RIDGE, centre=centre).value(A)
    assert value == pytest.approx(plain + RIDGE / 2 * np.linalg.norm(A - centre * np.eye(6)) ** 2, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_by_finite_differences(loss, centre, seed):
    problem = problem_of(loss, centre)
    A, direction = cases.random_psd(WIDTH, seed=seed, scale=0.5), cases.random_symmetric(WIDTH, seed=seed + 10)
    value, G = problem.value_and_gradient(A)
    slope = cases.directional_difference(problem.value, A, direction)
    assert value == problem.value(A)
    assert np.vdot(G, direction) == pytest.approx(slope, abs=1e-7 * np.linalg.norm(G) * np.linalg.norm(direction))


@pytest.mark.parametrize("rank", [1, 3, 5, WIDTH])
def test_factored_gradient_by_finite_differences(loss, centre, rank):
    problem = problem_of(loss, centre)
    rng = np.random.default_rng(rank)
    L, direction = 0.5 * rng.normal(size=(WIDTH, rank)), rng.normal(size=(WIDTH, rank))
    value, gradient = problem.factored_value_and_gradient(L)
    slope = cases.directional_difference(problem.factored_value, L, direction)
    assert np.vdot(gradient, direction) == pytest.approx(slope, rel=1e-6)
    assert value == pytest.approx(problem.value(L @ L.T), rel=1e-12)
    there, G = problem.value_and_gradient_at(L)
    expected, expected_G = problem.value_and_gradient(L @ L.T)
    assert there == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(G, expected_G, atol=1e-12 * np.abs(expected_G).max())


def test_batches_of_anchors_have_the_penalty_too(loss, centre):
    problem = problem_of(loss, centre).on_sample(12, np.random.RandomState(0))
    L = 0.5 * np.random.default_rng(0).normal(size=(WIDTH, 3))
    without = replace(problem, ridge=0.0)
    penalty = RIDGE / 2 * np.linalg.norm(L @ L.T - centre * np.eye(WIDTH)) ** 2
    np.testing.assert_allclose(problem.batch_values(L @ L.T), without.batch_values(L @ L.T) + penalty, rtol=1e-10)
    np.testing.assert_allclose(problem.factored_batch_values(L), without.factored_batch_values(L) + penalty, rtol=1e-10)


@pytest.mark.parametrize("trace_bound", [np.inf, 1.5], ids=["free", "bounded"])
def test_both_solvers_agree_and_the_gap_holds_for_any_metric(loss, centre, trace_bound):
    problem = problem_of(loss, centre, trace_bound=trace_bound)
    convex, factored = (solve_joint(problem, solver=name, tol=1e-7, max_iter=2000) for name in ("convex", "factored"))
    assert convex.certificate.optimal
    assert factored.certificate.optimal
    assert factored.objective == pytest.approx(convex.objective, rel=2e-7)
    np.testing.assert_allclose(factored.L @ factored.L.T, convex.L @ convex.L.T, atol=2e-3)
    assert np.vdot(convex.L, convex.L) <= trace_bound * (1 + 1e-9)
    for seed in range(5):
        A = problem.project(cases.random_psd(WIDTH, seed=seed, scale=0.3))
        certificate, _ = certify(problem, A, WIDTH, 1e-3)
        assert certificate.gap >= certificate.value - convex.objective


@pytest.mark.parametrize("solver", ["convex", "factored"])
def test_a_large_ridge_gives_the_centre(loss, solver):
    result = solve_joint(problem_of(loss, ridge=1e5), solver=solver, tol=1e-9)
    np.testing.assert_allclose(result.L @ result.L.T, 0.7 * np.eye(WIDTH), atol=1e-3)
    bounded = solve_joint(problem_of(loss, ridge=1e5, trace_bound=2.0), solver=solver, tol=1e-9)
    np.testing.assert_allclose(bounded.L @ bounded.L.T, 2.0 / WIDTH * np.eye(WIDTH), atol=1e-3)


def test_the_convex_solver_starts_at_the_centre(loss):
    way = ConvexSolver(None, 1e-3, preconditioner_of(problem_of(loss)))
    np.testing.assert_array_equal(way.first(problem_of(loss, 0.0), 0), np.zeros((WIDTH, WIDTH)))
    np.testing.assert_array_equal(way.first(problem_of(loss), 0), 0.7 * np.eye(WIDTH))
    assert np.trace(way.first(problem_of(loss, trace_bound=1.0), 0)) == pytest.approx(1.0)


@pytest.mark.parametrize("n_components", [3, None])
@pytest.mark.parametrize("ridge", [1e-4, 1e4])
def test_the_factored_solver_starts_where_f_is_lower(loss, n_components, ridge):
    problem = problem_of(loss, ridge=ridge)
    coordinates = WithinClassWhitening.of(problem.Z, problem.objective.relation.class_sizes, map)
    way = FactoredSolver(n_components, 1e-3, preconditioner_of(problem), coordinates)
    L, usual = way.first(problem, 0), way.first(replace(problem, centre=0.0), 0)
    _, axes = np.linalg.eigh(problem.Z.T @ problem.Z)
    leading = 0.7**0.5 * axes[:, ::-1][:, : WIDTH if n_components is None else n_components]
    values = [problem.factored_value(usual), problem.factored_value(leading)]
    assert problem.factored_value(L) <= min(values) * (1 + 1e-12)
    if ridge > 1:
        np.testing.assert_allclose(L @ L.T, leading @ leading.T, atol=1e-10)


def test_a_centre_of_zero_is_the_plain_ridge_to_the_last_bit(loss):
    problem = problem_of(loss, 0.0)
    free = replace(problem, ridge=0.0)
    A, L = cases.random_psd(WIDTH), np.random.default_rng(0).normal(size=(WIDTH, 2))
    (value, G), (plain, plain_G) = problem.value_and_gradient(A), free.value_and_gradient(A)
    assert value == plain + RIDGE / 2 * float(np.vdot(A, A))
    np.testing.assert_array_equal(G, plain_G + RIDGE * A)
    (value, G), (plain, plain_G) = problem.factored_value_and_gradient(L), free.factored_value_and_gradient(L)
    inner = L.T @ L
    assert value == plain + RIDGE / 2 * float(np.vdot(inner, inner))
    np.testing.assert_array_equal(G, 2 * (plain_G / 2 + RIDGE * L @ inner))
