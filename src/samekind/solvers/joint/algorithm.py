"""Algorithm 2: one joint metric on the intermediate features, convex or factored, on all rows or growing samples."""

from collections.abc import Callable

import numpy as np

from samekind.events import Observer, unobserved
from samekind.kernels.statistics import standard_error
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.stage_solvers import ConvexSolver, FactoredSolver, StageSolver
from samekind.solvers.joint.stages import Stage, Stages, sample_sizes
from samekind.solvers.joint.state import JointOptions, JointResult, JointState
from samekind.solvers.optimise.certificate import certify
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.optimise.projected import Solution
from samekind.solvers.optimise.within_class import WithinClassWhitening

CERTIFIED_ON = 1024  # anchors for the certificate, where all rows would make it by far the most expensive evaluation


def solve_joint(
    problem: JointProblem,
    options: JointOptions,
    *,
    observe: Observer = unobserved,
    resume: JointState | None = None,
    keep: Callable[[JointState], None] = lambda state: None,
) -> JointResult:
    """Run Algorithm 2; `keep` receives the states that `resume` takes."""
    solver = _stage_solver(problem, options)
    stages = Stages(problem, options, solver, _on_rows(problem, options, solver), observe, keep)
    state = JointState(0, solver.first(stages.on_rows[0], options.seed)) if resume is None else resume
    while True:
        keep(state)
        stage = Stage(stages, state)
        solution, state = stage.descended()
        if not stage.later or stage.stopped or state.earlier_iterations >= options.max_iter:
            return _result(stage, solution, state)


def _stage_solver(problem: JointProblem, options: JointOptions) -> StageSolver:
    relation = problem.objective.relation
    preconditioner = Preconditioner.of(problem.Z, relation.class_sizes, problem.ridge)
    if options.solver == "convex":
        return ConvexSolver(options.n_components, options.tol, preconditioner)
    whitening = WithinClassWhitening.of(problem.Z, relation.class_sizes, problem.objective.executor.map, preconditioner)
    return FactoredSolver(options.n_components, options.tol, preconditioner, whitening)


def _on_rows(problem: JointProblem, options: JointOptions, solver: StageSolver) -> list[JointProblem]:
    """The problem on the rows of each stage. The convex solver has one: it is as fast without smaller samples."""
    if options.anchors == "all":
        return [problem]
    most = None if options.anchors == "grow" else options.anchors
    sizes = sample_sizes(problem.objective.n_candidates, options.first_anchors, options.growth, most)
    return [
        problem if size is None else problem.on_sample(size, np.random.RandomState([options.seed, at]))
        for at, size in enumerate(sizes if solver.name == "factored" else sizes[-1:])
    ]


def _result(stage: Stage, solution: Solution, state: JointState) -> JointResult:
    """f and the certificate of the returned metric, over all rows or on anchors not learned from."""
    problem, objective, solver = stage.stages.problem, stage.problem.objective, stage.solver
    L, certificate, sampled = solver.factor(solution.x), solution.certificate, objective.is_sample
    rng = np.random.RandomState([stage.options.seed, state.stage, 1])
    unseen_rows = problem.on_sample(objective.n_anchors, rng, without=stage.problem) if sampled else problem
    many = solver.name == "factored" and objective.n_candidates > 2 * CERTIFIED_ON
    costly = certificate is None and many and not sampled
    if certificate is None or L.shape != solution.x.shape:
        judge = problem.on_sample(CERTIFIED_ON, rng) if costly else unseen_rows
        known_bound = -np.inf if costly or sampled else solution.value - solution.gap  # a bound for the same rows
        certificate, _ = certify(judge, L @ L.T, L.shape[1], solver.tol, known_bound, judge.value_and_gradient_at(L))
    if sampled:
        estimates = unseen_rows.factored_batch_values(L)
    else:
        estimates = np.array([problem.factored_value(L) if costly else certificate.value])
    converged = solution.converged and not stage.later
    if solver.n_components is None and not (sampled or costly) and np.isfinite(certificate.gap):
        converged &= certificate.optimal
    value, error = float(np.mean(estimates)), standard_error(estimates)
    n_iter, n_evaluations = state.earlier_iterations, state.earlier_evaluations
    return JointResult(
        L, certificate, value, error, objective.n_anchors, solver.name, n_iter, n_evaluations, converged, stage.stopped
    )
