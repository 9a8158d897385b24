"""Whitening learned by the workers of a cluster: each has some of the groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samekind.compute.executor import Executor
from samekind.compute.site import Site
from samekind.kernels.types import Array
from samekind.store import FeatureStore, Whitening


class StoreSite(Site):
    """A store, opened where its groups are read."""

    def __init__(self, store: FeatureStore, token: str | None = None):
        super().__init__(token)
        self.store = store
        self.objective: Any = self

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreSite, (self.store, self.token)


def whitening_on(site: StoreSite, groups: Sequence[int], dims: int | None) -> Whitening:
    return Whitening.learned(site.store, np.arange(len(site.store)), dims=dims, groups=groups)


def whitened_by(
    executor: Executor, store: FeatureStore, dims: int | None, progress: Callable[[int, int], None] | None
) -> Whitening:
    """`Whitening.learned` of all groups over all rows."""
    n_groups, done = len(store.group_sizes), 0
    means: list[Array | None] = [None] * n_groups
    maps: list[Array | None] = [None] * n_groups
    for places, made in executor.over_groups(StoreSite(store), whitening_on, range(n_groups), dims):
        for k, mean, made_map in zip(places, made.means, made.maps, strict=True):
            means[k], maps[k] = mean, made_map
        done += len(places)
        if progress:
            progress(done, n_groups)
    return Whitening(np.arange(n_groups), tuple(means), tuple(maps))  # type: ignore[arg-type]
