"""Searches of a gallery on a PostgreSQL server: exact ones, and by an HNSW index of pgvector.

The server sorts by distances that it computes in float32. A bound on their rounding errors says how many rows have to
be computed again in float64 for the result to be exact (`nearest`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from samekind.gallery.backend import Codes, Progress
from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.recall import ExactNeighbours, IndexReport
from samekind.gallery.records import COLUMNS, Answer, Hit, Record
from samekind.gallery.server import Server, unpacked_codes, vector_text

if TYPE_CHECKING:
    from samekind.gallery.postgres import PostgresGallery

MARGIN = 16  # rows that are fetched beyond those asked for
MOST_EF = 1000  # of pgvector's HNSW search
MOST_INDEXED = 2000  # numbers of a vector in its index
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ModelCodes:
    """Codes of one model on a server, inside a transaction."""

    server: Server
    model: int
    form: CodeForm

    def n_searched(self, labels: Sequence[str] | None) -> int:
        if labels is None:
            return int(self.server.one(f"SELECT count(*) FROM codes_{self.model}")[0])
        query = f"SELECT count(*) FROM codes_{self.model} c JOIN records r ON r.id = c.id WHERE r.label = ANY(%s)"
        return int(self.server.one(query, (list(labels),))[0])

    def nearest(self, code: Codes, k: int, labels: Sequence[str] | None, n: int) -> Answer:
        """The k nearest, exactly: rows in the order of a lower bound, until it exceeds the k-th smallest distance.

        The server's float32 sum of squares f is at most (1 + g) times the true one, g = (r + 3) 2^-24 and a little more
        (Higham, 2002, section 3.1; all terms are positive), or infinite. So f / (1 + g) + s never exceeds the distance
        by more than what underflows.
        """
        form = self.form
        vector, own = form.query(code)
        factor = 1 / (1 + 1.01 * (form.width + 3) * 2.0**-24)
        where = "" if labels is None else "WHERE r.label = ANY(%(labels)s)"
        query = (
            f"SELECT c.place, c.vector, c.number, {_bound(form)} AS bound, {COLUMNS} "
            f"FROM codes_{self.model} c JOIN records r ON r.id = c.id {where} ORDER BY bound, c.place LIMIT %(limit)s"
        )
        given = {"query": vector_text(code[: form.width]), "factor": factor, "labels": list(labels or ())}
        limit = k + MARGIN
        while True:
            rows = self.server.all_binary(query, {**given, "limit": limit})
            answer = _ranked(rows, form, vector, own, k)
            if len(rows) < limit or len(answer) < k:
                break
            bound = rows[-1][3]
            if answer[-1].distance - own < bound - 1e-12 * abs(bound) - 1e-30:
                break
            limit *= 4
        return Answer(tuple(answer), n, len(rows))

    def near(self, code: Codes, k: int, lowest: float, n: int) -> Answer:
        """The k nearest of those that the HNSW index finds, ranked by their distances in float64."""
        form = self.form
        vector, own = form.query(code)
        query = (
            f"SELECT c.place, c.vector, c.number, 0, {COLUMNS} FROM (SELECT * FROM codes_{self.model} "
            f"ORDER BY {_point(form, lowest)} <-> %s::vector LIMIT %s) c JOIN records r ON r.id = c.id"
        )
        point = code[: form.width] if form.width == form.length else np.append(code[: form.width], np.float32(0))
        rows = self.server.all_binary(query, (vector_text(point), k + MARGIN))
        return Answer(tuple(_ranked(rows, form, vector, own, k)), n, len(rows), exact=False)

    def approximate(self, codes: Codes, k: int) -> list[Answer] | None:
        """By the HNSW index; None where there is none."""
        ef, lowest = self.server.one("SELECT ef, lowest FROM models WHERE model = %s", (self.model,))
        there = self.server.one("SELECT to_regclass(%s)", (f"near_{self.model}",))[0] is not None
        if ef is None or not there:
            return None
        n = self.n_searched(None)
        self.server.run("SET LOCAL enable_seqscan TO off")
        self.server.run(f"SET LOCAL hnsw.ef_search TO {max(ef, min(k, MOST_EF))}")
        return [self.near(code, k, lowest, n) for code in codes]


def build_index(
    gallery: PostgresGallery, codes: ModelCodes, recall: float, k: int, n_queries: int, progress: Progress
) -> IndexReport:
    """An HNSW index, and the number of candidates that the wanted recall needs."""
    started = time.perf_counter()
    server, model, form, n = codes.server, codes.model, codes.form, len(gallery)
    if form.width + 1 > MOST_INDEXED:
        raise GalleryError(f"pgvector's HNSW index takes up to {MOST_INDEXED:,} numbers; codes have {form.length:,}.")
    gallery.drop_index()
    lowest = server.one(f"SELECT coalesce(min({_offset(form)}), 0)::float8 FROM codes_{model} c")[0]
    server.run_alone(f"CREATE INDEX near_{model} ON codes_{model} USING hnsw ({_point(form, lowest)} vector_l2_ops)")
    ef, exact = 16, ExactNeighbours.drawn_from(gallery, k, n_queries)
    while True:
        with server.writing():
            server.run("UPDATE models SET ef = %s, lowest = %s WHERE model = %s", (ef, lowest, model))
        measured = exact.measure(gallery)
        if measured.recall >= recall or ef >= MOST_EF:
            break
        ef = min(2 * ef, MOST_EF)
    progress(n, n)
    return IndexReport("hnsw", n, ef, measured, time.perf_counter() - started)


def _bound(form: CodeForm) -> str:
    """A lower bound of `||u - q||^2 + s`, as the server computes it."""
    squares = f"least(vector_l2_squared_distance(c.vector, %(query)s::vector), {_LARGEST!r}) * %(factor)s::float8"
    return f"({squares} + {_offset(form)})"


def _offset(form: CodeForm) -> str:
    """s of a row, from the number beside its vector: the same as `CodeForm.offsets`."""
    if form.width == form.length:
        return "0"
    probe = np.zeros((1, form.length), np.float32)
    probe[0, -1] = -2
    return "c.number::float8 * c.number::float8" if form.offsets(probe)[0] == 4 else "c.number::float8"


def _point(form: CodeForm, lowest: float) -> str:
    """What the index holds: vectors, with one coordinate more where codes have a number (`samekind.gallery.cells`)."""
    if form.width == form.length:
        return "(vector)"
    last = f"sqrt(greatest({_offset(form).replace('c.', '')} - ({lowest!r}), 0))"
    return f"((vector || ARRAY[{last}]::real[]::vector)::vector({form.width + 1}))"


def _ranked(rows: Sequence[Sequence[Any]], form: CodeForm, vector: Any, own: float, k: int) -> list[Hit]:
    """Rows by their distances in float64, then by place."""
    from samekind.kernels.nearest import distances_to

    codes = unpacked_codes([row[1:3] for row in rows], form)
    distances = distances_to(codes, form.offsets(codes), vector)
    order = np.lexsort((np.array([row[0] for row in rows], np.int64), distances))[:k]
    return [Hit(Record(*rows[at][4:]), float(distances[at]) + own) for at in order]
