"""The SQLite database of a gallery: which rows exist, and whose they are.

    state      one row: this gallery's id, counters of changes, which model is in use
    models     models whose codes are here: the one in use, and perhaps the next one
    segments   files of codes of a model, and how many rows of each are committed
    blocks     checksums of each block's runs of rows, and the scales of its quantised copy
    records    id, label, name, source, when, note; ids are never used again
    places     which row of which segment is the code of a record
    erasing    rows that no record has any more, and that are still to be overwritten

Write-ahead logging lets readers in beside one writer; `synchronous=FULL` makes a commit durable; `secure_delete`
overwrites what is deleted.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import ADVICE, GalleryError

FILE = "gallery.sqlite"
FORMAT_VERSION = 1
_APPLICATION = 0x73616D6B  # "samk", in the header of the database file
_AT_ONCE = 500  # values of one IN (...)

_SCHEMA = """
CREATE TABLE state (
    gallery TEXT NOT NULL, revision INTEGER NOT NULL, changes INTEGER NOT NULL, model INTEGER NOT NULL,
    block_rows INTEGER NOT NULL, segment_blocks INTEGER NOT NULL, made TEXT NOT NULL
);
CREATE TABLE models (
    model INTEGER PRIMARY KEY AUTOINCREMENT, fingerprint TEXT NOT NULL, length INTEGER NOT NULL, file TEXT
);
CREATE TABLE segments (
    segment INTEGER PRIMARY KEY AUTOINCREMENT, model INTEGER NOT NULL, codes_file TEXT NOT NULL,
    int8_file TEXT NOT NULL, rows INTEGER NOT NULL, live INTEGER NOT NULL
);
CREATE TABLE blocks (
    segment INTEGER NOT NULL, block INTEGER NOT NULL, codes_crc BLOB NOT NULL, int8_crc BLOB, scales BLOB,
    PRIMARY KEY (segment, block)
) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT, name TEXT, source TEXT, added TEXT NOT NULL, note TEXT
);
CREATE INDEX records_by_label ON records (label);
CREATE INDEX records_by_name ON records (name);
CREATE TABLE places (
    segment INTEGER NOT NULL, row INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (segment, row)
) WITHOUT ROWID;
CREATE INDEX places_by_id ON places (id);
CREATE TABLE thumbnails (id INTEGER PRIMARY KEY, jpeg BLOB NOT NULL);
CREATE TABLE erasing (segment INTEGER NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (segment, row)) WITHOUT ROWID;
"""


class Database:
    """One connection, used by one thread at a time."""

    def __init__(self, path: Path, *, timeout: float = 60.0, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._lock = threading.RLock()
        self._depth = 0
        mode = "ro" if read_only else "rw"
        address = f"{path.absolute().as_uri()}?mode={mode}"
        self.connection = sqlite3.connect(
            address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
        )
        with self._explained():
            self.connection.execute("PRAGMA synchronous=FULL")
            self.connection.execute("PRAGMA secure_delete=ON")
            self.connection.execute("PRAGMA temp_store=MEMORY")

    @classmethod
    def create(cls, path: Path) -> None:
        """An empty database with its tables, in a file of its own."""
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")
            connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        finally:
            connection.close()

    def check_format(self) -> None:
        """`GalleryError` for a file that is no gallery, or one of a later version."""
        with self._lock, self._explained():
            application = self.connection.execute("PRAGMA application_id").fetchone()[0]
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        if application != _APPLICATION:
            raise GalleryError(f"{self.path} is a database, but not that of a gallery.")
        if version > FORMAT_VERSION:
            raise GalleryError(
                f"{self.path} has format version {version}, but this samekind reads up to {FORMAT_VERSION}. "
                "Upgrade samekind: pip install --upgrade samekind."
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read inside is of one moment."""
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All that is written inside is committed, durably, or nothing is; other writers wait."""
        if self.read_only:
            raise GalleryError(f"The gallery {self.path.parent} was opened for reading only.")
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock, self._explained():
            if self._depth:
                raise RuntimeError("A transaction inside a transaction.")
            self.connection.execute(begin)
            self._depth += 1
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise GalleryError(f"{self.path}: {_reason(error)}") from error

    def all(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._explained():
            return self.connection.execute(query, values).fetchall()

    def one(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        with self._lock, self._explained():
            row: tuple[Any, ...] = self.connection.execute(query, values).fetchone()
        return row

    def numbers(self, query: str, values: Sequence[Any] = ()) -> NDArray[np.int64]:
        """The first column of all rows, without a list of them."""
        with self._lock, self._explained():
            return np.fromiter((row[0] for row in self.connection.execute(query, values)), np.int64)

    def run(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        with self._lock:
            return self.connection.execute(query, values)

    def run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._lock:
            self.connection.executemany(query, rows)

    def all_among(self, query: str, values: Sequence[Any], before: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query that ends with `IN`, for any number of values."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(values), _AT_ONCE):
            part = values[start : start + _AT_ONCE]
            found += self.all(f"{query} ({','.join('?' * len(part))})", (*before, *part))
        return found

    def truncate_journal(self) -> bool:
        """Move the journal's content to the database and empty it; False while others still read from it."""
        with self._lock, self._explained():
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not busy

    def close(self) -> None:
        with self._lock:
            self.connection.close()


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return "another process is writing to this gallery, and did not finish in time. Try again later."
    if "full" in text:
        return "the disk is full, so nothing was changed. Make room and try again."
    if "readonly" in text or "read-only" in text:
        return "the gallery cannot be written to. Change the permissions of its folder, or open it for reading only."
    return f"the database is damaged or not a gallery ({text}). {ADVICE}"
