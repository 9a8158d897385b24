"""What is learned from a store before step 1, by the workers of a cluster: whitening and target neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samekind.compute.executor import Executor
from samekind.compute.site import Site
from samekind.kernels.types import Array, IntArray
from samekind.relation import Relation
from samekind.store import FeatureStore, Whitening, panels_of


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


@dataclass(frozen=True)
class StorePanels:
    """The panels of some groups, to be gone through as often as needed."""

    store: FeatureStore
    groups: Sequence[int]
    rows: IntArray

    def __iter__(self) -> Iterator[Array]:
        for panel in panels_of(self.store, self.groups, self.rows):
            yield panel.Z


def neighbors_on(
    site: StoreSite, classes: Sequence[int], relation: Relation, groups: Sequence[int], k: int, memory_budget: int
) -> IntArray:
    """T(i) of the samples of some classes, end to end."""
    neighbors = relation.neighbors_within(
        StorePanels(site.store, groups, relation.order), k, memory_budget, [int(each) for each in classes]
    )
    return neighbors[np.isin(relation.codes, classes)]


def with_neighbors_by(
    executor: Executor, panels: StorePanels, relation: Relation, k: int, memory_budget: int
) -> Relation:
    """`Relation.with_neighbors`, each worker having some of the classes."""
    neighbors = np.full((relation.n_samples, min(k, int(relation.class_sizes.max()) - 1)), -1, dtype=np.intp)
    classes = np.arange(len(relation.class_sizes))
    arguments = relation, panels.groups, k, memory_budget
    for places, made in executor.over_groups(StoreSite(panels.store), neighbors_on, classes.tolist(), *arguments):
        neighbors[np.isin(relation.codes, classes[list(places)])] = made
    return replace(relation, neighbors=neighbors)
