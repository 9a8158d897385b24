"""What a search reads: the segments of one model as they were at one moment, mapped."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.database import Database
from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.layout import Layout, check_rows_file, map_rows
from samekind.kernels.types import BoolArray, IntArray

PLACE_BITS = 32  # a place in a view is segment << PLACE_BITS | row: rising in the order in which codes were added


@dataclass(frozen=True)
class SegmentState:
    """A segment as the database has it; `n_quantised` leading rows have a quantised copy."""

    number: int
    codes_file: str
    int8_file: str
    rows: int
    live: int
    n_quantised: int


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment as a search sees it."""

    state: SegmentState
    codes: NDArray[np.float32]  # (rows, length)
    int8: NDArray[np.int8]  # (n_quantised, row_bytes)
    scales: NDArray[np.float32]  # (n_blocks, width)
    form: CodeForm
    problem: str = ""  # why the quantised copy is not used

    @property
    def first_place(self) -> int:
        return self.state.number << PLACE_BITS

    @cached_property
    def tail_offsets(self) -> NDArray[np.float64]:
        """Of the rows that have no quantised copy yet."""
        return self.form.offsets(self.codes[len(self.int8) :])

    def offsets(self, rows: slice) -> NDArray[np.float64]:
        return self.form.offsets(self.codes[rows])


@dataclass(frozen=True, eq=False)
class View:
    """Segments of a model, the counters of that moment, and rows that no record has although they are still there."""

    revision: int
    changes: int
    model: int
    form: CodeForm
    layout: Layout
    segments: tuple[Segment, ...]
    erasing: tuple[tuple[int, int], ...] = ()

    @property
    def n_rows(self) -> int:
        return sum(segment.state.rows for segment in self.segments)

    @property
    def n_live(self) -> int:
        return sum(segment.state.live for segment in self.segments)

    def allowed_rows(self, wanted: Iterable[tuple[int, int]] | None) -> dict[int, IntArray] | None:
        """Rows of each segment that a search may find, rising; None where all may be."""
        if wanted is None and not self.erasing:
            return None
        if wanted is None:
            return {s.state.number: np.flatnonzero(self._not_erasing(s)) for s in self.segments}
        rows: dict[int, list[int]] = {segment.state.number: [] for segment in self.segments}
        for number, row in wanted:
            rows[number].append(row)
        return {number: np.sort(np.array(found, np.intp)) for number, found in rows.items()}

    def _not_erasing(self, segment: Segment) -> BoolArray:
        kept = np.ones(segment.state.rows, bool)
        kept[[row for number, row in self.erasing if number == segment.state.number]] = False
        return kept

    def blocks_of_rows(self, n_rows: int) -> Iterator[tuple[Segment, slice]]:
        """All rows, some at a time, in order."""
        for segment in self.segments:
            for start in range(0, segment.state.rows, n_rows):
                yield segment, slice(start, min(start + n_rows, segment.state.rows))


def read_states(database: Database, model: int, layout: Layout) -> list[SegmentState]:
    """The segments of a model, in order."""
    rows = database.all(
        "SELECT s.segment, s.codes_file, s.int8_file, s.rows, s.live, "
        "(SELECT count(*) FROM blocks b WHERE b.segment = s.segment AND b.scales IS NOT NULL) "
        "FROM segments s WHERE s.model = ? ORDER BY s.segment",
        (model,),
    )
    return [SegmentState(*(*row, n_blocks * layout.block_rows)) for *row, n_blocks in rows]


def open_segment(
    folder: Path, database: Database, gallery: str, state: SegmentState, form: CodeForm, distrusted: Container[str]
) -> Segment:
    """Mapped and compared with its header and size; a quantised copy that is not as it should be is not used."""
    from samekind.kernels.nearest import row_bytes

    check_rows_file(folder, state.codes_file, gallery, 4 * form.length, state.rows)
    codes = map_rows(folder / state.codes_file, np.float32, state.rows, form.length)
    int8 = np.zeros((0, row_bytes(form.width)), np.int8)
    scales = np.zeros((0, form.width), np.float32)
    problem = ""
    if state.n_quantised:
        try:
            if state.int8_file in distrusted:
                raise GalleryError(f"{folder / state.int8_file} is damaged, and not used until it is made again.")
            check_rows_file(folder, state.int8_file, gallery, row_bytes(form.width), state.n_quantised)
            int8 = map_rows(folder / state.int8_file, np.int8, state.n_quantised, row_bytes(form.width))
            scales = _read_scales(database, state.number, form.width)
        except GalleryError as error:
            problem = str(error)
    return Segment(state, codes, int8, scales, form, problem)


def _read_scales(database: Database, segment: int, width: int) -> NDArray[np.float32]:
    blobs = database.all(
        "SELECT scales FROM blocks WHERE segment = ? AND scales IS NOT NULL ORDER BY block", (segment,)
    )
    return np.frombuffer(b"".join(blob for (blob,) in blobs), np.float32).reshape(-1, width)


def same_segments(segments: Iterable[Segment]) -> Mapping[SegmentState, Segment]:
    """By their state, to be used again."""
    return {segment.state: segment for segment in segments}
