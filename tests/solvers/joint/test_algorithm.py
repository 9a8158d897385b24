"""Algorithm 2: gradients by finite differences, and both solvers at the same optimum."""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from samekind.kernels.spectral import leading_factor
from samekind.solvers.joint import site as joint_site
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.optimise.projected import minimise
from tests import cases, oracle
from tests.cases import solve_joint

SOLVERS = ["convex", "factored"]
SIZES = (8, 1, 6, 7, 8)
WIDTH = 8
RIDGE = 0.05


@lru_cache
def small_case(loss):
    return cases.case(loss, SIZES, WIDTH, block=30)


def small_problem(loss, ridge=RIDGE, trace_bound=np.inf):
    case = small_case(loss)
    return JointProblem(case.objective, case.Z, ridge, trace_bound)


@lru_cache
def best_known(loss, ridge=RIDGE, trace_bound=np.inf):
    """A and f(A) after a long run."""
    problem = small_problem(loss, ridge, trace_bound)
    solution = minimise(problem, np.zeros((WIDTH, WIDTH)), tol=1e-12, max_iter=4000)
    assert solution.converged
    return solution.x, solution.value


# -- the problem ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("A", [cases.random_psd(6), cases.random_psd(6, rank=2)], ids=["full rank", "rank 2"])
def test_value_and_gradient_equal_the_oracles(loss, A):
    case = cases.case(loss)
    problem = JointProblem(case.objective, case.Z, ridge=0.3)
    value, G = problem.value_and_gradient(A)
    assert value == problem.value(A) == pytest.approx(oracle.objective(case.Z, A, case.reference, 0.3), rel=1e-9)
    assert cases.relative_error(G, oracle.objective_gradient(case.Z, A, case.reference, 0.3)) < 1e-9


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shift", [0.0, -0.05], ids=["psd", "slightly indefinite"])
def test_gradient_by_finite_differences(loss, seed, shift):
    case = cases.case(loss)
    problem = JointProblem(case.objective, case.Z, ridge=0.3)
    A = cases.random_psd(6, seed=seed, rank=3, scale=0.5) + shift * np.eye(6)
    direction = cases.random_symmetric(6, seed=seed + 10)
    _, G = problem.value_and_gradient(A)
    slope = cases.directional_difference(problem.value, A, direction)
    assert (np.linalg.eigvalsh(A).min() < -0.04) == (shift < 0)
    assert np.vdot(G, direction) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("rank", [1, 2, 3, 6, 8])
def test_factored_gradient_by_finite_differences(loss, rank):
    case = cases.case(loss)
    problem = JointProblem(case.objective, case.Z, ridge=0.3)
    rng = np.random.default_rng(rank)
    L, direction = 0.5 * rng.normal(size=(6, rank)), rng.normal(size=(6, rank))
    value, gradient = problem.factored_value_and_gradient(L)
    slope = cases.directional_difference(lambda M: problem.factored_value_and_gradient(M)[0], L, direction)
    assert gradient.shape == L.shape
    assert np.vdot(gradient, direction) == pytest.approx(slope, rel=1e-6)
    assert value == pytest.approx(oracle.objective(case.Z, L @ L.T, case.reference, 0.3), rel=1e-9)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_the_gradient_at_a_factor_is_that_at_its_square(loss, rank):
    case = cases.case(loss)
    problem = JointProblem(case.objective, case.Z, 0.3)
    L = np.random.default_rng(rank).normal(size=(6, rank))
    value, G = problem.value_and_gradient_at(L)
    expected_value, expected = problem.value_and_gradient(L @ L.T)
    assert value == pytest.approx(expected_value, rel=1e-12)
    np.testing.assert_allclose(G, expected, atol=1e-12 * np.abs(expected).max())


# float32: as for the forms, distances up to 30 known to 2e-6 and terms that cancel
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-4)])
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("rank", [2, 5], ids=["narrow", "wide"])
def test_factored_gradient_equals_the_oracles(loss, rank, dtype, rtol):
    case = cases.case(loss, dtype=dtype)
    problem = JointProblem(case.objective, case.Z, ridge=0.3)
    L = 0.5 * np.random.default_rng(rank).normal(size=(6, rank))
    _, gradient = problem.factored_value_and_gradient(L)
    literal = 2 * oracle.objective_gradient(case.Z, L @ L.T, case.reference, 0.3) @ L
    assert cases.relative_error(gradient, literal) < rtol


