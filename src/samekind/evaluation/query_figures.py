"""Retrieval figures query by query, where every sample queries all the others: what their means are made of.

Where several distances are equal, a precision at k counts the tied ones by their share of what is relevant.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._search import Ids, prepare_search
from samekind.evaluation.pairs import Distance
from samekind.evaluation.retrieval import DEFAULT_MEMORY_BUDGET, average_precision, misclassified

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QueryFigures:
    """One value per sample (n,); NaN, except for `wrong`, where a query has no relevant sample."""

    average_precision: FloatArray
    wrong: FloatArray
    recall_at_1: FloatArray
    r_precision: FloatArray
    classes: NDArray[np.int64]


def query_figures(
    codes: ArrayLike,
    labels: ArrayLike,
    *,
    distance: Distance | None = None,
    ids: Ids | None = None,
    n_neighbors: int = 3,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
) -> QueryFigures:
    """Figures of leave-one-out retrieval; samples with the id of a query are left out as well.

    Distances of a model's codes (`Metric.distance_function`) are searched by matrix products, any other `distance`
    query by query.
    """
    search = prepare_search(codes, labels, None, None, ids, distance=distance)
    search.check_neighbors(n_neighbors)
    search.check_relevant()
    rows = []
    for queries, distances in search.tiles(memory_budget):
        wrong = misclassified(search, queries, distances, n_neighbors)
        rows += [
            (*_of_query(row, row[relevant]), is_wrong)
            for row, relevant, is_wrong in zip(distances, search.relevant(queries), wrong, strict=True)
        ]
    found, first, r_precision, wrong = np.array(rows, dtype=np.float64).T
    return QueryFigures(found, wrong, first, r_precision, search.classes)


def _of_query(distances: NDArray[Any], relevant: NDArray[Any]) -> tuple[float, float, float]:
    """Average precision, precision at 1, and precision at the number of relevant samples."""
    if not len(relevant):
        return np.nan, np.nan, np.nan
    ordered, relevant = np.sort(distances), np.sort(relevant)
    return (
        average_precision(ordered, relevant),
        precision_at(1, ordered, relevant),
        precision_at(len(relevant), ordered, relevant),
    )


def precision_at(k: int, ordered: NDArray[Any], relevant: NDArray[Any]) -> float:
    """Share of the k nearest that is relevant, both arrays in order; of those tied for the last places, the mean."""
    last = ordered[k - 1]
    n_below, relevant_below = ordered.searchsorted(last), relevant.searchsorted(last)
    n_tied = ordered.searchsorted(last, "right") - n_below
    relevant_tied = relevant.searchsorted(last, "right") - relevant_below
    return float((relevant_below + (k - n_below) * relevant_tied / n_tied) / k)
