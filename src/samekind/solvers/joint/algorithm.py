"""Algorithm 2: one joint metric on the intermediate features, convex or factored, on all rows or growing samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from samekind.events import Observer, unobserved
from samekind.kernels.spectral import Matrix
from samekind.kernels.statistics import standard_error
from samekind.solvers.joint.monitor import Reporter, StageMonitor
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.schedule import HELD_OUT_ANCHORS, sample_sizes
from samekind.solvers.joint.stage_solvers import ConvexSolver, FactoredSolver, SolverName, StageResult, StageSolver
from samekind.solvers.joint.state import JointState
from samekind.solvers.optimise.certificate import Certificate, certify
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.optimise.within_class import WithinClassWhitening

# With more dimensions than this a convex step costs as much as its eigendecomposition, unless samples are many.
LARGEST_CONVEX = 600
SAMPLES_PER_DIMENSION = 5  # with more samples than this per dimension, their pairs cost more than that
CERTIFIED_ON = 1024  # anchors for the certificate, where all rows would make it by far the most expensive evaluation


@dataclass(frozen=True)
class JointOptions:
    """Settings of Algorithm 2.

    `anchors="all"` solves on all rows; `"grow"` on growing samples of anchor rows, and on all rows in the end; a number
    on growing samples of at most that many anchors.
    """

    solver: Literal["convex", "factored", "auto"] = "auto"
    n_components: int | None = None
    tol: float = 1e-3
    max_iter: int = 500
    anchors: int | Literal["all", "grow"] = "all"
    seed: int = 0
    first_anchors: int = 1024  # in the first sample
    growth: int = 4  # ratio of the sizes of consecutive samples
    keep_every: int = 5  # iterations between two states to resume from


@dataclass(frozen=True)
class JointResult:
    """`A = L L^T`."""

    L: Matrix  # (D, r), columns by falling length
    certificate: Certificate
    objective: float  # f at L L^T as returned, after any truncation
    objective_error: float  # its standard error; 0 where it is over all rows
    n_anchors: int  # of the last stage
    solver: str
    n_iter: int
    n_evaluations: int
    # Whether the gap was closed, before any cut to n_components; on samples, to within their noise. Over L of bounded
    # rank, where the gap need not close: whether L is stationary.
    converged: bool
    stopped: bool  # by the observer


def solve_joint(
    problem: JointProblem,
    options: JointOptions,
    *,
    observe: Observer = unobserved,
    resume: JointState | None = None,
    keep: Callable[[JointState], None] = lambda state: None,
) -> JointResult:
    """Run Algorithm 2; `keep` receives the states that `resume` takes."""
    staged = _StagedSolve(problem, options, _stage_solver(problem, options), _stages(problem, options))
    state = JointState(0, staged.solver.first(staged.stages[0], options.seed)) if resume is None else resume
    reporter = Reporter(observe, keep, options.max_iter, staged.stages, options.tol, options.keep_every)
    while True:
        keep(state)
        stage, last = staged.stages[state.stage], state.stage == len(staged.stages) - 1
        reached = staged.descended(state, reporter)
        state = _after(state, reached, state.stage + (not last))
        if last or reporter.stopped or state.earlier_iterations >= options.max_iter:
            break
    result = staged.finished(stage, reached, state)
    return replace(result, converged=result.converged and last, stopped=reporter.stopped)


def choose_solver(n_features: int, n_components: int | None, n_samples: int) -> SolverName:
    """Factored where the factor is narrow, as its gradient is then cheaper, or where the matrix is large."""
    rank = n_features if n_components is None else n_components
    large = n_features > LARGEST_CONVEX and n_samples < SAMPLES_PER_DIMENSION * n_features
    return "factored" if 2 * rank < n_features or large else "convex"


def _stage_solver(problem: JointProblem, options: JointOptions) -> StageSolver:
    relation, name = problem.objective.relation, options.solver
    if name == "auto":
        name = choose_solver(problem.n_features, options.n_components, relation.n_samples)
    preconditioner = Preconditioner.of(problem.Z, relation.class_sizes, problem.ridge)
    if name == "convex":
        return ConvexSolver(options.n_components, options.tol, preconditioner)
    whitening = WithinClassWhitening.of(problem.Z, relation.class_sizes, problem.objective.executor.map, preconditioner)
    return FactoredSolver(options.n_components, options.tol, preconditioner, whitening)


def _stages(problem: JointProblem, options: JointOptions) -> list[JointProblem]:
    if options.anchors == "all":
        return [problem]
    most = None if options.anchors == "grow" else options.anchors
    sizes = sample_sizes(problem.objective.n_candidates, options.first_anchors, options.growth, most)
    return [
        problem if size is None else problem.on_sample(size, np.random.RandomState([options.seed, at]))
        for at, size in enumerate(sizes)
    ]


@dataclass(frozen=True)
class _StagedSolve:
    """A problem, its stages, and what solves them."""

    problem: JointProblem
    options: JointOptions
    solver: StageSolver
    stages: list[JointProblem]

    def descended(self, state: JointState, reporter: Reporter) -> StageResult:
        """Run one stage. On a sample it ends once gains are within the noise of the sample."""
        stage, last = self.stages[state.stage], state.stage == len(self.stages) - 1
        no_gap = self.solver.name == "factored" and self.options.n_components is not None
        settles = last and no_gap and len(self.stages) > 1
        held_out = None
        if stage.objective.is_sample and not settles:
            rng = np.random.RandomState([self.options.seed, state.stage, 2])
            held_out = self.problem.on_sample(min(stage.objective.n_anchors, HELD_OUT_ANCHORS), rng, without=stage)
        monitor = StageMonitor(stage, self.solver, reporter, state, settles=settles, held_out=held_out)
        left = self.options.max_iter - state.earlier_iterations
        reached = self.solver.descend(
            stage, state, left, monitor.observe, certified=len(self.stages) == 1 or (last and not settles)
        )
        point = reached.point if held_out is None else monitor.safe_end(reached.point)
        return replace(reached, point=point, converged=reached.converged or monitor.settled)

    def finished(self, stage: JointProblem, reached: StageResult, state: JointState) -> JointResult:
        """The result: f and the certificate of the returned metric, over all rows or on anchors not learned from."""
        L = self.solver.factor(reached.point)
        rng = np.random.RandomState([self.options.seed, state.stage, 1])
        sampled = stage.objective.is_sample
        unseen_rows = self.problem.on_sample(stage.objective.n_anchors, rng, without=stage) if sampled else self.problem
        certificate, costly = reached.certificate, False
        if certificate is None or L.shape != reached.point.shape:
            many = stage.objective.n_candidates > 2 * CERTIFIED_ON
            costly = certificate is None and not sampled and self.solver.name == "factored" and many
            judge = self.problem.on_sample(CERTIFIED_ON, rng) if costly else unseen_rows
            bound = reached.bound if certificate is None else certificate.value - certificate.gap
            known_bound = -np.inf if costly or sampled else bound  # a bound for the same rows
            evaluation = judge.value_and_gradient_at(L)
            certificate, _ = certify(judge, L @ L.T, L.shape[1], self.solver.tol, known_bound, evaluation)
        if sampled:
            estimates = unseen_rows.factored_batch_values(L)
        else:
            estimates = np.array([stage.factored_value(L) if costly else certificate.value])
        converged = bool(reached.converged)
        if self.solver.n_components is None and not (sampled or costly) and np.isfinite(certificate.gap):
            converged &= certificate.optimal
        return JointResult(
            L,
            certificate,
            float(np.mean(estimates)),
            standard_error(estimates),
            stage.objective.n_anchors,
            self.solver.name,
            state.earlier_iterations,
            state.earlier_evaluations,
            converged=converged,
            stopped=False,
        )


def _after(state: JointState, reached: StageResult, stage: int) -> JointState:
    """The state after a stage: where the next one starts."""
    return JointState(
        stage,
        reached.point,
        state.earlier_iterations + reached.n_iter,
        state.earlier_evaluations + reached.n_evaluations,
        hint=reached.hint,
    )
