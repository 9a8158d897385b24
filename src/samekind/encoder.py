"""From pictures to codes, by way of the regions that a metric has chosen and no others."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from samekind.images.align import Aligned, Aligner
from samekind.images.extractor import Extractor, picture_from
from samekind.kernels.flips import flip_free_codes
from samekind.kernels.types import Array
from samekind.threads import effective_threads

BATCH = 64  # pictures whose features are held at once


@dataclass(frozen=True)
class Encoder:
    """A metric's own way from a picture to a code; `Metric.encoder` makes one."""

    extractor: Extractor
    align: Aligner
    project: Callable[[Array], Array]  # features (n, n_columns) -> codes (n, n_components)
    n_components: int
    flip_free: bool

    def features(self, image: Any, name: str) -> Array:
        """The selected columns of one picture, (1, n_columns); of it and its mirror image where flip-free."""
        return self._describe(self.align(picture_from(image, name), name))

    def _describe(self, aligned: Aligned) -> Array:
        crop = aligned.picture
        if self.flip_free:
            return self.extractor.features_and_mirrored(crop)
        return self.extractor.features(crop)[np.newaxis]

    def _features_with_warning(self, image: Any, name: str) -> Array:
        aligned = self.align(picture_from(image, name), name)
        for note in aligned.notes:
            warnings.warn(f"{name}: {note}", UserWarning, stacklevel=2)
        return self._describe(aligned)

    def codes(self, features: Sequence[Array]) -> Array:
        """Codes (n, n_components), or (n, n_components + 1), of what `features` gave for n pictures."""
        Z = self.project(np.concatenate(features)).reshape(len(features), -1, self.n_components)
        return flip_free_codes(Z[:, 0], Z[:, 1]) if self.flip_free else Z[:, 0]

    def encode(self, images: Any, n_jobs: int | None = None) -> Array:
        """Codes of one or many pictures, paths or arrays.

        The first that cannot be used raises its `ImageError`; one that is damaged but can be used brings a warning.
        """
        listed = _listed(images)
        codes = [np.empty((0, self.n_components + self.flip_free), np.float32)]
        with ThreadPoolExecutor(effective_threads(n_jobs)) as pool:
            for batch in _batches(listed):
                codes.append(self.codes(list(pool.map(self._features_with_warning, *zip(*batch, strict=True)))))
        return np.concatenate(codes)


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


def _batches(listed: list[tuple[Any, str]]) -> Iterator[list[tuple[Any, str]]]:
    for start in range(0, len(listed), BATCH):
        yield listed[start : start + BATCH]
