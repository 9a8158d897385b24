"""A connection to a PostgreSQL server with pgvector, and codes in the binary form of its COPY."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm

PREFIX = "samekind_"  # of schemas
DEFAULT_NAME = "gallery"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,50}")
_MOST_DIMENSIONS = 16_000  # of pgvector's type
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TAIL = b"\xff\xff"

Values = Sequence[Any] | Mapping[str, Any]


class ServerError(GalleryError):
    """The server cannot be reached, or refused something."""

    table_is_gone = False


class Server:
    """One connection, used by one thread at a time; what `samekind_NAME` holds is a gallery."""

    def __init__(self, address: str, *, read_only: bool = False, timeout: float = 60.0) -> None:
        self._psycopg = _psycopg()
        connection, self.gallery, self.location = parsed(address)
        self.schema, self.read_only = PREFIX + self.gallery, read_only
        self._lock = threading.RLock()
        with self._explained():
            self.connection = self._psycopg.connect(connection, autocommit=True, connect_timeout=max(2, round(timeout)))
            self._prepare(timeout)

    def _prepare(self, timeout: float) -> None:
        """Settings of this connection: durable commits, and names that are found."""
        run = self.connection.execute
        run("SET client_encoding TO 'UTF8'")
        run(f"SET application_name TO '{self.schema}'")
        run("SET client_min_messages TO warning")
        run(f"SET lock_timeout TO {max(1, round(1000 * timeout))}")
        if not self.read_only and self.one("SHOW synchronous_commit")[0] in ("off", "local"):
            run("SET synchronous_commit TO on")
        found = self.all(
            "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
            "WHERE e.extname = 'vector'"
        )
        self._has_vector = bool(found)
        others = [f'"{found[0][0]}"'] if found else ["public"]
        run(f"SET search_path TO {', '.join([self.schema, *others])}")

    def has_gallery(self) -> bool:
        return bool(self.all("SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'state'", (self.schema,)))

    def make_schema(self, statements: str) -> None:
        """Inside a transaction."""
        if not self._has_vector:
            self.run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
        self.run(statements)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read inside is of one moment."""
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All that is written inside is committed, durably, or nothing is."""
        self._check_writable()
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock, self._explained():
            self.connection.execute(begin)
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if not self.connection.closed:
                    self.connection.execute("ROLLBACK")
                raise

    def run(self, query: str, values: Values = ()) -> None:
        with self._lock, self._explained():
            self.connection.execute(query, values or None)

    def run_many(self, query: str, rows: Sequence[Values]) -> None:
        with self._lock, self._explained(), self.connection.cursor() as cursor:
            if rows:
                cursor.executemany(query, rows)

    def run_alone(self, query: str) -> None:
        """What cannot be part of a transaction."""
        self._check_writable()
        self.run(query)

    def checkpoint(self) -> None:
        """Removed files go with the next checkpoint; without the right to ask for one, it comes by itself."""
        try:
            with self._lock:
                self.connection.execute("CHECKPOINT")
        except self._psycopg.errors.InsufficientPrivilege:
            pass

    def all(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._explained():
            rows: list[tuple[Any, ...]] = self.connection.execute(query, values or None).fetchall()
        return rows

    def all_binary(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """The same with vectors as the bytes that `unpacked_codes` reads."""
        with self._lock, self._explained(), self.connection.cursor(binary=True) as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(query, values or None).fetchall()
        return rows

    def one(self, query: str, values: Values = ()) -> tuple[Any, ...]:
        return self.all(query, values)[0]

    def copy(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._lock, self._explained(), self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def copy_bytes(self, statement: str, content: bytes) -> None:
        with self._lock, self._explained(), self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(content)

    def close(self) -> None:
        with self._lock:
            if hasattr(self, "connection"):
                self.connection.close()

    def _check_writable(self) -> None:
        if self.read_only:
            raise GalleryError(f"The gallery {self.location} was opened for reading only.")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._psycopg.Error as error:
            explained = ServerError(f"{self.location}: {self._reason(error)}")
            explained.table_is_gone = isinstance(error, self._psycopg.errors.UndefinedTable)
            raise explained from error

    def _reason(self, error: Exception) -> str:
        errors = self._psycopg.errors
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, errors.LockNotAvailable):
            return "another process is writing to this gallery, and did not finish in time. Try again later."
        if isinstance(error, errors.DiskFull):
            return "the server's disk is full, so nothing was changed. Make room and try again."
        if isinstance(error, errors.InsufficientPrivilege):
            return f"the server does not allow this ({text}). Ask its administrator for the rights."
        if isinstance(error, errors.FeatureNotSupported | errors.UndefinedFile) and "vector" in text:
            return f"the server has no extension pgvector ({text}). Install it: https://github.com/pgvector/pgvector."
        if isinstance(error, self._psycopg.OperationalError):
            return f"the server cannot be used ({text}). Check the address, and that the server runs."
        return f"the server refused this ({text})."


def parsed(address: str) -> tuple[str, str, str]:
    """An address for psycopg, the gallery's name, and the address without a password, for people."""
    parts = urlsplit(address)
    options = parse_qsl(parts.query, keep_blank_values=True)
    name = next((value for key, value in options if key == "gallery"), DEFAULT_NAME)
    if not _NAME.fullmatch(name):
        raise GalleryError(
            f"{name!r} is no name for a gallery on a server: give lower-case letters, digits and _, a letter first, up "
            "to 51 of them."
        )
    others = [(key, value) for key, value in options if key != "gallery"]
    connection = urlunsplit(parts._replace(query=urlencode(others, quote_via=quote)))
    user = re.sub(r":[^@]*@", "@", parts.netloc) if "@" in parts.netloc else parts.netloc
    shown = [(key, value) for key, value in others if key != "password"]
    query = urlencode([*shown, ("gallery", name)], safe="/")
    return connection, name, urlunsplit(parts._replace(netloc=user, query=query))


