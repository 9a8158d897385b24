"""A metric as arrays and notes, for its file and its fingerprint, and back from those of any version.

`file` knows the bytes; this module knows what they mean to a `Metric`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samekind.images.description import read_description
from samekind.model.basis import Basis
from samekind.model.calibration import Calibration
from samekind.model.similarity import Similarity
from samekind.schema import checked_record

if TYPE_CHECKING:
    from samekind.model.metric import Metric

NOT_OF_CODES = ("threshold", "calibration", "attributes")  # notes that say how codes are judged, or who made them
_USAGE = ("normalise", "mirror", "threshold", "extractor", "attributes")
_OF_BASIS = ("n_features", "groups", "normalise", "weigh", "feature_names")


def arrays_of(metric: Metric) -> dict[str, NDArray[Any]]:
    """By their names in a file."""
    arrays = {f"basis.{name}": array for name, array in metric.basis.arrays().items()}
    if metric.components is not None:
        arrays |= {"components": metric.components}
    if metric.similarity is not None:
        arrays |= {f"similarity.{name}": array for name, array in metric.similarity.arrays().items()}
    return arrays


def notes_of(metric: Metric) -> dict[str, Any]:
    """All that is not an array, as JSON keeps it."""
    return {
        "basis": metric.basis.notes(),
        "normalise": metric.normalise,
        "mirror": metric.mirror,
        "threshold": metric.threshold,
        "calibration": None if metric.calibration is None else metric.calibration.to_json(),
        "extractor": None if metric.extractor is None else dict(metric.extractor),
        "attributes": dict(metric.attributes),
    }


def fields_from_file(arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> dict[str, Any]:
    """The fields of the metric that a file of any version holds."""
    if notes.get("extractor") is not None:
        read_description(notes["extractor"])
    if notes["format_version"] < 5:
        return _fields_from_earlier_file(arrays, notes)
    checked_record(notes, "The file", ("format", "format_version", "basis", "calibration", *_USAGE))
    basis = checked_record(notes["basis"], "basis", _OF_BASIS)
    similarity, calibration = _named("similarity.", arrays), notes["calibration"]
    return {
        "basis": Basis(**_named("basis.", arrays), **basis),
        "components": arrays.get("components"),
        "calibration": None if calibration is None else Calibration.from_json(calibration),
        "similarity": Similarity(**similarity) if similarity else None,
        **{name: notes[name] for name in _USAGE},
    }


def _named(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _fields_from_earlier_file(arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> dict[str, Any]:
    """Versions 1 to 4: components over columns, or, in version 4, over the normalised features of groups."""
    shared = {
        "columns": arrays["columns"],
        "mean": arrays.get("mean"),
        "n_features": notes["n_features"],
        "groups": notes["groups"],
        "feature_names": notes["feature_names"],
    }
    by = notes.get("normalise_groups")
    if by is not None:
        missing = [name for name in ("group_values", "group_rows", "group_columns") if name not in arrays]
        if missing:
            raise ValueError("its groups are normalised, but what they are is missing.")
        rows = arrays["group_rows"]
        blocks = {"values": arrays["group_values"], "rows": rows, "owners": arrays["group_columns"]}
        shared |= blocks | {"eigenvalues": np.ones(len(rows)), "normalise": by}
    return {
        "basis": Basis(**shared),
        "components": arrays["components"],
        "normalise": notes.get("normalise", "none"),
        "threshold": notes["threshold"],
        "extractor": notes.get("extractor"),
        "attributes": notes["attributes"],
    }
