"""Distances of pairs of pictures under several metrics, mirror images included, in one pass over the pictures."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from samekind.images.extractor import Extractor, Part
from samekind.images.landmarks import Landmarks
from samekind.images.listing import ImageFile
from samekind.images.load import load_image
from samekind.kernels.types import Array, IntArray
from samekind.lfw.protocol import pair_rows
from samekind.lfw.protocol_files import Pair
from samekind.lfw.reporter import Count
from samekind.model.encoder import codes_with_mirror
from samekind.model.metric import Metric
from samekind.threads import ThreadPool

BATCH = 256  # pictures whose features are held at once
MEAN_OF = 500  # pictures are enough for a mean face

Key = TypeVar("Key", bound=Hashable)


def distances_of_pairs(
    metrics: Mapping[Key, Metric],
    pairs: Sequence[Pair],
    files: Sequence[ImageFile],
    *,
    landmarks: Landmarks | None = None,
    n_jobs: int | None = None,
    progress: Count = lambda done, total: None,
) -> dict[Key, Array]:
    """Squared distances under each metric, one for each pair; mirror images count as each metric says.

    `landmarks`: of the pictures by name, where they are aligned by them.

    Most of what a picture costs does not depend on how many regions are read, so that many metrics cost little more
    than one.
    """
    rows, _ = pair_rows(pairs, [file.name for file in files])
    needed, places = np.unique(rows, return_inverse=True)
    pictures, both = [files[row] for row in needed], places.reshape(-1, 2)
    codes: dict[Key, list[Array]] = {key: [] for key in metrics}
    for key, original, mirrored in _features_of(metrics, pictures, landmarks, n_jobs, progress):
        codes[key].append(codes_with_mirror(metrics[key].transform, metrics[key].mirror, original, mirrored))
    made = {key: np.concatenate(parts) for key, parts in codes.items()}
    return {key: metrics[key].code_distance(*each[both.T]) for key, each in made.items()}


def mean_pictures(
    extractor: Extractor, files: Sequence[ImageFile], landmarks: Landmarks | None = None, n_jobs: int | None = None
) -> dict[str, Array]:
    """Family -> what it sees of the mean of some of the pictures, spread evenly over them."""
    align = extractor.aligner(landmarks)
    some = files[:: -(-len(files) // MEAN_OF)]
    with ThreadPool(n_jobs) as pool:
        aligned = pool.map(lambda file: align(load_image(file.path), file.name).picture, some)
        crops = extractor.crops(np.mean(list(aligned), axis=0))
    return {part.name: crops[part.level] for part in extractor.parts}


def extractor_of(metric: Metric) -> Extractor:
    return Extractor.from_json(metric.extractor or {})


def reading_all(extractors: Mapping[Key, Extractor]) -> tuple[Extractor, dict[Key, IntArray]]:
    """One extractor that reads each region of all, of one crop, once; and the columns of each among its features."""
    parts: list[Part] = []
    columns: dict[Key, dict[str, IntArray]] = {key: {} for key in extractors}
    start = 0
    for name in dict.fromkeys(part.name for each in extractors.values() for part in each.parts):
        own = {key: part for key, each in extractors.items() for part in each.parts if part.name == name}
        part_of_first = next(iter(own.values()))
        family = part_of_first.family
        regions = np.unique(np.concatenate([part.regions for part in own.values()]), axis=0)
        places = {tuple(region): place for place, region in enumerate(regions.tolist())}
        for key, part in own.items():
            groups = np.array([places[tuple(region)] for region in part.regions.tolist()], dtype=np.intp)
            columns[key][name] = (start + groups[:, np.newaxis] * family.size + np.arange(family.size)).ravel()
        parts.append(replace(part_of_first, regions=regions))
        start += len(regions) * family.size
    in_own_order = {
        key: np.concatenate([columns[key][part.name] for part in each.parts]) for key, each in extractors.items()
    }
    across, down = zip(*(each.frame.margin for each in extractors.values()), strict=True)
    first = next(iter(extractors.values()))
    frame = replace(first.frame, margin=(max(across), max(down)))
    return replace(first, frame=frame, parts=tuple(parts)), in_own_order


def _features_of(
    metrics: Mapping[Key, Metric],
    files: Sequence[ImageFile],
    landmarks: Landmarks | None,
    n_jobs: int | None,
    progress: Count,
) -> Iterator[tuple[Key, Array, Array]]:
    """What each metric reads of the pictures and of their mirror images, `BATCH` at a time, metric by metric."""
    extractor, columns = reading_all({key: extractor_of(metric) for key, metric in metrics.items()})
    for original, mirrored in _features(extractor, files, landmarks, n_jobs, progress):
        for key, own in columns.items():
            yield key, original[:, own], mirrored[:, own]


def _features(
    extractor: Extractor, files: Sequence[ImageFile], landmarks: Landmarks | None, n_jobs: int | None, progress: Count
) -> Iterator[tuple[Array, Array]]:
    """Of the pictures and of their mirror images, `BATCH` at a time."""
    align = extractor.aligner(landmarks)

    def features(file: ImageFile) -> Array:
        return extractor.features_and_mirrored(align(load_image(file.path), file.name).picture)

    with ThreadPool(n_jobs) as pool:
        for start in range(0, len(files), BATCH):
            both = []
            for done, each in enumerate(pool.map(features, files[start : start + BATCH]), start + 1):
                both.append(each)
                progress(done, len(files))
            yield np.stack([each[0] for each in both]), np.stack([each[1] for each in both])
