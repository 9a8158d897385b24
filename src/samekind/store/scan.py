"""For going through many groups fast: what each is made of, unwhitened, group by group in one buffer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.types import IntArray
from samekind.store.base import FeatureStore
from samekind.store.whiten import WhitenedStore

LANES = 8  # numbers that the processor handles at once


class Source(NamedTuple):
    """A group is `(X - mean) @ map`; without a map, X less its mean."""

    group: int
    X: NDArray[np.float32]  # (len(rows), size, and zeros up to full lanes), valid until the same buffer is used again
    mean: NDArray[np.float32]
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
        """Some groups, in a buffer of this thread where the store can fill one."""
        named = np.asarray(groups, dtype=np.intp)
        if self.whitening is None:
            features = self._features(named)
            sizes = self.raw.group_sizes[named].tolist()
            return [
                Source(int(k), X, X[:, :size].mean(axis=0), None)
                for k, X, size in zip(named, features, sizes, strict=True)
            ]
        means, maps = self.whitening.means, self.whitening.maps
        features = self._features(self.whitening.groups[named])
        return [Source(int(k), X, means[k], maps[k]) for k, X in zip(named, features, strict=True)]

    def _features(self, groups: IntArray) -> list[NDArray[np.float32]]:
        n, sizes = len(self.rows), self.raw.group_sizes[groups].tolist()
        width = -(-max(sizes) // LANES) * LANES
        stack = self._buffer(len(groups) * n * width).reshape(len(groups), n, width)
        if getattr(self.raw, "can_stack", False):
            self.raw.stacked(groups.tolist(), self.rows, stack)  # type: ignore[attr-defined]
        else:
            for k, size, X in zip(groups.tolist(), sizes, stack, strict=True):
                X[:, :size] = self.raw.panel([k], self.rows)
        for size, X in zip(sizes, stack, strict=True):
            X[:, size:] = 0
        return list(stack)

    def _buffer(self, length: int) -> NDArray[np.float32]:
        kept: NDArray[np.float32] | None = getattr(self._local, "buffer", None)
        if kept is None or len(kept) < length:
            kept = self._local.buffer = np.empty(length, np.float32)
        return kept[:length]
