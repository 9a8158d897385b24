"""Is a gallery as it was written? What can be made again is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samekind.gallery.errors import GalleryError
from samekind.gallery.layout import CODES, INT8
from samekind.gallery.verifying import checksums
from samekind.gallery.view import Segment, View
from samekind.model.file import ModelFileError

if TYPE_CHECKING:
    from samekind.gallery.backend import Progress
    from samekind.gallery.folder import FolderGallery


@dataclass(frozen=True)
class CheckReport:
    """What is wrong and could not be repaired, what was repaired, and how much was read."""

    problems: tuple[str, ...]
    repaired: tuple[str, ...]
    n_records: int
    n_rows: int

    @property
    def sound(self) -> bool:
        return not self.problems


def check(gallery: FolderGallery, repair: bool, progress: Progress) -> CheckReport:
    """Everything, with writers held off, so that what is compared is of one moment."""
    if repair and gallery._writes is not None:
        with gallery._writing():
            pass  # finishes what an interrupted writer left
        with gallery._writing():
            return _check(gallery, True, progress)
    return _check(gallery, False, progress)


def _check(gallery: FolderGallery, repair: bool, progress: Progress) -> CheckReport:
    reads = gallery._reads
    problems = _database_problems(gallery)
    repaired: list[str] = []
    n_rows = done = 0
    models = [row[0] for row in reads.all("SELECT model FROM models ORDER BY model")]
    total = reads.one("SELECT coalesce(sum(rows), 0) FROM segments")[0]
    for model in models:
        try:
            gallery._views.pop(model, None)
            view = gallery._view(model)
        except (GalleryError, ModelFileError, OSError) as error:
            problems.append(str(error))
            continue
        for segment in view.segments:
            problems += _codes_problems(gallery, view, segment)
            wrong = _copy_problem(gallery, view, segment)
            if wrong and repair:
                state = gallery._state()
                gallery._writer(state, model).requantise(segment.state.number)
                repaired.append(f"{wrong} It was made again.")
            elif wrong:
                problems.append(wrong)
            done += segment.state.rows
            progress(done, total)
        n_rows += view.n_rows
    return CheckReport(tuple(problems), tuple(repaired), len(gallery), n_rows)


def _database_problems(gallery: FolderGallery) -> list[str]:
    reads = gallery._reads
    found = [row[0] for row in reads.all("PRAGMA quick_check")]
    problems = [] if found == ["ok"] else [f"The database: {text}" for text in found]
    lost = reads.one("SELECT count(*) FROM places p LEFT JOIN records r ON r.id = p.id WHERE r.id IS NULL")[0]
    if lost:
        problems.append(f"{lost:,} rows of codes belong to records that are not there.")
    bare = reads.one(
        "SELECT count(*) FROM records r WHERE NOT EXISTS (SELECT 1 FROM places p JOIN segments s ON "
        "s.segment = p.segment JOIN state t ON t.model = s.model WHERE p.id = r.id)"
    )[0]
    if bare:
        problems.append(f"{bare:,} records have no code.")
    return problems


def _codes_problems(gallery: FolderGallery, view: View, segment: Segment) -> list[str]:
    """Checksums of all blocks, and rows that are erased exactly where no record has them."""
    size, number = view.layout.block_rows, segment.state.number
    name = gallery.path / segment.state.codes_file
    erasing = {(at, row // size) for at, row in view.erasing}
    wrong = [
        f"{name}: block {each.block} is not as it was written."
        for each in checksums(gallery._reads, segment, CODES)
        if (number, each.block) not in erasing and not each.matches(size)
    ]
    taken = np.zeros(segment.state.rows, bool)
    rows = [row for (row,) in gallery._reads.all("SELECT row FROM places WHERE segment = ?", (number,))]
    if any(row >= segment.state.rows for row in rows):
        return [*wrong, f"{name}: the database names rows beyond the {segment.state.rows:,} that are committed."]
    taken[rows] = True
    if len(rows) != segment.state.live:
        wrong.append(f"{name}: {len(rows):,} rows belong to records, but {segment.state.live:,} were counted.")
    taken[[row for at, row in view.erasing if at == number]] = True
    for start in range(0, segment.state.rows, size):
        absent = np.isnan(segment.codes[start : start + size]).any(axis=1)
        differ = int((absent == taken[start : start + size]).sum())
        left = [row for at, row in view.erasing if at == number and start <= row < start + size]
        if differ > len(left):
            wrong.append(f"{name}: {differ:,} rows of block {start // size} are erased or belong to no record.")
    return wrong


def _copy_problem(gallery: FolderGallery, view: View, segment: Segment) -> str:
    """Why the quantised copy of a segment has to be made again; nothing where it is right."""
    size = view.layout.block_rows
    if segment.problem:
        return segment.problem
    n_whole = segment.state.rows // size
    if segment.state.n_quantised < n_whole * size:
        return f"{gallery.path / segment.state.int8_file} lacks blocks."
    erasing = {(at, row // size) for at, row in view.erasing}
    for each in checksums(gallery._reads, segment, INT8):
        if (segment.state.number, each.block) not in erasing and not each.matches(size):
            return f"{gallery.path / segment.state.int8_file}: block {each.block} is not as it was written."
    return ""
