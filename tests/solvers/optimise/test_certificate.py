"""The certificate: a bound that holds for any metric, good or bad."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.optimise.certificate import certify
from samekind.solvers.optimise.projected import minimise
from tests import cases

WIDTH = 4


def problem_of(loss, ridge, trace_bound):
    case = cases.case(loss, (4, 1, 5), WIDTH)
    return JointProblem(case.objective, case.Z, ridge, trace_bound)


@lru_cache
def solved(loss, ridge, trace_bound):
    problem = problem_of(loss, ridge, trace_bound)
    return problem, minimise(problem, np.zeros((WIDTH, WIDTH)), tol=1e-12, max_iter=3000)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(cases.BOTH_LOSSES),
    setting=st.sampled_from([(0.2, np.inf), (0.2, 1.0), (0.0, 1.0)]),
    near=st.floats(0, 1),
)
def test_the_gap_is_never_below_the_distance_to_the_optimum(seed, loss, setting, near):
    problem, best = solved(loss, *setting)
    A = problem.project(near * best.x + (1 - near) * cases.random_psd(WIDTH, seed=seed, scale=0.3))
    certificate, _ = certify(problem, A, WIDTH, 1e-3)
    assert certificate.value == problem.value(A)
    assert certificate.gap >= certificate.value - best.value
    assert certificate.optimal == (certificate.gap <= 1e-3 * certificate.value)


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
@pytest.mark.parametrize("trace_bound", [np.inf, 0.5])
def test_the_gap_closes_at_the_optimum(loss, trace_bound):
    problem, best = solved(loss, 0.2, trace_bound)
    certificate, _ = certify(problem, best.x, WIDTH, 1e-9)
    assert certificate.optimal
    assert (certificate.trace_multiplier > 0) == np.isfinite(trace_bound)
    assert certificate.smallest_eigenvalue > -1e-4


def test_without_ridge_and_bound_nothing_is_certain_where_f_still_falls():
    problem = problem_of("triplet", 0.0, np.inf)
    certificate, _ = certify(problem, np.zeros((WIDTH, WIDTH)), 0, 1e-3)
    assert certificate.smallest_eigenvalue < 0
    assert certificate.gap == np.inf
    assert not certificate.optimal


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_falling_directions_lower_f_steepest_first(loss):
    problem = problem_of(loss, 0.2, np.inf)
    A = np.zeros((WIDTH, WIDTH))
    value, G = problem.value_and_gradient(A)
    _, falling = certify(problem, A, 0, 1e-3)
    slopes = [float(v @ G @ v) for v in falling.T]
    assert falling.shape[1] == (np.linalg.eigvalsh(G) < 0).sum() > 0
    assert slopes == sorted(slopes)
    for v in falling.T:
        assert problem.value(A + 1e-4 * np.outer(v, v)) < value
