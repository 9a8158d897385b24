"""What readers and writers of a folder do in one transaction: states, models, views, erasures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from samekind.gallery.cells import Cells, erase_from_caches
from samekind.gallery.database import FILE, Database
from samekind.gallery.errors import ADVICE, GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.layout import CACHE_END, CODES, INT8, MODEL_END, Layout, remove_files
from samekind.gallery.records import Size, records_by_id
from samekind.gallery.verifying import DamagedBlock
from samekind.gallery.view import View, open_segment, read_states, same_segments
from samekind.gallery.writing import Place, Writer, by_segment
from samekind.model.metric import Metric

Prepared = TypeVar("Prepared")
Found = TypeVar("Found")
Result = TypeVar("Result")

ATTEMPTS = 8  # searches that meet an erasure, before one holds erasures off


@dataclass(frozen=True)
class State:
    """The one row of the table of that name."""

    gallery: str
    revision: int
    changes: int
    model: int
    block_rows: int
    segment_blocks: int
    made: str

    @property
    def layout(self) -> Layout:
        return Layout(self.block_rows, self.segment_blocks)


class FolderTransactions:
    """The database and the files of a folder, open for reading, and perhaps for writing."""

    def __init__(self, path: Path, reads: Database, writes: Database | None) -> None:
        self.path = path
        self._reads, self._writes = reads, writes
        self._models: dict[int, tuple[CodeForm, str]] = {}
        self._views: dict[int, View] = {}
        self._verified: set[tuple[str, int]] = set()
        self._distrusted: set[str] = set()
        self._cells: Cells | None = None
        self._size_at: tuple[int, Size] | None = None  # and the revision it is of
        self._tidied = False
        self._journal_waits = False

    @property
    def _writable(self) -> Database:
        if self._writes is None:
            raise GalleryError(f"The gallery {self.path} was opened for reading only.")
        return self._writes

    def _state(self, database: Database | None = None) -> State:
        row = (database or self._reads).one(
            "SELECT gallery, revision, changes, model, block_rows, segment_blocks, made FROM state"
        )
        if row is None:
            raise GalleryError(f"{self.path / FILE} has no state. {ADVICE}")
        return State(*row)

    def _model(self, number: int | None, database: Database | None = None) -> tuple[CodeForm, str]:
        number = self._state(database).model if number is None else number
        if number not in self._models:
            query = "SELECT fingerprint, length, file FROM models WHERE model = ?"
            row = (database or self._reads).one(query, (number,))
            if row is None:
                raise GalleryError(f"{self.path} has no model {number}: it may have been switched meanwhile.")
            fingerprint, length, file = row
            if file is None:
                self._models[number] = CodeForm.plain(length), fingerprint
            else:
                self._models[number] = self._read_model(file, fingerprint), fingerprint
        return self._models[number]

    def _read_model(self, file: str, fingerprint: str) -> CodeForm:
        metric = Metric.load(self.path / file)
        if metric.fingerprint != fingerprint:
            raise GalleryError(f"{self.path / file} is not the model of this gallery: it was exchanged. {ADVICE}")
        return CodeForm.of_model(metric)

    def _writer(self, state: State, model: int | None = None) -> Writer:
        number = state.model if model is None else model
        form = self._model(number, self._writable)[0]
        return Writer(self._writable, self.path, state.gallery, state.layout, number, form)

    @contextmanager
    def _writing(self, *, changes: bool = False) -> Iterator[State]:
        """A write transaction, after what an interrupted one left; `changes` where rows go or move."""
        with self._writable.writing():
            state = self._state(self._writable)
            if not self._tidied:
                self._remove_orphans()
                self._tidied = self._journal_waits = True  # a writer that was killed may have left something there
            self._erase_rows(state)
            yield state
            self._writable.run(
                "UPDATE state SET revision = revision + 1, changes = changes + ?", (1 if changes else 0,)
            )
        if self._journal_waits:
            self._journal_waits = not self._writable.truncate_journal()

    def _remove_orphans(self) -> None:
        """Files of a writer that was killed before it committed; nobody else writes now."""
        named = {name for row in self._writable.all("SELECT codes_file, int8_file FROM segments") for name in row}
        named |= {name for (name,) in self._writable.all("SELECT file FROM models WHERE file IS NOT NULL")}
        found = {path.name for kind in (CODES, INT8, MODEL_END) for path in self.path.glob(f"*{kind}")}
        if found - named:
            remove_files(self.path, found - named)

    def _erase_rows(self, state: State) -> None:
        """Overwrite the rows that no record has any more."""
        waiting = self._writable.all(
            "SELECT e.segment, e.row, s.model FROM erasing e JOIN segments s ON s.segment = e.segment"
        )
        models = {segment: model for segment, _, model in waiting}
        erased = by_segment((segment, row) for segment, row, _ in waiting)
        if erased:
            erase_from_caches(self.path, erased)
        for segment, rows in erased.items():
            self._writer(state, models[segment]).erase(segment, rows)
        if waiting:
            self._writable.run("DELETE FROM erasing")

    def _finish_erasing(self) -> bool:
        """The second half of a removal, after its records are gone; whether the journal is emptied too."""
        self._journal_waits = False
        with self._writing():
            pass
        emptied = self._writable.truncate_journal()
        self._journal_waits = not emptied
        return emptied

    def remove_caches(self) -> None:
        """Indexes of the approximate search."""
        self._cells = None
        remove_files(self.path, [path.name for path in self.path.glob(f"*{CACHE_END}")])

    def _give_up(self, places: Sequence[Place]) -> None:
        """Take places from their records and mark them for erasure."""
        database = self._writable
        database.run_many("INSERT INTO erasing VALUES (?, ?)", places)
        database.run_many("DELETE FROM places WHERE segment = ? AND row = ?", places)
        for segment, rows in by_segment(places).items():
            database.run("UPDATE segments SET live = live - ? WHERE segment = ?", (len(rows), segment))

    def _places_of(self, ids: Sequence[int]) -> list[Place]:
        """All places of records, of every model, for a writer."""
        return [
            (row[0], row[1]) for row in self._writable.all_among("SELECT segment, row FROM places WHERE id IN", ids)
        ]

    def _places_in(self, view: View, ids: Sequence[int]) -> dict[int, Place]:
        """Places of records in a view."""
        rows = self._reads.all_among(
            "SELECT p.id, p.segment, p.row FROM places p JOIN segments s ON s.segment = p.segment "
            "WHERE s.model = ? AND p.id IN",
            ids,
            (view.model,),
        )
        return {row[0]: (row[1], row[2]) for row in rows}

    def _check_known(self, ids: Sequence[int]) -> None:
        known = records_by_id(self._writable, ids)
        missing = [at for at in ids if at not in known]
        if missing:
            raise GalleryError(f"There is no record {missing[0]} in {self.path}; nothing was changed.")

    def _new_ids(self, n: int) -> list[int]:
        row = self._writable.one("SELECT seq FROM sqlite_sequence WHERE name = 'records'")
        first = 1 + (0 if row is None else int(row[0]))
        return list(range(first, first + n))

    def _view(self, model: int | None = None) -> View:
        with self._reads.reading():
            return self._current_view(model)

    def _current_view(self, model: int | None = None) -> View:
        """Inside a transaction: the segments as they are now; what has not changed stays mapped."""
        state = self._state()
        number = state.model if model is None else model
        known = self._views.get(number)
        if known is not None and known.revision == state.revision:
            return known
        if self._reads.one("SELECT 1 FROM models WHERE model = ?", (number,)) is None:
            raise GalleryError(f"{self.path} has no model {number}: it may have been switched meanwhile.")
        form = self._model(number)[0]
        mapped = {} if known is None else same_segments(known.segments)
        segments = tuple(
            mapped.get(each) or open_segment(self.path, self._reads, state.gallery, each, form, self._distrusted)
            for each in read_states(self._reads, number, state.layout)
        )
        erasing = tuple((row[0], row[1]) for row in self._reads.all("SELECT segment, row FROM erasing"))
        view = View(state.revision, state.changes, number, form, state.layout, segments, erasing)
        self._views[number] = view
        return view

    def _steady(
        self,
        prepare: Callable[[View], Prepared],
        compute: Callable[[View, Prepared], Found],
        finish: Callable[[View, Found], Result],
        model: int | None = None,
    ) -> Result:
        """What is computed from a view, computed again if rows were erased or moved meanwhile.

        `prepare` and `finish` read from the database, at one moment each.
        """
        for attempt in range(ATTEMPTS):
            seen = self._state().changes
            try:
                with self._reads.reading():
                    view = self._current_view(model)
                    prepared = prepare(view)
                found = compute(view, prepared)
            except (GalleryError, DamagedBlock) as error:
                if self._state().changes == seen:
                    if not isinstance(error, DamagedBlock) or error.file in self._distrusted:
                        raise
                    self._distrust(error)
                continue
            with self._reads.reading():
                if self._state().changes == view.changes:
                    return finish(view, found)
            time.sleep(0.001 * 2**attempt)
        if self._writes is None:
            raise GalleryError(
                f"Rows of {self.path} are being erased again and again, so that no search ends: try later."
            )
        with self._writes.writing():  # keeps others from erasing
            view = self._view(model)
            with self._reads.reading():
                prepared = prepare(view)
            found = compute(view, prepared)
            with self._reads.reading():
                return finish(view, found)

    def _distrust(self, error: DamagedBlock) -> None:
        """Do without a quantised copy that is damaged; codes themselves cannot be done without."""
        if not error.file.endswith(INT8):
            raise GalleryError(f"{self.path / error.file} is damaged in block {error.block}. {ADVICE}") from error
        self._distrusted.add(error.file)
        self._views.clear()
