"""Line 4 of Algorithm 1: which group next. Exactly, or by a sketch of the weights and an exact look at the leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.laplacian import BlockForm, PairsForm, WeightTile
from samekind.kernels.sketch import ClassLayout, Range, SketchedLaplacian, Split, SplitForm
from samekind.kernels.spectral import Matrix, Norm, block_scores
from samekind.kernels.types import Array, IntArray
from samekind.objective import Objective, Weights
from samekind.solvers.blocks import BlockMetric
from samekind.solvers.forecast import Forecast, Outlook, Worth
from samekind.solvers.projected import Point
from samekind.solvers.traces import Kept, Traces, Witnesses
from samekind.store import FeatureStore, panels_of
from samekind.store.scan import Sources, Stack

FIRST_RANK, LARGEST_RANK = 8, 64  # of the sketch
AGREEING = 0.015  # spread of what sketched scores lack, as a share of the best, above which the sketch's rank grows
AT_LEAST, SHARE = 64, 0.01  # groups looked at together: so many, and this share of all
LEADING, DOUBTFUL = 0.75, 0.125  # shares of those looked at first in a round; the others are random
DOUBT = 3.0  # standard deviations by which a doubtful group may be ahead of its forecast
MISSED = 0.05  # groups, as to be expected, that may be ahead of the best one mended without having been looked at
TOLERATED = 0.99  # share of the best score that will do
GROUPS_AT_ONCE, STACK_BYTES = 16, 2**25  # sketched by one thread, and what they may take
STACKS = 2  # of few groups at least, for so many threads: results may not depend on how many there are
FIRST_MENDED, DEEPEST = 4, 40  # leaders whose scores are mended first, and with them as many from so many places below
AT_ONCE, AT_MOST = 4, 32  # mended after them, at once; and in a round
DIRECTIONS = 12  # of a leader, the steepest by its sketched gradient, along which the exact one is asked for
CAUTION = 2.0  # standard deviations by which a sketched score may be too low
SMALLEST_SPREAD = 0.003  # of such comparisons, assumed before anything was compared
REMEMBERED = 24  # comparisons of mended and sketched scores
TRACES_SHARE = 1 / 8  # of the memory budget, for what traces are made of

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Choice:
    group: int
    score: float  # exact
    details: dict[str, Any] = field(default_factory=dict)


class Told(NamedTuple):
    """What a round's weights tell about the traces of gradients."""

    degrees: Array  # (N,)
    pairs: Array  # of the witnesses

    def since(self, before: Told) -> tuple[Array, Array]:
        """What has changed."""
        return self.degrees.astype(np.float64) - before.degrees, self.pairs - before.pairs


