"""The groups of a store, in panels of whole groups."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from samekind.feature_store import FeatureStore
from samekind.kernels.types import Array, IntArray


class Panel(NamedTuple):
    groups: list[int]
    columns: list[slice]  # of each group in Z
    Z: Array  # (N, width)


def panels_of(store: FeatureStore, groups: Sequence[int], rows: IntArray, *, centre: bool = True) -> Iterator[Panel]:
    """All the groups named, in panels of whole groups, centred unless they are to be as they are."""
    sizes = store.group_sizes
    for batch in batches([int(sizes[k]) for k in groups], store.widest_panel):
        chosen = [int(groups[at]) for at in batch]
        Z = store.panel(chosen, rows)
        yield Panel(chosen, columns_of(store, chosen), centred(Z) if centre else Z)


def columns_of(store: FeatureStore, groups: Sequence[int]) -> list[slice]:
    """Of each group in a panel of some."""
    sizes = store.group_sizes[list(groups)].tolist()
    return [slice(end - size, end) for end, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True)]


def centred(Z: Array) -> Array:
    """Distances do not depend on the mean, but rounding does."""
    Z -= Z.mean(axis=0)
    return Z


def batches(sizes: list[int], widest: int) -> Iterator[range]:
    """Runs of groups that make a panel each."""
    start = width = 0
    for at, size in enumerate(sizes):
        if at > start and width + size > widest:
            yield range(start, at)
            start, width = at, 0
        width += size
    if sizes:
        yield range(start, len(sizes))
