"""Which images there are, in which order, and with which labels: from a folder, a CSV or a single file."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".pbm", ".pgm", ".ppm")

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
    a single image. Hidden files and files that are no images are passed over, and a folder that links lead to again
    is listed once. Whether a file can be read shows only when it is loaded; folders that cannot be read are in the list
    as well, so that loading reports them.
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
    paths = dict(_named(_walk(folder)))
    if not paths:
        what = "is empty" if not any(folder.iterdir()) else f"holds no images ({', '.join(SUFFIXES)})"
        raise ValueError(f"The folder {folder} {what}. {_LAYOUT}")
    stray = [name for name in paths if "/" not in name]
    if labelled and stray:
        raise ValueError(
            f"{len(stray)} of the {len(paths)} images stand directly in {folder}, for example {min(stray)}, "
            f"so they have no label. {_LAYOUT}"
        )
    return [ImageFile(name, path, name.split("/")[0] if labelled else None) for name, path in paths.items()]


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and paths of the images under a folder, and of sub-folders that cannot be read, which end with a slash.

    A folder is listed once, under its own name if it stands under ``folder``, else under that of the first link to it:
    links may run in circles, and folders that link to each other have more paths than can be listed.
    """
    waiting: list[tuple[str, Path]] = [("", folder)]
    links: list[tuple[str, Path]] = []
    listed: set[tuple[int, int]] = set()
    while waiting or links:
        if not waiting:
            links.sort(reverse=True)
        prefix, here = waiting.pop() if waiting else links.pop()
        try:
            status = os.stat(here)
            if (status.st_dev, status.st_ino) in listed:
                continue
            listed.add((status.st_dev, status.st_ino))
            with os.scandir(here) as scan:
                entries = [entry for entry in scan if not entry.name.startswith(".")]
        except OSError:
            if here == folder:
                raise
            yield prefix, here
            continue
        for entry in entries:
            name = prefix + entry.name
            if _is_folder(entry):
                (links if entry.is_symlink() else waiting).append((name + "/", Path(entry.path)))
            elif _is_image(name):
                yield name, Path(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a link to itself
        return False


def _named(found: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path]]:
    """The same with names that are text: bytes that are none are written as numbers."""
    listed = list(found)
    taken = {name for name, _ in listed}
    for name, path in listed:
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        while text != name and text in taken:  # of another file
            text += "\\"
        taken.add(text)
        yield text, path


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


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
        if label is not None and "\0" in label:
            raise ValueError(f"{path}, line {row.line}: the label of {name} has a NUL (a byte of 0) in it. Remove it.")
        if labelled and label is None:
            raise ValueError(f"{path}, line {row.line}: the label of {name} is empty. Give one, or remove the line.")
        file = path.parent / name
        check_once(path, lines, os.path.normpath(file), name, row.line)
        images.append(ImageFile(name, file, label))
    return images


def read_table(path: str | os.PathLike[str]) -> tuple[list[str], list[Row]]:
    """Header (lower case) and rows of a CSV in UTF-8; `ValueError` if it has none or a row does not fit the header."""
    line = 0
    try:
        if not os.path.isfile(path) and os.path.exists(path):  # opening a pipe would wait for a writer
            raise OSError(errno.EINVAL, "This is no plain file; give a CSV", os.fspath(path))
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            lines = []
            for fields in reader:
                line = reader.line_num
                if any(fields):
                    lines.append((line, [field.strip() for field in fields]))
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text ({error}). Save the CSV as UTF-8.") from error
    except csv.Error as error:
        raise ValueError(f"{os.fspath(path)}, after line {line}: this is not a CSV: {error}.") from error
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
