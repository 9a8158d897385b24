"""Queries against a gallery, in tiles of squared distances: what retrieval and its checks share."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_at_least, check_codes, check_labels, check_same_length
from samekind.evaluation.pairs import Distance, compared
from samekind.kernels.distances import euclidean_factors
from samekind.kernels.flips import flip_free_distances
from samekind.kernels.similarity import as_euclidean, offset_distances, split_codes

# Per query and gallery sample: two float64 copies of the distance, masks, and at worst the places of ties.
_BYTES_PER_PAIR = 64

IntArray = NDArray[np.int64]
Ids = Sequence[Hashable] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Search:
    """Queries and gallery in one precision, with their classes and ids numbered alike.

    An entry of the gallery with a query's id is left out of that query's search.
    """

    codes: NDArray[Any]
    classes: IntArray
    ids: IntArray
    gallery: NDArray[Any]
    gallery_classes: IntArray
    gallery_ids: IntArray
    distance: Distance | None = None  # squared Euclidean

    def tiles(self, memory_budget: int) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Slices of queries, and their squared distances to the gallery: infinite to entries with their own id."""
        budget = check_at_least(memory_budget, 1, "memory_budget")
        n_rows = max(1, budget // (_BYTES_PER_PAIR * len(self.gallery)))
        left, right = euclidean_factors(self.codes)[0], euclidean_factors(self.gallery)[1].T
        for start in range(0, len(self.codes), n_rows):
            queries = slice(start, min(start + n_rows, len(self.codes)))
            if self.distance is None:
                distances = left[queries] @ right
                np.maximum(distances, 0, out=distances)  # rounding
            else:
                distances = self._by_query(queries, self.distance)
            distances[self._left_out(queries)] = np.inf
            yield queries, distances

    def _by_query(self, queries: slice, distance: Distance) -> NDArray[np.float64]:
        gallery = self.gallery
        return np.array([compared(np.tile(code, (len(gallery), 1)), gallery, distance) for code in self.codes[queries]])

    def relevant(self, queries: slice) -> NDArray[np.bool_]:
        """The entries relevant to each query: those of its class that are not left out."""
        mask: NDArray[np.bool_] = self.classes[queries, None] == self.gallery_classes
        mask[self._left_out(queries)] = False
        return mask

    def check_neighbors(self, n_neighbors: int) -> None:
        check_at_least(n_neighbors, 1, "n_neighbors")
        available = len(self.gallery) - int(_counts(self.ids, self.gallery_ids).max())
        if n_neighbors > available:
            raise ValueError(
                f"n_neighbors={n_neighbors}, but a query has {available} samples to search. "
                "Ask for fewer neighbours, or give more samples."
            )

    def check_relevant(self) -> None:
        n_classes = int(max(self.classes.max(), self.gallery_classes.max())) + 1
        own = self.ids * n_classes + self.classes
        left_out = _counts(own, self.gallery_ids * n_classes + self.gallery_classes)
        if not (_counts(self.classes, self.gallery_classes) > left_out).any():
            raise ValueError(
                "No query has a sample of its class to find, so that no average precision is defined. "
                "Give samples that share a class."
            )

    @cached_property
    def _by_id(self) -> IntArray:
        return np.argsort(self.gallery_ids, kind="stable")

    def _left_out(self, queries: slice) -> tuple[IntArray, IntArray]:
        """Rows and columns of a tile where query and entry share an id."""
        ids = self.ids[queries]
        starts = self.gallery_ids.searchsorted(ids, "left", sorter=self._by_id)
        counts = self.gallery_ids.searchsorted(ids, "right", sorter=self._by_id) - starts
        rows = np.repeat(np.arange(len(ids)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self._by_id[np.repeat(starts, counts) + within]


def prepare_search(
    codes: ArrayLike,
    labels: ArrayLike,
    gallery: ArrayLike | None,
    gallery_labels: ArrayLike | None,
    ids: Ids | None = None,
    gallery_ids: Ids | None = None,
    distance: Distance | None = None,
) -> Search:
    """Checked and centred; without a gallery, or where it is the very same object as the codes, one is left out.

    Distances of a model's codes (`Metric.distance_function`) become Euclidean ones, which rank alike; any other
    `distance` is computed query by query.
    """
    if (gallery is None) != (gallery_labels is None):
        raise ValueError("gallery and gallery_labels go together: give both, or neither to leave one out.")
    leave_one_out = gallery is None or gallery is codes
    codes, labels = check_codes(codes), check_labels(labels)
    check_same_length(codes, "codes", labels, "labels")
    if gallery is None or gallery_labels is None:
        gallery, gallery_labels = codes, labels
    gallery, gallery_labels = check_codes(gallery, "gallery codes"), check_labels(gallery_labels, "gallery_labels")
    check_same_length(gallery, "gallery", gallery_labels, "gallery_labels")
    if codes.shape[1] != gallery.shape[1]:
        raise ValueError(f"codes have {codes.shape[1]} components and the gallery {gallery.shape[1]}: use one metric.")
    if distance in (flip_free_distances, offset_distances):
        codes, gallery = (as_euclidean(*split_codes(each, distance))[at] for at, each in enumerate((codes, gallery)))
        distance = None
    numbers, gallery_numbers = _numbered_ids(ids, gallery_ids, len(codes), len(gallery), leave_one_out)
    precision = np.result_type(codes, gallery)
    centre = _centre(gallery).astype(precision) if distance is None else np.zeros(gallery.shape[1], dtype=precision)
    classes = np.unique(np.concatenate([labels, gallery_labels]), return_inverse=True)[1]
    centred = gallery.astype(precision) - centre
    return Search(
        codes=centred if codes is gallery else codes.astype(precision) - centre,
        classes=classes[: len(labels)],
        ids=numbers,
        gallery=centred,
        gallery_classes=classes[len(labels) :],
        gallery_ids=gallery_numbers,
        distance=distance,
    )


def _numbered_ids(
    ids: Ids | None, gallery_ids: Ids | None, n_queries: int, n_gallery: int, leave_one_out: bool
) -> tuple[IntArray, IntArray]:
    """Equal numbers for equal ids; without ids, samples are their own, or no query is in the gallery."""
    if leave_one_out and gallery_ids is None:
        gallery_ids = ids
    if (ids is None) != (gallery_ids is None):
        raise ValueError("ids and gallery_ids go together: give both, so that a query is known in the gallery.")
    if ids is None or gallery_ids is None:
        own = np.arange(n_gallery)
        return (own if leave_one_out else n_gallery + np.arange(n_queries)), own
    listed, gallery_listed = listed_ids(ids, "ids", n_queries), listed_ids(gallery_ids, "gallery_ids", n_gallery)
    texts = {isinstance(name, str) for name in listed}, {isinstance(name, str) for name in gallery_listed}
    if not texts[0] & texts[1]:
        raise ValueError(
            f"ids such as {listed[0]!r} and gallery_ids such as {gallery_listed[0]!r} are of two kinds, text and "
            "other: no query would be known in the gallery. Give both in one kind."
        )
    numbers: dict[Hashable, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in (*listed, *gallery_listed)]
    return np.array(found[:n_queries]), np.array(found[n_queries:])


def listed_ids(ids: Ids | Iterable[Hashable], name: str, length: int) -> list[Hashable]:
    """As a list, checked: one hashable id per sample."""
    listed = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if len(listed) != length:
        raise ValueError(f"{name} must be one per sample, {length}; got {len(listed)}.")
    if not all(isinstance(one, Hashable) for one in listed):
        raise ValueError(f"{name} must be one-dimensional: one text, number or other hashable id per sample.")
    return listed


def _counts(values: IntArray, among: IntArray) -> IntArray:
    """How often each value occurs among the others."""
    ordered = np.sort(among)
    return ordered.searchsorted(values, "right") - ordered.searchsorted(values, "left")


def _centre(codes: NDArray[Any]) -> NDArray[Any]:
    """The mean, rounded to a power of two near the spread, so that equal distances on a grid stay equal."""
    mean = codes.mean(axis=0, dtype=np.float64)
    spread = codes.std(axis=0, dtype=np.float64).max()
    step = np.exp2(np.floor(np.log2(spread))) if spread > 0 else 1.0
    centre: NDArray[Any] = (np.round(mean / step) * step).astype(codes.dtype)
    return centre