def packed_codes(ids: NDArray[np.int64], places: NDArray[np.int64], codes: NDArray[np.float32], width: int) -> bytes:
    """Rows (id, place, vector, number) for COPY ... (FORMAT BINARY); the number is 0 where codes have none."""
    if width > _MOST_DIMENSIONS:
        raise GalleryError(f"pgvector holds vectors of up to {_MOST_DIMENSIONS:,} numbers; these have {width:,}.")
    fields = [
        ("n", ">i2"), ("id_bytes", ">i4"), ("id", ">i8"), ("place_bytes", ">i4"), ("place", ">i8"),
        ("vector_bytes", ">i4"), ("width", ">i2"), ("unused", ">i2"), ("vector", ">f4", (width,)),
        ("number_bytes", ">i4"), ("number", ">f4"),
    ]  # fmt: skip
    rows = np.zeros(len(codes), np.dtype(fields))
    constants = {"n": 4, "id_bytes": 8, "place_bytes": 8, "vector_bytes": 4 + 4 * width, "width": width}
    for name, value in {**constants, "number_bytes": 4}.items():
        rows[name] = value
    rows["id"], rows["place"], rows["vector"] = ids, places, codes[:, :width]
    if codes.shape[1] > width:
        rows["number"] = codes[:, width]
    return _COPY_HEAD + rows.tobytes() + _COPY_TAIL


def unpacked_codes(rows: Sequence[Sequence[Any]], form: CodeForm) -> NDArray[np.float32]:
    """Codes (n, length) of rows (vector as bytes, number)."""
    codes = np.empty((len(rows), form.length), np.float32)
    for at, (vector, number) in enumerate(rows):
        codes[at, : form.width] = np.frombuffer(vector, ">f4", form.width, 4)
        if form.length > form.width:
            codes[at, -1] = number
    return codes


def vector_text(vector: NDArray[np.float32]) -> str:
    """A vector as SQL reads it, to the last bit."""
    return "[" + ",".join(repr(float(number)) for number in vector) + "]"


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise GalleryError('Galleries on a server need psycopg: pip install "samekind[postgres]".') from error
    return psycopg