@pytest.mark.parametrize(("rank", "form"), [(1, "ProductForm"), (2, "ProductForm"), (3, "GramForm"), (6, "GramForm")])
def test_the_form_of_the_factored_gradient_goes_by_the_width(monkeypatch, rank, form):
    case = cases.case("triplet")
    made = []
    for name in ("ProductForm", "GramForm"):
        kind = getattr(joint_site, name)
        monkeypatch.setattr(joint_site, name, lambda Z, name=name, kind=kind: made.append(name) or kind(Z))
    JointProblem(case.objective, case.Z, ridge=0.3).factored_value_and_gradient(np.ones((6, rank)))
    assert made == [form]


def test_the_gradient_of_equation_11_as_printed_fails_the_same_check():
    case = cases.case("triplet")
    problem = JointProblem(case.objective, case.Z, ridge=0.0)
    A, direction = cases.random_psd(6, rank=3, scale=0.5), cases.random_symmetric(6, seed=10)
    slope = cases.directional_difference(problem.value, A, direction)
    printed = case.reference.weights_as_printed_in_eq_11(oracle.distances(case.Z, A))
    assert np.vdot(problem.value_and_gradient(A)[1], direction) == pytest.approx(slope, rel=1e-6)
    assert np.vdot(oracle.gradient(case.Z, printed), direction) != pytest.approx(slope, rel=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("rank", [2, 5], ids=["narrow", "wide"])
def test_distances_of_a_million_give_finite_factored_gradients(loss, rank, dtype, strict_warnings):
    case = cases.case(loss, spread=500.0, dtype=dtype)
    problem = JointProblem(case.objective, case.Z, ridge=0.3)
    L = np.random.default_rng(rank).normal(size=(6, rank))
    value, gradient = problem.factored_value_and_gradient(L)
    assert oracle.distances(case.Z, L @ L.T).max() > 1e6
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0


# -- both solvers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0], ids=["unbounded", "bounded"])
def test_both_solvers_reach_the_certified_optimum(loss, solver, trace_bound):
    _, best = best_known(loss, RIDGE, trace_bound)
    result = solve_joint(small_problem(loss, RIDGE, trace_bound), solver=solver, tol=1e-6, max_iter=2000)
    assert result.solver == solver
    assert result.certificate.optimal
    assert result.converged
    assert not result.stopped
    assert best <= result.objective * (1 + 1e-12)
    assert result.objective <= best * (1 + 1e-6)
    assert result.certificate.gap >= result.objective - best


def test_both_solvers_agree_within_the_tolerance(loss):
    convex, factored = (solve_joint(small_problem(loss), solver=name, tol=1e-6, max_iter=2000) for name in SOLVERS)
    apart = np.linalg.norm(convex.L @ convex.L.T - factored.L @ factored.L.T)
    assert factored.objective == pytest.approx(convex.objective, rel=1e-4)
    # Strong convexity: ridge/2 ||A - A*||^2 is at most the gap, for either.
    assert apart <= 2 * (2 * 1e-6 * convex.objective / RIDGE) ** 0.5


def test_an_active_trace_bound_is_met_with_a_multiplier(loss, solver):
    result = solve_joint(small_problem(loss, trace_bound=1.0), solver=solver, tol=1e-6, max_iter=2000)
    assert np.vdot(result.L, result.L) == pytest.approx(1.0, rel=1e-6)
    assert np.vdot(result.L, result.L) <= 1.0 + 1e-9
    assert result.certificate.trace_multiplier > 1e-3
    assert result.certificate.smallest_eigenvalue > -1e-3


@pytest.mark.parametrize("trace_bound", [5.0, 1e2, 1e4, 1e6])
def test_an_inactive_trace_bound_changes_nothing(loss, solver, trace_bound):
    A, best = best_known(loss)
    result = solve_joint(small_problem(loss, trace_bound=trace_bound), solver=solver, tol=1e-6, max_iter=2000)
    assert np.trace(A) < 5
    assert result.certificate.trace_multiplier == 0
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.certificate.optimal


def test_without_a_ridge_an_active_trace_bound_is_enough(loss, solver):
    other = next(name for name in SOLVERS if name != solver)
    problem = small_problem(loss, ridge=0.0, trace_bound=1.0)
    result = solve_joint(problem, solver=solver, tol=1e-6, max_iter=1000)
    reference = solve_joint(problem, solver=other, tol=1e-8, max_iter=1000)
    assert np.vdot(result.L, result.L) == pytest.approx(1.0, rel=1e-6)
    assert result.certificate.trace_multiplier > 1e-3
    assert result.objective == pytest.approx(reference.objective, rel=1e-6)
    assert result.certificate.relative_gap < 1e-4
    assert result.certificate.gap >= result.objective - reference.objective


@pytest.mark.parametrize("trace_bound", [10.0, 100.0])
def test_without_a_ridge_an_inactive_trace_bound_changes_nothing(solver, trace_bound):
    # The pairwise optimum of this problem has a trace of 2.01.
    best = minimise(small_problem("pairwise-equal", 0.0), np.zeros((WIDTH, WIDTH)), tol=1e-9, max_iter=3000)
    problem = small_problem("pairwise-equal", 0.0, trace_bound)
    result = solve_joint(problem, solver=solver, tol=1e-6, max_iter=300)
    assert np.trace(best.x) < 2.1
    assert result.objective == pytest.approx(best.value, rel=1e-4)


@pytest.mark.parametrize("ridge", [1e-8, 1e-16])
def test_a_tiny_ridge_is_as_good_as_none(loss, solver, ridge):
    problem = small_problem(loss, ridge, trace_bound=1.0)
    best = solve_joint(small_problem(loss, 0.0, 1.0), solver="convex", tol=1e-8, max_iter=1000).objective
    result = solve_joint(problem, solver=solver, tol=1e-6, max_iter=300)
    assert result.objective == pytest.approx(best, rel=1e-5)


def test_a_metric_of_zero_is_found_where_nothing_helps(solver):
    # Either class lies on both ends: any distance takes a sample further from its own than from the others.
    X, labels = np.array([[-3.0], [3.0], [-3.0], [3.0]]), np.array([0, 0, 1, 1])
    case = cases.case_of("triplet", X, labels)
    for trace_bound in (np.inf, 1.0):
        problem = JointProblem(case.objective, case.Z, 0.1, trace_bound)
        result = solve_joint(problem, solver=solver, tol=1e-6)
        assert result.certificate.optimal
        assert result.objective == pytest.approx(1.0, rel=1e-6)
        assert np.vdot(result.L, result.L) < 1e-4


def test_convex_with_few_components_keeps_the_leading_eigenvectors(loss):
    whole = solve_joint(small_problem(loss), solver="convex", tol=1e-6)
    cut = solve_joint(small_problem(loss), solver="convex", n_components=2, tol=1e-6)
    A = whole.L @ whole.L.T
    assert whole.L.shape[1] > 2
    np.testing.assert_array_equal(cut.L, whole.L[:, :2])
    np.testing.assert_allclose(cut.L, leading_factor(A, 2), atol=1e-10)
    assert cut.objective == pytest.approx(small_problem(loss).value(cut.L @ cut.L.T), rel=1e-12)
    assert cut.objective == cut.certificate.value > whole.objective
    assert cut.certificate.gap >= cut.objective - whole.objective
    assert cut.certificate.rank == 2


def test_both_solvers_tell_the_same_rank(loss):
    ranks = [solve_joint(small_problem(loss), solver=name, tol=1e-8, max_iter=3000).L.shape[1] for name in SOLVERS]
    assert ranks[0] == ranks[1] < WIDTH


def test_factored_with_too_few_components_says_so_and_beats_truncation(loss):
    _, best = best_known(loss)
    result = solve_joint(small_problem(loss), solver="factored", n_components=1, tol=1e-6, max_iter=2000)
    truncated = solve_joint(small_problem(loss), solver="convex", n_components=1, tol=1e-6)
    assert result.L.shape == (WIDTH, 1)
    assert not result.certificate.optimal
    assert result.certificate.smallest_eigenvalue < 0
    assert result.objective > best * 1.001
    assert result.certificate.gap >= result.objective - best
    assert result.objective <= truncated.objective * (1 + 1e-9)


def test_enough_components_are_certified_optimal(loss):
    rank = len(np.flatnonzero(np.linalg.eigvalsh(best_known(loss)[0]) > 1e-6))
    result = solve_joint(small_problem(loss), solver="factored", n_components=rank, tol=1e-6, max_iter=2000)
    assert rank < WIDTH
    assert result.certificate.optimal


def test_columns_fall_in_length_and_are_orthogonal(loss, solver):
    L = solve_joint(small_problem(loss), solver=solver, tol=1e-4).L
    inner = L.T @ L
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-9)
    assert (np.diff(np.diag(inner)) <= 1e-12).all()


