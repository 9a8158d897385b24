"""Line 4 of Algorithm 1, which group comes next: by exact scores of all groups, or by stochastic lazy greedy search.

Scores change slowly from round to round, so the last known scores show which groups may be next: lazy greedy search
(Minoux, 1978) evaluates only the leading ones. A few groups drawn at random (Mirzasoleiman et
al., "Lazier than lazy greedy", 2015) keep the scores of the others from going out of date. Both are scored by a
sketch of the weights (`kernels.sketch`), and the best of these exactly. The weights change as the loss falls: once it
has fallen by a given share, all groups are sketched again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.compute.site import Recipe
from samekind.kernels.sketch import Range, SketchedLaplacian, Split
from samekind.kernels.types import IntArray
from samekind.model.block_metric import BlockMetric
from samekind.objective import Weights
from samekind.solvers.optimise.problem import Point
from samekind.solvers.selection.scoring import Scoring
from samekind.solvers.selection.site import split_laplacian
from samekind.solvers.selection.state import Remembering


@dataclass(frozen=True)
class Choice:
    group: int
    score: float  # exact
    details: dict[str, Any] = field(default_factory=dict)


class Search(Remembering, Protocol):
    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        """The group with the highest score, the weights being those of the metric's distances."""
        ...


@dataclass(frozen=True)
class ExactSearch(Search):
    """All groups exactly, in every round: the paper's line 4."""

    scoring: Scoring
    groups: Sequence[int]

    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        scores = self.scoring.exact(weights, self.groups, metric)
        best = first_of_best(scores, self.scoring.rounding)
        return Choice(self.groups[best], float(scores[best]))


def first_of_best(scores: Point, rounding: float) -> int:
    """The place of the highest score, the first one of those that only rounding tells apart."""
    return int(np.argmax(scores >= scores.max() * (1 - rounding)))


@dataclass(frozen=True)
class LazyOptions:
    """How much `LazySearch` does in a round."""

    rank: int = 32  # of the sketch
    n_leaders: int = 200  # groups sketched again, the best by their last known scores
    n_random: int = 100  # and so many of the others
    n_exact: int = 6  # groups scored exactly, the best of those sketched
    most_share: float = 0.2  # of all groups, at most, are sketched again, leaders and others together,
    fewest: int = 32  # but at least so many
    stale: float = 0.2  # share by which the loss falls until all groups are sketched again

    def counts(self, n_groups: int) -> tuple[int, int]:
        """How many leaders and others are sketched again, of so many groups."""
        in_all = self.n_leaders + self.n_random
        share = min(in_all, max(self.fewest, self.most_share * n_groups)) / in_all
        return max(1, round(share * self.n_leaders)), round(share * self.n_random)


class LazySearch(Search):
    """Stochastic lazy greedy search; all groups are sketched at first, and whenever the loss has fallen by a share."""

    def __init__(self, scoring: Scoring, groups: Sequence[int], seed: int, options: LazyOptions | None = None):
        self.scoring = scoring
        self.groups = np.asarray(groups)
        self.seed = seed
        self.options = options or LazyOptions()
        self.scores: Point | None = None  # sketched, of each group the last known one
        self.loss = np.inf  # when all groups were sketched last
        self.range: Range | None = None

    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        loss, laplacian = self._sketch(weights, n_rounds)
        candidates = self._candidates(loss, n_rounds)
        scores = self.scoring.sketched(laplacian, self.groups[candidates].tolist(), metric)
        if len(candidates) == len(self.groups):
            self.scores, self.loss = scores, loss
        else:
            assert self.scores is not None
            self.scores[candidates] = scores
        top = np.sort(candidates[np.argsort(-scores, kind="stable")[: self.options.n_exact]])
        exact = self.scoring.exact(weights, self.groups[top].tolist(), metric)
        best = first_of_best(exact, self.scoring.rounding)
        details = {
            "sketched": len(candidates),
            "rescored": len(top),
            "sketch_rank": laplacian.rank,
            "sketch_missed": laplacian.missed,
            "sketch_error": float(np.abs(self.scores[top] - exact).max()) / (float(scores.max()) or 1.0),
        }
        return Choice(int(self.groups[top[best]]), float(exact[best]), details=details)

    def memory(self) -> dict[str, NDArray[Any]]:
        assert self.range is not None
        assert self.scores is not None
        return {"range": self.range.Q, "scores": self.scores.copy(), "loss": np.array(self.loss)}

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        if {"range", "scores", "loss"} <= memory.keys():  # else there was no round yet
            self.range, self.scores = Range(memory["range"]), memory["scores"].copy()
            self.loss = float(memory["loss"])

    def _candidates(self, loss: float, n_rounds: int) -> IntArray:
        """Places among the groups, rising: the leaders and some others at random, or all."""
        if self.scores is None or loss < (1 - self.options.stale) * self.loss:
            return np.arange(len(self.groups))
        n_leaders, n_random = self.options.counts(len(self.groups))
        leaders, others = np.split(np.argsort(-self.scores, kind="stable"), [n_leaders])
        drawn = np.random.RandomState([self.seed, n_rounds, 1]).permutation(others)[:n_random]
        return np.sort(np.concatenate([leaders, drawn]))

    def _sketch(self, weights: Weights, n_rounds: int) -> tuple[float, SketchedLaplacian]:
        """The value of the loss, and a sketch of its weights."""
        layout, rank = self.scoring.site.layout, self.options.rank
        rng = np.random.RandomState([self.seed, n_rounds])
        directions = self.range or Range.first(layout.n_samples, rank, rng)
        Y = directions.with_probes(rank, rng)
        made: tuple[float, Split] = weights.into(Recipe(split_laplacian, Y))
        laplacian, self.range = directions.sketch(made[1], Y, layout, rank)
        return made[0], laplacian
