"""Where descent over L starts: the discriminants of classes, at a length that serves the loss."""

import numpy as np
import pytest

from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.stage_solvers import FactoredSolver
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.optimise.within_class import WithinClassWhitening
from tests import cases

WIDTH = 6


def started(loss, n_components, trace_bound=np.inf, sizes=(4,) * 10):
    case = cases.case(loss, sizes, WIDTH, block=40)
    problem = JointProblem(case.objective, case.Z, 0.01, trace_bound)
    sizes = case.objective.relation.class_sizes
    stage_solver = FactoredSolver(
        n_components, 1e-3, Preconditioner.of(case.Z, sizes, 0.01), WithinClassWhitening.of(case.Z, sizes, map)
    )
    return problem, stage_solver.first(problem, seed=0)


@pytest.mark.parametrize("n_components", [1, 3, WIDTH])
def test_the_first_factor_is_lower_than_with_half_or_twice_the_distances(loss, n_components):
    problem, L = started(loss, n_components)
    assert L.shape == (WIDTH, n_components)
    values = {times: problem.factored_value(times**0.5 * L) for times in (0.0, 0.5, 1.0, 2.0)}
    assert min(values, key=values.get) == 1.0


def test_the_first_factor_is_within_the_trace(loss):
    free, within = started(loss, 3)[1], started(loss, 3, trace_bound=0.1)[1]
    assert np.vdot(free, free) > 0.1
    assert np.vdot(within, within) <= 0.1 * (1 + 1e-12)
    np.testing.assert_allclose(within / np.linalg.norm(within), free / np.linalg.norm(free), atol=1e-12)


def test_columns_that_class_means_do_not_give_are_short(loss):
    _, L = started(loss, 4, sizes=(6, 6, 6))
    lengths = np.linalg.norm(L, axis=0)
    assert (lengths > 0).all()
    assert lengths[2:].max() < 0.1 * lengths[:2].max()
