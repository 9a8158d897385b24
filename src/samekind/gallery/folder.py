"""`FolderGallery`: records in SQLite, codes in memory-mapped files."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from samekind.gallery import next_model
from samekind.gallery import search as searching
from samekind.gallery.cells import Cells, build, erase_from_caches, load
from samekind.gallery.database import FILE, Database
from samekind.gallery.errors import ADVICE, GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.gallery import PLAIN, Codes, Gallery, Progress, no_progress
from samekind.gallery.layout import CACHE_END, CODES, INT8, MODEL_END, Layout, fsync_folder, remove_files
from samekind.gallery.records import COLUMNS, Answer, Hit, Record, Removal, now, records_at, records_by_id
from samekind.gallery.verifying import Checksum, DamagedBlock, unverified, verify_blocks
from samekind.gallery.view import PLACE_BITS, View, open_segment, read_states, same_segments
from samekind.gallery.writing import Place, Writer, by_segment
from samekind.model.metric import Metric

if TYPE_CHECKING:
    from samekind.gallery.checking import CheckReport
    from samekind.gallery.recall import IndexReport

Prepared = TypeVar("Prepared")
Found = TypeVar("Found")
Result = TypeVar("Result")

ATTEMPTS = 8  # searches that meet an erasure, before one holds erasures off
ROW_MASK = (1 << PLACE_BITS) - 1


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


class FolderGallery(Gallery):
    """A gallery in a folder."""

    def __init__(self, path: Path, reads: Database, writes: Database | None) -> None:
        self.path = path
        self._reads, self._writes = reads, writes
        self._models: dict[int, tuple[CodeForm, str]] = {}
        self._views: dict[int, View] = {}
        self._verified: set[tuple[str, int]] = set()
        self._distrusted: set[str] = set()
        self._cells: Cells | None = None
        self._tidied = False
        self._journal_waits = False

    @classmethod
    def made(cls, folder: Path, form: CodeForm, layout: Layout) -> FolderGallery:
        """A new one."""
        if Gallery.exists(folder):
            raise GalleryError(f"{folder} exists and is not an empty folder: give another name, or open it.")
        # Made beside its place and renamed: a gallery is there whole or not at all.
        made = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.new"
        made.mkdir(parents=True)
        try:
            _write_new(made, form, layout)
            if folder.exists():
                folder.rmdir()
            made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        fsync_folder(folder.parent)
        return cls.opened(folder)

    @classmethod
    def opened(cls, folder: Path, read_only: bool = False, timeout: float = 60.0) -> FolderGallery:
        """One that is there."""
        if not (folder / FILE).is_file():
            raise GalleryError(f"{folder} is not a gallery: it has no {FILE}. `samekind index` makes one.")
        reads = Database(folder / FILE, timeout=timeout, read_only=True)
        writes = None if read_only else Database(folder / FILE, timeout=timeout)
        opened = cls(folder, reads, writes)
        try:
            reads.check_format()
            opened._view()
        except BaseException:
            opened.close()
            raise
        return opened

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def close(self) -> None:
        if self._writes is not None:
            if self._journal_waits:
                self._writes.truncate_journal()
            self._writes.close()
        self._reads.close()
        self._views.clear()

    def __len__(self) -> int:
        return int(self._reads.one("SELECT count(*) FROM records")[0])

    @property
    def next_model(self) -> int | None:
        row = self._reads.one("SELECT max(m.model) FROM models m, state s WHERE m.model != s.model")
        return None if row[0] is None else int(row[0])

    def _add(
        self, codes: Codes, texts: Sequence[tuple[str | None, ...]], added: str, thumbnails: Sequence[bytes | None]
    ) -> list[int]:
        with self._writing() as state:
            ids = self._new_ids(len(codes))
            places = self._writer(state).append(codes)
            database = self._writable
            database.run_many(
                "INSERT INTO records (id, label, name, source, note, added) VALUES (?, ?, ?, ?, ?, ?)",
                ((at, *text, added) for at, text in zip(ids, texts, strict=True)),
            )
            database.run_many(
                "INSERT INTO places VALUES (?, ?, ?)", ((*place, at) for place, at in zip(places, ids, strict=True))
            )
            kept = [(at, jpeg) for at, jpeg in zip(ids, thumbnails, strict=True) if jpeg is not None]
            database.run_many("INSERT INTO thumbnails VALUES (?, ?)", kept)
        return ids

    def _remove(self, ids: tuple[int, ...]) -> Removal:
        with self._writing(changes=True):
            self._check_known(ids)
            places = self._places_of(ids)
            self._give_up(places)
            database = self._writable
            for table in ("records", "thumbnails"):
                database.run_many(f"DELETE FROM {table} WHERE id = ?", ((at,) for at in ids))
        return Removal(ids, len(places), self._finish_erasing())

    def _replace(self, id: int, code: Codes | None, texts: dict[str, str | None]) -> None:
        with self._writing(changes=True) as state:
            self._check_known((id,))
            database = self._writable
            for column, text in texts.items():
                database.run(f"UPDATE records SET {column} = ? WHERE id = ?", (text, id))
            if code is not None:
                self._give_up(self._places_of((id,)))
                (place,) = self._writer(state).append(code)
                database.run("INSERT INTO places VALUES (?, ?, ?)", (*place, id))
        self._finish_erasing()

    def _id_range(self) -> tuple[int, int]:
        lowest, highest = self._reads.one("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM records")
        return lowest, highest

    def _records_by_id(self, ids: Sequence[int]) -> dict[int, Record]:
        return records_by_id(self._reads, ids)

    def find(self, *, label: str | None = None, name: str | None = None) -> list[Record]:
        given = {column: text for column, text in (("label", label), ("name", name)) if text is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1"
        rows = self._reads.all(f"SELECT {COLUMNS} FROM records r WHERE {where} ORDER BY id", tuple(given.values()))
        return [Record(*row) for row in rows]

    def labels(self) -> dict[str | None, int]:
        return dict(self._reads.all("SELECT label, count(*) FROM records GROUP BY label ORDER BY label"))

    def names(self) -> set[str]:
        return {name for (name,) in self._reads.all("SELECT name FROM records WHERE name IS NOT NULL")}

    def thumbnail(self, id: int) -> bytes | None:
        row = self._reads.one("SELECT jpeg FROM thumbnails WHERE id = ?", (int(id),))
        return None if row is None else bytes(row[0])

    def codes(self, ids: Iterable[int], *, model: int | None = None) -> NDArray[np.float32]:
        wanted = [int(at) for at in ids]

        def read(view: View, places: list[Place]) -> NDArray[np.float32]:
            segments = {segment.state.number: segment for segment in view.segments}
            codes = np.empty((len(wanted), view.form.length), np.float32)
            for at, (segment, row) in enumerate(places):
                codes[at] = segments[segment].codes[row]
            return codes

        return self._steady(lambda view: self._places_in(view, wanted), read, lambda view, codes: codes, model)

    def iterate(self, batch: int = 4096, model: int | None = None) -> Iterator[tuple[list[Record], Codes]]:
        for segment, rows in self._view(model).blocks_of_rows(batch):
            query = f"SELECT p.row, {COLUMNS} FROM places p JOIN records r ON r.id = p.id WHERE p.segment = ? AND "
            found = self._reads.all(
                query + "p.row >= ? AND p.row < ? ORDER BY p.row", (segment.state.number, rows.start, rows.stop)
            )
            if found:
                yield [Record(*row[1:]) for row in found], segment.codes[[row[0] for row in found]]

    def compact(self, progress: Progress = no_progress) -> int:
        """Write segments with erased rows anew, without them; returns how many rows were given up."""
        from samekind.gallery.compaction import compact

        return compact(self, progress)

    def check(self, *, repair: bool = True, progress: Progress = no_progress) -> CheckReport:
        """Compare every byte with its checksum and every row with its record; make quantised copies again."""
        from samekind.gallery.checking import check

        return check(self, repair, progress)

    def _begin_next(self, form: CodeForm, fingerprint: str) -> int:
        return next_model.begin(self, form, fingerprint)

    def _lacking(self, model: int, after: int, most: int) -> list[Record]:
        return next_model.lacking(self, model, after, most)

    def _keep(self, model: int, ids: Sequence[int], codes: Codes) -> None:
        next_model.keep(self, model, ids, codes)

    def _encoded(self, model: int) -> list[int]:
        return next_model.encoded(self, model)

    def _n_encoded(self, model: int) -> int:
        return next_model.n_encoded(self, model)

    def _switch_to(self, model: int) -> None:
        next_model.switch_to(self, model)

    def _forget_next(self, model: int) -> None:
        next_model.forget_next(self, model)

    def n_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.path.iterdir())

    def n_erased_rows(self) -> int:
        return int(self._reads.one("SELECT coalesce(sum(rows - live), 0) FROM segments")[0])

    def problems(self) -> list[str]:
        """What is wrong with files that can be made again, and are not used until then (`check`)."""
        return [segment.problem for segment in self._view().segments if segment.problem]

    # What the parts of a gallery share

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

    def _places_in(self, view: View, ids: Sequence[int]) -> list[Place]:
        """Places of records in a view, in the order of the ids."""
        rows = self._reads.all_among(
            "SELECT p.id, p.segment, p.row FROM places p JOIN segments s ON s.segment = p.segment "
            "WHERE s.model = ? AND p.id IN",
            ids,
            (view.model,),
        )
        places = {row[0]: (row[1], row[2]) for row in rows}
        missing = next((at for at in ids if at not in places), None)
        if missing is not None:
            raise GalleryError(f"There is no record {missing} in {self.path}.")
        return [places[at] for at in ids]

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

    def _answers(
        self,
        codes: Codes,
        k: int,
        labels: Sequence[str] | None,
        model: int | None,
        n_jobs: int | None,
        one: bool,
        cells: Cells | None = None,
    ) -> list[Answer]:
        kind = INT8 if one else CODES

        def prepare(view: View) -> tuple[searching.Allowed, list[Checksum]]:
            wanted = None if labels is None else self._places_of_labels(view, labels)
            return view.allowed_rows(wanted), unverified(self._reads, view, kind, self._verified)

        def compute(
            view: View, prepared: tuple[searching.Allowed, list[Checksum]]
        ) -> tuple[list[searching.Nearest], list[float]]:
            allowed, checksums = prepared
            self._verified |= verify_blocks(view, checksums, n_jobs)
            split = [view.form.query(code) for code in codes]
            if one:
                usable = cells if cells is not None and cells.fits(view) else None
                found = [searching.nearest(view, vector, k, allowed, n_jobs, usable) for vector, _ in split]
            else:
                queries = np.array([vector for vector, _ in split]).reshape(len(codes), view.form.width)
                found = searching.nearest_of_many(view, queries, k, allowed, n_jobs)
            return found, [number for _, number in split]

        return self._steady(prepare, compute, self._with_records, model)

    def _approximate_answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, n_jobs: int | None
    ) -> list[Answer]:
        cells = self._present_cells() if labels is None else None  # of some labels, exact search is fast
        answers = [self._answers(code[np.newaxis], k, labels, None, n_jobs, True, cells)[0] for code in codes]
        return answers if cells is None else [replace(answer, exact=False) for answer in answers]

    def _present_cells(self) -> Cells | None:
        """The index, if it belongs to the present files."""
        view = self._view()
        if self._cells is None or not self._cells.fits(view):
            self._cells = load(self.path, self._state().gallery, view)
        return self._cells

    def _build_index(self, recall: float, k: int, n_queries: int, progress: Progress) -> IndexReport:
        return build(self, recall, k, n_queries, progress)

    def drop_index(self) -> None:
        self.remove_caches()

    def _with_records(self, view: View, found: tuple[list[searching.Nearest], list[float]]) -> list[Answer]:
        lists = [[(int(p) >> PLACE_BITS, int(p) & ROW_MASK) for p in nearest.places] for nearest in found[0]]
        records = records_at(self._reads, [place for places in lists for place in places])
        return [
            Answer(
                tuple(
                    Hit(records[place], float(distance) + own)
                    for place, distance in zip(places, nearest.distances, strict=True)
                ),
                nearest.n_searched,
                nearest.n_computed,
            )
            for nearest, places, own in zip(found[0], lists, found[1], strict=True)
        ]

    def _places_of_labels(self, view: View, labels: Sequence[str]) -> list[Place]:
        rows = self._reads.all_among(
            "SELECT p.segment, p.row FROM records r JOIN places p ON p.id = r.id JOIN segments s "
            "ON s.segment = p.segment WHERE s.model = ? AND r.label IN",
            labels,
            (view.model,),
        )
        return [(row[0], row[1]) for row in rows]


def _write_new(folder: Path, form: CodeForm, layout: Layout) -> None:
    """The database and the model of a gallery that has no records yet."""
    file = None
    if form.model is not None:
        file = f"000001{MODEL_END}"
        form.model.save(folder / file)
    fingerprint = PLAIN if form.model is None else form.model.fingerprint
    Database.create(folder / FILE)
    database = Database(folder / FILE)
    with database.writing():
        database.run("INSERT INTO models VALUES (1, ?, ?, ?)", (fingerprint, form.length, file))
        state = (secrets.token_hex(16), layout.block_rows, layout.segment_blocks, now())
        database.run("INSERT INTO state VALUES (?, 0, 0, 1, ?, ?, ?)", state)
    database.truncate_journal()
    database.close()
    fsync_folder(folder)
