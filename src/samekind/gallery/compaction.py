"""Segments without their erased rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samekind.gallery.layout import Layout, remove_files
from samekind.gallery.view import Segment
from samekind.gallery.writing import Writer

if TYPE_CHECKING:
    from samekind.gallery.backend import Progress
    from samekind.gallery.folder import FolderGallery


def compact(gallery: FolderGallery, progress: Progress) -> int:
    """Write all segments from the first with erased rows on anew, in order, and switch to them in one transaction."""
    view = gallery._view()
    given_up, old = 0, []
    with gallery._writing(changes=True) as state:
        view = gallery._view()  # as of the last commit, and nobody else commits now
        old = _wasteful(view.segments, state.layout)
        if old:
            writer = gallery._writer(state)
            writer.new_segment()
            given_up = sum(segment.state.rows - segment.state.live for segment in old)
            total, done = sum(segment.state.live for segment in old), 0
            for segment in old:
                for start in range(0, segment.state.rows, state.block_rows):
                    done += _move(writer, segment, start, start + state.block_rows)
                    progress(done, total)
                for table in ("segments", "blocks"):
                    gallery._writable.run(f"DELETE FROM {table} WHERE segment = ?", (segment.state.number,))
    if old:
        names = [name for segment in old for name in (segment.state.codes_file, segment.state.int8_file)]
        remove_files(gallery.path, names)
        gallery._writable.truncate_journal()
    return given_up


def _wasteful(segments: tuple[Segment, ...], layout: Layout) -> list[Segment]:
    """From the first with erased rows, or with room although others follow: later ones keep their order."""
    for at, segment in enumerate(segments):
        short = segment.state.rows < layout.segment_rows and at + 1 < len(segments)
        if segment.state.live < segment.state.rows or short:
            return list(segments[at:])
    return []


def _move(writer: Writer, segment: Segment, start: int, stop: int) -> int:
    """Some rows of a segment to the end of the new ones."""
    database, number = writer.database, segment.state.number
    found = database.all(
        "SELECT row, id FROM places WHERE segment = ? AND row >= ? AND row < ? ORDER BY row", (number, start, stop)
    )
    if found:
        places = writer.append(segment.codes[[row for row, _ in found]])
        database.run("DELETE FROM places WHERE segment = ? AND row >= ? AND row < ?", (number, start, stop))
        database.run_many(
            "INSERT INTO places VALUES (?, ?, ?)",
            ((*place, at) for place, (_, at) in zip(places, found, strict=True)),
        )
    return len(found)
