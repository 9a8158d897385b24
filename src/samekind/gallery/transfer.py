"""Records and codes as Parquet, or as CSV with a NumPy array beside it."""

from __future__ import annotations

import csv
import errno
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from samekind.files import whole_file
from samekind.gallery.errors import GalleryError
from samekind.gallery.records import TEXTS, Record

if TYPE_CHECKING:
    from samekind.gallery.addresses import Address
    from samekind.gallery.backend import Progress
    from samekind.gallery.gallery import Gallery

BATCH = 4096
COLUMNS = ("id", *TEXTS, "added")
_FINGERPRINT = "fingerprint"
_ABSENT, _ESCAPE = "", "\\"  # None is an empty field; a text that is empty or starts with a backslash gets one more


def export(gallery: Gallery, path: Path, progress: Progress) -> int:
    return (
        _export_parquet(gallery, path, progress) if path.suffix == ".parquet" else _export_csv(gallery, path, progress)
    )


def import_(gallery: Gallery, path: Path, progress: Progress) -> NDArray[np.int64]:
    ids: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    read = _read_parquet if path.suffix == ".parquet" else _read_csv
    done = 0
    for total, fingerprint, texts, codes in read(path):
        columns = {name: [row[name] for row in texts] for name in TEXTS}
        for when, rows in _by_time(texts):
            given: dict[str, Any] = {name: [columns[name][row] for row in rows] for name in TEXTS}
            ids.append(gallery.add(codes[rows], **given, added=when, model=fingerprint or None))
        done += len(texts)
        progress(done, total)
    return np.concatenate(ids)


def copy(source: Gallery, target: Address, progress: Progress) -> int:
    """All records with their codes and thumbnails into a new gallery, or into one of the same model."""
    from samekind.gallery.gallery import Gallery

    if Gallery.exists(target):
        made = Gallery.open(target)
        if made.is_same_as(source):
            made.close()
            raise GalleryError(f"{source.location} cannot be copied into itself: give another gallery, or a new one.")
    elif source.model is None:
        made = Gallery.create(target, length=source.length)
    else:
        made = Gallery.create(target, source.model)
    total, done = len(source), 0
    with made:
        for records, codes in source.iterate(BATCH):
            texts = [{name: record.to_json()[name] for name in (*TEXTS, "added")} for record in records]
            for when, rows in _by_time(texts):
                given: dict[str, Any] = {name: [texts[row][name] for row in rows] for name in TEXTS}
                thumbnails = [source.thumbnail(records[row].id) for row in rows]
                made.add(codes[rows], **given, added=when, thumbnails=thumbnails, model=source.fingerprint)
            done += len(records)
            progress(done, total)
    return done


def _by_time(texts: Sequence[dict[str, str | None]]) -> Iterator[tuple[str | None, list[int]]]:
    """Runs of rows that were added at the same time."""
    start = 0
    for at in range(1, len(texts) + 1):
        if at == len(texts) or texts[at]["added"] != texts[start]["added"]:
            yield texts[start]["added"], list(range(start, at))
            start = at


def _export_csv(gallery: Gallery, path: Path, progress: Progress) -> int:
    """PATH.csv (id, label, name, source, note, added, fingerprint) and PATH.npy with as many rows, both or neither."""
    base = path.with_suffix("") if path.suffix in (".csv", ".npy") else path
    total, done = len(gallery), 0
    fingerprint = gallery.fingerprint
    with (
        whole_file(base.with_name(base.name + ".npy")) as array,
        whole_file(base.with_name(base.name + ".csv")) as table,
    ):
        _write_npy_header(array, total, gallery.length)
        text = io.TextIOWrapper(table, encoding="utf-8", errors="surrogateescape", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((*COLUMNS, _FINGERPRINT))
        for records, codes in gallery.iterate(BATCH):
            writer.writerows((*_fields(record), fingerprint) for record in records)
            array.write(np.ascontiguousarray(codes, np.float32).tobytes())
            done += len(records)
            progress(done, total)
        text.detach()
        if done != total:
            array.seek(0)
            _write_npy_header(array, done, gallery.length)
    return done


def _write_npy_header(file: BinaryIO, rows: int, columns: int) -> None:
    description = {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)}
    npy.write_array_header_1_0(file, description)


def _fields(record: Record) -> list[str]:
    values = record.to_json()
    return [str(record.id), *(_escaped(values[name]) for name in COLUMNS[1:])]


def _escaped(text: str | None) -> str:
    if text is None:
        return _ABSENT
    return _ESCAPE + text if text == "" or text.startswith(_ESCAPE) else text


