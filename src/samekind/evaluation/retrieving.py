"""Evaluate retrieval: every figure of the paper's section 4.2 and the usual others, with intervals, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._search import Ids, prepare_search
from samekind.evaluation.class_bootstrap import N_DRAWS, class_weights, interval
from samekind.evaluation.evaluated import Measure
from samekind.evaluation.pairs import Distance
from samekind.evaluation.ranks import RankFigures, Ties, count_ranks, weighted_means
from samekind.evaluation.retrieval import DEFAULT_MEMORY_BUDGET, VoteTies, misclassified

if TYPE_CHECKING:
    from samekind.evaluation.report import Section, Table

FloatArray = NDArray[np.float64]

TITLES = {
    "average_precision": "Mean average precision (mAP)",
    "map_at_r": "MAP@R",
    "r_precision": "R-precision",
    "reciprocal_rank": "Mean reciprocal rank (MRR)",
    "average_precision_at": "Mean average precision at",
    "recall_at": "Recall at",
    "cmc_at": "CMC at",
}
VOTE_TIES: Mapping[Ties, VoteTies] = {"threshold": "first", "best": "best", "worst": "worst"}


@dataclass(frozen=True, eq=False)
class RetrievalEvaluation:
    """Figures of queries inside their own set (mAP_Q in the paper) and injected into distractors (mAP_QL).

    `inside` and `injected` have a value per query; `wrong` is 1 where a query's nearest inside the set vote for another
    class. A mean has a 95 % interval by a bootstrap over classes.
    """

    inside: RankFigures
    injected: RankFigures | None
    wrong: FloatArray
    n_neighbors: int
    ties: Ties
    n_distractors: int
    random_state: int = 0

    @property
    def knn_error(self) -> float:
        return float(self.wrong.mean())

    @property
    def counts(self) -> dict[str, int]:
        found = np.isfinite(self.inside.average_precision)
        return {
            "n_samples": len(self.wrong),
            "n_queries": int(found.sum()),
            "n_classes": len(np.unique(self.inside.classes)),
            "n_distractors": self.n_distractors,
        }

    def measures(self) -> dict[str, dict[str, Measure]]:
        """ "inside" and, with distractors, "injected" -> name -> mean with its interval."""
        made = {"inside": {"knn_error": self._error()} | _measures(self.inside, self.random_state)}
        return made if self.injected is None else made | {"injected": _measures(self.injected, self.random_state)}

    def to_json(self) -> dict[str, Any]:
        named = {
            where: {name: measure._asdict() for name, measure in own.items()} for where, own in self.measures().items()
        }
        return named | {"n_neighbors": self.n_neighbors, "ties": self.ties} | self.counts

    def table(self) -> Table:
        """One row per figure: inside the set, and with distractors."""
        from samekind.evaluation.report import Table

        measures = self.measures()
        rows = [[_title(name, self.n_neighbors), *_cells(name, measures)] for name in measures["inside"]]
        more = [] if self.injected is None else ["with distractors"]
        return Table(["figure", "among each other", *more], rows)

    def sections(self) -> list[Section]:
        """For `write_report`."""
        from samekind.evaluation.report import Section

        counts = self.counts
        text = (
            f"{counts['n_samples']:,} samples of {counts['n_classes']:,} classes query each other, "
            f"{counts['n_queries']:,} of them with something to find"
        )
        more = f", and {self.n_distractors:,} distractors, which are never queries and never relevant"
        ties = {
            "threshold": "all at the last of their places",
            "best": "the relevant ones first",
            "worst": "the relevant ones last",
        }[self.ties]
        return [
            Section(
                "Retrieval",
                f"{text}{more if self.n_distractors else ''}. Of equal distances, {ties}. Intervals hold 95 % of a "
                "bootstrap over classes.",
                self.table(),
            )
        ]

    def _error(self) -> Measure:
        classes = np.unique(self.inside.classes, return_inverse=True)[1]
        weights = class_weights(int(classes.max()) + 1, N_DRAWS, np.random.default_rng(self.random_state))
        return Measure(self.knn_error, *interval(weighted_means(self.wrong, classes, weights)))


def evaluate_retrieval(
    codes: ArrayLike,
    labels: ArrayLike,
    *,
    distractors: ArrayLike | None = None,
    distance: Distance | None = None,
    ids: Ids | None = None,
    distractor_ids: Ids | None = None,
    n_neighbors: int = 3,
    at: Sequence[int] = (1, 5, 10),
    ties: Ties = "threshold",
    random_state: int = 0,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    n_jobs: int | None = None,
) -> RetrievalEvaluation:
    """Figures of codes where every sample queries the others, alone and among distractors.

    Parameters
    ----------
    codes, labels, distractors, distance, ids, distractor_ids, n_jobs
        As in `count_ranks`.
    n_neighbors : int
        Of the leave-one-out k-NN error, inside the set.
    at : sequence of int
        Numbers of nearest samples for average precision, recall and CMC.
    ties : "threshold", "best" or "worst"
        As in `Ranks.positions`; for the k-NN error "threshold" means that of equal distances the first sample is the
        nearest.
    random_state : int
        Of the bootstrap over classes.
    memory_budget : int
        Bytes for tiles of distances in the k-NN error.
    """
    ranks = partial(count_ranks, codes, labels, distance=distance, ids=ids, n_jobs=n_jobs)
    inside = ranks()
    search = prepare_search(codes, labels, None, None, ids, distance=distance)
    search.check_neighbors(n_neighbors)
    search.check_relevant()
    votes = VOTE_TIES.get(ties, "first")
    wrong = [misclassified(search, *tile, n_neighbors, votes) for tile in search.tiles(memory_budget)]
    injected = None
    if distractors is not None:
        injected = ranks(distractors=distractors, distractor_ids=distractor_ids).figures(at=at, ties=ties)
    return RetrievalEvaluation(
        inside.figures(at=at, ties=ties),
        injected,
        np.concatenate(wrong).astype(np.float64),
        n_neighbors,
        ties,
        0 if distractors is None else len(np.asarray(distractors)),
        random_state,
    )


def in_words(measure: Measure) -> str:
    """With its interval."""
    return f"{measure.value:.4f} ({measure.low:.3f} to {measure.high:.3f})"


def _measures(figures: RankFigures, random_state: int) -> dict[str, Measure]:
    limits = figures.intervals(random_state=random_state)
    return {name: Measure(value, *limits[name]) for name, value in figures.means().items()}


def _cells(name: str, measures: Mapping[str, Mapping[str, Measure]]) -> list[str | None]:
    """A figure in each of the columns; the k-NN error has none with distractors."""
    return [in_words(own[name]) if name in own else None for own in measures.values()]


def _title(name: str, n_neighbors: int) -> str:
    if name == "knn_error":
        return f"Leave-one-out {n_neighbors}-NN error"
    kind, _, k = name.rpartition("_")
    return TITLES[name] if name in TITLES else f"{TITLES[kind]} {k}"
