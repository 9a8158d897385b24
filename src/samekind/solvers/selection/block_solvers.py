"""Line 5 of Algorithm 1 solved: on all pairs, or on gradient-corrected samples of them.

A sample of the pairs is a surrogate for f with a noisy gradient. A linear term corrects the gradient at the point where
the solve starts, so that only the curvature is noisy (variance reduction as in SVRG, Johnson and Zhang, 2013, and DANE,
Shamir et al., 2014). f itself is evaluated over all pairs before a step is taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from samekind.compute.sources import PresentDistances
from samekind.objective import Weights
from samekind.solvers.optimise import projected
from samekind.solvers.optimise.problem import Point
from samekind.solvers.selection.blocks import BlockProblem
from samekind.solvers.selection.site import SelectionSite
from samekind.solvers.selection.state import Remembering


@dataclass(frozen=True)
class Solved:
    """A block and the scale of what was there before, as a point of a `BlockProblem`; f there, over all pairs."""

    x: Point
    value: float
    details: dict[str, Any]


class BlockSolver(Remembering, Protocol):
    def solve(self, problem: BlockProblem, value: float, weights: Weights, n_rounds: int) -> Solved:
        """Line 5, from the metric as it is, where f is `value` and the loss has these weights."""
        ...


@dataclass(frozen=True)
class ExactBlocks(BlockSolver):
    """On all pairs of the objective."""

    tol: float
    max_iter: int

    def solve(self, problem: BlockProblem, value: float, weights: Weights, n_rounds: int) -> Solved:
        solution = projected.minimise(problem, problem.start, tol=self.tol, max_iter=self.max_iter)
        return Solved(solution.x, solution.value, {"n_iter": solution.n_iter, "converged": solution.converged})


@dataclass(frozen=True)
class SampleOptions:
    """Of `SampledBlocks`."""

    first: int = 2048  # rows of the first sample
    smallest: int = 512
    most_corrections: int = 3  # of a sample, in one round
    negligible_loss: float = 0.01  # share of f: where less is lost to noise, a sample is not corrected again
    negligible_gap: float = 0.1  # of the decrease so far: a sample is not solved more accurately
    faithful: float = 0.6  # share of a sample's gain that all pairs confirm: if less, the next is twice as large
    generous: float = 0.9  # if more, half as large


@dataclass
class SampledBlocks(BlockSolver):
    """On a gradient-corrected sample of the pairs, drawn anew in each round.

    Where the sample's noise costs much of f, its gradient is corrected again at the solution, and the solve continues.
    """

    present: PresentDistances | SelectionSite
    tol: float
    max_iter: int
    seed: int
    options: SampleOptions = SampleOptions()
    curvature: float | None = None  # where the last solve ended

    def __post_init__(self) -> None:
        self.n_samples = self.options.first

    def solve(self, problem: BlockProblem, value: float, weights: Weights, n_rounds: int) -> Solved:
        while 2 * self.n_samples < problem.objective.n_candidates:
            gradient = problem.gradient_at_start(weights)
            solved, promised = self._on_sample(problem, value, gradient, n_rounds)
            self._resize((value - solved.value) / promised if promised > 0 else 1.0)
            if solved.value < value or promised <= 0:
                return solved
        solution = self._minimised(problem, problem.start, value)
        return Solved(solution.x, solution.value, _details(problem, solution, solution.n_iter, 0.0))

    def memory(self) -> dict[str, float | None]:
        return {"block_sample": self.n_samples, "curvature": self.curvature}

    def recall(self, memory: Mapping[str, Any]) -> None:
        self.n_samples, self.curvature = int(memory.get("block_sample", self.n_samples)), memory.get("curvature")

    def _resize(self, came_true: float) -> None:
        """By the share of the sample's decrease of f that holds over all pairs."""
        if came_true < self.options.faithful:
            self.n_samples *= 2
        elif came_true > self.options.generous:
            self.n_samples = max(self.options.smallest, self.n_samples // 2)

    def _on_sample(self, problem: BlockProblem, value: float, gradient: Point, n_rounds: int) -> tuple[Solved, float]:
        """The solution on a new sample, and the decrease of f on that sample."""
        rng = np.random.RandomState([self.seed, n_rounds, self.n_samples])
        objective = problem.objective.sampled_pairs(self.n_samples, rng)
        sample = problem.on(objective, self.present.on(objective.plan, objective.executor))
        best, reached, n_iter = problem.start, value, 0
        for _ in range(self.options.most_corrections):
            sample = sample.corrected_to(gradient, best)
            start = sample.value(best)
            solution = self._minimised(sample, best, start)
            over_all = problem.value(solution.x)
            n_iter += solution.n_iter
            lost = start - solution.value - (reached - over_all)
            if over_all < reached:
                best, reached = solution.x, over_all
            if lost <= self.options.negligible_loss * reached or best is not solution.x:
                break
            _, gradient = problem.value_and_gradient(best)
        details = _details(sample, solution, n_iter, max(0.0, lost))
        return Solved(best, reached, details), value - reached + lost

    def _minimised(self, problem: BlockProblem, start: Point, value: float) -> projected.Solution:
        """To a gap that is closed, or negligible beside the decrease from f at the start, which is `value`."""

        def is_negligible(gap: float, now: float) -> bool:
            return gap <= self.options.negligible_gap * (value - now)

        solution = projected.minimise(
            problem,
            start,
            tol=self.tol,
            max_iter=self.max_iter,
            curvature=self.curvature,
            observe=lambda now: is_negligible(now.gap, now.value),
        )
        self.curvature = solution.hint
        return replace(solution, converged=solution.converged or is_negligible(solution.gap, solution.value))


def _details(problem: BlockProblem, solution: projected.Solution, n_iter: int, error: float) -> dict[str, Any]:
    n_anchors = problem.objective.n_anchors
    return {"n_iter": n_iter, "converged": solution.converged, "n_anchors": n_anchors, "estimated_error": error}
