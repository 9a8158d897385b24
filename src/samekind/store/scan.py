"""For going through many groups fast: what each is made of, unwhitened, group by group in one buffer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.feature_store import FeatureStore
from samekind.kernels.types import IntArray, full_lanes
from samekind.store.base import centred
from samekind.store.whiten import WhitenedStore

KEPT_BYTES = 2**25  # all groups of a small store are kept, centred
BATCH_GROUPS, BATCH_BYTES = 16, 2**25  # groups that a thread goes through at once, and the bytes they may take
FEWEST_BATCHES = 2  # however few the groups; the same for any number of threads


class Stack(NamedTuple):
    """Some groups: the j-th is `Z[j] @ maps[j]`, without maps Z[j]; both with zeros up to equal widths."""

    Z: NDArray[np.float32]  # (n, len(rows), w), centred; valid until its buffer is used again
    maps: NDArray[np.float32] | None  # (n, w, d)

    def mapped(self, G: NDArray[np.float64]) -> NDArray[np.float64]:
        """`map^T G map` of each in a stack of matrices of the Z."""
        if self.maps is None:
            return G
        mapped: NDArray[np.float64] = np.swapaxes(self.maps, 1, 2) @ G @ self.maps
        return mapped


class Sources:
    """What the groups of a store are made of, for the same rows again and again; safe for several threads."""

    def __init__(self, store: FeatureStore, rows: IntArray):
        self.whitening = store.whitening if isinstance(store, WhitenedStore) else None
        self.raw = store.raw if isinstance(store, WhitenedStore) else store
        self.rows = rows
        self._local = threading.local()
        small = self.largest * len(self.raw.group_sizes) <= KEPT_BYTES
        self._kept = self._stacked(np.arange(len(self.raw.group_sizes))) if self.whitening is None and small else None

    @property
    def largest(self) -> int:
        """Bytes of the largest group."""
        return 4 * len(self.rows) * self.width

    @cached_property
    def width(self) -> int:
        """Columns of a stack."""
        sizes = self.raw.group_sizes
        return full_lanes(int((sizes if self.whitening is None else sizes[self.whitening.groups]).max()))

    @cached_property
    def _mapped_width(self) -> int:
        """Of whitened groups."""
        return 0 if self.whitening is None else max(made_map.shape[1] for made_map in self.whitening.maps)

    def of(self, groups: Sequence[int]) -> Stack:
        """Some groups, at least one, in a buffer of this thread.

        All have the width of the store's widest group: what is made of a group depends on no other one beside it.
        """
        named = np.asarray(groups, dtype=np.intp)
        return self._stacked(named) if self._kept is None else Stack(self._kept.Z[named], None)

    def batches(self, groups: Sequence[int]) -> list[Sequence[int]]:
        """Groups in runs, as one thread goes through them at once."""
        share = max(1, -(-len(groups) // FEWEST_BATCHES))
        n = min(BATCH_GROUPS, max(1, BATCH_BYTES // self.largest), share)
        return [groups[start : start + n] for start in range(0, len(groups), n)]

    def _stacked(self, named: IntArray) -> Stack:
        numbers = named if self.whitening is None else self.whitening.groups[named]
        sizes = self.raw.group_sizes[numbers].tolist()
        n, width = len(self.rows), self.width
        stack = self._buffer(len(numbers) * n * width).reshape(len(numbers), n, width)
        self._fill(stack, named, numbers, sizes)
        return Stack(stack, self._maps(named, width))

    def _maps(self, named: IntArray, width: int) -> NDArray[np.float32] | None:
        if self.whitening is None:
            return None
        maps = [self.whitening.maps[k] for k in named]
        stacked = np.zeros((len(maps), width, self._mapped_width), np.float32)
        for wide, map in zip(stacked, maps, strict=True):
            wide[: len(map), : map.shape[1]] = map
        return stacked

    def _fill(self, stack: NDArray[np.float32], named: IntArray, numbers: IntArray, sizes: list[int]) -> None:
        """The features of each group, centred, and zeros."""
        if self.whitening is not None and self.raw.can_stack:
            means = np.zeros((len(stack), stack.shape[2]), np.float32)
            for mean, k in zip(means, named, strict=True):
                mean[: len(self.whitening.means[k])] = self.whitening.means[k]
            self.raw.stacked(numbers.tolist(), self.rows, means, stack)
        else:
            for Z, k, size in zip(stack, numbers.tolist(), sizes, strict=True):
                Z[:, :size] = centred(self.raw.panel([k], self.rows))
                Z[:, size:] = 0

    def _buffer(self, length: int) -> NDArray[np.float32]:
        kept: NDArray[np.float32] | None = getattr(self._local, "buffer", None)
        if kept is None or len(kept) < length:
            kept = self._local.buffer = np.empty(length, np.float32)
        return kept[:length]
