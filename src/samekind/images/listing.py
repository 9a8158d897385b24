"""Which images there are, in which order, and with which labels: from a folder, a CSV or a single file."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".pgm", ".ppm")

_LAYOUT = (
    "Give a folder with one sub-folder of images per label, such as faces/Ann/1.jpg and faces/Bob/1.jpg, "
    "or a CSV with the columns file and label."
)


@dataclass(frozen=True)
class ImageFile:
    """One image: ``name`` is its id, the path as given relative to the folder or written in the CSV."""

    name: str
    path: Path
    label: str | None


@dataclass(frozen=True)
class Row:
    """One row of a CSV: its line in the file and its fields by column."""

    line: int
    fields: dict[str, str]


def list_images(source: str | os.PathLike[str], *, labelled: bool) -> list[ImageFile]:
    """All images of ``source``, sorted by name.

    ``source`` is a folder with one sub-folder per label, or a CSV with columns ``file`` (or ``image``, ``path``) and
    ``label``, its paths relative to the CSV. If not ``labelled``, also any folder of images, a CSV without labels, or
    a single image. Hidden files and files that are no images are passed over. Whether a file can be read shows only
    when it is loaded.
    """
    path = Path(source)
    if path.is_dir():
        images = _from_folder(path, labelled)
    elif not path.exists():
        raise FileNotFoundError(errno.ENOENT, f"There is no such folder or file. {_LAYOUT} Given", str(path))
    elif path.suffix.lower() == ".csv":
        images = _from_csv(path, labelled)
    elif _is_image(path.name) and not labelled:
        images = [ImageFile(path.name, path, None)]
    else:
        kind = "a single image, which has no label" if _is_image(path.name) else "neither a folder nor a CSV"
        raise ValueError(f"{path} is {kind}. {_LAYOUT}")
    return sorted(images, key=lambda image: image.name)


def _from_folder(folder: Path, labelled: bool) -> list[ImageFile]:
    names = list(_walk(folder, "", frozenset()))
    if not names:
        what = "is empty" if not any(folder.iterdir()) else f"holds no images ({', '.join(SUFFIXES)})"
        raise ValueError(f"The folder {folder} {what}. {_LAYOUT}")
    stray = [name for name in names if "/" not in name]
    if labelled and stray:
        raise ValueError(
            f"{len(stray)} of the {len(names)} images stand directly in {folder}, for example {min(stray)}, "
            f"so they have no label. {_LAYOUT}"
        )
    return [ImageFile(name, folder / name, name.split("/")[0] if labelled else None) for name in names]


def _walk(folder: Path, prefix: str, above: frozenset[str]) -> Iterator[str]:
    """Names of the images under ``folder``; a link back to a folder ``above`` is not followed."""
    here = os.path.realpath(folder)
    if here in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            name = prefix + entry.name
            if entry.is_dir():
                yield from _walk(Path(entry.path), name + "/", above | {here})
            elif _is_image(name):
                _check_name(name, folder)
                yield name


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _check_name(name: str, folder: Path) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"The name {name!r} in {folder} is not valid UTF-8; rename the file.") from error


def _from_csv(path: Path, labelled: bool) -> list[ImageFile]:
    header, rows = read_table(path)
    column = file_column(path, header)
    if labelled and "label" not in header:
        raise ValueError(f"{path} has no column label; its columns are: {', '.join(header)}. {_LAYOUT}")
    images: list[ImageFile] = []
    lines: dict[str, int] = {}
    for row in rows:
        name, label = row.fields[column], row.fields.get("label") or None
        if not name:
            raise ValueError(f"{path}, line {row.line}: the file name is empty.")
        if labelled and label is None:
            raise ValueError(f"{path}, line {row.line}: the label of {name} is empty. Give one, or remove the line.")
        file = path.parent / name
        check_once(path, lines, os.path.normpath(file), name, row.line)
        images.append(ImageFile(name, file, label))
    return images


def read_table(path: str | os.PathLike[str]) -> tuple[list[str], list[Row]]:
    """Header (lower case) and rows of a CSV in UTF-8; `ValueError` if it has none or a row does not fit the header."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [field.strip() for field in fields]) for fields in reader if any(fields)]
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text ({error}). Save the CSV as UTF-8.") from error
    except csv.Error as error:
        raise ValueError(f"{os.fspath(path)} is not a CSV: {error}.") from error
    if len(lines) < 2:
        what = "holds a header but no rows" if lines else "is empty"
        raise ValueError(f"{os.fspath(path)} {what}. Its first line must name the columns, each other line one image.")
    header = [name.lower() for name in lines[0][1]]
    return header, [Row(number, _fields(path, header, number, values)) for number, values in lines[1:]]


def _fields(path: str | os.PathLike[str], header: Sequence[str], line: int, values: Sequence[str]) -> dict[str, str]:
    if len(values) != len(header):
        raise ValueError(
            f"{os.fspath(path)}, line {line}: {len(values)} fields, but the header has {len(header)}. "
            'A name with a comma in it must stand in "quotes".'
        )
    return dict(zip(header, values, strict=True))


def file_column(path: str | os.PathLike[str], header: Sequence[str]) -> str:
    """Which column names the image."""
    for name in ("file", "image", "path"):
        if name in header:
            return name
    raise ValueError(
        f"{os.fspath(path)} has no column file (or image, or path); its columns are: {', '.join(header)}. "
        "The first line must name the columns, separated by commas."
    )


def check_once(path: str | os.PathLike[str], lines: dict[str, int], key: str, name: str, line: int) -> None:
    """Note that ``key`` stands in ``line``; `ValueError` if it stood in an earlier one."""
    if key in lines:
        raise ValueError(f"{os.fspath(path)}: {name} stands in lines {lines[key]} and {line}. Keep one of them.")
    lines[key] = line
