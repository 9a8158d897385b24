"""A gallery's way to another model: its codes beside the old ones, compared, then in their place.

Codes of the next model have segments of their own. What was encoded is durable batch by batch, so that an interrupted
`reencode` goes on where it stopped. Searches use the old model until the switch, one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.layout import fsync_folder, remove_files
from samekind.gallery.records import COLUMNS, Record, records_by_id
from samekind.model.metric import Metric

if TYPE_CHECKING:
    from samekind.gallery.gallery import Gallery, Progress


@dataclass(frozen=True)
class Reencoding:
    """How far the next model is: records with its codes, and ids of those that could not be encoded."""

    model: int
    n_encoded: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """A record whose nearest other record differs between the models."""

    record: Record
    before: Record
    after: Record


@dataclass(frozen=True)
class Comparison:
    """Nearest neighbours with the next model against those of the present one, over `n_queries` records as queries."""

    n_queries: int
    k: int
    overlap: float  # mean share of the k nearest that stay among them
    changed: tuple[Change, ...]  # queries whose very nearest is another

    def describe(self) -> list[str]:
        return [
            f"Of the {self.k} nearest of {self.n_queries:,} records, {100 * self.overlap:.1f} % stay among them.",
            f"{len(self.changed):,} of {self.n_queries:,} records get another nearest neighbour.",
        ]


def reencode(
    gallery: Gallery,
    model: Metric,
    encode: Callable[[list[Record]], Sequence[ArrayLike | None]],
    batch: int,
    progress: Progress,
) -> Reencoding:
    """`encode` gives a code of the new model for each of some records, None where that is not possible."""
    number = _begin(gallery, model)
    missing: list[int] = []
    total, last = len(gallery), 0
    while True:
        records = _lacking(gallery, number, last, batch)
        if not records:
            break
        last = records[-1].id
        codes = encode(records)
        if len(codes) != len(records):
            raise GalleryError(f"encode was given {len(records)} records and returned {len(codes)} codes.")
        missing += [record.id for record, code in zip(records, codes, strict=True) if code is None]
        made = [(record.id, code) for record, code in zip(records, codes, strict=True) if code is not None]
        if made:
            rows = gallery._checked_codes(np.array([np.asarray(code) for _, code in made]), number)
            _keep(gallery, number, [at for at, _ in made], rows)
        progress(_n_encoded(gallery, number), total)
    return Reencoding(number, _n_encoded(gallery, number), tuple(missing))


def _begin(gallery: Gallery, model: Metric) -> int:
    """The number of the next model, new or from an earlier call."""
    if model.fingerprint == gallery.fingerprint:
        raise GalleryError(f"{gallery.path} has codes of this very model already.")
    started = gallery.next_model
    if started is not None:
        if gallery._model(started)[1] != model.fingerprint:
            raise GalleryError(
                f"{gallery.path} is being moved to another model. Finish that with switch, or give it up with abandon."
            )
        return started
    form = CodeForm.of_model(model)
    with gallery._writing():
        database = gallery._writable
        number = int(database.one("SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'models'")[0])
        file = f"{number:06d}.safetensors"
        model.save(gallery.path / file)
        fsync_folder(gallery.path)
        database.run("INSERT INTO models VALUES (?, ?, ?, ?)", (number, model.fingerprint, form.length, file))
    return number


def _lacking(gallery: Gallery, model: int, after: int, most: int) -> list[Record]:
    """Records that have no code of a model yet, in order of their ids."""
    rows = gallery._reads.all(
        f"SELECT {COLUMNS} FROM records r WHERE r.id > ? AND NOT EXISTS (SELECT 1 FROM places p JOIN segments s ON "
        "s.segment = p.segment WHERE p.id = r.id AND s.model = ?) ORDER BY r.id LIMIT ?",
        (after, model, most),
    )
    return [Record(*row) for row in rows]


def _keep(gallery: Gallery, model: int, ids: Sequence[int], codes: np.ndarray) -> None:
    """Codes of records that are still there."""
    with gallery._writing() as state:
        known = records_by_id(gallery._writable, ids)
        there = [at for at, number in enumerate(ids) if number in known]
        places = gallery._writer(state, model).append(codes[there])
        gallery._writable.run_many(
            "INSERT INTO places VALUES (?, ?, ?)",
            ((*place, ids[at]) for place, at in zip(places, there, strict=True)),
        )


def _n_encoded(gallery: Gallery, model: int) -> int:
    row = gallery._reads.one("SELECT coalesce(sum(live), 0) FROM segments WHERE model = ?", (model,))
    return int(row[0])


def compare(gallery: Gallery, k: int, n_queries: int, seed: int) -> Comparison:
    """Records that have codes of both models, drawn at random, as queries against all others."""
    number = _next(gallery)
    ids = [
        row[0]
        for row in gallery._reads.all(
            "SELECT p.id FROM places p JOIN segments s ON s.segment = p.segment WHERE s.model = ? ORDER BY p.id",
            (number,),
        )
    ]
    if len(ids) < 2:
        raise GalleryError("Fewer than two records have codes of the next model: run reencode first.")
    rng = np.random.default_rng(seed)
    drawn = sorted(rng.choice(ids, min(n_queries, len(ids)), replace=False).tolist())
    before = _neighbours(gallery, drawn, k, None)
    after = _neighbours(gallery, drawn, k, number)
    shares, changed = [], []
    for query, old, new in zip(gallery.records(drawn), before, after, strict=True):
        shares.append(len({r.id for r in old} & {r.id for r in new}) / max(len(old), 1))
        if old and new and old[0].id != new[0].id:
            changed.append(Change(query, old[0], new[0]))
    return Comparison(len(drawn), k, float(np.mean(shares)), tuple(changed))


def _neighbours(gallery: Gallery, ids: Sequence[int], k: int, model: int | None) -> list[list[Record]]:
    """The k nearest others of each record; a record is left out by its id."""
    codes = gallery.codes(ids, model=model)
    answers = gallery.search_many(codes, k + 1, model=model)
    return [
        [hit.record for hit in answer.hits if hit.record.id != at][:k] for at, answer in zip(ids, answers, strict=True)
    ]


def switch(gallery: Gallery, remove_missing: bool) -> None:
    number = _next(gallery)
    missing = [record.id for record in _lacking(gallery, number, 0, len(gallery) + 1)]
    if missing and not remove_missing:
        raise GalleryError(
            f"{len(missing):,} records, such as {missing[0]}, have no code of the next model. Run reencode again, or "
            "switch with remove_missing=True to erase them."
        )
    if missing:
        gallery.remove(missing)
    with gallery._writing(changes=True) as state:
        lacking = _lacking_count(gallery, number)
        if lacking:
            raise GalleryError(f"{lacking:,} records were added meanwhile: run reencode again before the switch.")
        gallery._writable.run("UPDATE state SET model = ?", (number,))
        names = _forget(gallery, state.model)
    _clean(gallery, names)


def abandon(gallery: Gallery) -> None:
    number = _next(gallery)
    with gallery._writing(changes=True):
        names = _forget(gallery, number)
    _clean(gallery, names)


def _lacking_count(gallery: Gallery, model: int) -> int:
    n_records = gallery._writable.one("SELECT count(*) FROM records")[0]
    n_codes = gallery._writable.one("SELECT coalesce(sum(live), 0) FROM segments WHERE model = ?", (model,))[0]
    return int(n_records - n_codes)


def _forget(gallery: Gallery, model: int) -> list[str]:
    """All of a model but its files, whose names are returned."""
    database = gallery._writable
    segments = database.all("SELECT segment, codes_file, int8_file FROM segments WHERE model = ?", (model,))
    names = [name for row in segments for name in row[1:]]
    names += [
        name for (name,) in database.all("SELECT file FROM models WHERE model = ? AND file IS NOT NULL", (model,))
    ]
    for segment, *_ in segments:
        for table in ("places", "blocks", "segments"):
            database.run(f"DELETE FROM {table} WHERE segment = ?", (segment,))
    database.run("DELETE FROM models WHERE model = ?", (model,))
    return names


def _clean(gallery: Gallery, names: list[str]) -> None:
    remove_files(gallery.path, names)
    gallery.remove_caches()
    gallery._views.clear()
    gallery._writable.truncate_journal()


def _next(gallery: Gallery) -> int:
    number = gallery.next_model
    if number is None:
        raise GalleryError(f"{gallery.path} has no next model: run reencode first.")
    return number