def _unescaped(field: str) -> str | None:
    if field == _ABSENT:
        return None
    return field[1:] if field.startswith(_ESCAPE) else field


_GIVE = "Give what `samekind gallery export` wrote."
Batch = tuple[int, str, list[dict[str, str | None]], NDArray[np.float32]]


def _read_csv(path: Path) -> Iterator[Batch]:
    base = path.with_suffix("") if path.suffix in (".csv", ".npy") else path
    table, array = base.with_name(base.name + ".csv"), base.with_name(base.name + ".npy")
    codes = _loaded(array)
    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        reader = csv.DictReader(file)
        missing = sorted({*COLUMNS} - {*(reader.fieldnames or ())})
        if missing:
            raise GalleryError(f"{table} has no column {missing[0]}: give a file that a gallery was exported to.")
        n_rows = _n_rows(table)
        if n_rows != len(codes):
            raise GalleryError(f"{table} has {n_rows:,} rows and {array} {len(codes):,}: they do not match.")
        start = 0
        rows: list[dict[str, str]] = []
        for row in reader:
            rows.append(row)
            if len(rows) == BATCH:
                yield _batch(codes, start, rows)
                start, rows = start + len(rows), []
        if rows:
            yield _batch(codes, start, rows)


def _loaded(array: Path) -> NDArray[Any]:
    try:
        codes: NDArray[Any] = np.load(array, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, f"There is no such file to import. {_GIVE} Given", str(array)) from error
    except (ValueError, EOFError) as error:
        raise GalleryError(f"{array} is no array of numbers of NumPy. {_GIVE}") from error
    if codes.ndim != 2 or codes.dtype.kind not in "fiu":
        raise GalleryError(f"{array} holds an array of shape {codes.shape} ({codes.dtype}), not rows of codes. {_GIVE}")
    return codes


def _n_rows(table: Path) -> int:
    """Before anything is added; a text may hold line breaks."""
    with table.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        try:
            return max(sum(1 for _ in csv.reader(file)) - 1, 0)
        except csv.Error as error:
            raise GalleryError(f"{table} is no CSV ({error}). {_GIVE}") from error


def _batch(codes: NDArray[Any], start: int, rows: list[dict[str, str]]) -> Batch:
    part = codes[start : start + len(rows)]
    texts = [{name: _unescaped(row[name] or "") for name in (*TEXTS, "added")} for row in rows]
    return len(codes), rows[0].get(_FINGERPRINT) or "", texts, np.asarray(part)


def _export_parquet(gallery: Gallery, path: Path, progress: Progress) -> int:
    arrow, parquet = _pyarrow()
    kind = arrow.list_(arrow.float32(), gallery.length)
    columns = [("id", arrow.int64()), *((name, arrow.string()) for name in COLUMNS[1:]), ("code", kind)]
    schema = arrow.schema(columns, metadata={_FINGERPRINT: gallery.fingerprint})
    total, done = len(gallery), 0
    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for records, codes in gallery.iterate(BATCH):
            texts = [record.to_json() for record in records]
            arrays = [arrow.array([text[name] for text in texts], schema.field(name).type) for name in COLUMNS]
            arrays.append(arrow.FixedSizeListArray.from_arrays(arrow.array(codes.ravel()), gallery.length))
            writer.write_batch(arrow.record_batch(arrays, schema=schema))
            done += len(records)
            progress(done, total)
    return done


def _read_parquet(path: Path) -> Iterator[Batch]:
    arrow, parquet = _pyarrow()
    try:
        opened = parquet.ParquetFile(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, f"There is no such file to import. {_GIVE} Given", str(path)) from error
    except arrow.ArrowException as error:
        raise GalleryError(f"{path} is no Parquet file ({error}). {_GIVE}") from error
    with opened as file:
        metadata = file.schema_arrow.metadata or {}
        fingerprint = metadata.get(_FINGERPRINT.encode(), b"").decode()
        missing = sorted({*COLUMNS, "code"} - {*file.schema_arrow.names})
        if missing:
            raise GalleryError(f"{path} has no column {missing[0]}: give a file that a gallery was exported to.")
        for part in file.iter_batches(BATCH):
            columns = {name: part.column(name).to_pylist() for name in (*TEXTS, "added")}
            texts = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            codes = part.column("code").flatten().to_numpy(zero_copy_only=False).reshape(len(texts), -1)
            yield file.metadata.num_rows, fingerprint, texts, codes.astype(np.float32)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise GalleryError(
            "Parquet needs pyarrow: pip install pyarrow, or give a name without .parquet for CSV and npy."
        ) from error
    return pyarrow, parquet