def test_events_tell_of_a_falling_objective(loss, solver):
    events = []
    result = solve_joint(small_problem(loss), solver=solver, tol=1e-5, max_iter=400, observe=events.append)
    values = [event.objective for event in events]
    assert len(events) == result.n_iter
    assert [event.iteration for event in events] == list(range(1, len(events) + 1))
    assert {(event.step, event.total) for event in events} == {("joint", 400)}
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))
    assert values[-1] == pytest.approx(result.objective, rel=1e-6)  # what is not rank is dropped in the end
    assert events[0].record().items() >= {"step": "joint", "iteration": 1, "objective": values[0]}.items()


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0], ids=["unbounded", "bounded"])
def test_an_observer_stops_either_solver(loss, solver, trace_bound):
    problem = small_problem(loss, trace_bound=trace_bound)
    result = solve_joint(problem, solver=solver, tol=1e-9, observe=lambda event: event.iteration >= 3)
    assert result.stopped
    assert not result.converged
    assert result.n_iter == 3
    assert result.objective < problem.value(np.zeros((WIDTH, WIDTH)))


def test_max_iter_ends_either_solver(loss, solver):
    result = solve_joint(small_problem(loss), solver=solver, tol=1e-9, max_iter=4)
    assert result.n_iter == 4
    assert not result.converged
    assert not result.stopped