class Search(Protocol):
    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        """The group with the highest score, the weights being those of the metric's distances."""
        ...

    def memory(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What it remembers of earlier rounds, as arrays and as JSON, for `recall`."""
        ...

    def recall(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None: ...


class Steepest(NamedTuple):
    """Of a group, by its sketched gradient."""

    score: float
    along: float  # what its steepest directions have of it, DIRECTIONS at the most
    ridge: Matrix  # its gradient along them
    Y: Array  # (N, DIRECTIONS) the samples along them


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
            scores += [float(self.of([k], G[np.newaxis], metric)[0]) for k, G in zip(panel.groups, blocks, strict=True)]
        return np.array(scores)

    def sketched(self, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric) -> Point:
        def seen(some: Sequence[int], stack: Stack) -> Point:
            return self.of(some, stack.mapped(laplacian.blocks(stack.Z)), metric)

        parts = list(self.through(groups, seen))
        return np.concatenate(parts) if parts else np.zeros(0)

    def mended(
        self, weights: Weights, laplacian: SketchedLaplacian, groups: Sequence[int], metric: BlockMetric
    ) -> Point:
        """Sketched scores, corrected by what exact gradients say along the steepest directions of the sketched ones.

        Few directions have nearly all of a score, and cost a fraction of the whole gradient.
        """
        leaders = list(self.objective.executor.map(lambda k: self._steepest(laplacian, k, metric), groups))
        ends = np.cumsum([leader.Y.shape[1] for leader in leaders]).tolist()
        columns = [slice(end - leader.Y.shape[1], end) for end, leader in zip(ends, leaders, strict=True)]
        _, exact = weights.into(BlockForm(np.hstack([leader.Y for leader in leaders]), columns))
        pairs = zip(leaders, exact, strict=True)
        return np.array([one.score - one.along + float(block_scores(one.ridge + G, self.norm)) for one, G in pairs])

    def _steepest(self, laplacian: SketchedLaplacian, k: int, metric: BlockMetric) -> Steepest:
        stack, size = self.sources.of([k]), int(self.store.group_sizes[k])
        G = stack.mapped(laplacian.blocks(stack.Z))[:, :size, :size]
        (score,) = self.of([k], G, metric)  # with the ridge, which is in G from now on
        slopes, V = np.linalg.eigh(G[0])
        slopes, V = slopes[:DIRECTIONS], V[:, :DIRECTIONS]
        ridge = self.ridge * V.T @ metric.block(k, size) @ V
        return Steepest(float(score), float(block_scores(np.diag(slopes), self.norm)), ridge, stack.along(V))

    def traces(self, groups: Sequence[int], witnesses: Witnesses) -> Traces:
        """What it takes to estimate the traces of their gradients."""
        return Traces(witnesses, list(self.through(groups, lambda some, stack: Kept.of(stack.samples(), witnesses))))

    def through(self, groups: Sequence[int], seen: Callable[[Sequence[int], Stack], Seen]) -> Iterator[Seen]:
        """What is seen of the groups, some at once."""
        n = min(GROUPS_AT_ONCE, max(1, STACK_BYTES // self.sources.largest), max(1, -(-len(groups) // STACKS)))
        batches = [groups[start : start + n] for start in range(0, len(groups), n)]
        return self.objective.executor.map(lambda some: seen(some, self.sources.of(some)), batches)

    def of(self, groups: Sequence[int], G: Matrix, metric: BlockMetric) -> Point:
        """Scores by the gradients of the loss, a stack of them."""
        for k, G_k in zip(groups, G, strict=True):
            if k in metric.blocks:
                block = metric.blocks[k]
                G_k[: len(block), : len(block)] += self.ridge * block
        return block_scores(G, self.norm)


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
    """Scores by a sketch of the weights; those of the leaders then mended, the best one exactly.

    In the first round all groups are looked at. Later leaders, doubtful and random groups are; by what became of them
    the others' scores are foreseen, and groups are looked at, the likeliest first, until hardly any is to be expected
    ahead of the best one mended (as in Minoux' lazy greedy algorithm, where an old score is the bound).
    """

    def __init__(self, scoring: Scoring, groups: Sequence[int], seed: int):
        self.scoring = scoring
        self.groups = np.asarray(groups)
        self.seed = seed
        self.at_once = max(AT_LEAST, round(SHARE * len(groups)))
        self.rank = FIRST_RANK
        self.range: Range | None = None
        self.known: Outlook | None = None  # of all scores, as of the last round
        self.told: Told | None = None  # by its weights
        self.worth = Worth(1.0, 0.0)  # of traces, in the last round
        self.shifts: list[float] = []  # from sketched scores to mended ones, as shares of the best, of late
        objective = scoring.objective
        self.layout = ClassLayout.of(objective.relation.class_sizes, objective.memory.classes // 8)

    def best(self, weights: Weights, metric: BlockMetric, n_rounds: int) -> Choice:
        laplacian, told = self._sketch(weights, n_rounds)
        round_ = _Round(self.scoring, self.groups, weights, laplacian, metric)
        if self.known is None or self.told is None:
            round_.see(np.arange(len(self.groups)))
            self._mend(round_)
            self.known = Outlook.certain(np.array(list(round_.seen.values())))
        else:
            rises = self._traces.of(*told.since(self.told))
            self.known = self._look(self.known, rises, round_, n_rounds)
        self.told = told
        exact = self._exactly(round_)
        best = max(exact, key=lambda at: exact[at])
        spread = self._spread()
        details = {
            "sketched": len(round_.seen),
            "mended": len(round_.mended),
            "rescored": len(exact),
            "sketch_rank": laplacian.rank,
            "sketch_missed": laplacian.missed,
            "score_spread": spread,
            "forecast_spread": self._uncertain(round_),
        }
        if spread > AGREEING and len(self.shifts) == REMEMBERED and self.rank < LARGEST_RANK:
            self.rank, self.shifts = 2 * self.rank, self.shifts[-REMEMBERED // 2 :]
        return Choice(int(self.groups[best]), exact[best], details)

    def memory(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        assert self.range is not None
        assert self.known is not None
        assert self.told is not None
        arrays = self.known._asdict() | self.told._asdict()
        arrays |= {"range": self.range.Q, "shifts": np.array(self.shifts), "worth": np.array(self.worth)}
        return arrays, {"sketch_rank": self.rank}

    def recall(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        if not {"range", "worth", *Told._fields} <= arrays.keys():  # nothing was looked at yet, or by another version
            return
        if len(arrays["pairs"]) != len(self._witnesses.first):  # in another memory budget
            return
        self.shifts = arrays["shifts"].tolist()
        self.range, self.rank = Range(arrays["range"]), int(facts["sketch_rank"])
        self.known = Outlook(*(arrays[name].copy() for name in Outlook._fields))
        self.told = Told(*(arrays[name].copy() for name in Told._fields))
        self.worth = Worth(*arrays["worth"].tolist())

    @cached_property
    def _witnesses(self) -> Witnesses:
        objective = self.scoring.objective
        most = int(objective.memory.total * TRACES_SHARE / len(self.groups))
        return Witnesses.of(objective.relation, most, np.random.RandomState([self.seed]))

    @cached_property
    def _traces(self) -> Traces:
        """Made in the second round, when they are needed: they take a fraction of the time of looking at all groups."""
        return self.scoring.traces(self.groups.tolist(), self._witnesses)

    @cached_property
    def _forecast(self) -> Forecast:
        return Forecast(self._traces.distances)

    def _sketch(self, weights: Weights, n_rounds: int) -> tuple[SketchedLaplacian, Told]:
        relation = self.scoring.objective.relation
        rng = np.random.RandomState([self.seed, n_rounds])
        pairs: list[Array] = []

        def into(form: SplitForm) -> Split:
            split, entries = weights.into(PairsForm(form, self._witnesses.first, self._witnesses.second))[1]
            pairs.append(entries)
            made: Split = split
            return made

        def same(tile: WeightTile) -> tuple[IntArray, IntArray]:
            return relation.tile(tile.rows, tile.cols).same

        if self.range is None:
            self.range = Range.first(self.layout.n_samples, self.rank, rng)
        laplacian, self.range = self.range.sketch(into, self.layout, same, self.rank, rng)
        return laplacian, Told(laplacian.degrees, pairs[0])

    def _look(self, known: Outlook, rises: Point, now: _Round, n_rounds: int) -> Outlook:
        """From the top down, until hardly any group not looked at is to be expected ahead of the best one mended."""
        now.see(self._first(self.worth.applied(known, rises), n_rounds))
        trained = 0
        while True:
            shift = self._mend(now)
            looked, scores = np.array(list(now.seen)), np.array(list(now.seen.values()))
            if len(looked) >= 2 * trained:
                self.worth, trained = Worth.fitted(known, looked, scores, rises), len(looked)
                outlook = self._forecast.outlook(self.worth.applied(known, rises), looked, scores)
            chances = now.chances(outlook, shift)
            chances[looked] = 0
            rising = np.argsort(chances, kind="stable")
            ahead = int(np.count_nonzero(np.cumsum(chances[rising]) > MISSED))
            if not ahead:
                return outlook.after(looked, scores)
            now.see(rising[-min(ahead, self.at_once) :])

    def _first(self, outlook: Outlook, n_rounds: int) -> IntArray:
        """The leaders, those that may be far ahead of what is expected, and some random groups."""
        n_leaders, n_doubtful = (round(share * self.at_once) for share in (LEADING, DOUBTFUL))
        leaders, others = np.split(np.argsort(-outlook.expected, kind="stable"), [n_leaders])
        most = outlook.expected + DOUBT * np.sqrt(outlook.variance)
        doubtful, others = np.split(others[np.argsort(-most[others], kind="stable")], [n_doubtful])
        some = np.random.RandomState([self.seed, n_rounds, 1]).permutation(others)
        return np.concatenate([leaders, doubtful, some[: self.at_once - n_leaders - n_doubtful]])

    def _uncertain(self, now: _Round) -> float:
        """Standard deviation of the scores not seen, in logarithms."""
        assert self.known is not None
        unseen = np.delete(self.known.variance, list(now.seen))
        return float(np.sqrt(np.mean(unseen))) if len(unseen) else 0.0

    def _mend(self, now: _Round) -> Outlook:
        """Mend the scores of leading groups, until no other of those seen can be expected to be ahead.

        A sketch flatters groups that are alike by like amounts, so what was mended tells about the others: by how much
        their scores are to be expected above the sketched ones, as shares of the best, is returned.
        """
        falling = np.array(sorted(now.seen, key=lambda at: -now.seen[at]))
        sketched = np.array([now.seen[at] for at in falling.tolist()])
        if not now.mended:  # further down as well: leaders are alike, and flattered
            first = falling[:FIRST_MENDED]
            deeper = falling[FIRST_MENDED : FIRST_MENDED + DEEPEST : DEEPEST // FIRST_MENDED]
            now.mend(np.concatenate([first, deeper]))
            self.shifts = [*self.shifts, *now.shifts()[len(first) :].tolist()][-REMEMBERED:]
        while True:
            shift = self._shift(now)
            most = (shift.expected + CAUTION * np.sqrt(shift.variance))[falling]
            upper = np.where(np.isin(falling, list(now.mended)), -np.inf, sketched + now.unit * most)
            ahead = np.flatnonzero(upper * TOLERATED > max(now.mended.values()))
            if not len(ahead) or len(now.mended) >= AT_MOST:
                return shift
            now.mend(falling[ahead[np.argsort(-upper[ahead], kind="stable")[:AT_ONCE]]])

    def _shift(self, now: _Round) -> Outlook:
        if self.known is None:  # it is not worth while to find out who is alike: sketches of equal weights are right
            ones = np.ones(len(self.groups))
            return Outlook(self._centre() * ones, self._spread() ** 2 * ones)
        known = np.array(list(now.mended))
        return self._forecast.carried_over(known, now.shifts(), self._centre(), self._spread())

    def _exactly(self, now: _Round) -> dict[int, float]:
        """Exact scores of the best, from the top, until no mended one is ahead."""
        exact: dict[int, float] = {}
        for at in sorted(now.mended, key=lambda at: -now.mended[at]):
            if exact and now.mended[at] * TOLERATED <= max(exact.values()):
                break
            (exact[at],) = self.scoring.exact(now.weights, [int(self.groups[at])], now.metric).tolist()
        return exact

    def _centre(self) -> float:
        return float(np.mean(self.shifts)) if self.shifts else 0.0

    def _spread(self) -> float:
        return max(float(np.std(self.shifts)), SMALLEST_SPREAD) if len(self.shifts) > 1 else SMALLEST_SPREAD


@dataclass
class _Round:
    """What a round has seen: scores by place among the groups."""

    scoring: Scoring
    groups: IntArray
    weights: Weights
    laplacian: SketchedLaplacian
    metric: BlockMetric
    seen: dict[int, float] = field(default_factory=dict)  # sketched
    mended: dict[int, float] = field(default_factory=dict)

    def see(self, at: IntArray) -> None:
        rising = np.sort(at)
        scores = self.scoring.sketched(self.laplacian, self.groups[rising].tolist(), self.metric)
        self.seen |= dict(zip(rising.tolist(), scores.tolist(), strict=True))

    def mend(self, at: IntArray) -> None:
        scores = self.scoring.mended(self.weights, self.laplacian, self.groups[at].tolist(), self.metric)
        self.mended |= dict(zip(at.tolist(), scores.tolist(), strict=True))

    @property
    def unit(self) -> float:
        """The best sketched score."""
        return max(max(self.seen.values()), float(np.finfo(np.float64).tiny))

    def shifts(self) -> Point:
        """From sketched to mended scores, as shares of the unit."""
        return np.array([score - self.seen[at] for at, score in self.mended.items()]) / self.unit

    def chances(self, outlook: Outlook, shift: Outlook) -> Point:
        """Of each group to be ahead of the best one mended, by its forecast and by how much it is to be mended."""
        needed = max(self.mended.values()) / TOLERATED - self.unit * shift.expected  # as sketched
        needed = np.maximum(needed, np.finfo(np.float64).tiny)
        variance = outlook.variance + shift.variance * (self.unit / needed) ** 2
        return Outlook(outlook.expected - np.log(needed), variance).chances(1.0)
