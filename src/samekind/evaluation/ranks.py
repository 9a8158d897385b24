"""Retrieval by counting: the ranks of a query's relevant samples among all that it is compared with.

For each query the distances to its relevant samples are computed; all others are passed in tiles, and only counted:
below each relevant distance, and equal to it (`samekind.kernels.ranks`). Every figure of a ranking follows from these
counts, in O(queries x relevant) memory and one tile.

Queries are samples of a set, each against all the others of the set (mAP_Q in the paper, section 4.2), and, where
distractors are given, against these as well (mAP_QL). Distractors are never queries and never relevant. A query is left
out of its own search by its id, never by its distance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_codes, check_labels, check_same_length
from samekind.evaluation._search import Ids, listed_ids
from samekind.evaluation.class_bootstrap import N_DRAWS, Interval, class_weights, interval
from samekind.evaluation.pairs import Distance
from samekind.kernels.similarity import split_codes
from samekind.threads import ThreadPool, single_threaded_blas

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Ties: TypeAlias = Literal["threshold", "best", "worst"]

TILE_ROWS = 2048  # of entries
TILE_QUERIES = 512


@dataclass(frozen=True, eq=False)
class Ranks:
    """Of each query, its relevant samples in order: entries of query i are `starts[i]` to `starts[i + 1]`.

    `found` is how many relevant samples are up to this one's distance; `below` and `tied` are how many of all others
    are nearer, and equally near.
    """

    starts: IntArray
    found: IntArray
    below: IntArray
    tied: IntArray
    classes: IntArray
    n_candidates: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_relevant(self) -> IntArray:
        return np.diff(self.starts)

    def positions(self, ties: Ties = "threshold") -> tuple[IntArray, IntArray]:
        """Rank of each relevant sample, from 1, and how many relevant ones are up to it.

        Among samples at equal distances, "best" ranks relevant ones first and "worst" last. "threshold" ranks all of
        them at the last of their places, as a threshold on the distance would, and as scikit-learn's average precision
        does. That is no order of the samples, so that its average precision may lie outside the other two.
        """
        order = np.arange(len(self.found)) - np.repeat(self.starts[:-1], self.n_relevant) + 1
        if ties == "best":
            return order + self.below, order
        if ties == "worst":
            return order + self.below + self.tied, order
        if ties == "threshold":
            return self.found + self.below + self.tied, self.found
        raise ValueError(f'ties must be "threshold", "best" or "worst"; got {ties!r}.')

    def figures(self, *, at: Sequence[int] = (1, 5, 10), ties: Ties = "threshold") -> "RankFigures":
        """Figures of each query; `at` are the cut-offs k of the figures at k."""
        ranks, found = self.positions(ties)
        precision, total = found / ranks, self.n_relevant
        size = np.repeat(total, total)
        first = np.full(len(self), np.nan)
        first[total > 0] = 1 / ranks[self.starts[:-1][total > 0]]
        within = {k: self._sums(ranks <= k) for k in at}
        shares = {k: within[k] / np.where(total, total, np.nan) for k in at}
        found_at = {
            k: self._sums(np.where(ranks <= k, precision, 0)) / np.where(total, np.minimum(total, k), np.nan)
            for k in at
        }
        return RankFigures(
            average_precision=self._means(precision),
            map_at_r=self._means(np.where(ranks <= size, precision, 0)),
            r_precision=self._means(ranks <= size),
            reciprocal_rank=first,
            average_precision_at=found_at,
            recall_at=shares,
            cmc_at={k: np.where(total, within[k] > 0, np.nan) for k in at},
            classes=self.classes,
        )

    def _sums(self, values: NDArray[Any]) -> FloatArray:
        """Over the relevant samples of each query."""
        owners = np.repeat(np.arange(len(self)), self.n_relevant)
        return np.asarray(np.bincount(owners, values, minlength=len(self)), dtype=np.float64)

    def _means(self, values: NDArray[Any]) -> FloatArray:
        return self._sums(values) / np.where(self.n_relevant, self.n_relevant, np.nan)


@dataclass(frozen=True, eq=False)
class RankFigures:
    """One value per query (n,), NaN where it has no relevant sample.

    With R relevant samples, P(i) the precision up to the i-th of them and r(i) its rank:

    average_precision      mean of P(i) over all R ("full")
    map_at_r               sum of P(i) over r(i) <= R, divided by R (Musgrave et al., 2020)
    r_precision            share of the R nearest that is relevant
    reciprocal_rank        1 / r(1)
    average_precision_at   k -> sum of P(i) over r(i) <= k, divided by min(R, k)
    recall_at              k -> share of the relevant with r(i) <= k
    cmc_at                 k -> whether r(1) <= k
    """

    average_precision: FloatArray
    map_at_r: FloatArray
    r_precision: FloatArray
    reciprocal_rank: FloatArray
    average_precision_at: dict[int, FloatArray]
    recall_at: dict[int, FloatArray]
    cmc_at: dict[int, FloatArray]
    classes: IntArray

    def columns(self) -> dict[str, FloatArray]:
        """All figures by name, such as "recall_at_5"."""
        named: dict[str, FloatArray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, dict):
                named |= {f"{field.name}_{k}": values for k, values in value.items()}
            elif field.name != "classes":
                named[field.name] = value
        return named

    def means(self) -> dict[str, float]:
        """Means over the queries that have a relevant sample."""
        return {name: float(np.nanmean(values)) for name, values in self.columns().items()}

    def intervals(self, *, n_draws: int = N_DRAWS, random_state: int = 0) -> dict[str, Interval]:
        """95 % intervals of the means, by a bootstrap over classes: queries of one class vary together."""
        classes = np.unique(self.classes, return_inverse=True)[1]
        weights = class_weights(int(classes.max()) + 1, n_draws, np.random.default_rng(random_state))
        return {name: interval(weighted_means(values, classes, weights)) for name, values in self.columns().items()}


def weighted_means(values: FloatArray, classes: IntArray, weights: FloatArray) -> FloatArray:
    """Mean over the defined values, once per draw of class weights (b, n_classes)."""
    defined = np.isfinite(values)
    n_classes = weights.shape[1]
    sums = weights @ np.bincount(classes[defined], values[defined], minlength=n_classes)
    counts = weights @ np.bincount(classes[defined], minlength=n_classes)
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


def count_ranks(
    codes: ArrayLike,
    labels: ArrayLike,
    *,
    distractors: ArrayLike | None = None,
    distance: Distance | None = None,
    ids: Ids | None = None,
    distractor_ids: Ids | None = None,
    queries: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Ranks:
    """Ranks of the samples that share a query's label, for every sample as a query or for some.

    Parameters
    ----------
    codes, labels : (n, r) and (n,) arrays
        The set in which every query searches.
    distractors : (m, r) array or None
        More samples to be compared with; never queries, never relevant.
    distance : function or None
        `Metric.distance_function`: None for squared Euclidean distance; flip-free and similarity codes are ranked by
        ||u - u'||^2 + s'.
    ids, distractor_ids : sequences of hashable values, or None
        Samples with the id of a query are left out of its search. By default each sample is a thing of its own.
    queries : (q,) array of int or None
        Which samples are queries.
    n_jobs : int or None
        Threads; None means all cores.
    """
    codes, labels = check_codes(codes), check_labels(labels)
    check_same_length(codes, "codes", labels, "labels")
    others = codes[:0] if distractors is None else check_codes(distractors, "distractors")
    if others.shape[1] != codes.shape[1]:
        raise ValueError(f"codes have {codes.shape[1]} numbers and distractors {others.shape[1]}: use one metric.")
    precision = np.result_type(codes, others)
    codes, others = codes.astype(precision, copy=False), others.astype(precision, copy=False)
    chosen = np.arange(len(codes)) if queries is None else np.asarray(queries, dtype=np.int64)
    classes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    numbers, other_numbers = _ids(ids, distractor_ids, len(codes), len(others))
    sets = [
        _Entries.of(codes, distance, classes, numbers),
        _Entries.of(others, distance, np.full(len(others), len(classes)), other_numbers),
    ]
    problem = _Queries.of(sets[0], chosen)
    problem.count(sets, n_jobs)
    return problem.ranks(sets)


def _ids(ids: Ids | None, distractor_ids: Ids | None, n: int, n_distractors: int) -> tuple[IntArray, IntArray]:
    """Equal numbers for equal ids."""
    if distractor_ids is not None and ids is None:
        raise ValueError("distractor_ids without ids: give both, so that a query is known among the distractors.")
    known: dict[Any, int] = {}
    own = listed_ids(range(n) if ids is None else ids, "ids", n)
    numbers = np.array([known.setdefault(name, len(known)) for name in own], np.int64)
    if distractor_ids is None:
        return numbers, len(known) + np.arange(n_distractors)
    listed = listed_ids(distractor_ids, "distractor_ids", n_distractors)
    return numbers, np.array([known.setdefault(name, len(known)) for name in listed], np.int64)


@dataclass(frozen=True, eq=False)
class _Entries:
    """A set that is searched: vectors in the given precision, and an offset, a class and an id of each."""

    vectors: NDArray[Any]
    offsets: FloatArray
    classes: IntArray
    ids: IntArray

    @classmethod
    def of(cls, codes: NDArray[Any], distance: Distance | None, classes: IntArray, ids: IntArray) -> "_Entries":
        vectors, _ = split_codes(codes, distance)
        offsets = split_codes(codes[:, -1:].astype(np.float64), distance)[1]
        return cls(vectors, np.asarray(offsets, np.float64), classes, ids)


@dataclass(frozen=True, eq=False)
class _Queries:
    """Queries with the distances of their relevant samples, and what is counted between them."""

    vectors: FloatArray
    classes: IntArray
    ids: IntArray
    distances: FloatArray  # of relevant samples, in order
    starts: IntArray
    cuts: FloatArray  # the same, each once
    cut_starts: IntArray
    gaps: IntArray
    ties: IntArray

    @classmethod
    def of(cls, entries: _Entries, chosen: IntArray) -> "_Queries":
        from samekind.kernels.ranks import relevant_distances

        vectors = entries.vectors[chosen].astype(np.float64)
        classes, ids = entries.classes[chosen], entries.ids[chosen]
        relevant, starts = _relevant(entries, classes, ids)
        distances = np.empty(len(relevant))
        relevant_distances(entries.vectors, entries.offsets, relevant, starts, vectors, distances)
        owners = np.repeat(np.arange(len(chosen)), np.diff(starts))
        distances = distances[np.lexsort((distances, owners))]
        new = np.append(True, (np.diff(distances) != 0) | (np.diff(owners) != 0))[: len(distances)]
        cuts = distances[new]
        cut_starts = np.append(0, np.cumsum(np.bincount(owners[new], minlength=len(chosen))))
        counts = np.zeros((2, len(cuts)), np.int64)
        return cls(vectors, classes, ids, distances, starts, cuts, cut_starts, counts[0], counts[1])

    def count(
        self,
        sets: Sequence[_Entries],
        n_jobs: int | None,
        *,
        tile_rows: int = TILE_ROWS,
        tile_queries: int = TILE_QUERIES,
    ) -> None:
        """All entries that are neither relevant nor left out, in tiles that threads share."""
        tiles = [
            (slice(first, first + tile_queries), entries, slice(row, row + tile_rows))
            for entries in sets
            for row in range(0, len(entries.vectors), tile_rows)
            for first in range(0, len(self.vectors), tile_queries)
        ]
        waiting = iter(tiles)  # taken by whichever thread is free

        def work(_: int) -> NDArray[np.int64]:
            counts = np.zeros((2, len(self.cuts)), np.int64)
            for tile in waiting:
                self._count_tile(*tile, counts)
            return counts

        with ThreadPool(n_jobs) as pool, single_threaded_blas():
            for counts in pool.map(work, range(pool.n_threads)):
                self.gaps[:] += counts[0]
                self.ties[:] += counts[1]

    def _count_tile(self, queries: slice, entries: _Entries, rows: slice, counts: NDArray[np.int64]) -> None:
        from samekind.kernels.nearest import batch_norms
        from samekind.kernels.ranks import Counts, Entries, Queries, count_in_products

        vectors, offsets = entries.vectors[rows], entries.offsets[rows]
        own = self.vectors[queries]
        with np.errstate(over="ignore", invalid="ignore"):
            products = (-2 * own).astype(vectors.dtype) @ vectors.T
        least, spread = np.empty(len(vectors)), np.empty(len(vectors))
        batch_norms(vectors, offsets, own.shape[1], least, spread)
        error = 1.01 * (own.shape[1] + 2) * float(np.finfo(vectors.dtype).eps) / 2
        # Starts of these queries, within the cuts of all.
        starts = self.cut_starts[queries.start : queries.stop + 1]
        count_in_products(
            products,
            least,
            spread,
            error,
            Entries(vectors, offsets, entries.classes[rows], entries.ids[rows]),
            Queries(own, self.classes[queries], self.ids[queries]),
            Counts(self.cuts, starts, counts[0], counts[1]),
        )

    def ranks(self, sets: Sequence[_Entries]) -> Ranks:
        n_cuts, n_relevant = np.diff(self.cut_starts), np.diff(self.starts)
        owners = np.repeat(np.arange(len(n_cuts)), n_cuts)
        below = _running(self.gaps, self.cut_starts) + _running(self.ties, self.cut_starts) - self.ties
        # Which cut a relevant sample is at, and how many of the query are up to it.
        of_query = np.repeat(np.arange(len(n_relevant)), n_relevant)
        new = np.append(True, (np.diff(self.distances) != 0) | (np.diff(of_query) != 0))[: len(self.distances)]
        cut = np.cumsum(new) - 1
        found = np.cumsum(np.bincount(cut, minlength=len(self.cuts))) - self.starts[:-1][owners]
        left_out = _n_left_out(self.ids, sets)
        total = sum(len(entries.ids) for entries in sets)
        return Ranks(
            self.starts, found[cut], below[cut], self.ties[cut], self.classes, np.full(len(self.ids), total) - left_out
        )


def _running(counts: IntArray, starts: IntArray) -> IntArray:
    """Sums up to each place, from the start of its query on."""
    ends = np.append(0, np.cumsum(counts))
    return ends[1:] - np.repeat(ends[starts[:-1]], np.diff(starts))


def _relevant(entries: _Entries, classes: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of each query's class that are not its own, one query after the other."""
    order = np.argsort(entries.classes, kind="stable")
    ordered = entries.classes[order]
    first, last = ordered.searchsorted(classes, "left"), ordered.searchsorted(classes, "right")
    lists = [order[a:b][entries.ids[order[a:b]] != own] for a, b, own in zip(first, last, ids, strict=True)]
    starts = np.append(0, np.cumsum([len(rows) for rows in lists], dtype=np.int64))
    return np.concatenate([np.zeros(0, np.int64), *lists]).astype(np.int64), starts.astype(np.int64)


def _n_left_out(ids: IntArray, sets: Sequence[_Entries]) -> IntArray:
    found = np.zeros(len(ids), np.int64)
    for entries in sets:
        ordered = np.sort(entries.ids)
        found += ordered.searchsorted(ids, "right") - ordered.searchsorted(ids, "left")
    return found
