"""Pictures to codes with a model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samekind.cli.described import reasons, remarks
from samekind.cli.options import PictureOptions, RunOptions, Several
from samekind.cli.output import MOST_SHOWN, counting, say_list

if TYPE_CHECKING:
    from samekind.images.listing import ImageFile
    from samekind.model.encoder import Encoded, Encoder
    from samekind.model.metric import Metric


def encoder_of(metric: Metric, *, landmarks: os.PathLike[str] | Mapping[str, Any] | None, several: Several) -> Encoder:
    """The metric's encoder; says which option is missing."""
    if metric.extractor is not None and metric.extractor.get("alignment") == "landmarks" and landmarks is None:
        raise ValueError(
            "The pictures of this model were aligned by landmarks, and others must be too: give --landmarks, a CSV of "
            "their eyes and mouth."
        )
    return metric.encoder(landmarks=landmarks, several=several)


def encode_files(
    metric: Metric,
    files: Sequence[ImageFile],
    landmarks: os.PathLike[str] | Mapping[str, Any] | None,
    reading: PictureOptions,
    running: RunOptions,
) -> Encoded:
    """Codes of the files that can be used, with progress."""
    encoder = encoder_of(metric, landmarks=landmarks, several=reading.several)
    named = [(file.path, file.name) for file in files]
    with counting("Encoding pictures", shown=not running.quiet) as count:
        return encoder.encode_each(named, running.jobs, on_error=reading.on_error, progress=count)


def say_skipped(result: Mapping[str, Any]) -> None:
    """The files that were skipped, and remarks on others."""
    say_list("Skipped", reasons(result["skipped"]), MOST_SHOWN, "--json shows all")
    say_list("Remarks", remarks(result["notes"]), MOST_SHOWN, "--json shows all")


def landmarks_for(path: Path | None, pictures: Mapping[str, Path]) -> dict[str, Any] | None:
    """Landmarks of single pictures by their name here: of the line that names most of the picture's path."""
    if path is None:
        return None
    from samekind.images.landmarks import read_landmarks

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
