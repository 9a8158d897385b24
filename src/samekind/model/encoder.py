"""From pictures to codes, by way of the regions that a metric has chosen and no others."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from samekind.images.align import Aligned, Aligner
from samekind.images.extractor import Extractor, picture_from
from samekind.images.load import ImageError
from samekind.kernels.flips import flip_free_codes
from samekind.kernels.types import Array, Mirror
from samekind.threads import ThreadPool

BATCH = 64  # pictures whose features are held at once


@dataclass(frozen=True)
class Encoded:
    """Codes of the pictures that could be used, in order; by name, why others could not, and what was remarked."""

    codes: Array
    skipped: dict[str, str]
    notes: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Encoder:
    """A metric's own way from a picture to a code; `Metric.encoder` makes one."""

    extractor: Extractor
    align: Aligner
    project: Callable[[Array], Array]  # features (n, n_columns) -> codes (n, n_components)
    n_components: int
    mirror: Mirror

    def features(self, image: Any, name: str) -> Array:
        """The selected columns of one picture, and of its mirror image where that counts: (1 or 2, n_columns)."""
        return self.describe(self.aligned(image, name))

    def aligned(self, image: Any, name: str) -> Aligned:
        """The crop of one picture, a path or an array; `ImageError` where it cannot be used."""
        return self.align(picture_from(image, name), name)

    def codes(self, features: Sequence[Array]) -> Array:
        """Codes (n, n_components), or (n, n_components + 1), of what `features` gave for n pictures."""
        X = np.stack(features)  # (n, 1 or 2, n_columns)
        return codes_with_mirror(self.project, self.mirror, X[:, 0], X[:, -1])

    def encode(self, images: Any, n_jobs: int | None = None) -> Array:
        """Codes of one or many pictures, paths or arrays.

        The first that cannot be used raises its `ImageError`; one that is damaged but can be used brings a warning.
        """
        encoded = self.encode_each(_listed(images), n_jobs)
        for name, notes in encoded.notes.items():
            for note in notes:
                warnings.warn(f"{name}: {note}", UserWarning, stacklevel=3)
        return encoded.codes

    def encode_each(
        self,
        pictures: Sequence[tuple[Any, str]],
        n_jobs: int | None = None,
        *,
        on_error: Literal["skip", "fail"] = "fail",
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Encoded:
        """Codes of pictures, each with its name; one that cannot be used is left out, or raises its `ImageError`."""
        skipped: dict[str, str] = {}
        notes: dict[str, tuple[str, ...]] = {}

        def features(picture: tuple[Any, str]) -> Array | None:
            image, name = picture
            try:
                aligned = self.aligned(image, name)
            except ImageError as error:
                if on_error == "fail":
                    raise
                skipped[name] = error.reason
                return None
            if aligned.notes:
                notes[name] = aligned.notes
            return self.describe(aligned)

        codes = [np.empty((0, self.n_components + (self.mirror == "distances")), np.float32)]
        with ThreadPool(n_jobs) as pool:
            for start in range(0, len(pictures), BATCH):
                kept = []
                for done, each in enumerate(pool.map(features, pictures[start : start + BATCH]), start + 1):
                    progress(done, len(pictures))
                    if each is not None:
                        kept.append(each)
                if kept:
                    codes.append(self.codes(kept))
        return Encoded(np.concatenate(codes), skipped, notes)

    def describe(self, aligned: Aligned) -> Array:
        """What `features` gives, of a picture that the aligner made."""
        if self.mirror == "none":
            return self.extractor.features(aligned.picture)[np.newaxis]
        return self.extractor.features_and_mirrored(aligned.picture)


def codes_with_mirror(project: Callable[[Array], Array], mirror: Mirror, original: Array, mirrored: Array) -> Array:
    """Codes of pictures from the features (n, n_columns) of them and of their mirror images."""
    if mirror == "none":
        return project(original)
    if mirror == "mean":
        return project((original + mirrored) / 2)
    return flip_free_codes(project(original), project(mirrored))


def _listed(images: Any) -> list[tuple[Any, str]]:
    """Pictures and what to call them."""
    if isinstance(images, str | os.PathLike) or _is_picture(images):
        images = [images]
    return [
        (image, os.fspath(image) if isinstance(image, str | os.PathLike) else str(place))
        for place, image in enumerate(images)
    ]


def _is_picture(images: Any) -> bool:
    """One array, grey or in colours; three dimensions are many grey pictures unless the last is of three colours."""
    return isinstance(images, np.ndarray) and (images.ndim == 2 or (images.ndim == 3 and images.shape[2] == 3))
