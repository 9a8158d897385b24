"""Scale is harmless: the same optimum for features in any unit, and converged means that the gap closed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from samekind.kernels.scatters import BETWEEN, principal_deviations
from samekind.kernels.spectral import project_weighted_trace_ball
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.optimise.preconditioner import CURVATURE, Preconditioned, Preconditioner
from samekind.solvers.optimise.projected import minimise
from samekind.solvers.selection import SelectionOptions, select_groups
from samekind.store import ArrayStore, FeatureGroups
from tests import cases, oracle
from tests.cases import solve_joint

TOL = 1e-3
ALONE = np.ones(120, dtype=int)  # classes of one sample: all that there is lies between them


def six_classes(seed=0):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, 6, 120)
    return rng.randn(120, 6) + 1.5 * rng.randn(6, 6)[y], y


def unlike_columns():
    X, y = six_classes()
    X[:, 0] *= 1000
    return X, y, 6 / 1600


def raw_wine():
    wine = load_wine()
    return wine.data, wine.target, 13 / 1600


def tiny():
    X, y = six_classes()
    return X * 1e-8, y, 0.0


def problem_of(X, y, ridge, trace_bound=np.inf):
    case = cases.case_of("pairwise-equal", X, y, block=200)
    return JointProblem(case.objective, case.Z, ridge, trace_bound)


@pytest.mark.parametrize("data", [unlike_columns, raw_wine, tiny])
def test_the_optimum_is_reached_whatever_the_scale(data, solver):
    problem = problem_of(*data())
    best = min(solve_joint(problem, solver=s, tol=1e-6, max_iter=5000).objective for s in ("convex", "factored"))
    result = solve_joint(problem, solver=solver, tol=TOL)
    assert result.converged
    assert result.objective <= best * (1 + TOL)
    if problem.ridge:
        assert result.certificate.relative_gap <= TOL


def test_units_change_nothing_without_a_ridge(solver):
    X, y = six_classes()
    units = np.geomspace(1e-3, 1e3, 6)
    results = [solve_joint(problem_of(data, y, 0.0), solver=solver, tol=TOL) for data in (X, X * units)]
    assert all(result.converged for result in results)
    assert results[0].objective == pytest.approx(results[1].objective, rel=TOL)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(-6, 6), min_size=6, max_size=6),
    st.sampled_from([1e-3, 1.0]),
    st.sampled_from([np.inf, 1.0]),
    st.sampled_from(["convex", "factored"]),
)
def test_converged_means_that_the_gap_is_closed(powers, ridge, trace_bound, solver):
    X, y = six_classes()
    problem = problem_of(X[:60] * 10.0 ** np.array(powers), y[:60], ridge, trace_bound)
    result = solve_joint(problem, solver=solver, tol=TOL, max_iter=200)
    if result.converged:
        assert result.certificate.relative_gap <= TOL
    A = result.L @ result.L.T
    assert result.certificate.value == pytest.approx(problem.value(A), rel=1e-6)
    assert np.trace(A) <= trace_bound * (1 + 1e-9)


@pytest.mark.parametrize("data", [unlike_columns, raw_wine, tiny])
def test_a_block_of_all_features_is_the_joint_metric(data):
    X, y, ridge = data()
    case = cases.case_of("pairwise-equal", X, y, block=200)
    events = []
    store = ArrayStore(X, FeatureGroups.parse([np.arange(X.shape[1])], X.shape[1]))
    result = select_groups(case.objective, store, SelectionOptions(ridge, 1, tol=TOL), observe=events.append)
    best = solve_joint(JointProblem(case.objective, case.Z, ridge), solver="factored", tol=1e-5, max_iter=3000)
    assert events[0].details["converged"]
    assert result.objective <= best.objective * (1 + TOL)


def test_running_out_of_iterations_is_no_convergence_of_a_round():
    X, y, ridge = unlike_columns()
    case = cases.case_of("pairwise-equal", X, y, block=200)
    events = []
    store = ArrayStore(X, FeatureGroups.parse(3, 6))
    select_groups(case.objective, store, SelectionOptions(ridge, 2, max_iter=2, tol=TOL), observe=events.append)
    assert [event.details["converged"] for event in events] == [False, False]


# -- the coordinates --------------------------------------------------------------------------------------------------


def test_deviations_far_below_the_largest_are_right():
    X, _ = six_classes()
    units = np.geomspace(1e-6, 1e6, 6)
    Z = X - X.mean(axis=0)
    lengths, axes = principal_deviations(Z * units, ALONE)
    np.testing.assert_allclose(axes.T @ axes, np.eye(6), atol=1e-12)
    # Units so far apart make nearly each feature an axis, less what it shares with larger ones.
    left = Z[:, ::-1].copy()
    R = np.linalg.qr(left)[1]
    np.testing.assert_allclose(lengths, BETWEEN * np.abs(np.diag(R)) * units[::-1] / len(Z) ** 0.5, rtol=0.02)


def test_the_curvature_is_one_along_every_axis():
    X, _ = six_classes()
    for ridge in (0.0, 0.3):
        made = Preconditioner.of(X / BETWEEN, ALONE, ridge)
        variances = np.array([np.mean((X @ axis) ** 2) for axis in made.axes.T])
        curvatures = (CURVATURE * (2 * variances) ** 2 + ridge) * made.scales**4
        np.testing.assert_allclose(curvatures, 1, rtol=1e-9)


def test_metrics_and_gradients_go_both_ways():
    X, _ = six_classes()
    made, A, G = Preconditioner.of(X, ALONE, 0.1), cases.random_psd(6), cases.random_symmetric(6)
    np.testing.assert_allclose(made.metric(made.matrix(A)), A, atol=1e-12)
    np.testing.assert_allclose(made.pushed(made.pulled(G)), G, atol=1e-12)
    assert np.vdot(made.pulled(G), made.matrix(A)) == pytest.approx(np.vdot(G, A), rel=1e-10)
    assert made.trace_weights @ np.diag(made.matrix(A)) == pytest.approx(np.trace(A), rel=1e-10)


@pytest.mark.parametrize("trace_bound", [np.inf, 1.0])
def test_coordinates_change_the_way_and_not_the_end(trace_bound):
    problem = problem_of(*six_classes(), 0.1, trace_bound)
    by = Preconditioner.of(problem.Z, problem.objective.relation.class_sizes, 0.1)
    plain = minimise(problem, np.zeros((6, 6)), tol=1e-8, max_iter=1000)
    other = minimise(Preconditioned(problem, by), np.zeros((6, 6)), tol=1e-8, max_iter=1000)
    assert plain.converged
    assert other.converged
    np.testing.assert_allclose(by.metric(other.x), plain.x, atol=1e-3)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.lists(st.floats(-3, 3), min_size=4, max_size=4))
def test_the_weighted_projection_is_feasible_and_nearest(seed, power, powers):
    A, weights, bound = cases.random_symmetric(4, seed=seed), 10.0 ** np.array(powers), 10.0**power
    P = project_weighted_trace_ball(A, weights, bound)
    assert np.linalg.eigvalsh(P).min() >= -1e-12
    assert weights @ np.diag(P) <= bound * (1 + 1e-9)
    # Obtuse to every feasible matrix.
    for other in (0 * P, cases.random_psd(4, seed=seed + 1), cases.random_psd(4, seed=seed + 2, rank=1)):
        other = other * min(1.0, bound / max(weights @ np.diag(other), 1e-300))
        assert np.vdot(A - P, other - P) <= 1e-8 * (1 + np.linalg.norm(A)) * (1 + np.linalg.norm(other))


@pytest.mark.parametrize("bound", [0.5, 3.0, np.inf])
def test_even_weights_make_it_the_plain_projection(bound):
    A = cases.random_symmetric(5)
    expected = oracle.project_trace_ball(A, bound / 2)
    np.testing.assert_allclose(project_weighted_trace_ball(A, np.full(5, 2.0), bound), expected, atol=1e-10)
