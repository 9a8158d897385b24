"""For going through many groups fast: what each is made of, unwhitened, group by group in one buffer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.sketch import full_lanes
from samekind.kernels.types import IntArray
from samekind.store.base import FeatureStore, centred
from samekind.store.whiten import WhitenedStore


class Source(NamedTuple):
    """A group is `Z @ map`; without a map it is Z."""

    group: int
    Z: NDArray[np.float32]  # (len(rows), w): centred, zeros up to full lanes; valid until its buffer is used again
    size: int  # columns that are not just zeros
    map: NDArray[np.float32] | None


class Sources:
    """What the groups of a store are made of, for the same rows again and again; safe for several threads.

    A matrix of a whitened group is `map^T G map`, G that of its source.
    """

    def __init__(self, store: FeatureStore, rows: IntArray):
        self.whitening = store.whitening if isinstance(store, WhitenedStore) else None
        self.raw = store.raw if isinstance(store, WhitenedStore) else store
        self.rows = rows
        self._local = threading.local()

    def of(self, groups: Sequence[int]) -> list[Source]:
        """Some groups, in a buffer of this thread."""
        if not len(groups):
            return []
        named = np.asarray(groups, dtype=np.intp)
        numbers = named if self.whitening is None else self.whitening.groups[named]
        sizes = self.raw.group_sizes[numbers].tolist()
        n, width = len(self.rows), full_lanes(max(sizes))
        stack = self._buffer(len(numbers) * n * width).reshape(len(numbers), n, width)
        self._fill(stack, named, numbers, sizes)
        maps = [None if self.whitening is None else self.whitening.maps[k] for k in named]
        return [Source(int(k), *source) for k, *source in zip(named, stack, sizes, maps, strict=True)]

    def _fill(self, stack: NDArray[np.float32], named: IntArray, numbers: IntArray, sizes: list[int]) -> None:
        """The features of each group, centred."""
        if self.whitening is not None and getattr(self.raw, "can_stack", False):
            means = np.zeros((len(stack), stack.shape[2]), np.float32)
            for mean, k in zip(means, named, strict=True):
                mean[: len(self.whitening.means[k])] = self.whitening.means[k]
            self.raw.stacked(numbers.tolist(), self.rows, means, stack)  # type: ignore[attr-defined]
        else:
            for Z, k, size in zip(stack, numbers.tolist(), sizes, strict=True):
                Z[:, :size] = centred(self.raw.panel([k], self.rows))
        for Z, size in zip(stack, sizes, strict=True):
            Z[:, size:] = 0

    def _buffer(self, length: int) -> NDArray[np.float32]:
        kept: NDArray[np.float32] | None = getattr(self._local, "buffer", None)
        if kept is None or len(kept) < length:
            kept = self._local.buffer = np.empty(length, np.float32)
        return kept[:length]
