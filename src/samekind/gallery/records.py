"""What a gallery knows of each entry, and what it answers."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from samekind.gallery.database import Database
from samekind.gallery.errors import GalleryError
from samekind.gallery.writing import Place

# For a `Size`, over a subquery that gives each label and how many entries it has.
SIZE = "SELECT coalesce(sum(n), 0), count(label) + coalesce(sum(CASE WHEN label IS NULL THEN n END), 0) FROM"
TEXTS = ("label", "name", "source", "note")


@dataclass(frozen=True)
class Record:
    """An entry: its id, which is never used again, and texts that may be None; `added` is a time in UTC."""

    id: int
    label: str | None
    name: str | None
    source: str | None
    added: str
    note: str | None

    def to_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


COLUMNS = ", ".join(f"r.{field.name}" for field in fields(Record))


@dataclass(frozen=True)
class Hit:
    """An entry that a search found, and its squared distance as of `Metric.code_distance`, in float64."""

    record: Record
    distance: float


@dataclass(frozen=True)
class Answer:
    """The nearest entries, nearest first; of equal distances the code that was added first.

    Of `n_searched` entries `n_computed` had their distance computed; the bound of the quantised copy excluded the rest.
    For a batch, `n_computed` is the mean over its queries. `exact` is False where an index was used, which may miss
    some entries.
    """

    hits: tuple[Hit, ...]
    n_searched: int
    n_computed: int
    exact: bool = True

    @property
    def n_excluded(self) -> int:
        return max(self.n_searched - self.n_computed, 0)


@dataclass(frozen=True)
class Size:
    """How many entries there are, and of how many people: an entry without a label counts as a person of its own."""

    n_entries: int
    n_people: int


@dataclass(frozen=True)
class Removal:
    """What `remove` did. All copies are overwritten when it returns, but for the journal where `journal` is False."""

    ids: tuple[int, ...]
    rows: int
    journal: bool

    def describe(self) -> list[str]:
        records, rows = counted(len(self.ids), "record"), counted(self.rows, "row")
        lines = [
            f"Erased {records}: texts and thumbnails in the database, and {rows} of codes with quantised copies, are "
            "overwritten."
        ]
        if self.journal:
            lines.append("The database's journal is emptied.")
        else:
            lines.append(
                "The database's journal may still hold the texts, because another process is reading from it. It is "
                "emptied by the next change, or when the last process closes the gallery."
            )
        return lines


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def checked_texts(n: int, given: Mapping[str, Sequence[str | None] | str | None]) -> list[tuple[str | None, ...]]:
    """One tuple of label, name, source and note per code; one text stands for all."""
    columns = [_column(name, given.get(name), n) for name in TEXTS]
    return list(zip(*columns, strict=True))


def _column(name: str, values: Sequence[str | None] | str | None, n: int) -> list[str | None]:
    if values is None or isinstance(values, str):
        check_text(name, values)
        return [values] * n
    listed = [None if value is None else str(value) for value in values]
    if len(listed) != n:
        raise GalleryError(f"{name}s must be one for each of the {n} codes; got {len(listed)}.")
    for text in listed:
        check_text(name, text)
    return listed


def check_text(name: str, text: str | None) -> None:
    """A file's name may hold bytes that are no text, which a database cannot keep."""
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise GalleryError(f"The {name} {text!a} holds bytes that are no text. Give it another one.") from error


def names_in(texts: Sequence[tuple[str | None, ...]]) -> list[str]:
    return [name for text in texts if (name := text[TEXTS.index("name")]) is not None]


def rows_of_new_names(texts: Sequence[tuple[str | None, ...]], known: Container[str]) -> list[int]:
    """Rows whose names are not known, each name once; rows without a name are new."""
    seen: set[str] = set()
    rows: list[int] = []
    for row, text in enumerate(texts):
        name = text[TEXTS.index("name")]
        if name is not None:
            if name in known or name in seen:
                continue
            seen.add(name)
        rows.append(row)
    return rows


def ids_of_rows(n: int, rows: Sequence[int], ids: Sequence[int]) -> list[int]:
    """Of n rows, those that were added; 0 for the others."""
    by_row = dict(zip(rows, ids, strict=True))
    return [by_row.get(row, 0) for row in range(n)]


def records_by_id(database: Database, ids: Sequence[int]) -> dict[int, Record]:
    found = database.all_among(f"SELECT {COLUMNS} FROM records r WHERE r.id IN", list(ids))
    return {row[0]: Record(*row) for row in found}


def records_at(database: Database, places: Sequence[Place]) -> dict[Place, Record]:
    """Records by the places of their codes."""
    found: dict[Place, Record] = {}
    query = f"SELECT p.row, {COLUMNS} FROM places p JOIN records r ON r.id = p.id WHERE p.segment = ? AND p.row IN"
    for segment in {segment for segment, _ in places}:
        rows = sorted({row for number, row in places if number == segment})
        found |= {(segment, row[0]): Record(*row[1:]) for row in database.all_among(query, rows, (segment,))}
    return found
