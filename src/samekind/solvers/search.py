"""Line 4 of Algorithm 1: which group next. Exactly, or by a sketch of the weights and an exact look at the leaders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.laplacian import BlockForm, WeightTile
from samekind.kernels.sketch import ClassLayout, Range, SketchedLaplacian, Split, SplitForm
from samekind.kernels.spectral import Matrix, Norm, block_score
from samekind.kernels.types import IntArray
from samekind.objective import Objective, Weights
from samekind.solvers.blocks import BlockMetric
from samekind.solvers.projected import Point
from samekind.store.base import FeatureStore, panels_of
from samekind.store.scan import Source, Sources

FIRST_RANK, LARGEST_RANK = 16, 64  # of the sketch
AGREEING = 0.03  # spread of exact over sketched scores, in logarithms, above which the rank of the sketch grows
LEADERS, LEADING_SHARE = 48, 0.01  # groups looked at together: at least so many, and this share of all
CONTROLS = 48  # random groups looked at in every round, to see how scores fell
SHARED_FALL = 0.5  # of that fall, in logarithms, any other group is taken to have its share of
TOLERATED = 0.99  # share of the best score that will do
GROUPS_AT_ONCE = 8  # sketched by one thread
AT_ONCE, AT_MOST = 2, 32  # leaders scored exactly, at once and in a round
CAUTION = 2.0  # standard deviations by which a sketched score may be too low
FIRST_SPREAD = 0.1  # assumed before anything was compared
REMEMBERED = 24  # comparisons of exact and sketched scores
CLASS_SHARE = 1 / 16  # of the memory budget, for same-class pairs


@dataclass(frozen=True)
class Choice:
    group: int
    score: float  # exact
    details: dict[str, Any] = field(default_factory=dict)


class Search(Protocol):
    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        """The group with the highest score, the weights being those of the metric's distances."""
        ...

    def memory(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What it remembers of earlier rounds, as arrays and as JSON, for `recall`."""
        ...

    def recall(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Scoring:
    """`||Pi_PSD(-[df/dA]_kk)||` of groups."""

    objective: Objective
    store: FeatureStore
    ridge: float
    norm: Norm

    @property
    def rows(self) -> IntArray:
        return self.objective.relation.order

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.store, self.rows)

    def exact(self, weights: Weights, groups: Sequence[int], metric: BlockMetric) -> Point:
        scores: list[float] = []
        for panel in panels_of(self.store, groups, self.rows):
            _, blocks = weights.into(BlockForm(panel.Z, panel.columns))
            scores += [self.score(G, k, metric) for k, G in zip(panel.groups, blocks, strict=True)]
        return np.array(scores)

    def sketched(self, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric) -> Point:
        def score(source: Source) -> float:
            G = laplacian.block(source.Z, source.size)
            if source.map is not None:
                G = source.map.T @ G @ source.map
            return self.score(G, source.group, metric)

        def several(part: Sequence[int]) -> list[float]:
            return [score(source) for source in self.sources.of(part)]

        batches = [groups[start : start + GROUPS_AT_ONCE] for start in range(0, len(groups), GROUPS_AT_ONCE)]
        return np.array(list(chain.from_iterable(self.objective.executor.map(several, batches))))

    def score(self, G: Matrix, k: int, metric: BlockMetric) -> float:
        return block_score(G + self.ridge * metric.block(k, len(G)), self.norm)


class ExactSearch:
    """All groups, in every round."""

    def __init__(self, scoring: Scoring, groups: Sequence[int]):
        self.scoring = scoring
        self.groups = groups

    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        scores = self.scoring.exact(weights, self.groups, metric)
        best = int(np.argmax(scores))
        return Choice(self.groups[best], float(scores[best]))

    def memory(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {}, {}

    def recall(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        pass


class FastSearch:
    """Scores by a sketch of the weights; those of the leaders in every round, the first of them then exactly.

    Scores fall from round to round, and some random groups tell by how much. A group that was not looked at is taken to
    have fallen by half as much since it was. That is a bound for nearly all, and groups are looked at from the highest
    bound down, until the rest is behind the best one seen (as in Minoux' lazy greedy algorithm).
    """

    def __init__(self, scoring: Scoring, groups: Sequence[int], seed: int):
        self.scoring = scoring
        self.groups = np.asarray(groups)
        self.seed = seed
        self.at_once = max(LEADERS, round(LEADING_SHARE * len(groups)))
        self.rank = FIRST_RANK
        self.range: Range | None = None
        self.scores = np.full(len(groups), np.inf)  # when last looked at
        self.levels = np.ones(len(groups))  # of all scores, then
        self.ratios: list[float] = []  # logarithms of exact over sketched scores, of late
        objective = scoring.objective
        self.layout = ClassLayout.of(objective.relation.class_sizes, int(objective.memory_budget * CLASS_SHARE / 8))

    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        laplacian = self._sketch(weights, n_rounds)
        looked = self._look(laplacian, metric, n_rounds)
        exact = self._exactly(weights, looked, metric)
        best = max(exact, key=lambda at: exact[at])
        spread = self._spread()
        details = {
            "sketched": len(looked),
            "rescored": len(exact),
            "sketch_rank": laplacian.rank,
            "sketch_missed": laplacian.missed,
            "score_spread": spread,
        }
        if spread > AGREEING and len(self.ratios) == REMEMBERED and self.rank < LARGEST_RANK:
            self.rank, self.ratios = 2 * self.rank, []
        return Choice(int(self.groups[best]), exact[best], details)

    def memory(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        assert self.range is not None
        arrays = {"scores": self.scores.copy(), "levels": self.levels.copy(), "range": self.range.Q}
        arrays["ratios"] = np.array(self.ratios)
        return arrays, {"sketch_rank": self.rank}

    def recall(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        if "scores" not in arrays:  # nothing was looked at yet
            return
        self.scores, self.levels = arrays["scores"].copy(), arrays["levels"].copy()
        self.ratios = arrays["ratios"].tolist()
        self.range, self.rank = Range(arrays["range"]), int(facts["sketch_rank"])

    def _sketch(self, weights: Weights, n_rounds: int) -> SketchedLaplacian:
        relation = self.scoring.objective.relation
        rng = np.random.RandomState([self.seed, n_rounds])

        def into(form: SplitForm) -> Split:
            return weights.into(form)[1]

        def same(tile: WeightTile) -> tuple[IntArray, IntArray]:
            return relation.tile(tile.rows, tile.cols).same

        if self.range is None:
            self.range = Range.first(self.layout.n_samples, self.rank, rng)
        laplacian, self.range = self.range.sketch(into, self.layout, same, self.rank, rng)
        return laplacian

    def _look(self, laplacian: SketchedLaplacian, metric: BlockMetric, n_rounds: int) -> IntArray:
        """Sketched scores from the top down; who was looked at, the best first."""
        leaders, others = np.split(np.argsort(-self.scores, kind="stable"), [self.at_once])
        if not np.isfinite(self.scores).all() or len(others) <= CONTROLS:
            looked = np.arange(len(self.scores))
            self._sketch_scores(laplacian, looked, metric)
            return looked[np.argsort(-self.scores, kind="stable")]
        controls = np.random.RandomState([self.seed, n_rounds, 1]).permutation(others)[:CONTROLS]
        before = self.scores[controls] / self.levels[controls]
        looked = np.concatenate([leaders, controls])
        self._sketch_scores(laplacian, looked, metric)
        changes = self.scores[controls][before > 0] / before[before > 0]
        level = (float(np.median(changes)) if len(changes) else 0.0) or float(self.levels.min())
        self.levels[looked] = level
        waiting = others[~np.isin(others, controls)]
        bounds = self.scores[waiting] * (level / self.levels[waiting]) ** SHARED_FALL
        falling = np.argsort(-bounds, kind="stable")
        waiting, bounds = waiting[falling], bounds[falling]
        while len(waiting):
            ahead = int(np.count_nonzero(bounds * TOLERATED >= self.scores[looked].max()))
            if not ahead:
                break
            n = min(ahead, self.at_once)
            batch, waiting, bounds = waiting[:n], waiting[n:], bounds[n:]
            self._sketch_scores(laplacian, batch, metric)
            self.levels[batch] = level
            looked = np.concatenate([looked, batch])
        return looked[np.argsort(-self.scores[looked], kind="stable")]

    def _sketch_scores(self, laplacian: SketchedLaplacian, at: IntArray, metric: BlockMetric) -> None:
        rising = np.sort(at)
        self.scores[rising] = self.scoring.sketched(laplacian, self.groups[rising].tolist(), metric)

    def _exactly(self, weights: Weights, looked: IntArray, metric: BlockMetric) -> dict[int, float]:
        """Exact scores of the leaders, from the top, until no other can be expected to be ahead."""
        exact: dict[int, float] = {}
        falling: list[int] = looked.tolist()
        while falling and len(exact) < AT_MOST:
            if exact and self._upper(self.scores[falling[0]]) * TOLERATED <= max(exact.values()):
                break
            batch, falling = falling[:AT_ONCE], falling[AT_ONCE:]
            scores = self.scoring.exact(weights, self.groups[batch].tolist(), metric)
            exact |= dict(zip(batch, scores.tolist(), strict=True))
            self._remember(scores, self.scores[batch])
        return exact

    def _remember(self, exact: Point, sketched: Point) -> None:
        usable = (exact > 0) & (sketched > 0)
        self.ratios = [*self.ratios, *np.log(exact[usable] / sketched[usable]).tolist()][-REMEMBERED:]

    def _spread(self) -> float:
        return float(np.std(self.ratios)) if len(self.ratios) > 1 else FIRST_SPREAD

    def _upper(self, sketched: float) -> float:
        """What an exact score is unlikely to exceed."""
        centre = float(np.mean(self.ratios)) if self.ratios else 0.0
        return float(sketched * np.exp(centre + CAUTION * self._spread()))
