"""Published ROC curves on View 2, to stand beside ours: a folder with `results.csv` and a file for each method."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samekind.evaluation import RocCurve

RESULTS = "results.csv"
COLUMNS = ("method", "accuracy", "standard_error", "roc_file")


@dataclass(frozen=True)
class PublishedResult:
    """Accuracy and its standard error in percent, as printed, and the curve."""

    method: str
    accuracy: float
    standard_error: float
    roc: RocCurve


def read_published(folder: Path) -> list[PublishedResult]:
    """The methods in `results.csv`, whose columns are method, accuracy, standard_error and roc_file, in its order."""
    path = folder / RESULTS
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    made = []
    for line, row in enumerate(rows, 2):
        try:
            method, accuracy, error, name = (row[column] for column in COLUMNS)
            made.append(PublishedResult(method, float(accuracy), float(error), read_curve(folder / name)))
        except (KeyError, TypeError, ValueError) as problem:
            raise ValueError(
                f"{path}, line {line}: {problem}. It needs the columns {', '.join(COLUMNS)}, and of each method a file "
                "with a true and a false match rate per line."
            ) from problem
    return made


def read_curve(path: Path) -> RocCurve:
    """Points of a true and a false match rate per line, in any order; files with the two the other way round are known
    by their true match rates being lower."""
    points = np.loadtxt(path, ndmin=2)
    if points.shape[1:] != (2,) or not ((points >= 0) & (points <= 1)).all():
        raise ValueError(f"{path.name} must have two rates from 0 to 1 on each line")
    true, false = points.T if points[:, 0].mean() >= points[:, 1].mean() else points.T[::-1]
    true, false = (np.sort(np.concatenate([[0.0], rates, [1.0]])) for rates in (true, false))  # both rise together
    return RocCurve(false, true, np.full(len(true), np.nan))
