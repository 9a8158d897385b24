"""`samekind encode`"""

import csv
import io
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import reasons
from samekind.cli.options import ModelArgument, PictureOptions, RunOptions
from samekind.cli.output import (
    MOST_SHOWN,
    check_writable,
    duration,
    none_can,
    say_error,
    say_facts,
    say_json,
    say_list,
)
from samekind.cli.pictures import encode_files, landmarks_for, say_skipped

if TYPE_CHECKING:
    from samekind.images.listing import ImageFile
    from samekind.kernels.types import Array

HEADER = ("row", "file", "label")
UNUSABLE = 1  # exit status


def encode(
    model: ModelArgument,
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", help="A picture, a folder of pictures or of folders, or a CSV of file.")
    ],
    out: Annotated[Path, typer.Option("--out", help="File for the codes, ending in .npy; a .csv comes beside it.")],
    reading: PictureOptions,
    running: RunOptions,
) -> None:
    """Turn pictures into short codes: close codes mean the same kind.

    Only the regions that the model has chosen are computed. Writes an array of float32, a row per picture, for
    numpy.load, and beside it a CSV (row, file, label) that says which row is which file. Files that cannot be used are
    in neither, and are reported.

    In Python, Metric.code_distance compares codes. It is squared Euclidean distance, unless the model has a similarity
    term (see `samekind info`), or counts mirror images by the mean of four distances: then one number of a code counts
    otherwise than the others (Metric.split_codes).

    Example: samekind encode faces.safetensors holiday/ --out holiday.npy
    """
    started = time.perf_counter()
    table = _table_beside(out, images)
    for target in (out, table):
        check_writable(target)

    from samekind.images.listing import list_images
    from samekind.model.metric import Metric

    metric = Metric.load(model)
    files = labelled_by_folder(images, list_images(images, labelled=False))
    encoded = encode_files(metric, files, landmarks_of(reading.landmarks, images, files), reading, running)
    kept = [file for file in files if file.name not in encoded.skipped]
    if kept:
        _write(out, encoded.codes, table, kept)
    result = {
        "codes": str(out) if kept else None,
        "table": str(table) if kept else None,
        "images": len(kept),
        "length": encoded.codes.shape[1],
        "mirror": metric.mirror,
        "similarity": None if metric.similarity is None else metric.similarity.n_codes,
        "skipped": {file.name: encoded.skipped[file.name] for file in files if file.name in encoded.skipped},
        "notes": {file.name: encoded.notes[file.name] for file in files if file.name in encoded.notes},
        "seconds": round(time.perf_counter() - started, 3),
    }
    if running.json:
        say_json(result)
    elif kept:
        _say_result(result)
    if not kept:
        say_error(f"{none_can(len(files), 'file')} be used, so nothing was written.")
        say_list("Skipped", reasons(result["skipped"]), MOST_SHOWN, "--json shows all", stderr=True)
        raise typer.Exit(UNUSABLE)


def _say_result(result: dict[str, Any]) -> None:
    say_facts(
        [
            ("Codes", f"{result['codes']}: {result['images']:,} x {result['length']}, float32"),
            ("Rows", result["table"]),
            ("Time", duration(result["seconds"])),
        ]
    )
    say_skipped(result)


def _table_beside(out: Path, images: Path) -> Path:
    """The CSV that goes with the codes; never in the place of a list of pictures."""
    if out.suffix != ".npy":
        raise ValueError(f"--out {out} must end in .npy, such as {out.with_suffix('.npy')}.")
    table = out.with_suffix(".csv")
    if table.is_file():
        with table.open("rb") as file:
            first = file.readline(200).decode("utf-8", "replace").strip()
        if first != ",".join(HEADER) or (images.exists() and table.samefile(images)):
            raise ValueError(
                f"{table} would be replaced by the list of rows, but is a file of yours: give another --out."
            )
    return table


def labelled_by_folder(images: Path, files: "list[ImageFile]") -> "list[ImageFile]":
    """In a folder of folders, labels are the folders' names, as for `samekind extract`."""
    if not images.is_dir() or not all("/" in file.name for file in files):
        return files
    return [replace(file, label=file.name.split("/")[0]) for file in files]


def landmarks_of(path: Path | None, images: Path, files: "Sequence[ImageFile]") -> Any:
    """By the files' names; a single picture may have a longer name in the CSV."""
    if path is None or images.is_dir() or images.suffix.lower() == ".csv":
        return path
    return landmarks_for(path, {file.name: file.path for file in files})


def _write(out: Path, codes: "Array", table: Path, files: "Sequence[ImageFile]") -> None:
    """Both, or neither."""
    import numpy as np

    from samekind.files import whole_file, write_array_into

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((row, file.name, file.label or "") for row, file in enumerate(files))
    with whole_file(out) as codes_file, whole_file(table) as table_file:
        write_array_into(codes_file, codes.astype(np.float32))
        table_file.write(text.getvalue().encode("utf-8", "surrogateescape"))
        for file in (codes_file, table_file):  # a full disk is noticed before either takes its name
            file.flush()
            os.fsync(file.fileno())
