"""`PostgresGallery`: the same on a PostgreSQL server with the extension pgvector, for many machines.

The address is `postgresql://user@host/database?gallery=name`; `samekind.gallery.postgres_tables` has its tables. Codes
come in by COPY, with their records in one transaction. Removing deletes rows; their bytes are on the server's disk
until `compact` writes the tables anew, and in its write-ahead log until the server has used that space again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from samekind.gallery.backend import Codes, Ids, Progress
from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.gallery import PLAIN, Gallery, no_progress
from samekind.gallery.postgres_search import ModelCodes, build_index
from samekind.gallery.postgres_tables import add_model, check_format, forget_model, make_tables, read_model
from samekind.gallery.records import (
    COLUMNS,
    SIZE,
    Answer,
    Record,
    Removal,
    Size,
    counted,
    ids_of_rows,
    names_in,
    rows_of_new_names,
)
from samekind.gallery.server import Server, ServerError, packed_codes, unpacked_codes

if TYPE_CHECKING:
    from samekind.gallery.checking import CheckReport
    from samekind.gallery.recall import IndexReport

ATTEMPTS = 3  # of a search during which the model is switched


@dataclass(frozen=True)
class ServerRemoval(Removal):
    """What `remove` did on a server."""

    def describe(self) -> list[str]:
        return [
            f"Deleted {counted(len(self.ids), 'record')} with thumbnails, and {counted(self.rows, 'row')} of codes.",
            "Their bytes are still on the server's disk. `samekind gallery compact` writes the tables anew without "
            "them; the server's write-ahead log, replicas and backups are in the hands of its administrator.",
        ]


class PostgresGallery(Gallery):
    """A gallery on a PostgreSQL server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._models: dict[int, tuple[CodeForm, str]] = {}

    @classmethod
    def made(cls, address: str, form: CodeForm) -> PostgresGallery:
        """A new one, there whole or not at all."""
        server = Server(address)
        try:
            with server.writing():
                if server.has_gallery():
                    raise GalleryError(f"{server.location} exists: give another name (?gallery=NAME), or open it.")
                make_tables(server, form, PLAIN if form.model is None else form.model.fingerprint)
        except BaseException:
            server.close()
            raise
        return cls(server)

    @classmethod
    def opened(cls, address: str, read_only: bool = False, timeout: float = 60.0) -> PostgresGallery:
        """One that is there."""
        server = Server(address, read_only=read_only, timeout=timeout)
        try:
            check_format(server)
            opened = cls(server)
            opened._model(None)
        except BaseException:
            server.close()
            raise
        return opened

    @classmethod
    def is_there(cls, address: str) -> bool:
        server = Server(address, read_only=True)
        try:
            return server.has_gallery()
        finally:
            server.close()

    @property
    def location(self) -> str:
        return self._server.location

    @property
    def name(self) -> str:
        return self._server.gallery

    def is_same_as(self, other: Gallery) -> bool:
        query = "SELECT gallery FROM state"
        return isinstance(other, PostgresGallery) and bool(self._server.one(query) == other._server.one(query))

    def close(self) -> None:
        self._server.close()

    def __len__(self) -> int:
        return int(self._server.one("SELECT count(*) FROM records")[0])

    @property
    def next_model(self) -> int | None:
        found: int | None = self._server.one("SELECT max(m.model) FROM models m, state s WHERE m.model != s.model")[0]
        return found

    def n_bytes(self) -> int:
        row = self._server.one(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'",
            (self._server.schema,),
        )
        return int(row[0])

    def n_erased_rows(self) -> int:
        return int(self._server.one("SELECT removed FROM state")[0])

    def problems(self) -> list[str]:
        return [
            f"The server runs with {name}=off: what was acknowledged may be lost after a power failure."
            for name in ("fsync", "full_page_writes")
            if self._server.one(f"SHOW {name}")[0] == "off"
        ]

    # Changes

    def _add(
        self,
        codes: Codes,
        texts: Sequence[tuple[str | None, ...]],
        added: str,
        thumbnails: Sequence[bytes | None],
        once: bool,
    ) -> list[int]:
        server = self._server
        for row in texts:
            _check_no_zero(row)
        with server.writing():
            model = self._model_to_write(alone=once)
            rows = rows_of_new_names(texts, self._names(names_in(texts))) if once else range(len(codes))
            ids = [row[0] for row in server.all("SELECT nextval('ids') FROM generate_series(1, %s)", (len(rows),))]
            server.copy(
                "COPY records (id, label, name, source, note, added) FROM STDIN",
                ((at, *texts[row], added) for at, row in zip(ids, rows, strict=True)),
            )
            self._copy_codes(model, ids, codes[rows] if once else codes)
            kept = [(at, thumbnails[row]) for at, row in zip(ids, rows, strict=True) if thumbnails[row] is not None]
            server.run_many("INSERT INTO thumbnails VALUES (%s, %s)", kept)
        return ids_of_rows(len(codes), rows, ids)

    def _copy_codes(self, model: int, ids: Sequence[int], codes: Codes) -> None:
        width = self._model(model)[0].width
        places = self._server.all("SELECT nextval('places') FROM generate_series(1, %s)", (len(codes),))
        content = packed_codes(np.array(ids), np.array([place for (place,) in places]), codes, width)
        self._server.copy_bytes(f"COPY codes_{model} (id, place, vector, number) FROM STDIN (FORMAT BINARY)", content)

    def _remove(self, ids: tuple[int, ...]) -> Removal:
        server = self._server
        with server.writing():
            self._check_known(ids)
            rows = sum(
                server.one(f"SELECT count(*) FROM codes_{model} WHERE id = ANY(%s)", (list(ids),))[0]
                for (model,) in server.all("SELECT model FROM models")
            )
            server.run("DELETE FROM records WHERE id = ANY(%s)", (list(ids),))
            server.run("UPDATE state SET removed = removed + %s", (rows,))
        return ServerRemoval(ids, rows, False)

    def _replace(self, id: int, code: Codes | None, texts: dict[str, str | None]) -> None:
        server = self._server
        _check_no_zero(texts.values())
        with server.writing():
            self._check_known((id,))
            for column, text in texts.items():
                server.run(f"UPDATE records SET {column} = %s WHERE id = %s", (text, id))
            if code is not None:
                model = self._model_to_write()
                for (other,) in server.all("SELECT model FROM models"):
                    server.run(f"DELETE FROM codes_{other} WHERE id = %s", (id,))
                self._copy_codes(model, [id], code)
                server.run("UPDATE state SET removed = removed + 1")

    def _check_known(self, ids: Sequence[int]) -> None:
        """Locked until the transaction ends, so that two removals of one record do not both succeed."""
        query = "SELECT id FROM records WHERE id = ANY(%s) FOR UPDATE"
        known = {row[0] for row in self._server.all(query, (list(ids),))}
        missing = [at for at in ids if at not in known]
        if missing:
            raise GalleryError(f"There is no record {missing[0]} in {self.location}; nothing was changed.")

    def _model_to_write(self, *, alone: bool = False) -> int:
        """The model in use, which is not switched before this transaction ends; with `alone`, nobody else adds."""
        number = int(self._server.one(f"SELECT model FROM state FOR {'UPDATE' if alone else 'SHARE'}")[0])
        self._model(number)
        return number

    # Records

    def find(self, *, label: str | None = None, name: str | None = None) -> list[Record]:
        given = {column: text for column, text in (("label", label), ("name", name)) if text is not None}
        where = " AND ".join(f"{column} = %s" for column in given) or "true"
        rows = self._server.all(f"SELECT {COLUMNS} FROM records r WHERE {where} ORDER BY id", tuple(given.values()))
        return [Record(*row) for row in rows]

    def labels(self) -> dict[str | None, int]:
        rows = self._server.all('SELECT label, count(*) FROM records GROUP BY label ORDER BY label COLLATE "C"')
        return dict(rows)

    def _names(self, among: Sequence[str] | None) -> set[str]:
        where, given = ("name IS NOT NULL", ()) if among is None else ("name = ANY(%s)", (list(among),))
        return {name for (name,) in self._server.all(f"SELECT name FROM records WHERE {where}", given)}

    def thumbnail(self, id: int) -> bytes | None:
        rows = self._server.all("SELECT jpeg FROM thumbnails WHERE id = %s", (int(id),))
        return bytes(rows[0][0]) if rows else None

    def _size(self, labels: Sequence[str] | None) -> Size:
        where, given = ("", ()) if labels is None else ("WHERE label = ANY(%s)", (list(labels),))
        query = f"{SIZE} (SELECT label, count(*) AS n FROM records {where} GROUP BY label) AS labels"
        n_entries, n_people = self._server.one(query, given)
        return Size(int(n_entries), int(n_people))

    def _id_range(self) -> tuple[int, int]:
        lowest, highest = self._server.one("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM records")
        return lowest, highest

    def _records_by_id(self, ids: Sequence[int]) -> dict[int, Record]:
        rows = self._server.all(f"SELECT {COLUMNS} FROM records r WHERE r.id = ANY(%s)", (list(ids),))
        return {row[0]: Record(*row) for row in rows}

    def codes(self, ids: Iterable[int], *, model: int | None = None) -> Codes:
        wanted = [int(at) for at in ids]
        number = self._model_in_use() if model is None else model
        records, codes = self._with_codes(wanted, number)
        found = {record.id: at for at, record in enumerate(records)}
        missing = next((at for at in wanted if at not in found), None)
        if missing is not None:
            raise GalleryError(f"There is no record {missing} in {self.location}.")
        return codes[[found[at] for at in wanted]]

    def _ids_in_order(self, model: int) -> Ids:
        with self._of_model(model):
            rows = self._server.all(f"SELECT id FROM codes_{model} ORDER BY place")
        return np.array([at for (at,) in rows], np.int64)

    def _with_codes(self, ids: Sequence[int], model: int) -> tuple[list[Record], Codes]:
        query = (
            f"SELECT c.vector, c.number, {COLUMNS} FROM codes_{model} c JOIN records r ON r.id = c.id "
            "WHERE c.id = ANY(%s)"
        )
        with self._of_model(model):
            rows = self._server.all_binary(query, (list(ids),))
        order = {at: place for place, at in enumerate(ids)}
        rows.sort(key=lambda row: order[row[2]])
        return [Record(*row[2:]) for row in rows], unpacked_codes([row[:2] for row in rows], self._model(model)[0])

    @contextmanager
    def _of_model(self, model: int) -> Iterator[None]:
        """Says so where a model is gone."""
        try:
            yield
        except ServerError as error:
            if not error.table_is_gone:
                raise
            raise GalleryError(f"{self.location} has no model {model}: it may have been switched meanwhile.") from error

    # Search

    def _answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, model: int | None, n_jobs: int | None, one: bool
    ) -> list[Answer]:
        for attempt in range(ATTEMPTS):
            try:
                with self._server.reading():
                    searched = self._codes_of(model)
                    n = searched.n_searched(labels)
                    return [searched.nearest(code, k, labels, n) for code in codes]
            except ServerError as error:
                if model is not None or not error.table_is_gone or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError  # the last attempt returned or raised

    def _approximate_answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, n_jobs: int | None
    ) -> list[Answer]:
        if labels is None:
            with self._server.reading():
                found = self._codes_of(None).approximate(codes, k)
            if found is not None:
                return found
        return self._answers(codes, k, labels, None, n_jobs, False)

    def _build_index(self, recall: float, k: int, n_queries: int, progress: Progress) -> IndexReport:
        return build_index(self, self._codes_of(None), recall, k, n_queries, progress)

    def drop_index(self) -> None:
        with self._server.writing():
            for (model,) in self._server.all("SELECT model FROM models"):
                self._server.run(f"DROP INDEX IF EXISTS near_{model}")
            self._server.run("UPDATE models SET ef = NULL, lowest = NULL")

    # Maintenance

    def compact(self, progress: Progress = no_progress) -> int:
        """Write all tables anew, without what was removed; searches wait meanwhile."""
        server = self._server
        tables = ["records", "thumbnails", *(f"codes_{row[0]}" for row in server.all("SELECT model FROM models"))]
        removed = self.n_erased_rows()
        for done, table in enumerate(tables):
            server.run_alone(f"VACUUM (FULL, ANALYZE) {table}")
            progress(done + 1, len(tables))
        server.checkpoint()
        with server.writing():
            server.run("UPDATE state SET removed = greatest(removed - %s, 0)", (removed,))
        return removed

    def check(self, *, repair: bool = True, progress: Progress = no_progress) -> CheckReport:
        """Read all rows (the server compares its checksums, where it has them) and compare records with codes."""
        from samekind.gallery.postgres_check import check

        return check(self, self._server, repair, progress)

    # The next model

    def _begin_next(self, form: CodeForm, fingerprint: str) -> int:
        server = self._server
        with server.writing():
            server.one("SELECT model FROM state FOR UPDATE")
            number = int(server.one("SELECT nextval(pg_get_serial_sequence('models', 'model'))")[0])
            add_model(server, number, form, fingerprint)
        return number

    def _lacking(self, model: int, after: int, most: int) -> list[Record]:
        rows = self._server.all(
            f"SELECT {COLUMNS} FROM records r WHERE r.id > %s AND NOT EXISTS (SELECT 1 FROM codes_{model} c "
            "WHERE c.id = r.id) ORDER BY r.id LIMIT %s",
            (after, most),
        )
        return [Record(*row) for row in rows]

    def _keep(self, model: int, ids: Sequence[int], codes: Codes) -> None:
        with self._server.writing():
            query = "SELECT id FROM records WHERE id = ANY(%s) FOR SHARE"
            known = {row[0] for row in self._server.all(query, (list(ids),))}
            there = [at for at, number in enumerate(ids) if number in known]
            self._copy_codes(model, [ids[at] for at in there], codes[there])

    def _encoded(self, model: int) -> list[int]:
        return [row[0] for row in self._server.all(f"SELECT id FROM codes_{model} ORDER BY id")]

    def _n_encoded(self, model: int) -> int:
        return int(self._server.one(f"SELECT count(*) FROM codes_{model}")[0])

    def _switch_to(self, model: int) -> None:
        server = self._server
        with server.writing():
            old = int(server.one("SELECT model FROM state FOR UPDATE")[0])
            missing = server.one("SELECT count(*) FROM records")[0] - self._n_encoded(model)
            if missing:
                raise GalleryError(f"{missing:,} records were added meanwhile: run reencode again before the switch.")
            server.run("UPDATE state SET model = %s", (model,))
            forget_model(server, old)

    def _forget_next(self, model: int) -> None:
        with self._server.writing():
            self._server.one("SELECT model FROM state FOR UPDATE")
            forget_model(self._server, model)

    # Models

    def _model_in_use(self) -> int:
        return int(self._server.one("SELECT model FROM state")[0])

    def _model(self, number: int | None) -> tuple[CodeForm, str]:
        number = self._model_in_use() if number is None else number
        if number not in self._models:
            self._models[number] = read_model(self._server, number)
        return self._models[number]

    def _codes_of(self, model: int | None) -> ModelCodes:
        number = self._model_in_use() if model is None else model
        return ModelCodes(self._server, number, self._model(number)[0])


def _check_no_zero(texts: Iterable[str | None]) -> None:
    for text in texts:
        if text is not None and "\0" in text:
            raise GalleryError(f"The text {text!r} holds a zero byte, which PostgreSQL does not keep. Leave it out.")
