"""Squared distances of all pairs within parts of samples, with the classes that they join, in bounded memory.

Pairs are counted through in an order that depends on labels and codes alone, so that the order of the samples does
not change the answer. Above a cap, one pair is drawn from each of as many equal runs of that order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_codes, check_labels, check_same_length
from samekind.evaluation.pairs import (
    Distance,
    _check_both_kinds,
    _class_blocks,
    _pairs_of_ranks,
    _partner_runs,
    row_distances,
)
from samekind.kernels.distances import squared_distances

FloatArray = NDArray[np.float64]
ClassArray = NDArray[np.int32]

MAX_PAIRS = 5_000_000  # of either kind
MOST_SAMPLES = 10  # a larger class counts for no more than one of this size


@dataclass(frozen=True)
class _AtOnce:
    """How many pairs are compared at a time."""

    cells: int = 2_000_000  # of a tile of distances: 16 MB, twice that at worst
    rows: int = 8192  # where they do not fill a tile


@dataclass(frozen=True, eq=False)
class ClassPairs:
    """Squared distances (m,) of pairs of one kind, and the numbers of the two classes that each joins."""

    distances: FloatArray
    first: ClassArray
    second: ClassArray

    def __len__(self) -> int:
        return len(self.distances)

    def by_distance(self) -> "ClassPairs":
        """The same pairs, nearest first."""
        order = np.argsort(self.distances, kind="stable")
        return ClassPairs(self.distances[order], self.first[order], self.second[order])


@dataclass(frozen=True, eq=False)
class BothKinds:
    """Same-class and other-class pairs, each kind evenly from all of its pairs; sizes are (n_parts, n_classes)."""

    same: ClassPairs
    other: ClassPairs
    sizes: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        return self.sizes.shape[1]

    @property
    def n_samples(self) -> int:
        return int(self.sizes.sum())

    def same_weights(self) -> FloatArray:
        """Weights of the same-class pairs for which no class counts for too much: 1, and less in large classes.

        A class of n samples has n (n - 1) / 2 pairs, so that one large class can outweigh hundreds of small ones. Here
        all pairs of a larger class together weigh as much as those of a class of `MOST_SAMPLES` samples.
        """
        pairs, most = (self.sizes * (self.sizes - 1) // 2).sum(axis=0), MOST_SAMPLES * (MOST_SAMPLES - 1) / 2
        return np.asarray(most / np.maximum(pairs, most)[self.same.first])


def class_pairs(
    parts: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    distance: Distance | None = None,
    max_pairs: int = MAX_PAIRS,
    random_state: int | np.random.Generator | None = 0,
) -> BothKinds:
    """Pairs of samples of one part, pooled over the parts (codes, labels).

    Distances are squared Euclidean, unless `distance` is given: it maps two arrays of codes (m, r), paired row by row,
    to squared distances (m,).
    """
    rng = np.random.default_rng(random_state)
    checked = [_check_part(codes, labels) for codes, labels in parts]
    if not checked:
        raise ValueError("parts is empty. Give at least one (codes, labels).")
    names, numbers = np.unique(np.concatenate([labels for _, labels in checked]), return_inverse=True)
    edges = np.cumsum([len(labels) for _, labels in checked])[:-1]
    ordered = [_in_order(codes, own) for (codes, _), own in zip(checked, np.split(numbers, edges), strict=True)]
    sizes = np.array([np.bincount(classes, minlength=len(names)) for _, classes in ordered])
    n_same = int((sizes * (sizes - 1) // 2).sum())
    n_other = int((sizes.sum(axis=1) * (sizes.sum(axis=1) - 1) // 2).sum()) - n_same
    _check_both_kinds(n_same, n_other, int(sizes.sum()))
    same, other = (
        _pooled(ordered, kind, max_pairs / total, distance, rng) for kind, total in ((True, n_same), (False, n_other))
    )
    return BothKinds(same, other, sizes)


def _check_part(codes: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    codes, labels = check_codes(codes), check_labels(labels)
    check_same_length(codes, "codes", labels, "labels")
    return codes, labels


def _in_order(codes: NDArray[Any], classes: NDArray[Any]) -> tuple[FloatArray, ClassArray]:
    """Samples by class, and within it by their codes."""
    order = np.lexsort((*codes.T[::-1], classes))
    return codes[order].astype(np.float64), classes[order].astype(np.int32)


def _pooled(
    parts: Sequence[tuple[FloatArray, ClassArray]],
    same: bool,
    share: float,
    distance: Distance | None,
    rng: np.random.Generator,
    at_once: _AtOnce = _AtOnce(),
) -> ClassPairs:
    found = [chunk for part in parts for chunk in _chunks(part, same, share, distance, rng, at_once)]
    distances, first, second = (np.concatenate(column) for column in zip(*found, strict=True))
    return ClassPairs(distances, first, second)


def _chunks(
    part: tuple[FloatArray, ClassArray],
    same: bool,
    share: float,
    distance: Distance | None,
    rng: np.random.Generator,
    at_once: _AtOnce,
) -> Iterator[tuple[FloatArray, ClassArray, ClassArray]]:
    """Distances and classes of the drawn pairs of one part, some at a time."""
    codes, classes = part
    block_ends = _class_blocks(classes)[1]
    runs = _partner_runs(block_ends, same)
    centred = codes - codes.mean(axis=0)
    for ranks in _ranks(int(runs[1].sum()), share, rng, at_once):
        left, right = _pairs_of_ranks(ranks, *runs).T
        tile = None if distance is not None else _tile_distances(centred, left, right, 2 * at_once.cells)
        values = row_distances(codes, left, right, distance, at_once.rows) if tile is None else tile
        yield values, classes[left], classes[right]


def _ranks(total: int, share: float, rng: np.random.Generator, at_once: _AtOnce) -> Iterator[NDArray[np.int64]]:
    """0 .. total - 1, or one of each run of 1 / share of them, rising, some at a time."""
    size = total if share >= 1 else max(min(total, 1), round(total * share))
    stride = total / max(size, 1)
    step = max(at_once.rows, int(at_once.cells / max(stride, 1)))
    for start in range(0, size, step):
        numbers = np.arange(start, min(start + step, size))
        if size == total:
            yield numbers
        else:
            drawn = np.minimum((numbers + rng.random(len(numbers))) * stride, total - 1).astype(np.int64)
            # A rank on the border of two runs can be drawn from both.
            yield drawn[np.append(True, np.diff(drawn) > 0)]


def _tile_distances(
    centred: FloatArray, left: NDArray[np.int64], right: NDArray[np.int64], most_cells: int
) -> FloatArray | None:
    """By one product, where the pairs lie in a tile of bounded size; None where they do not."""
    rows, columns = slice(left[0], left[-1] + 1), slice(right.min(), right.max() + 1)
    if (rows.stop - rows.start) * (columns.stop - columns.start) > most_cells:
        return None
    tile = squared_distances(centred[rows], centred[columns])
    return np.asarray(tile[left - rows.start, right - columns.start])
