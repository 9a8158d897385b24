"""Small stores of LFW's training images whose descriptors are made otherwise, for lfw_view1.py; each is made once.

fuzziness   soft LBP with another fuzziness
mirrored    each picture and its mirror image, under one name
tangent     covariances by their logarithms at the mean of the region instead of the identity
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.extraction import extract
from samekind.images.covariance import FEATURES, SIZE, Covariance
from samekind.images.extractor import Extractor
from samekind.images.listing import ImageFile
from samekind.images.load import load_image
from samekind.images.slbp import SoftLBP
from samekind.model.metric import Metric
from samekind.store import DiskStore, Family, Shard, StoreWriter
from samekind.threads import effective_threads, single_threaded_blas

SHARD_ROWS = 512
HALF = np.float16
Arrays = Mapping[str, NDArray[Any]]


def with_fuzziness(path: Path, files: Sequence[ImageFile], extractor: Extractor, fuzziness: float) -> DiskStore:
    """Soft LBP alone, with another fuzziness."""
    parts = [part for part in extractor.parts if part.family.name == SoftLBP.name]
    changed = tuple(replace(part, family=SoftLBP(fuzziness)) for part in parts)
    return extract(files, path, replace(extractor, parts=changed))


def with_mirrored(path: Path, files: Sequence[ImageFile], extractor: Extractor) -> DiskStore:
    """Each picture, and after it its mirror image."""
    align, at = extractor.aligner(), {file.name: file for file in files}

    def both(name: str) -> NDArray[Any]:
        file = at[name]
        return extractor.features_and_mirrored(align(load_image(file.path), name).picture).astype(HALF)

    def described(shard: Shard) -> Arrays:
        with ThreadPoolExecutor(effective_threads(None)) as pool:
            rows = np.concatenate(list(pool.map(both, [name for name, _ in shard.images[::2]])))
        ends = np.cumsum([len(part.regions) * part.family.size for part in extractor.parts])[:-1]
        return {
            part.family.name: own.reshape(len(rows), len(part.regions), -1).swapaxes(0, 1)
            for part, own in zip(extractor.parts, np.split(rows, ends, axis=1), strict=True)
        }

    images = [(name, str(file.label)) for file in files for name in (file.name, f"{file.name} mirrored")]
    return _written(path, extractor, images, described)


def at_the_mean(path: Path, source: Any, rows: NDArray[np.intp], extractor: Extractor) -> DiskStore:
    """Covariances of some rows of a store, as `AtTheMean` has them, learned from these rows."""
    names, labels = source.image_ids[rows].tolist(), source.labels[rows].tolist()
    row_of = dict(zip(names, rows.tolist(), strict=True))
    groups = range(len(source.group_sizes))
    tangent = AtTheMean.learned(source, rows)

    def described(shard: Shard) -> Arrays:
        own = np.array([row_of[name] for name, _ in shard.images])
        panel = source.panel(groups, own).reshape(len(own), -1, SIZE)
        return {Covariance.name: tangent(panel).astype(HALF).swapaxes(0, 1)}

    return _written(path, extractor, list(zip(names, labels, strict=True)), described)


@dataclass(frozen=True, eq=False)
class AtTheMean:
    """`log(M^-1/2 C M^-1/2)` of `log C`, region by region, M the log-Euclidean mean: tangent vectors at M."""

    inverse_roots: NDArray[np.float64]  # (regions, 9, 9)

    @classmethod
    def learned(cls, source: Any, rows: NDArray[np.intp]) -> AtTheMean:
        groups = range(len(source.group_sizes))
        means = np.stack([source.panel([k], rows).mean(axis=0, dtype=np.float64) for k in groups])
        return cls(_of_eigenvalues(_matrices(means), lambda values: np.exp(-values / 2)))

    def __call__(self, logarithms: NDArray[Any]) -> NDArray[np.float64]:
        """(n, regions, 45) -> (n, regions, 45)."""
        with single_threaded_blas(), ThreadPoolExecutor(effective_threads(None)) as pool:
            parts = pool.map(self._moved, np.array_split(logarithms, max(1, len(logarithms) // 64)))
            return np.concatenate(list(parts))

    def _moved(self, logarithms: NDArray[Any]) -> NDArray[np.float64]:
        C = _of_eigenvalues(_matrices(logarithms), np.exp)
        moved = _of_eigenvalues(self.inverse_roots @ C @ self.inverse_roots, np.log)
        return moved[..., _UPPER[0], _UPPER[1]] * _WEIGHTS


class TangentMetric:
    """A metric over such vectors that takes plain logarithms, as pictures give them; codes are not normalised."""

    def __init__(self, metric: Metric, tangent: AtTheMean):
        self.metric = metric.with_normalise("none")
        self.extractor = metric.extractor
        self.tangent = AtTheMean(tangent.inverse_roots[np.unique(metric.columns // SIZE)])

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        moved = self.tangent(X.reshape(len(X), -1, SIZE))
        return self.metric.transform(moved.reshape(len(X), -1).astype(np.float32))


_UPPER = np.triu_indices(FEATURES)
_WEIGHTS = np.where(_UPPER[0] == _UPPER[1], 1, np.sqrt(2))


def _matrices(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Symmetric, (..., 45) -> (..., 9, 9)."""
    matrices = np.empty((*vectors.shape[:-1], FEATURES, FEATURES))
    values = vectors / _WEIGHTS
    matrices[..., _UPPER[0], _UPPER[1]] = values
    matrices[..., _UPPER[1], _UPPER[0]] = values
    return matrices


def _of_eigenvalues(matrices: NDArray[np.float64], function: Callable[[Any], Any]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * function(values)[..., np.newaxis, :]) @ vectors.swapaxes(-1, -2)


def _written(
    path: Path, extractor: Extractor, images: Sequence[tuple[str, str]], described: Callable[[Shard], Arrays]
) -> DiskStore:
    """A store that is made shard by shard, and gone on with where it was left."""
    families = [Family(part.family.name, part.family.size, part.group_names) for part in extractor.parts]
    with StoreWriter.open(
        path, families=families, front_end=extractor.to_json(), images=images, shard_rows=SHARD_ROWS
    ) as writer:
        for shard in writer.pending():
            writer.write(shard, described(shard), rows=range(len(shard.images)))
    return DiskStore.open(path)