def test_the_same_random_state_gives_the_same_factor(loss):
    first, second = (solve_joint(small_problem(loss), solver="factored", tol=1e-3, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.L, second.L)


@pytest.mark.parametrize("seed", range(4))
def test_converged_and_certified_are_the_same_thing(loss, solver, seed):
    case = cases.case(loss, (6, 1, 5, 6, 5), 7, block=30, seed=seed)
    result = solve_joint(JointProblem(case.objective, case.Z, RIDGE), solver=solver, tol=1e-6, max_iter=2000)
    assert result.converged
    assert result.certificate.optimal


def test_features_too_large_for_their_precision_are_named(loss, solver):
    case = cases.case(loss, spread=1e25, dtype=np.float32)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite"):
        solve_joint(JointProblem(case.objective, case.Z, RIDGE), solver=solver)


# float32 knows f to about 1e-6
def test_float32_reaches_the_same_optimum(loss, solver):
    case = cases.case(loss, SIZES, WIDTH, block=30, dtype=np.float32)
    result = solve_joint(JointProblem(case.objective, case.Z, RIDGE), solver=solver, tol=1e-4)
    assert result.converged
    assert result.objective == pytest.approx(best_known(loss)[1], rel=2e-4)


@pytest.mark.parametrize(("n_features", "n_samples", "expected"), [(5, 8, 12), (201, 8, 3), (201, 804, 8)])
def test_projections_are_as_many_as_an_evaluation_is_worth(n_features, n_samples, expected):
    X, labels = cases.labelled_data((n_samples // 2,) * 2, n_features)
    made = cases.case_of("pairwise-equal", X, labels)
    assert JointProblem(made.objective, made.Z, 1.0).n_projections == expected
