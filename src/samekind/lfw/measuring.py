"""Flip-free distances of the protocol's pairs under several metrics, in one pass over the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from samekind.evaluation import flip_free_codes, flip_free_distances, pair_rows
from samekind.evaluation.lfw import Pair
from samekind.images.extractor import Extractor
from samekind.images.listing import ImageFile
from samekind.images.load import load_image
from samekind.kernels.types import Array, IntArray
from samekind.lfw.learning import side_by_side
from samekind.lfw.stages import Stage
from samekind.lfw.watch import Count
from samekind.metric import Metric
from samekind.threads import effective_threads

BATCH = 256  # pictures whose features are held at once
MEAN_OF = 500  # pictures are enough for a mean face


def pair_distances_of(
    metrics: Mapping[Stage, Metric],
    pairs: Sequence[Pair],
    files: Sequence[ImageFile],
    *,
    n_jobs: int | None = None,
    progress: Count = lambda done, total: None,
) -> dict[Stage, Array]:
    """Squared distances, one for each pair; of every picture only the regions are computed that a metric reads."""
    rows, _ = pair_rows(pairs, [file.name for file in files])
    needed, places = np.unique(rows, return_inverse=True)
    codes = _codes(metrics, [files[row] for row in needed], n_jobs, progress)
    first, second = places.reshape(-1, 2).T
    return {stage: flip_free_distances(made[first], made[second]) for stage, made in codes.items()}


def mean_picture(extractor: Extractor, files: Sequence[ImageFile], n_jobs: int | None = None) -> Array:
    """The mean crop of some of the pictures, spread evenly over them."""
    align = extractor.aligner()
    some = files[:: -(-len(files) // MEAN_OF)]
    with ThreadPoolExecutor(effective_threads(n_jobs)) as pool:
        crops = pool.map(lambda file: align(load_image(file.path), file.name).picture, some)
        return np.mean(list(crops), axis=0)


def _codes(
    metrics: Mapping[Stage, Metric], files: Sequence[ImageFile], n_jobs: int | None, progress: Count
) -> dict[Stage, Array]:
    extractor = side_by_side([Extractor.from_json(metric.extractor or {}) for metric in metrics.values()])
    columns = _columns(extractor)
    align = extractor.aligner()
    codes: dict[Stage, list[Array]] = {stage: [] for stage in metrics}

    def features(file: ImageFile) -> Array:
        return extractor.features_and_mirrored(align(load_image(file.path), file.name).picture)

    with ThreadPoolExecutor(effective_threads(n_jobs)) as pool:
        for start in range(0, len(files), BATCH):
            both = []
            for done, each in enumerate(pool.map(features, files[start : start + BATCH]), start + 1):
                both.append(each)
                progress(done, len(files))
            original, mirrored = np.stack(both, axis=1)
            for stage, metric in metrics.items():
                own = np.concatenate([columns[family] for family in stage.families])
                codes[stage].append(
                    flip_free_codes(metric.transform(original[:, own]), metric.transform(mirrored[:, own]))
                )
    return {stage: np.concatenate(made) for stage, made in codes.items()}


def _columns(extractor: Extractor) -> dict[str, IntArray]:
    """Family -> its columns among the features."""
    columns, start = {}, 0
    for part in extractor.parts:
        width = len(part.regions) * part.family.size
        columns[part.family.name] = np.arange(start, start + width)
        start += width
    return columns
