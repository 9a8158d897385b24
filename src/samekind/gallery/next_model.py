"""The next model of a gallery in a folder: its codes have segments of their own, until they are the only ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.layout import MODEL_END, fsync_folder, remove_files
from samekind.gallery.records import COLUMNS, Record, records_by_id

if TYPE_CHECKING:
    from samekind.gallery.backend import Codes
    from samekind.gallery.folder import FolderGallery


def begin(gallery: FolderGallery, form: CodeForm, fingerprint: str) -> int:
    """Keep the model; its number."""
    with gallery._writing():
        database = gallery._writable
        number = int(database.one("SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'models'")[0])
        file = None if form.model is None else f"{number:06d}{MODEL_END}"
        if form.model is not None:
            form.model.save(gallery.path / str(file))
            fsync_folder(gallery.path)
        database.run("INSERT INTO models VALUES (?, ?, ?, ?)", (number, fingerprint, form.length, file))
    return number


def lacking(gallery: FolderGallery, model: int, after: int, most: int) -> list[Record]:
    """Records that have no code of a model yet, in order of their ids."""
    rows = gallery._reads.all(
        f"SELECT {COLUMNS} FROM records r WHERE r.id > ? AND NOT EXISTS (SELECT 1 FROM places p JOIN segments s ON "
        "s.segment = p.segment WHERE p.id = r.id AND s.model = ?) ORDER BY r.id LIMIT ?",
        (after, model, most),
    )
    return [Record(*row) for row in rows]


def keep(gallery: FolderGallery, model: int, ids: Sequence[int], codes: Codes) -> None:
    """Codes of records that are still there."""
    with gallery._writing() as state:
        known = records_by_id(gallery._writable, ids)
        there = [at for at, number in enumerate(ids) if number in known]
        places = gallery._writer(state, model).append(codes[there])
        gallery._writable.run_many(
            "INSERT INTO places VALUES (?, ?, ?)",
            ((*place, ids[at]) for place, at in zip(places, there, strict=True)),
        )


def n_encoded(gallery: FolderGallery, model: int) -> int:
    row = gallery._reads.one("SELECT coalesce(sum(live), 0) FROM segments WHERE model = ?", (model,))
    return int(row[0])


def encoded(gallery: FolderGallery, model: int) -> list[int]:
    """Ids of the records that have a code of a model."""
    rows = gallery._reads.all(
        "SELECT p.id FROM places p JOIN segments s ON s.segment = p.segment WHERE s.model = ? ORDER BY p.id", (model,)
    )
    return [row[0] for row in rows]


def switch_to(gallery: FolderGallery, model: int) -> None:
    """Refused while records lack a code of the model."""
    with gallery._writing(changes=True) as state:
        missing = _n_lacking(gallery, model)
        if missing:
            raise GalleryError(f"{missing:,} records were added meanwhile: run reencode again before the switch.")
        gallery._writable.run("UPDATE state SET model = ?", (model,))
        names = _forget(gallery, state.model)
    _clean(gallery, names)


def forget_next(gallery: FolderGallery, model: int) -> None:
    with gallery._writing(changes=True):
        names = _forget(gallery, model)
    _clean(gallery, names)


def _n_lacking(gallery: FolderGallery, model: int) -> int:
    n_records = gallery._writable.one("SELECT count(*) FROM records")[0]
    n_codes = gallery._writable.one("SELECT coalesce(sum(live), 0) FROM segments WHERE model = ?", (model,))[0]
    return int(n_records - n_codes)


def _forget(gallery: FolderGallery, model: int) -> list[str]:
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


def _clean(gallery: FolderGallery, names: list[str]) -> None:
    remove_files(gallery.path, names)
    gallery.remove_caches()
    gallery._views.clear()
    gallery._writable.truncate_journal()
