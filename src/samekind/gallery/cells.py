"""Approximate search of a gallery in a folder: rows in cells around centroids, of which few are read.

For each row of a cell, a signature of 128 bits says roughly in which direction it lies. Rows in the cells nearest to a
query whose signatures are most like the query's are compared with it by their quantised copies, as in an exact search.
The cells hold numbers of rows, not codes: distances are computed from the gallery's own files, so that an answer's
distances are right, and only a nearest entry may be missing. `centroids` finds the cells.

The file is a cache that may be deleted at any time: without it, searches are exact. Rows that were added later are
searched exactly. A row that is erased is overwritten in the lists, too.

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
Words = NDArray[np.uint64]

BATCH = 65_536
COMPARED = 2000  # rows that are compared with a query, where signatures are a good guide
GROWTH = 1.25  # of the number of cells that are read, until the recall is reached
_FORMAT = "samekind.cells.3"


@dataclass(frozen=True, eq=False)
class SegmentCells:
    """Rows of one segment by cell: `members[starts[c] : starts[c + 1]]`; -1 where a row was erased."""

    file: str
    starts: Ints
    members: Ints
    signatures: Words  # (n, N_WORDS), of the members
    n_rows: int  # leading rows that are in cells

    def fits(self, segment: Segment) -> bool:
        return self.file == segment.state.codes_file and self.n_rows <= len(segment.int8)


@dataclass(frozen=True, eq=False)
class Cells:
    """Centroids (n_cells, width + 1), and the rows of each segment.

    For a query, `n_probed` cells are read; about `n_compared` of their rows, those with the most similar signatures,
    are compared with it. Signatures are of points less `centre`, by `directions` (width + 1, N_BITS).
    """

    model: int
    centroids: Floats32
    norms: Floats32
    centre: Floats32
    directions: Floats32
    segments: Mapping[int, SegmentCells]
    n_probed: int = 1
    n_compared: int = COMPARED

    def fits(self, view: View) -> bool:
        """Whether the rows are still where they were: compaction and another model move them."""
        present = {segment.state.number: segment for segment in view.segments}
        return all(
            number in present
            and each.file == present[number].state.codes_file
            and each.n_rows <= len(present[number].int8)
            for number, each in self.segments.items()
        )

    def candidates(self, query: NDArray[np.float64]) -> dict[int, Ints]:
        """Rows of each segment that are compared with a query (width,)."""
        from samekind.kernels.signatures import N_BITS, differing_bits, members_within

        point = np.append(query, 0).astype(np.float32)
        probed = self._probed(point)
        own = self.signatures(point[np.newaxis])[0]
        counts, bits = np.zeros(N_BITS + 1, np.int64), {}
        for number, each in self.segments.items():
            found = np.empty(int((each.starts[probed + 1] - each.starts[probed]).sum()), np.uint8)
            differing_bits(probed, each.starts, each.signatures, own, found, counts)
            bits[number] = found
        limit = min(int(np.searchsorted(np.cumsum(counts), self.n_compared)), N_BITS)
        rows = {}
        for number, each in self.segments.items():
            chosen = np.empty(len(bits[number]), np.int64)
            n = members_within(probed, each.starts, each.members, bits[number], limit, chosen)
            rows[number] = chosen[:n]
        return rows

    def _probed(self, point: Floats32) -> Ints:
        """The nearest cells."""
        n = min(self.n_probed, len(self.centroids))
        distances = self.norms - 2 * (self.centroids @ point)
        return np.argpartition(distances, n - 1)[:n].astype(np.int64)

    def signatures(self, points: Floats32) -> Words:
        from samekind.kernels.signatures import signatures_of

        return signatures_of(points - self.centre, self.directions)


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
    sample = _sample(view, TRAINED_ROWS * n_cells_for(n), lowest)
    centroids = find_centroids(sample, n_cells_for(n), BATCH)
    made = _without_rows(view.model, centroids.points, sample.mean(axis=0, dtype=np.float64).astype(np.float32))
    segments: dict[int, SegmentCells] = {}
    for segment in view.segments:
        segments[segment.state.number] = _cells_of(segment, centroids, made, lowest)
        progress(sum(each.n_rows for each in segments.values()), n)
    gallery.remove_caches()
    made, measured = _tuned(gallery, replace(made, segments=segments), recall, k, n_queries)
    with gallery._writing() as now:  # nobody erases meanwhile
        if now.changes != view.changes:
            made = _without_erased(made, view)
        _write(gallery.path, now.gallery, made)
    return IndexReport("cells", len(centroids), made.n_probed, measured, time.perf_counter() - started)


def _without_rows(model: int, centroids: Floats32, centre: Floats32) -> Cells:
    from samekind.kernels.signatures import N_BITS

    directions = np.random.default_rng(0).standard_normal((centroids.shape[1], N_BITS), np.float32)
    return Cells(model, centroids, _norms(centroids), centre, directions, {})


def _cells_of(segment: Segment, centroids: Centroids, made: Cells, lowest: float) -> SegmentCells:
    """Rows of a segment by cell, with their signatures."""
    from samekind.kernels.signatures import N_WORDS

    n, n_cells = len(segment.int8), len(centroids)
    assigned, signatures = np.empty(n, np.int64), np.empty((n, N_WORDS), np.uint64)
    for start in range(0, n, BATCH):
        rows = slice(start, min(start + BATCH, n))
        points = _points(segment, rows, lowest)
        assigned[rows], signatures[rows] = centroids.assigned(points), made.signatures(points)
    assigned[np.isnan(segment.codes[:n, 0])] = n_cells  # erased: behind all cells
    order = np.argsort(assigned, kind="stable")
    starts = np.searchsorted(assigned[order], np.arange(n_cells + 1))
    members = order[: starts[-1]]
    arrays = starts, members, signatures[members]
    for array in arrays:
        array.setflags(write=False)  # as those of a file, so that one function is compiled for both
    return SegmentCells(segment.state.codes_file, *arrays, n)


def _tuned(gallery: FolderGallery, made: Cells, recall: float, k: int, n_queries: int) -> tuple[Cells, Recall]:
    """As few cells to be read as the wanted recall needs, about, measured on records of the gallery.

    Where signatures are no guide, so that a quarter of the cells is not enough, more rows are compared, and in the end
    all of them.
    """
    exact, n_cells = ExactNeighbours.drawn_from(gallery, k, n_queries), len(made.centroids)
    n_rows = sum(each.n_rows for each in made.segments.values())
    n_probed = max(1, n_cells // 256)
    for n_compared in (COMPARED, 10 * COMPARED, n_rows):
        most = n_cells if n_compared == n_rows else max(1, n_cells // 4)
        while True:
            tried = replace(made, n_probed=n_probed, n_compared=n_compared)
            gallery._cells = tried
            measured = exact.measure(gallery)
            if measured.recall >= recall or n_probed >= most:
                break
            n_probed = min(math.ceil(GROWTH * n_probed), most)
        if measured.recall >= recall:
            break
        n_probed = max(1, n_probed // 4)
    gallery._cells = None
    return tried, measured


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
        gone = np.isnan(segment.codes[each.members, 0])
        members, signatures = np.where(gone, -1, each.members), np.where(gone[:, np.newaxis], 0, each.signatures)
        segments[segment.state.number] = replace(each, members=members, signatures=signatures.astype(np.uint64))
    return replace(cells, segments=segments)


def _write(folder: Path, gallery: str, cells: Cells) -> None:
    header = {
        "format": _FORMAT,
        "gallery": gallery,
        "model": cells.model,
        "n_cells": len(cells.centroids),
        "width": cells.centroids.shape[1],
        "n_probed": cells.n_probed,
        "n_compared": cells.n_compared,
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
            file.write(each.signatures.astype("<u8").tobytes())
        for array in (cells.centroids, cells.centre, cells.directions):
            file.write(array.astype("<f4").tobytes())
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
    from samekind.kernels.signatures import N_BITS, N_WORDS

    content, header, at = _mapped(path, write=False)
    if (header["format"], header["gallery"], header["model"]) != (_FORMAT, gallery, view.model):
        return None
    n_cells, width = header["n_cells"], header["width"]
    if width != view.form.width + 1 or not 1 <= header["n_probed"] <= n_cells or header["n_compared"] < 1:
        return None

    def array(kind: str, *shape: int) -> NDArray[Any]:
        nonlocal at
        found = np.frombuffer(content, kind, math.prod(shape), at).reshape(shape)
        at += found.nbytes
        return found

    segments = {}
    for each in header["segments"]:
        starts, members = array("<i8", n_cells + 1), array("<i8", each["members"])
        signatures = array("<u8", each["members"], N_WORDS)
        whole = (np.diff(starts) >= 0).all() and starts[0] == 0 and starts[-1] == len(members)
        if not whole or members.max(initial=-1) >= each["rows"]:
            return None
        segments[each["number"]] = SegmentCells(each["file"], starts, members, signatures, each["rows"])
    centroids, centre, directions = array("<f4", n_cells, width), array("<f4", width), array("<f4", width, N_BITS)
    found = Cells(
        view.model, centroids, _norms(centroids), centre, directions, segments, header["n_probed"], header["n_compared"]
    )
    return found if found.fits(view) else None


def erase_from_caches(folder: Path, places: Mapping[int, Sequence[int]]) -> None:
    """Overwrite rows of segments in the lists of all caches; a cache that cannot be read is deleted."""
    for path in folder.glob(f"*{CACHE_END}"):
        try:
            _erase(path, places)
        except (OSError, ValueError, KeyError, TypeError):
            path.unlink(missing_ok=True)


def _erase(path: Path, places: Mapping[int, Sequence[int]]) -> None:
    from samekind.kernels.signatures import N_WORDS

    content, header, at = _mapped(path, write=True)
    if header["format"] != _FORMAT:
        raise ValueError(f"{path} is an index of another version.")
    for each in header["segments"]:
        at += 8 * (header["n_cells"] + 1)
        members = np.frombuffer(content, "<i8", each["members"], at)
        signatures = np.frombuffer(content, "<u8", each["members"] * N_WORDS, at + members.nbytes)
        rows = places.get(each["number"], ())
        if len(rows):
            gone = np.isin(members, np.array(rows))
            members[gone] = -1
            signatures.reshape(-1, N_WORDS)[gone] = 0
        at += members.nbytes + signatures.nbytes
    content.flush()


def _norms(centroids: Floats32) -> Floats32:
    norms: Floats32 = np.einsum("ij,ij->i", centroids, centroids)
    return norms


def _mapped(path: Path, *, write: bool) -> tuple[mmap.mmap, dict[str, Any], int]:
    """A cache's bytes, its header, and where its arrays begin."""
    with path.open("r+b" if write else "rb") as file:
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        content = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, access=access)
    size = int.from_bytes(content[:8], "little")
    if not 0 < size < len(content):
        raise ValueError(f"{path} is no index of a gallery.")
    return content, json.loads(content[8 : 8 + size]), -(-(size + 8) // HEADER_BYTES) * HEADER_BYTES
