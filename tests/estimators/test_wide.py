"""More features than samples: the metric of all features, found in the span of the samples."""

import time

import numpy as np
import pytest

from samekind import JointMetric
from samekind.solvers.joint.problem import JointProblem
from tests import cases, oracle
from tests.cases import solve_joint

SIZES = (3, 4, 1, 4)
WIDTH = 20
RIDGE = 0.1
SETTINGS = {"loss": "triplet", "beta": cases.BETA, "ridge": RIDGE, "tol": 1e-7, "max_iter": 3000, "random_state": 0}


def wide(width=WIDTH, sizes=SIZES):
    return cases.labelled_data(sizes, width)


@pytest.mark.parametrize("trace_bound", [None, 0.5], ids=["free", "bounded"])
@pytest.mark.parametrize("solver", ["convex", "factored"])
def test_objective_and_distances_are_those_in_all_features(solver, trace_bound):
    X, labels = wide()
    model = JointMetric(solver=solver, trace_bound=trace_bound, **SETTINGS).fit(X, labels)
    case = cases.case_of("triplet", X, labels)
    problem = JointProblem(case.objective, case.Z, RIDGE, np.inf if trace_bound is None else trace_bound)
    reference = solve_joint(problem, solver=solver, tol=1e-7, max_iter=3000)
    A, B = model.get_mahalanobis_matrix(), reference.L @ reference.L.T
    assert model.certificate_.optimal
    assert model.objective_ == pytest.approx(reference.objective, rel=2e-7)
    assert problem.value(A) == pytest.approx(model.objective_, rel=1e-7)
    np.testing.assert_allclose(A, B, atol=3 * (2e-7 * model.objective_ / RIDGE) ** 0.5)
    D = oracle.distances(case.Z, A)
    np.testing.assert_allclose(D, oracle.distances(case.Z, B), atol=0.02 * D.max())


@pytest.mark.parametrize("n_components", [None, 2])
def test_components_are_no_more_than_the_samples_span(n_components):
    X, labels = wide()
    model = JointMetric(n_components=n_components, **SETTINGS).fit(X, labels)
    assert len(model.components_) <= (n_components or len(X) - 1)
    _, _, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    inside = model.components_ @ V.T @ V
    np.testing.assert_allclose(inside, model.components_, atol=1e-6 * np.abs(model.components_).max())


def test_around_the_identity_it_stays_a_multiple_of_it_outside_of_the_span():
    X, labels = wide()
    A = JointMetric(target="identity", **SETTINGS).fit(X, labels).get_mahalanobis_matrix()
    _, _, V = np.linalg.svd(X - X.mean(axis=0))
    outside = V[len(X) - 1 :]
    inner = outside @ A @ outside.T
    np.testing.assert_allclose(inner, inner[0, 0] * np.eye(len(outside)), atol=1e-5 * inner[0, 0])
    assert inner[0, 0] > 0


def test_ten_times_as_many_features_as_samples_take_little_more_time_than_as_many():
    seconds = {}
    for width in (40, 400):
        X, labels = wide(width, (5,) * 8)
        model = JointMetric(solver="convex", loss="pairwise", ridge=RIDGE, tol=1e-2, max_iter=20)
        start = time.thread_time()
        model.fit(X, labels)
        seconds[width] = time.thread_time() - start
    assert seconds[400] < 4 * seconds[40]
