"""How much an approximate search misses, measured on the gallery itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samekind.gallery.backend import Codes
from samekind.gallery.errors import GalleryError
from samekind.gallery.records import Answer

if TYPE_CHECKING:
    from samekind.gallery.gallery import Gallery

ROUNDS = 20  # of drawing ids, most of which may have been removed


@dataclass(frozen=True)
class Recall:
    """The share of the k nearest others of `n_queries` records that approximate search finds, and its median time."""

    recall: float
    k: int
    n_queries: int
    seconds: float

    def describe(self) -> str:
        return (
            f"recall@{self.k} {self.recall:.4f} over {self.n_queries:,} records as queries, "
            f"{1e3 * self.seconds:.2f} ms a query"
        )


@dataclass(frozen=True)
class IndexReport:
    """An index for approximate search: its kind, size and effort (cells that are read, or HNSW's ef), and recall."""

    kind: str
    size: int
    effort: int
    measured: Recall
    seconds: float


@dataclass(frozen=True, eq=False)
class ExactNeighbours:
    """Records as queries, and the distances of their k nearest others, which an approximate search is to find."""

    ids: list[int]
    codes: Codes
    distances: list[list[float]]
    k: int

    @classmethod
    def drawn_from(cls, gallery: Gallery, k: int = 10, n_queries: int = 200, seed: int = 0) -> ExactNeighbours:
        drawn = _drawn(gallery, n_queries, np.random.default_rng(seed))
        if len(drawn) < 2:
            raise GalleryError("Recall is measured on records, and there are fewer than two.")
        codes = gallery.codes(drawn)
        answers = gallery.search_many(codes, k + 1)
        return cls(drawn, codes, [_others(answer, at, k) for at, answer in zip(drawn, answers, strict=True)], k)

    def measure(self, gallery: Gallery) -> Recall:
        """Of approximate searches; ties of the last distance count as found."""
        shares, times = [], []
        for at, code, wanted in zip(self.ids, self.codes, self.distances, strict=True):
            started = time.perf_counter()
            found = gallery.search(code, self.k + 1, approximate=True)
            times.append(time.perf_counter() - started)
            got = _others(found, at, self.k)
            shares.append(sum(distance <= wanted[-1] for distance in got) / len(wanted))
        return Recall(float(np.mean(shares)), self.k, len(self.ids), float(np.median(times)))


def _others(answer: Answer, id: int, k: int) -> list[float]:
    """Distances of the k nearest but for a record itself."""
    return [hit.distance for hit in answer.hits if hit.record.id != id][:k]


def measured_recall(gallery: Gallery, k: int = 10, n_queries: int = 200, seed: int = 0) -> Recall:
    """Of records drawn at random as queries against all others."""
    return ExactNeighbours.drawn_from(gallery, k, n_queries, seed).measure(gallery)


def _drawn(gallery: Gallery, n: int, rng: np.random.Generator) -> list[int]:
    """Ids of n records, or of nearly all where there are fewer, without a list of all ids."""
    lowest, highest = gallery._id_range()
    found: set[int] = set()
    for _ in range(ROUNDS):
        if len(found) >= n:
            break
        found |= set(gallery._records_by_id(rng.integers(lowest, highest + 1, 2 * n).tolist()))
    return sorted(rng.permutation(sorted(found))[:n].tolist())
