"""Pictures to codes with a model, keeping what was remarked about each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samekind.cli.options import Several

if TYPE_CHECKING:
    from samekind.encoder import Encoder
    from samekind.images.align import Aligned, Aligner, Frame
    from samekind.images.load import LoadedImage
    from samekind.metric import Metric


@dataclass
class NotingAligner:
    """An aligner that keeps the notes on each picture."""

    align: Aligner
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def frame(self) -> Frame:
        return self.align.frame

    def __call__(self, image: LoadedImage, name: str) -> Aligned:
        aligned = self.align(image, name)
        if aligned.notes:
            self.notes[name] = list(aligned.notes)
        return aligned


def noting_encoder(
    metric: Metric, *, flip_free: bool, landmarks: Mapping[str, Any] | None, several: Several
) -> tuple[Encoder, dict[str, list[str]]]:
    """The metric's encoder, and where it will put its notes."""
    if metric.extractor is not None and metric.extractor.get("alignment") == "landmarks" and landmarks is None:
        raise ValueError(
            "The pictures of this model were aligned by landmarks, and others must be too: give --landmarks, a CSV of "
            "their eyes and mouth."
        )
    encoder = metric.encoder(flip_free=flip_free, landmarks=landmarks, several=several)
    align = NotingAligner(encoder.align)
    return replace(encoder, align=align), align.notes


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
