"""Approximate search of a gallery in a folder: rows in cells around centroids, of which few are read.

The cells hold numbers of rows, not codes: distances are computed from the gallery's own files, so that an answer's
distances are right, and only a nearest entry may be missing. `centroids` finds the cells. The file is a cache that may
be deleted at any time: without it, searches are exact. Rows that were added later are searched exactly. A row that is
erased is overwritten in the lists, too.

Codes with a number s are ranked by `||u - q||^2 + s`. With one coordinate more, `sqrt(s - min s)` for rows and 0 for
queries, that is a Euclidean distance.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samekind.files import whole_file
from samekind.gallery.centroids import TRAINED_ROWS, Centroids, find_centroids, n_cells_for
from samekind.gallery.errors import GalleryError
from samekind.gallery.layout import CACHE_END, HEADER_BYTES, fsync_folder
from samekind.gallery.recall import ExactNeighbours, IndexReport, Recall
from samekind.gallery.view import Segment, View

if TYPE_CHECKING:
    from samekind.gallery.backend import Progress
    from samekind.gallery.folder import FolderGallery

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

BATCH = 65_536
GROWTH = 1.25  # of the number of cells that are read, until the recall is reached
_FORMAT = "samekind.cells.2"


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
    centroids: Centroids
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

    def probed(self, query: NDArray[np.float64]) -> Ints:
        """The nearest cells of a query (width,)."""
        return self.centroids.nearest(np.append(query, 0).astype(np.float32), self.n_probed)


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
    lowest = _lowest_offset(view)
    centroids = find_centroids(_sample(view, TRAINED_ROWS * n_cells_for(n), lowest), n_cells_for(n), BATCH)
    n_cells = len(centroids)
    segments = {}
    done = 0
    for segment in view.segments:
        assigned = np.concatenate([
            centroids.assigned(_points(segment, slice(at, min(at + BATCH, len(segment.int8))), lowest))
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
    made = Cells(view.model, centroids, segments, 1)
    gallery.remove_caches()
    chosen, measured = _probes_for(gallery, made, recall, k, n_queries)
    with gallery._writing() as now:  # nobody erases meanwhile
        if now.changes != view.changes:
            made = _without_erased(made, view)
        _write(gallery.path, now.gallery, made, chosen)
    return IndexReport("cells", n_cells, chosen, measured, time.perf_counter() - started)


def _probes_for(gallery: FolderGallery, made: Cells, recall: float, k: int, n_queries: int) -> tuple[int, Recall]:
    """About the smallest number with the wanted recall, measured on records of the gallery."""
    n_probed, exact = 1, ExactNeighbours.drawn_from(gallery, k, n_queries)
    while True:
        gallery._cells = replace(made, n_probed=n_probed)
        measured = exact.measure(gallery)
        if measured.recall >= recall or n_probed >= len(made.centroids):
            gallery._cells = None
            return n_probed, measured
        n_probed = min(math.ceil(GROWTH * n_probed), len(made.centroids))


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


def _sample(view: View, n: int, lowest: float) -> Floats32:
    """About n rows, drawn at random."""
    rng = np.random.default_rng(0)
    share = min(1.0, n / sum(len(segment.int8) for segment in view.segments))
    parts = []
    for segment in view.segments:
        drawn = np.sort(rng.choice(len(segment.int8), math.ceil(share * len(segment.int8)), replace=False))
        parts.append(_points(segment, drawn, lowest))
    return np.concatenate(parts)


def _without_erased(cells: Cells, view: View) -> Cells:
    """The same without rows that were erased since the view was taken."""
    segments = {}
    for segment in view.segments:
        each = cells.segments[segment.state.number]
        members = np.where(np.isnan(segment.codes[each.members, 0]), -1, each.members)
        segments[segment.state.number] = SegmentCells(each.file, each.starts, members, each.n_rows)
    return replace(cells, segments=segments)


def _write(folder: Path, gallery: str, cells: Cells, n_probed: int) -> None:
    header = {
        "format": _FORMAT,
        "gallery": gallery,
        "model": cells.model,
        "n_cells": len(cells.centroids),
        "n_groups": len(cells.centroids.groups),
        "width": cells.centroids.points.shape[1],
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
        file.write(cells.centroids.starts.astype("<i8").tobytes())
        file.write(cells.centroids.groups.astype("<f4").tobytes())
        file.write(cells.centroids.points.astype("<f4").tobytes())
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
    centroids = _read_centroids(content, header, at)
    if centroids is None or header["width"] != view.form.width + 1 or not 1 <= header["n_probed"] <= header["n_cells"]:
        return None
    found = Cells(view.model, centroids, segments, header["n_probed"])
    return found if found.fits(view) else None


def _read_centroids(content: mmap.mmap, header: dict[str, Any], at: int) -> Centroids | None:
    """From a place in a cache on; None where they are not whole."""
    n_groups, n_cells, width = header["n_groups"], header["n_cells"], header["width"]
    starts = np.frombuffer(content, "<i8", n_groups + 1, at)
    groups = np.frombuffer(content, "<f4", n_groups * width, at + starts.nbytes).reshape(-1, width)
    points = np.frombuffer(content, "<f4", n_cells * width, at + starts.nbytes + groups.nbytes).reshape(-1, width)
    whole = n_groups > 0 and starts[0] == 0 and starts[-1] == n_cells and (np.diff(starts) >= 0).all()
    return Centroids(groups, starts, points) if whole else None


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
