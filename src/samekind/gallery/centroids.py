"""Centroids of the cells of an approximate search, found by k-means of k-means.

Groups of points around few centroids, then cells in each group, then rounds of Lloyd's algorithm over all cells, in
which a point is compared with the cells of the groups nearest to it. Faiss does the k-means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import GalleryError

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

PER_CELL = 4.0  # cells are so many times the square root of rows
MOST_CELLS = 65_536
TRAINED_ROWS = 64  # per cell
ROUNDS = 8  # of k-means
REFINED = 2  # rounds over all cells
NEAR_GROUPS = 8  # groups in which the nearest cell of a point is looked for


@dataclass(frozen=True, eq=False)
class Centroids:
    """Of cells, `points` (n, width), those of one group beside each other: `starts[g]` to `starts[g + 1]`."""

    groups: Floats32  # (n_groups, width)
    starts: Ints
    points: Floats32

    def __len__(self) -> int:
        return len(self.points)

    def assigned(self, rows: Floats32) -> Ints:
        """The nearest cell of each row (m, width), in the groups nearest to it."""
        n_groups = min(NEAR_GROUPS, len(self.groups))
        near = np.argpartition(_squares(self.groups) - 2 * (rows @ self.groups.T), n_groups - 1, axis=1)[:, :n_groups]
        best, cells = np.full(len(rows), np.inf, np.float32), np.zeros(len(rows), np.int64)
        for group in range(len(self.groups)):
            at = np.flatnonzero((near == group).any(axis=1))
            points = self.points[self.starts[group] : self.starts[group + 1]]
            if not len(at) or not len(points):
                continue
            table = _squares(points) - 2 * (rows[at] @ points.T)
            own = table.argmin(axis=1)
            distances = table[np.arange(len(at)), own]
            nearer = distances < best[at]
            best[at[nearer]] = distances[nearer]
            cells[at[nearer]] = self.starts[group] + own[nearer]
        return cells

    def refined(self, rows: Floats32, batch: int) -> Centroids:
        """One round of Lloyd's algorithm; cells that no row is nearest to stay where they are."""
        sums = np.zeros_like(self.points)
        counts = np.zeros(len(self.points), np.int64)
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            cells = self.assigned(part)
            order = np.argsort(cells, kind="stable")
            there, first = np.unique(cells[order], return_index=True)
            sums[there] += np.add.reduceat(part[order], first, axis=0)
            counts += np.bincount(cells, minlength=len(counts))
        points = np.where(counts[:, np.newaxis] > 0, sums / np.maximum(counts, 1)[:, np.newaxis], self.points)
        return grouped(self.groups, points.astype(np.float32))


def n_cells_for(n_rows: int) -> int:
    return int(min(max(1, PER_CELL * n_rows**0.5), MOST_CELLS, n_rows))


def find_centroids(sample: Floats32, n_cells: int, batch: int) -> Centroids:
    """Of a sample of rows (m, width)."""
    rng = np.random.default_rng(0)
    n_groups = max(1, round(n_cells**0.5))
    few = sample[np.sort(rng.permutation(len(sample))[: 256 * n_groups])]
    groups = _k_means(few, n_groups)
    own = _nearest_rows(groups, sample)
    parts = []
    for group in range(len(groups)):
        members = sample[own == group]
        n = min(len(members), max(1, round(n_cells * len(members) / len(sample))))
        if n:
            parts.append(_k_means(members, n))
    made = grouped(groups, np.concatenate(parts))
    for _ in range(REFINED):
        made = made.refined(sample, batch)
    return made


def grouped(groups: Floats32, points: Floats32) -> Centroids:
    """Each centroid in the group that it is nearest to."""
    own = _nearest_rows(groups, points)
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], np.arange(len(groups) + 1)).astype(np.int64)
    return Centroids(groups, starts, np.ascontiguousarray(points[order]))


def _k_means(rows: Floats32, n: int) -> Floats32:
    faiss = _faiss()
    if n >= len(rows):
        return rows
    means = faiss.Kmeans(rows.shape[1], n, niter=ROUNDS, seed=1, min_points_per_centroid=1, max_points_per_centroid=256)
    means.train(np.ascontiguousarray(rows))
    return np.ascontiguousarray(means.centroids, np.float32)


def _nearest_rows(among: Floats32, rows: Floats32) -> Ints:
    index = _faiss().IndexFlatL2(among.shape[1])
    index.add(among)
    found: Ints = index.search(rows, 1)[1][:, 0].astype(np.int64)
    return found


def _squares(rows: Floats32) -> Floats32:
    squares: Floats32 = np.einsum("ij,ij->i", rows, rows)
    return squares


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise GalleryError('An index for approximate search needs faiss: pip install "samekind[faiss]".') from error
    return faiss
