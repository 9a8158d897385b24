"""Approximate search of a gallery in a folder: rows in cells around centroids, of which few are read.

The cells hold numbers of rows, not codes: distances are computed from the gallery's own files, so that an answer's
distances are right, and only a nearest entry may be missing. Faiss finds the centroids. The file is a cache that may be
deleted at any time: without it, searches are exact. Rows that were added later are searched exactly. A row that is
erased is overwritten in the lists, too.

Codes with a number s are ranked by `||u - q||^2 + s`. With one coordinate more, `sqrt(s - min s)` for rows and 0 for
queries, that is a Euclidean distance.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samekind.files import whole_file
from samekind.gallery.errors import GalleryError
from samekind.gallery.layout import CACHE_END, HEADER_BYTES, fsync_folder
from samekind.gallery.recall import IndexReport, measured_recall
from samekind.gallery.view import Segment, View

if TYPE_CHECKING:
    from samekind.gallery.folder import FolderGallery
    from samekind.gallery.gallery import Progress

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

PER_CELL = 4.0  # cells are so many times the square root of rows
MOST_CELLS = 65_536
TRAINED_ROWS = 64  # per cell
ROUNDS = 8  # of k-means
BATCH = 65_536
_FORMAT = "samekind.cells"


@dataclass(frozen=True, eq=False)
class SegmentCells:
    """Rows of one segment by cell: `members[starts[c] : starts[c + 1]]`; -1 where a row was erased."""

    file: str
    starts: Ints
    members: Ints
    n_rows: int  # leading rows that are in cells

    def fits(self, segment: Segment) -> bool:
        return self.file == segment.state.codes_file and self.n_rows <= len(segment.int8)


@dataclass(frozen=True, eq=False)
class Cells:
    """Centroids (n_cells, width + 1), and the rows of each segment; `n_probed` cells are read for a query."""

    model: int
    centroids: Floats32
    norms: Floats32
    segments: Mapping[int, SegmentCells]
    n_probed: int

    def fits(self, view: View) -> bool:
        """Whether the rows are still where they were: compaction and another model move them."""
        present = {segment.state.number: segment for segment in view.segments}
        return all(
            number in present
            and each.file == present[number].state.codes_file
            and each.n_rows <= len(present[number].int8)
            for number, each in self.segments.items()
        )

    def probed(self, query: NDArray[np.float64], n: int | None = None) -> Ints:
        """The nearest cells of a query (width,)."""
        n = min(n or self.n_probed, len(self.centroids))
        distances = self.norms - 2 * (self.centroids[:, :-1] @ query.astype(np.float32))
        return np.argpartition(distances, n - 1)[:n].astype(np.int64)


def build(gallery: FolderGallery, recall: float, k: int, n_queries: int, progress: Progress) -> IndexReport:
    """Cells of all rows that have a quantised copy, and as many to be read as the wanted recall needs."""
    started = time.perf_counter()
    view = gallery._view()
    state = gallery._state()
    n = sum(len(segment.int8) for segment in view.segments)
    if not n:
        raise GalleryError(
            f"{gallery.location} has fewer than {state.block_rows:,} records: exact search needs no index there."
        )
    n_cells = int(min(max(1, PER_CELL * n**0.5), MOST_CELLS, n))
    lowest = _lowest_offset(view)
    centroids = _centroids(view, n_cells, lowest)
    segments = {}
    done = 0
    for segment in view.segments:
        assigned = np.concatenate([
            _nearest_cells(centroids, _points(segment, slice(at, min(at + BATCH, len(segment.int8))), lowest))
            for at in range(0, len(segment.int8), BATCH)
        ] or [np.zeros(0, np.int64)])  # fmt: skip
        assigned[np.isnan(segment.codes[: len(assigned), 0])] = n_cells  # erased: behind all cells
        order = np.argsort(assigned, kind="stable")
        starts = np.searchsorted(assigned[order], np.arange(n_cells + 1))
        for array in (starts, order):
            array.setflags(write=False)  # as those of a file, so that one function is compiled for both
        segments[segment.state.number] = SegmentCells(
            segment.state.codes_file, starts, order[: starts[-1]], len(assigned)
        )
        done += len(assigned)
        progress(done, n)
    made = Cells(view.model, centroids, _norms(centroids), segments, 1)
    gallery.remove_caches()
    chosen, measured = _probes_for(gallery, made, recall, k, n_queries)
    with gallery._writing() as now:  # nobody erases meanwhile
        if now.changes != view.changes:
            made = _without_erased(made, view)
        _write(gallery.path, now.gallery, made, chosen)
    return IndexReport("cells", n_cells, chosen, measured, time.perf_counter() - started)


def _probes_for(gallery: FolderGallery, made: Cells, recall: float, k: int, n_queries: int) -> tuple[int, Any]:
    """The smallest power of two with the wanted recall, measured on records of the gallery."""
    n_probed = 1
    while True:
        gallery._cells = Cells(made.model, made.centroids, made.norms, made.segments, n_probed)
        measured = measured_recall(gallery, k, n_queries)
        if measured.recall >= recall or n_probed >= len(made.centroids):
            gallery._cells = None
            return n_probed, measured
        n_probed = min(2 * n_probed, len(made.centroids))


def _lowest_offset(view: View) -> float:
    found = [np.nanmin(segment.offsets(rows), initial=np.inf) for segment, rows in view.blocks_of_rows(BATCH)]
    return float(min(found, default=0.0))


def _points(segment: Segment, rows: slice | Ints, lowest: float) -> Floats32:
    """Vectors with one coordinate more, (n, width + 1); erased rows are zeros."""
    codes = segment.codes[rows]
    offsets = segment.form.offsets(codes)
    last = np.sqrt(np.maximum(offsets - lowest, 0)).astype(np.float32)
    points = np.column_stack([codes[:, : segment.form.width], last])
    return np.ascontiguousarray(np.nan_to_num(points, nan=0.0, posinf=0.0))


def _centroids(view: View, n_cells: int, lowest: float) -> Floats32:
    """K-means on a sample of rows."""
    faiss = _faiss()
    rng = np.random.default_rng(0)
    total = sum(len(segment.int8) for segment in view.segments)
    share = min(1.0, TRAINED_ROWS * n_cells / total)
    parts = []
    for segment in view.segments:
        drawn = np.sort(rng.choice(len(segment.int8), round(share * len(segment.int8)), replace=False))
        parts.append(_points(segment, drawn, lowest))
    sample = np.concatenate(parts)
    means = faiss.Kmeans(
        sample.shape[1], n_cells, niter=ROUNDS, seed=1, min_points_per_centroid=1, max_points_per_centroid=TRAINED_ROWS
    )
    means.train(sample)
    return np.ascontiguousarray(means.centroids, np.float32)


def _nearest_cells(centroids: Floats32, points: Floats32) -> Ints:
    index = _faiss().IndexFlatL2(centroids.shape[1])
    index.add(centroids)
    found: Ints = index.search(points, 1)[1][:, 0].astype(np.int64)
    return found


def _norms(centroids: Floats32) -> Floats32:
    norms: Floats32 = np.einsum("ij,ij->i", centroids, centroids)
    return norms


def _without_erased(cells: Cells, view: View) -> Cells:
    """The same without rows that were erased since the view was taken."""
    segments = {}
    for segment in view.segments:
        each = cells.segments[segment.state.number]
        members = np.where(np.isnan(segment.codes[each.members, 0]), -1, each.members)
        segments[segment.state.number] = SegmentCells(each.file, each.starts, members, each.n_rows)
    return Cells(cells.model, cells.centroids, cells.norms, segments, cells.n_probed)


def _write(folder: Path, gallery: str, cells: Cells, n_probed: int) -> None:
    header = {
        "format": _FORMAT,
        "gallery": gallery,
        "model": cells.model,
        "n_cells": len(cells.centroids),
        "width": cells.centroids.shape[1],
        "n_probed": n_probed,
        "segments": [
            {"number": number, "file": each.file, "rows": each.n_rows, "members": len(each.members)}
            for number, each in cells.segments.items()
        ],
    }
    content = json.dumps(header, sort_keys=True).encode()
    size = -(-(len(content) + 8) // HEADER_BYTES) * HEADER_BYTES
    with whole_file(folder / f"cells-{secrets.token_hex(4)}{CACHE_END}") as file:
        file.write((len(content).to_bytes(8, "little") + content).ljust(size, b"\0"))
        for each in cells.segments.values():
            file.write(each.starts.astype("<i8").tobytes())
            file.write(each.members.astype("<i8").tobytes())
        file.write(cells.centroids.astype("<f4").tobytes())
    fsync_folder(folder)


def load(folder: Path, gallery: str, view: View) -> Cells | None:
    """The cells of a view, if there is a cache that belongs to it and is whole."""
    for path in sorted(folder.glob(f"*{CACHE_END}")):
        try:
            found = _read(path, gallery, view)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if found is not None:
            return found
    return None


def _read(path: Path, gallery: str, view: View) -> Cells | None:
    content, header, at = _mapped(path, write=False)
    if (header["format"], header["gallery"], header["model"]) != (_FORMAT, gallery, view.model):
        return None
    segments = {}
    for each in header["segments"]:
        starts = np.frombuffer(content, "<i8", header["n_cells"] + 1, at)
        members = np.frombuffer(content, "<i8", each["members"], at + starts.nbytes)
        at += starts.nbytes + members.nbytes
        whole = (np.diff(starts) >= 0).all() and starts[0] == 0 and starts[-1] == len(members)
        if not whole or members.max(initial=-1) >= each["rows"]:
            return None
        segments[each["number"]] = SegmentCells(each["file"], starts, members, each["rows"])
    centroids = np.frombuffer(content, "<f4", header["n_cells"] * header["width"], at).reshape(-1, header["width"])
    if header["width"] != view.form.width + 1 or not 1 <= header["n_probed"] <= header["n_cells"]:
        return None
    found = Cells(view.model, centroids, _norms(centroids), segments, header["n_probed"])
    return found if found.fits(view) else None


def erase_from_caches(folder: Path, places: Mapping[int, Sequence[int]]) -> None:
    """Overwrite rows of segments in the lists of all caches; a cache that cannot be read is deleted."""
    for path in folder.glob(f"*{CACHE_END}"):
        try:
            _erase(path, places)
        except (OSError, ValueError, KeyError, TypeError):
            path.unlink(missing_ok=True)


def _erase(path: Path, places: Mapping[int, Sequence[int]]) -> None:
    content, header, at = _mapped(path, write=True)
    for each in header["segments"]:
        at += 8 * (header["n_cells"] + 1)
        members = np.frombuffer(content, "<i8", each["members"], at)
        rows = places.get(each["number"], ())
        if len(rows):
            members[np.isin(members, np.array(rows))] = -1
        at += members.nbytes
    content.flush()


def _mapped(path: Path, *, write: bool) -> tuple[mmap.mmap, dict[str, Any], int]:
    """A cache's bytes, its header, and where its arrays begin."""
    with path.open("r+b" if write else "rb") as file:
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        content = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, access=access)
    size = int.from_bytes(content[:8], "little")
    if not 0 < size < len(content):
        raise ValueError(f"{path} is no index of a gallery.")
    return content, json.loads(content[8 : 8 + size]), -(-(size + 8) // HEADER_BYTES) * HEADER_BYTES


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise GalleryError('An index for approximate search needs faiss: pip install "samekind[faiss]".') from error
    return faiss
