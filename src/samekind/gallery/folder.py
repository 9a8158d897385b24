"""`FolderGallery`: records in SQLite, codes in memory-mapped files."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from samekind.gallery import answering, next_model
from samekind.gallery.backend import Codes, Ids, Progress
from samekind.gallery.cells import build
from samekind.gallery.database import FILE, Database, reason
from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.gallery import PLAIN, Gallery, no_progress
from samekind.gallery.layout import MODEL_END, Layout, fsync_folder
from samekind.gallery.records import (
    COLUMNS,
    SIZE,
    Answer,
    Record,
    Removal,
    Size,
    ids_of_rows,
    names_in,
    now,
    records_by_id,
    rows_of_new_names,
)
from samekind.gallery.transactions import FolderTransactions
from samekind.gallery.view import View
from samekind.gallery.writing import Place

if TYPE_CHECKING:
    from samekind.gallery.checking import CheckReport
    from samekind.gallery.recall import IndexReport


class FolderGallery(FolderTransactions, Gallery):
    """A gallery in a folder."""

    @classmethod
    def made(cls, folder: Path, form: CodeForm, layout: Layout) -> FolderGallery:
        """A new one."""
        if Gallery.exists(folder):
            raise GalleryError(f"{folder} exists and is not an empty folder: give another name, or open it.")
        # Made beside its place and renamed: a gallery is there whole or not at all.
        made = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.new"
        try:
            made.mkdir(parents=True)
            _write_new(made, form, layout)
            _move_to(made, folder)
        except BaseException as error:
            shutil.rmtree(made, ignore_errors=True)
            if isinstance(error, sqlite3.Error):
                raise GalleryError(f"{folder}: {reason(error)}") from error
            if isinstance(error, OSError):  # of the place that was asked for, not of the one beside it
                raise type(error)(error.errno, error.strerror, str(folder)) from error
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

    def is_same_as(self, other: Gallery) -> bool:
        return isinstance(other, FolderGallery) and self.path.samefile(other.path)

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
        self,
        codes: Codes,
        texts: Sequence[tuple[str | None, ...]],
        added: str,
        thumbnails: Sequence[bytes | None],
        once: bool,
    ) -> list[int]:
        with self._writing() as state:
            database = self._writable
            rows = rows_of_new_names(texts, _names_of(database, names_in(texts))) if once else range(len(codes))
            ids = self._new_ids(len(rows))
            places = self._writer(state).append(codes[rows] if once else codes)
            database.run_many(
                "INSERT INTO records (id, label, name, source, note, added) VALUES (?, ?, ?, ?, ?, ?)",
                ((at, *texts[row], added) for at, row in zip(ids, rows, strict=True)),
            )
            database.run_many(
                "INSERT INTO places VALUES (?, ?, ?)", ((*place, at) for place, at in zip(places, ids, strict=True))
            )
            kept = [(at, thumbnails[row]) for at, row in zip(ids, rows, strict=True) if thumbnails[row] is not None]
            database.run_many("INSERT INTO thumbnails VALUES (?, ?)", kept)
        return ids_of_rows(len(codes), rows, ids)

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

    def _size(self, labels: Sequence[str] | None) -> Size:
        if labels is not None:
            counts = [int(self._reads.one("SELECT count(*) FROM records WHERE label = ?", (at,))[0]) for at in labels]
            return Size(sum(counts), len(counts) - counts.count(0))
        with self._reads.reading():
            revision = self._state().revision
            if self._size_at is None or self._size_at[0] != revision:
                row = self._reads.one(f"{SIZE} (SELECT label, count(*) AS n FROM records GROUP BY label)")
                self._size_at = revision, Size(*row)
            return self._size_at[1]

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

    def _names(self, among: Sequence[str] | None) -> set[str]:
        return _names_of(self._reads, among)

    def thumbnail(self, id: int) -> bytes | None:
        row = self._reads.one("SELECT jpeg FROM thumbnails WHERE id = ?", (int(id),))
        return None if row is None else bytes(row[0])

    def codes(self, ids: Iterable[int], *, model: int | None = None) -> Codes:
        wanted = [int(at) for at in ids]

        def prepare(view: View) -> list[Place]:
            places = self._places_in(view, wanted)
            missing = next((at for at in wanted if at not in places), None)
            if missing is not None:
                raise GalleryError(f"There is no record {missing} in {self.path}.")
            return [places[at] for at in wanted]

        return self._steady(prepare, _codes_at, lambda view, codes: codes, model)

    def _model_in_use(self) -> int:
        return self._state().model

    def _ids_in_order(self, model: int) -> Ids:
        return self._reads.numbers(
            "SELECT p.id FROM places p JOIN segments s ON s.segment = p.segment WHERE s.model = ? "
            "ORDER BY p.segment, p.row",
            (model,),
        )

    def _with_codes(self, ids: Sequence[int], model: int) -> tuple[list[Record], Codes]:
        def prepare(view: View) -> tuple[list[Record], list[Place]]:
            places, records = self._places_in(view, ids), records_by_id(self._reads, ids)
            there = [at for at in ids if at in places]
            return [records[at] for at in there], [places[at] for at in there]

        def compute(view: View, prepared: tuple[list[Record], list[Place]]) -> tuple[list[Record], Codes]:
            return prepared[0], _codes_at(view, prepared[1])

        return self._steady(prepare, compute, lambda view, found: found, model)

    def _answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, model: int | None, n_jobs: int | None, one: bool
    ) -> list[Answer]:
        return answering.answers(self, codes, k, labels, model, n_jobs, one)

    def _approximate_answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, n_jobs: int | None
    ) -> list[Answer]:
        return answering.approximate_answers(self, codes, k, labels, n_jobs)

    def _build_index(self, recall: float, k: int, n_queries: int, progress: Progress) -> IndexReport:
        return build(self, recall, k, n_queries, progress)

    def drop_index(self) -> None:
        self.remove_caches()

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


def _names_of(database: Database, among: Sequence[str] | None) -> set[str]:
    if among is None:
        return {name for (name,) in database.all("SELECT name FROM records WHERE name IS NOT NULL")}
    return {name for (name,) in database.all_among("SELECT name FROM records WHERE name IN", among)}


def _codes_at(view: View, places: Sequence[Place]) -> Codes:
    segments = {segment.state.number: segment for segment in view.segments}
    codes = np.empty((len(places), view.form.length), np.float32)
    for at, (segment, row) in enumerate(places):
        codes[at] = segments[segment].codes[row]
    return codes


def _move_to(made: Path, folder: Path) -> None:
    """To its place, which may be an empty folder."""
    try:
        made.rename(folder)  # Windows refuses an empty folder, too
    except OSError:
        if not folder.is_dir() or Gallery.exists(folder):  # another process was faster
            raise
        folder.rmdir()
        made.rename(folder)


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
