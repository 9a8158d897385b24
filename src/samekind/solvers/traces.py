"""The traces of all groups' gradients, estimated in every round for next to nothing: scores change as they do.

`tr X_k^T (S - H - H^T) X_k = sum_i s_i |x_i|^2 - 2 sum_{i<j} (h_ij + h_ji) x_i . x_j`: the first sum is over all
samples, or as many as memory allows, the second is estimated from some pairs. Squared lengths and products are kept as
bytes, as errors of rounding cancel over thousands of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.types import Array, IntArray
from samekind.relation import Relation

PAIRS = 2_048  # of one class, and as many of two
ALIKE = 512  # pairs of two classes whose distances tell which groups are alike

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Witnesses:
    """Samples and pairs of samples, in class order, that stand for all."""

    rows: IntArray
    row_counts: float  # for how many samples each stands
    first: IntArray
    second: IntArray
    pair_counts: Vector  # for how many pairs each stands
    n_same: int  # pairs of one class: they come first

    @classmethod
    def of(cls, relation: Relation, most: int, rng: np.random.RandomState) -> "Witnesses":
        """As many samples and pairs as `most` in all, and no more than it takes.

        As many pairs are the same pairs, whatever there is room for beside them.
        """
        n, n_pairs = relation.n_samples, min(PAIRS, max(most // 4, 1))
        starts = np.cumsum(relation.class_sizes) - relation.class_sizes
        with_partners = np.flatnonzero(relation.n_same)
        i = rng.choice(with_partners, n_pairs if len(with_partners) else 0)
        start, size = starts[relation.codes[i]], relation.class_sizes[relation.codes[i]]
        j = start + (i - start + 1 + rng.randint(np.maximum(size - 1, 1))) % size
        of_same = len(with_partners) * (size - 1) / 2 / n_pairs
        a = rng.randint(n, size=n_pairs)
        start, size = starts[relation.codes[a]], relation.class_sizes[relation.codes[a]]
        b = (start + size + rng.randint(n - size)) % n
        of_others = n / (1 / (n - size) + 1 / (n - relation.class_sizes[relation.codes[b]])) / n_pairs
        counts = np.concatenate([of_same, of_others])
        rows = np.arange(n)
        if n + 2 * n_pairs > most:
            rows = np.sort(rng.permutation(n)[: max(most - 2 * n_pairs, 1)])
        return cls(rows, n / len(rows), np.concatenate([i, a]), np.concatenate([j, b]), counts, len(i))


class Kept(NamedTuple):
    """Of some groups, one row each."""

    lengths: NDArray[np.uint8]  # squared, of the witnesses, relative to their mean, in units
    length_units: Array
    products: NDArray[np.int8]  # of their pairs
    product_units: Array
    distances: NDArray[np.float32]  # squared, of some pairs

    @classmethod
    def of(cls, groups: Iterable[Array], witnesses: Witnesses) -> "Kept":
        """From the samples of each group, X (N, d)."""
        lengths, products, distances = [], [], []
        first, second = witnesses.first, witnesses.second
        some = slice(witnesses.n_same, witnesses.n_same + ALIKE)
        at_first: Array | None = None
        at_second: Array | None = None  # memory for all of them
        for X in groups:
            squares = np.einsum("nd,nd->n", X, X)
            mean = max(float(squares.mean()), float(np.finfo(np.float32).tiny))
            at_first = np.take(X, first, axis=0, out=at_first, mode="clip")
            at_second = np.take(X, second, axis=0, out=at_second, mode="clip")
            product = np.einsum("pd,pd->p", at_first, at_second)
            lengths.append(squares[witnesses.rows] / mean)
            products.append(product / mean)
            distances.append(squares[first[some]] + squares[second[some]] - 2 * product[some])
        return cls(*_as_bytes(lengths, np.uint8), *_as_bytes(products, np.int8), np.maximum(distances, 0))


def _as_bytes(values: Sequence[Array], kind: Any) -> tuple[NDArray[Any], Array]:
    """In units of each row's own."""
    stacked = np.array(values)
    units = np.abs(stacked).max(axis=1) / np.iinfo(kind).max
    units[units == 0] = 1
    return np.rint(stacked / units[:, np.newaxis]).astype(kind), units


@dataclass(frozen=True)
class Traces:
    """What is kept of all groups, in parts."""

    witnesses: Witnesses
    parts: list[Kept]

    @property
    def distances(self) -> NDArray[np.float32]:
        return np.concatenate([part.distances for part in self.parts])

    def of(self, degrees: Array, pairs: Array) -> Vector:
        """Traces (K,), relative to the mean squared length of a group's samples.

        `degrees`: the diagonal of S (N,); `pairs`: h_ij + h_ji of the witnesses' pairs. Linear in both.
        """
        s = (self.witnesses.row_counts * degrees[self.witnesses.rows]).astype(np.float32)
        h = (2 * self.witnesses.pair_counts * pairs).astype(np.float32)

        def of_part(part: Kept) -> Vector:
            lengths = part.length_units * (part.lengths.astype(np.float32) @ s)
            products = part.product_units * (part.products.astype(np.float32) @ h)
            return lengths.astype(np.float64) - products

        return np.concatenate([of_part(part) for part in self.parts])
