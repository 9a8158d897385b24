"""Whitening, group by group: a store whose groups have the covariance I on the rows that it was learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.feature_store import FeatureStore
from samekind.kernels.spectral import Matrix, eigh, with_fixed_signs
from samekind.kernels.types import Array, IntArray
from samekind.threads import ThreadPool, effective_threads, single_threaded_blas

SMALLEST_SHARE = 1e-8  # of a group's largest variance: what float32 can still tell from nothing
ABOVE_NOISE = 4.0  # times the variance that rounding of the stored numbers brings

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class WhiteningOptions:
    """How the work is cut up; the result does not depend on it but for rounding."""

    row_block: int = 4096  # rows whose moments are taken at once: with the widest panel 34 MB in float64
    product_rows: int = 1024  # of a panel, whitened at once: in the cache


DEFAULT_OPTIONS = WhiteningOptions()


@dataclass(frozen=True)
class Whitening:
    """`(x - mean) @ map` of some groups: mean (d,), map (d, w).

    Means are float64, maps as precise as the raw numbers: float32, or float64 for float64.
    """

    groups: IntArray
    means: tuple[Vector, ...]
    maps: tuple[Array, ...]

    @classmethod
    def learned(
        cls,
        store: FeatureStore,
        rows: IntArray,
        *,
        dims: int | None = 45,
        groups: Sequence[int] | None = None,
        progress: Callable[[int, int], None] | None = None,
        n_jobs: int | None = None,
        options: WhiteningOptions = DEFAULT_OPTIONS,
    ) -> Whitening:
        """The `dims` leading principal directions of each group (None: all), over these rows only.

        Directions that are constant, or that only the rounding of the stored numbers moves, are dropped; a group with
        no other keeps one direction whose map is zero. `progress` gets the number of groups done, and of all.
        `n_jobs` threads share the groups, None means all cores; a store on disk reads with threads of its own.
        """
        if dims is not None and dims < 1:
            raise ValueError(f"dims={dims}: keep at least one direction, or give None to keep all.")
        if len(rows) < 2:
            raise ValueError(f"Whitening needs at least 2 rows, but got {len(rows)}.")
        chosen = np.arange(len(store.group_sizes)) if groups is None else np.asarray(groups, dtype=np.intp)
        learn = partial(_maps, store, rows=rows, dims=dims, row_block=options.row_block)
        made: list[tuple[Vector, Array]] = []
        with single_threaded_blas(), ThreadPool(n_jobs) as pool:
            for several in pool.map(learn, _batches(chosen, store)):
                made += several
                if progress:
                    progress(len(made), len(chosen))
        return cls(chosen, tuple(mean for mean, _ in made), tuple(made_map for _, made_map in made))

    def __reduce__(self) -> tuple[Any, ...]:
        shapes = np.array([made_map.shape for made_map in self.maps], dtype=np.intp).reshape(-1, 2)
        maps = np.concatenate([made_map.ravel() for made_map in self.maps])
        return _unpacked, (self.groups, np.concatenate(self.means), maps, shapes)

    @property
    def widths(self) -> IntArray:
        """How many directions each group keeps."""
        return np.array([made_map.shape[1] for made_map in self.maps], dtype=np.intp)

    def of(self, group: int) -> tuple[Vector, Array]:
        """Mean and map of a group of the raw store."""
        at = np.flatnonzero(self.groups == group)
        if not len(at):
            raise IndexError(f"Group {group} was not whitened: {len(self.groups):,} groups were.")
        return self.means[at[0]], self.maps[at[0]]


class WhitenedStore(FeatureStore):
    """A `FeatureStore` of the whitened groups of `raw`, numbered as `whitening.groups` lists them.

    `n_jobs` threads whiten a panel, None means all cores.
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(
        self,
        raw: FeatureStore,
        whitening: Whitening,
        n_jobs: int | None = None,
        options: WhiteningOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.raw = raw
        self.whitening = whitening
        self.n_jobs = n_jobs
        self.options = options
        self._group_sizes = whitening.widths

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def group_sizes(self) -> IntArray:
        return self._group_sizes

    def panel(self, groups: Sequence[int], rows: IntArray) -> NDArray[np.float32]:
        """Whitened groups side by side: (len(rows), sum of widths)."""
        chosen = list(groups)
        X = self.raw.panel(self.whitening.groups[chosen].tolist(), rows)
        X = X.astype(_precision(X.dtype), copy=False)
        panel = np.empty((len(X), int(self.group_sizes[chosen].sum())), np.float32)
        means = [self.whitening.means[k] for k in chosen]
        mean = np.concatenate(means).astype(X.dtype) if means else np.zeros(0, X.dtype)
        work = partial(_whiten, mean, [self.whitening.maps[k] for k in chosen])
        step = self.options.product_rows
        starts = range(0, len(X), step)
        n_threads = min(len(starts), effective_threads(self.n_jobs)) or 1
        with single_threaded_blas(), ThreadPool(n_threads) as pool:
            pool.run(lambda start: work(X[start : start + step], panel[start : start + step]), starts)
        return panel


def _precision(raw: np.dtype[Any]) -> np.dtype[Any]:
    """In which numbers are centred and multiplied: float32, or float64 for float64.

    The whitened numbers are rounded last: a mean far from zero, or a map of very different lengths, would leave little
    of a difference that was rounded before.
    """
    return np.result_type(raw, np.float32)


def _whiten(mean: Array, maps: list[Array], X: Array, out: NDArray[np.float32]) -> None:
    """`out_k = (X_k - mean_k) @ map_k`, groups side by side; X is spoilt."""
    X -= mean
    read = written = 0
    for made_map in maps:
        d, w = made_map.shape
        np.matmul(X[:, read : read + d], made_map, out=out[:, written : written + w], casting="same_kind")
        read, written = read + d, written + w


def _batches(groups: IntArray, store: FeatureStore) -> Iterator[IntArray]:
    step = max(1, store.widest_panel // int(store.group_sizes[groups].max(initial=1)))
    for start in range(0, len(groups), step):
        yield groups[start : start + step]


def _maps(
    store: FeatureStore, groups: IntArray, *, rows: IntArray, dims: int | None, row_block: int
) -> list[tuple[Vector, Array]]:
    stored, precision = store.stored_dtype, _precision(store.dtype)
    made = []
    for mean, covariance in _moments(store, groups, rows, row_block):
        noise = _rounding_noise(mean, covariance, stored)
        made.append((mean, _whitening_map(covariance, noise, dims).astype(precision)))
    return made


def _moments(store: FeatureStore, groups: IntArray, rows: IntArray, row_block: int) -> list[tuple[Vector, Matrix]]:
    """Mean and covariance of each group, block of rows by block of rows, merged by Chan's formula."""
    ends = np.cumsum(store.group_sizes[groups]).tolist()
    columns = [slice(end - int(store.group_sizes[k]), end) for k, end in zip(groups, ends, strict=True)]
    mean = np.zeros(ends[-1])
    scatters = [np.zeros((part.stop - part.start,) * 2) for part in columns]
    for start in range(0, len(rows), row_block):
        X = store.panel(groups.tolist(), rows[start : start + row_block]).astype(np.float64, copy=False)
        block_mean = X.mean(axis=0)
        X -= block_mean
        shift, share = block_mean - mean, len(X) / (start + len(X))
        for part, scatter in zip(columns, scatters, strict=True):
            Z, step = X[:, part], shift[part]
            scatter += Z.T @ Z
            scatter += np.outer(step, step) * (start * share)
        mean += shift * share
    return [(mean[part], scatter / (len(rows) - 1)) for part, scatter in zip(columns, scatters, strict=True)]


def _rounding_noise(mean: NDArray[np.float64], covariance: Matrix, stored: np.dtype[Any]) -> NDArray[np.float64]:
    """At most this variance comes from rounding to the stored type: (d,)."""
    kind = np.finfo(stored)
    squares = np.diag(covariance) + mean**2
    noise: NDArray[np.float64] = (float(kind.eps) / 2) ** 2 / 3 * squares + float(kind.smallest_subnormal) ** 2 / 12
    return noise


def _whitening_map(covariance: Matrix, noise: NDArray[np.float64], dims: int | None) -> Matrix:
    """V / sqrt(lambda) of the directions that carry something, by falling variance: (d, w)."""
    variances, directions = eigh(covariance)
    variances, directions = variances[::-1], directions[:, ::-1]
    floor = np.maximum(ABOVE_NOISE * noise @ directions**2, SMALLEST_SHARE * variances[0])
    kept = np.flatnonzero(variances > floor)[:dims]
    if not len(kept):
        return np.zeros((len(covariance), 1))
    return with_fixed_signs(directions[:, kept] / np.sqrt(variances[kept]))


def _unpacked(groups: IntArray, means: Vector, maps: Array, shapes: IntArray) -> Whitening:
    """From arrays that hold those of all groups end to end."""
    at_means = np.cumsum(shapes[:, 0])[:-1]
    at_maps = np.cumsum(shapes.prod(axis=1))[:-1]
    blocks = np.split(maps, at_maps)
    return Whitening(
        groups,
        tuple(np.split(means, at_means)),
        tuple(block.reshape(tuple(shape)) for block, shape in zip(blocks, shapes.tolist(), strict=True)),
    )
