"""Eyes and mouths of pictures, in a CSV."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.files import write_whole
from samekind.images.listing import check_once, file_column, read_table

Floats64: TypeAlias = NDArray[np.float64]
Landmarks: TypeAlias = Mapping[str, NDArray[Any]]

COLUMNS = ("image", "left_eye_x", "left_eye_y", "right_eye_x", "right_eye_y", "mouth_x", "mouth_y")
_FARTHEST = 1e6  # pixel that a landmark may lie at


def read_landmarks(path: str | os.PathLike[str]) -> dict[str, Floats64]:
    """Left eye, right eye and mouth centre (3, 2) of each image in a CSV, by the image's name.

    Columns: ``image`` (or ``file``, ``path``), ``left_eye_x``, ``left_eye_y``, ``right_eye_x``, ``right_eye_y``, and
    the mouth as ``mouth_x``, ``mouth_y`` or as ``left_mouth_x`` ... ``right_mouth_y``, whose middle is taken; others
    are ignored. Pixels of the upright picture, the centre of the first being (0, 0). Some call the person's left
    eye left, some the picture's: here the eye with the smaller x is the left one, whatever its column.
    """
    header, rows = read_table(path)
    column, mouths = file_column(path, header), _mouth_columns(path, header)
    landmarks: dict[str, Floats64] = {}
    lines: dict[str, int] = {}
    for row in rows:
        name = row.fields[column]
        check_once(path, lines, name, name, row.line)
        where = f"{os.fspath(path)}, line {row.line}"
        left, right = sorted(_point(where, row.fields, eye) for eye in ("left_eye", "right_eye"))
        mouth = np.mean([_point(where, row.fields, each) for each in mouths], axis=0)
        landmarks[name] = np.array([left, right, mouth])
    return landmarks


def read_written(path: str | os.PathLike[str]) -> dict[str, Floats64]:
    """What `write_landmarks` wrote; `ValueError` for a CSV with other columns, which writing it again would lose."""
    header, _ = read_table(path)
    if tuple(header) != COLUMNS:
        raise ValueError(
            f"{os.fspath(path)} has the columns {', '.join(header)}; only a CSV of {', '.join(COLUMNS)} can be added "
            "to, since others would be lost. Give another file."
        )
    return read_landmarks(path)


def write_landmarks(path: str | os.PathLike[str], landmarks: Landmarks) -> None:
    """Such a CSV, sorted by name, to a tenth of a pixel; written whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name in sorted(landmarks):
        writer.writerow([name, *(f"{number:.1f}" for number in np.ravel(landmarks[name]))])
    write_whole(Path(path), text.getvalue().encode("utf-8", "surrogateescape"))


def _mouth_columns(path: str | os.PathLike[str], header: list[str]) -> tuple[str, ...]:
    def missing(*points: str) -> list[str]:
        return [f"{point}_{axis}" for point in points for axis in "xy" if f"{point}_{axis}" not in header]

    eyes, corners = missing("left_eye", "right_eye"), missing("left_mouth", "right_mouth")
    if not eyes and not missing("mouth"):
        return ("mouth",)
    if eyes or corners:
        raise ValueError(
            f"{os.fspath(path)} lacks the columns {', '.join(eyes + corners)}; it has: {', '.join(header)}. Needed are "
            "image, left_eye_x, left_eye_y, right_eye_x, right_eye_y, and mouth_x, mouth_y (or left_mouth_x, "
            "left_mouth_y, right_mouth_x, right_mouth_y)."
        )
    return ("left_mouth", "right_mouth")


def _point(where: str, fields: Mapping[str, str], point: str) -> tuple[float, float]:
    return _number(where, fields, f"{point}_x"), _number(where, fields, f"{point}_y")


def _number(where: str, fields: Mapping[str, str], column: str) -> float:
    try:
        number = float(fields[column])
    except ValueError:
        number = math.nan
    if not abs(number) <= _FARTHEST:
        raise ValueError(f"{where}: {column} must be a number of pixels, but is {fields[column]!r:.60}.")
    return number
