"""Codes as they will be used: of pictures, with their mirror images counted as the metric says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.evaluation import mean_average_precision, verify
from samekind.evaluation.pairs import label_pairs
from samekind.feature_store import FeatureStore
from samekind.kernels.distances import squared_distances
from samekind.kernels.flips import flip_free_codes
from samekind.kernels.types import Array, IntArray, Mirror
from samekind.model.basis import Basis
from samekind.model.metric import Metric
from samekind.store.views import CopyOf, MirrorMeansOf

MAX_PLAIN = 1_500  # samples whose plain distances are held at once, N x N


def codes_in_use(metric: Metric, X: Any, rows: IntArray) -> Array:
    """Codes of some samples of an array or a store, to be compared by `metric.code_distance`.

    Mirror images come from the descriptors that a store of pictures has.
    """
    if metric.mirror != "distances":
        return metric.transform(as_learned_from(X, metric.mirror), rows)
    means, parts = as_learned_from(X, "mean"), []
    for plain, mean in zip(metric.basis.read(X, rows), metric.basis.read(means, rows), strict=True):
        parts.append(flip_free_codes(metric.transform(plain), metric.transform(2 * mean - plain)))
    return np.concatenate(parts)


def reading(metric: Metric, store: FeatureStore) -> tuple[Metric, FeatureStore]:
    """The metric and the store such that the one can read the other: regions are found by their names.

    Histograms have their roots taken where the metric's have. A metric that does not know how pictures became its
    descriptors takes a store with as many features as it was learned from.
    """
    if metric.extractor is None or not metric.groups:
        return metric, store
    from samekind.extraction import rooted_as

    store = rooted_as(store, metric.extractor)
    numbers = {name: k for k, name in enumerate(store.group_names)}
    missing = [name for name in metric.groups if name not in numbers]
    if missing:
        raise ValueError(
            f"The store lacks {len(missing)} of the {len(metric.groups)} regions that this model reads, such as "
            f"{missing[0]!r}: extract the pictures with the model's --families, --size and --regions."
        )
    return replace(metric, basis=_moved(metric.basis, [numbers[name] for name in metric.groups], store)), store


def _moved(basis: Basis, groups: Sequence[int], store: FeatureStore) -> Basis:
    """The same with columns of a store, where its groups have these numbers."""
    assert basis.owners is not None, "a metric with groups knows whose its columns are"
    sizes = store.group_sizes
    starts = (np.cumsum(sizes) - sizes)[list(groups)]
    order = np.argsort(basis.owners, kind="stable")
    counts = np.bincount(basis.owners, minlength=len(groups))
    within = np.empty(len(order), np.int64)
    within[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = starts[basis.owners] + within
    rising = np.argsort(columns)
    return replace(
        basis,
        columns=columns[rising],
        owners=basis.owners[rising],
        mean=None if basis.mean is None else basis.mean[rising],
        n_features=int(sizes.sum()),
        feature_names=None,
    )


def as_learned_from(X: Any, mirror: Mirror) -> Any:
    """What a learner reads of an array or a store: means of pictures and mirror images where codes are of these."""
    if mirror != "mean" or isinstance(X, MirrorMeansOf):
        return X
    _check_pictures(X)
    from samekind.extraction import mirror_means

    return mirror_means(X)


def copied_if_small(X: Any, rows: IntArray, most: int) -> Any:
    """A store with a copy of these samples in memory, if that takes at most so many bytes; anything else as it is."""
    if not isinstance(X, FeatureStore) or len(rows) * int(X.group_sizes.sum()) * X.dtype.itemsize > most:
        return X
    return CopyOf(X, rows)


def groups_with_mirror(X: Any, mirror: Mirror) -> list[int]:
    """The groups of a store of pictures whose mirror image is in it too.

    Means of a picture and its mirror image are the same in both regions of a mirror pair, in other coordinates: then
    only the first of the two is among them.
    """
    _check_pictures(X)
    from samekind.extraction import mirrored_groups

    mirrors = mirrored_groups(X.store if isinstance(X, MirrorMeansOf) else X)
    usable = np.flatnonzero(mirrors >= (np.arange(len(mirrors)) if mirror == "mean" else 0))
    if not len(usable):
        raise ValueError(
            "No region of this store has its mirror image in it, so that mirror images cannot count: extract the "
            'pictures anew, or leave mirror at "none".'
        )
    return [int(k) for k in usable]


def _check_pictures(X: Any) -> None:
    if not isinstance(X, FeatureStore) or not X.front_end:
        raise ValueError(
            'mirror="mean" and "distances" are for stores of pictures, but this is data without pictures: leave mirror '
            'at "none".'
        )


def plain_score(
    X: Any, groups: Sequence[int], rows: IntArray, labels: NDArray[Any], memory_budget: int
) -> tuple[float, float]:
    """AUC of pairs and mean average precision of plain Euclidean distance over all features, of a store of `groups`."""
    most = min(MAX_PLAIN, int((memory_budget / 16) ** 0.5))
    if len(rows) > most:
        kept = np.sort(np.random.RandomState(0).permutation(len(rows))[:most])
        rows, labels = rows[kept], labels[kept]
    D = np.zeros((len(rows), len(rows)))
    for panel in _panels(X, groups, rows):
        D += squared_distances(panel, panel)
    pairs, same = label_pairs(labels)
    auc = verify(D[pairs[:, 0], pairs[:, 1]], same).auc
    return auc, mean_average_precision(_embedded(D), labels)


def _panels(X: Any, groups: Sequence[int], rows: IntArray) -> Any:
    if not isinstance(X, FeatureStore):
        yield np.asarray(X[rows], np.float64) - X[rows].mean(axis=0)
        return
    from samekind.store import panels_of

    for panel in panels_of(X, groups, rows):
        yield panel.Z.astype(np.float64)


def _embedded(D: Array) -> Array:
    """Points with these squared distances: classical scaling."""
    centred = D - D.mean(axis=0) - D.mean(axis=1, keepdims=True) + D.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    points: Array = vectors * np.sqrt(np.maximum(values, 0))
    return points
