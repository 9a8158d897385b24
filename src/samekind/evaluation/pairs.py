"""Pairs drawn from labels, and their squared distances, without ever holding all N^2 of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_at_least, check_codes, check_labels

IntArray = NDArray[np.int64]
Distance = Callable[[NDArray[Any], NDArray[Any]], ArrayLike]


def label_pairs(
    labels: ArrayLike, *, max_pairs: int = 200_000, random_state: int | np.random.Generator | None = 0
) -> tuple[IntArray, NDArray[np.bool_]]:
    """As many same-class as other-class pairs, each kind drawn uniformly from all of its pairs, none twice.

    Returns pairs (m, 2) with i < j, the same-class ones first, and same (m,). Memory is O(N + max_pairs).
    """
    labels = check_labels(labels)
    check_at_least(max_pairs, 2, "max_pairs")
    if len(labels) < 2:
        raise ValueError(f"A pair needs two samples; got {len(labels)} label(s).")
    order, block_ends = _class_blocks(labels)
    same_runs, other_runs = _partner_runs(block_ends, same=True), _partner_runs(block_ends, same=False)
    n_same, n_other = int(same_runs[1].sum()), int(other_runs[1].sum())
    _check_both_kinds(n_same, n_other, len(labels))
    n_each = min(max_pairs // 2, n_same, n_other)
    rng = np.random.default_rng(random_state)
    drawn = [_pairs_of_ranks(_draw(rng, n_same, n_each), *same_runs)]
    drawn += [_pairs_of_ranks(_draw(rng, n_other, n_each), *other_runs)]
    pairs = np.sort(order[np.concatenate(drawn)], axis=1)
    return pairs, np.repeat([True, False], n_each)


def pair_distances(
    codes: ArrayLike, pairs: ArrayLike, *, distance: Distance | None = None, chunk: int = 8192
) -> NDArray[np.float64]:
    """`||x_i - x_j||^2` of each pair (i, j), or its `distance`, in float64, `chunk` pairs at a time."""
    codes = check_codes(codes)
    pairs = _check_pair_indices(pairs, len(codes))
    check_at_least(chunk, 1, "chunk")
    return row_distances(codes, pairs[:, 0], pairs[:, 1], distance, chunk)


def row_distances(
    codes: NDArray[Any], left: IntArray, right: IntArray, distance: Distance | None, chunk: int
) -> NDArray[np.float64]:
    """Squared distances of pairs of codes, `chunk` at a time."""
    values = np.empty(len(left))
    for start in range(0, len(left), chunk):
        some = slice(start, start + chunk)
        values[some] = compared(codes[left[some]].astype(np.float64, copy=False), codes[right[some]], distance)
    return values


def compared(a: NDArray[Any], b: NDArray[Any], distance: Distance | None) -> NDArray[np.float64]:
    """Checked squared distances (m,) of codes (m, r), row by row; may overwrite `a`."""
    if distance is None:
        a -= b
        return np.asarray(np.einsum("ij,ij->i", a, a))
    values = np.asarray(distance(a, b), dtype=np.float64)
    if values.shape != (len(a),) or not np.isfinite(values).all():
        raise ValueError(
            f"distance must give one finite squared distance per row, ({len(a)},); got shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with NaN or infinite values'}."
        )
    return values


def _class_blocks(labels: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Samples in class order, and for each place in it the place where its class ends."""
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return np.argsort(classes, kind="stable"), np.repeat(np.cumsum(sizes), sizes)


def _partner_runs(block_ends: IntArray, same: bool) -> tuple[IntArray, IntArray]:
    """Of each place in class order: the first of its later partners of a kind, which are one run, and their number."""
    places = np.arange(len(block_ends))
    return (places + 1, block_ends - places - 1) if same else (block_ends, len(block_ends) - block_ends)


def _draw(rng: np.random.Generator, total: int, size: int) -> IntArray:
    """`size` of the ranks 0 .. total - 1, each at most once, in order."""
    if size == total:
        return np.arange(total)
    return np.sort(rng.choice(total, size, replace=False, shuffle=False))


def _pairs_of_ranks(ranks: IntArray, first_partner: IntArray, n_partners: IntArray) -> IntArray:
    """Pair number r, counting through the partners of place 0, then of place 1, and so on."""
    ends = np.cumsum(n_partners)
    left = np.searchsorted(ends, ranks, side="right")
    right = first_partner[left] + ranks - (ends - n_partners)[left]
    return np.stack([left, right], axis=1)


def _check_both_kinds(n_same: int, n_other: int, n_samples: int) -> None:
    if n_same == 0:
        raise ValueError(
            f"No same-class pair: each of the {n_samples} samples is alone in its class. "
            "Give at least one class two samples."
        )
    if n_other == 0:
        raise ValueError(f"No other-class pair: all {n_samples} samples are of one class. Give at least two classes.")


def _check_pair_indices(pairs: ArrayLike, n_samples: int) -> IntArray:
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"pairs must be integers of shape (n_pairs, 2); got {array.dtype} of shape {array.shape}.")
    if array.size and not 0 <= array.min() <= array.max() < n_samples:
        raise ValueError(
            f"pairs must name samples 0 to {n_samples - 1}; got indices from {array.min()} to {array.max()}."
        )
    return array.astype(np.int64, copy=False)
