"""Panels for going through many groups fast: what the groups are made of, unwhitened, in one buffer for all panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.types import IntArray
from samekind.store.base import FeatureStore, batches
from samekind.store.whiten import WhitenedStore


class Source(NamedTuple):
    """Group k is `(X - mean) @ map` of some columns of a source panel; without a map, the columns less their mean."""

    group: int
    columns: slice
    mean: NDArray[np.float32]
    map: NDArray[np.float32] | None


class SourcePanel(NamedTuple):
    X: NDArray[np.float32]  # (len(rows), width): valid until the next panel
    sources: list[Source]


def source_panels(store: FeatureStore, groups: Sequence[int], rows: IntArray) -> Iterator[SourcePanel]:
    """All the groups named, in panels. A matrix of a whitened group is `map^T G map`, G that of its source."""
    whitening = store.whitening if isinstance(store, WhitenedStore) else None
    raw = store.raw if isinstance(store, WhitenedStore) else store
    named = np.asarray(groups, dtype=np.intp)
    numbers = named if whitening is None else whitening.groups[named]
    sizes = raw.group_sizes[numbers]
    buffer = np.empty(0, np.float32)
    for batch in batches(sizes.tolist()):
        ends = np.cumsum(sizes[batch])
        buffer = buffer if len(buffer) >= len(rows) * ends[-1] else np.empty(len(rows) * int(ends[-1]), np.float32)
        out = buffer[: len(rows) * int(ends[-1])].reshape(len(rows), int(ends[-1]))
        chosen = numbers[batch].tolist()
        if getattr(raw, "fills_buffers", False):
            raw.panel(chosen, rows, out=out)  # type: ignore[call-arg]
        else:
            out[:] = raw.panel(chosen, rows)
        columns = [slice(int(end - size), int(end)) for end, size in zip(ends, sizes[batch], strict=True)]
        if whitening is None:
            means = out.mean(axis=0)
            sources = [Source(int(k), part, means[part], None) for k, part in zip(named[batch], columns, strict=True)]
        else:
            sources = [
                Source(int(k), part, whitening.means[k], whitening.maps[k])
                for k, part in zip(named[batch], columns, strict=True)
            ]
        yield SourcePanel(out, sources)
