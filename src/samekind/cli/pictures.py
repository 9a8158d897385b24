"""Pictures to codes with a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samekind.cli.options import Several

if TYPE_CHECKING:
    from samekind.model.encoder import Encoder
    from samekind.model.metric import Metric


def encoder_of(metric: Metric, *, landmarks: os.PathLike[str] | Mapping[str, Any] | None, several: Several) -> Encoder:
    """The metric's encoder; says which option is missing."""
    if metric.extractor is not None and metric.extractor.get("alignment") == "landmarks" and landmarks is None:
        raise ValueError(
            "The pictures of this model were aligned by landmarks, and others must be too: give --landmarks, a CSV of "
            "their eyes and mouth."
        )
    return metric.encoder(landmarks=landmarks, several=several)


def landmarks_for(path: Path | None, pictures: Mapping[str, Path]) -> dict[str, Any] | None:
    """Landmarks of single pictures by their name here: of the line that names most of the picture's path."""
    if path is None:
        return None
    from samekind.images.align import read_landmarks

    landmarks = read_landmarks(path)
    found = {}
    for name, picture in pictures.items():
        parts = Path(os.path.abspath(picture)).parts
        tails = [str(picture), *("/".join(parts[start:]) for start in range(1, len(parts)))]
        named = next((tail for tail in tails if tail in landmarks), None)
        if named is None:
            raise ValueError(f"{path} has no line for {picture}; it names images like {next(iter(landmarks))}.")
        found[name] = landmarks[named]
    return found
