"""The Laplacian S - H - H^T in a form that scores a feature group in N d^2 instead of N^2 d.

S is kept as it is, and so is the part of same-class pairs, block diagonal in class order; only the part of other-class
pairs, off the diagonal and smooth, is sketched as Q B Q^T, Q by subspace iteration from round to round.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from samekind.kernels.laplacian import Degrees, Form, OverBlocks, RowSums, StripSums, Sums, WeightTile, add_degrees
from samekind.kernels.spectral import Matrix, symmetrised
from samekind.kernels.types import Array, IntArray, Samples, full_lanes, places

SHORTEST = 1e-5  # directions shorter than this share of the longest are dropped: their squares are rounding errors
PROBES = 8  # random directions in addition to Q: they estimate what it misses, and help to find new directions


class Upper(NamedTuple):
    """The entries above the diagonal of a block diagonal matrix, in panels.

    A symmetric product needs only these, counted twice, as the diagonal is zero.
    """

    panels: IntArray  # (n, 5): samples of the first row and column, rows, columns, where its entries begin
    entries: IntArray  # of the matrix, panel by panel
    times: Array  # how often each counts: 2, or 0 where a panel reaches below


@dataclass(frozen=True)
class ClassLayout:
    """Storage of a matrix that is block diagonal over runs of samples: its blocks, end to end in one array."""

    starts: IntArray  # (n_blocks,) first sample of each block
    sizes: IntArray  # (n_blocks,)
    n_samples: int
    big_class: int = 32  # classes of at least this size are multiplied as matrices, in panels
    panel_rows: int = 96  # rows of such a panel

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassLayout, (self.starts, self.sizes, self.n_samples, self.big_class, self.panel_rows)

    @classmethod
    def of(cls, class_sizes: IntArray, most_cells: int) -> "ClassLayout":
        """Layout of the classes of two or more samples; where not all fit into `most_cells`, the smallest."""
        starts = np.cumsum(class_sizes) - class_sizes
        rising = np.argsort(class_sizes, kind="stable")
        fits = np.empty(len(class_sizes), bool)
        fits[rising] = np.cumsum(class_sizes[rising].astype(np.int64) ** 2) <= most_cells
        kept = fits & (class_sizes > 1)
        return cls(starts[kept], class_sizes[kept], int(class_sizes.sum()))

    @cached_property
    def offsets(self) -> IntArray:
        """Offset of each block among the entries, and the number of entries."""
        return np.concatenate([[0], np.cumsum(self.sizes.astype(np.int64) ** 2)]).astype(np.intp)

    @cached_property
    def block_of(self) -> IntArray:
        """The block of each sample; -1 where it has none."""
        blocks = np.full(self.n_samples, -1, dtype=np.intp)
        for b, (start, size) in enumerate(zip(self.starts.tolist(), self.sizes.tolist(), strict=True)):
            blocks[start : start + size] = b
        return blocks

    def places(self, i: IntArray, j: IntArray) -> tuple[IntArray, IntArray]:
        """Which of some pairs of one class have an entry, and where: `chosen, entries`."""
        blocks = self.block_of[i]
        chosen = np.flatnonzero(blocks >= 0)
        b = blocks[chosen]
        entries = self.offsets[b] + (i[chosen] - self.starts[b]) * self.sizes[b] + (j[chosen] - self.starts[b])
        return chosen, entries

    @cached_property
    def upper(self) -> Upper:
        """Small blocks row by row; big ones in several rows at once, as a matrix product each."""
        small, big = np.flatnonzero(self.sizes < self.big_class), np.flatnonzero(self.sizes >= self.big_class)
        panels, entries = self._rows_above(small)
        times = [np.full(len(entries), 2, np.float32)]
        all_panels, all_entries, filled = [panels], [entries], len(entries)
        for start, size, at in zip(
            *(each[big].tolist() for each in (self.starts, self.sizes, self.offsets)), strict=True
        ):
            for row in range(0, size - 1, self.panel_rows):
                i, j = np.ogrid[row : min(row + self.panel_rows, size - 1), row + 1 : size]
                all_panels.append(np.array([[start + row, start + row + 1, len(i), j.size, filled]]))
                all_entries.append((at + i * size + j).ravel())
                times.append(np.float32(2) * (j > i).ravel())
                filled += len(all_entries[-1])
        return Upper(
            np.concatenate(all_panels).astype(np.intp),
            np.concatenate(all_entries).astype(np.intp),
            np.concatenate(times).astype(np.float32),
        )

    def _rows_above(self, blocks: IntArray) -> tuple[IntArray, IntArray]:
        """Panels (n, 5) and entries of these blocks, a row without its diagonal each."""
        n_rows = self.sizes[blocks] - 1
        b = np.repeat(blocks, n_rows)
        row = np.arange(len(b)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
        lengths = self.sizes[b] - 1 - row
        filled = np.cumsum(lengths) - lengths
        sample, begin = self.starts[b] + row, self.offsets[b] + row * (self.sizes[b] + 1) + 1
        entries = np.repeat(begin - filled, lengths) + np.arange(int(lengths.sum()))
        return np.column_stack([sample, sample + 1, np.ones_like(row), lengths, filled]), entries

    def times(self, entries: Array, Y: Array) -> Array:
        """The block diagonal matrix times Y (N, r)."""
        product = np.zeros_like(Y)
        for start, size, at in zip(self.starts.tolist(), self.sizes.tolist(), self.offsets.tolist(), strict=False):
            run = slice(start, start + size)
            product[run] = entries[at : at + size**2].reshape(size, size).astype(Y.dtype) @ Y[run]
        return product


@dataclass(frozen=True)
class Split:
    degrees: Degrees  # (N,) diagonal of S
    same: Array  # entries of H + H^T over pairs of one class, as the layout has them
    others: Matrix  # (N, r): the rest of H + H^T, times Y


class SplitForm(Form[Split]):
    """S, the same-class part of H + H^T, and the rest of it times Y (N, r)."""

    def __init__(self, Y: Array, layout: ClassLayout, same: "Same"):
        self.Y = Y
        self.layout = layout
        self.same = same

    def strip(self, tiles: Iterator[WeightTile]) -> StripSums:
        products, degrees = Sums(), np.zeros(len(self.Y))
        found: list[tuple[Samples, Samples, Array]] = []
        for tile in tiles:
            products.add(tile.rows, tile.H @ self.Y[tile.cols])
            products.add(tile.cols, tile.H.T @ self.Y[tile.rows])
            add_degrees(degrees, tile)
            pairs = self.same(tile.rows, tile.cols)
            if len(pairs[0]):
                found.append((tile.rows, tile.cols, tile.H[pairs]))
        return (products, found), degrees

    def gathered(self, parts: Iterable[StripSums]) -> "_Gathered":
        made = _Gathered(RowSums(self.Y.shape), np.zeros(len(self.Y)), [])
        for (products, found), degrees in parts:
            made.lost.subtract(products)
            made.degrees += degrees
            made.found.extend(found)
        return made

    def merged(self, first: "_Gathered", second: "_Gathered") -> "_Gathered":
        first.lost.add(second.lost)
        first.degrees += second.degrees
        first.found.extend(second.found)
        return first

    def finished(self, gathered: "_Gathered", over_blocks: OverBlocks) -> Split:
        same = np.zeros(self.layout.offsets[-1])
        for rows, cols, H in gathered.found:
            i, j = self.same(rows, cols)
            i, j, h = places(rows)[i], places(cols)[j], H.astype(np.float64)
            for a, b in ((i, j), (j, i)):
                chosen, entries = self.layout.places(a, b)
                np.add.at(same, entries, h[chosen])
        return Split(gathered.degrees, same, -gathered.lost.whole() - self.layout.times(same, self.Y))


@dataclass
class _Gathered:
    lost: RowSums
    degrees: Degrees
    found: list[tuple[Samples, Samples, Array]]  # H of the same-class pairs of each tile


@dataclass(frozen=True)
class SketchedLaplacian:
    """`diag(degrees) - C - Q B Q^T`, C block diagonal over classes."""

    layout: ClassLayout
    degrees: Array  # (N,) float32
    same: Array  # entries of C, float32
    Q: Array  # (N, r) float32
    B: Matrix  # (r, r)
    missed: float  # share of the smooth part, in norm, that Q B Q^T misses, estimated by random probes

    def __reduce__(self) -> tuple[Any, ...]:
        return SketchedLaplacian, (self.layout, self.degrees, self.same, self.Q, self.B, self.missed)

    @property
    def rank(self) -> int:
        return len(self.B)

    def blocks(self, Z: Array) -> Matrix:
        """`Z_k^T (this) Z_k` (w, w) of each in a stack Z (n, N, w), contiguous and centred."""
        from samekind.kernels.blocks import weighted  # loads a compiler

        n, _, width = Z.shape
        V = self._buffer(width)
        products = np.empty((n, V.shape[1], width), np.float32)
        for Z_k, product in zip(Z, products, strict=True):
            weighted(Z_k, self.degrees, *self._upper, V)
            np.matmul(V.T, Z_k, out=product)
        G = symmetrised(products[:, :width].astype(np.float64))
        P = products[:, width : width + self.rank].astype(np.float64)
        G -= np.swapaxes(P, 1, 2) @ self.B @ P
        return G

    def _buffer(self, width: int) -> Array:
        """(N, w + r) with Q in the last columns, and zeros up to full lanes: products of other widths are much slower.

        It is memory of this thread: fresh memory for each group would cost as much as the sums.
        """
        if getattr(self._local, "width", None) != width:
            self._local.width = width
            self._local.buffer = np.zeros((len(self.Q), width + full_lanes(self.rank)), np.float32)
            self._local.buffer[:, width : width + self.rank] = self.Q
        buffer: Array = self._local.buffer
        return buffer

    @cached_property
    def _upper(self) -> tuple[IntArray, Array]:
        """Twice what C has above its diagonal, as the layout's panels."""
        upper = self.layout.upper
        return upper.panels, self.same[upper.entries] * upper.times

    @cached_property
    def _local(self) -> threading.local:
        return threading.local()


Same: TypeAlias = Callable[[Samples, Samples], tuple[IntArray, IntArray]]  # of a tile: its pairs of one class


@dataclass(frozen=True)
class Range:
    """The subspace in which the smooth part is sketched, improved from round to round.

    Weights change little between rounds. So one pass over them gives both the sketch in the present directions and, as
    in subspace iteration, better ones for the next round.
    """

    Q: Array  # (N, r) orthonormal, float32

    @classmethod
    def first(cls, n_samples: int, rank: int, rng: np.random.RandomState) -> "Range":
        """The vector of ones, all that is needed while all distances are equal, and random directions."""
        Y = rng.standard_normal((n_samples, min(rank, n_samples)))
        Y[:, 0] = n_samples
        return cls(_orthonormal(Y, rank))

    def with_probes(self, rank: int, rng: np.random.RandomState) -> Array:
        """Q and random probes (N, r + p): what the smooth part is to be multiplied by, for `rank` directions next."""
        n, r = self.Q.shape
        probes = rng.standard_normal((n, PROBES + max(0, rank - r))).astype(np.float32)
        return np.hstack([self.Q, probes])

    def sketch(self, split: Split, Y: Array, layout: ClassLayout, rank: int) -> tuple[SketchedLaplacian, "Range"]:
        """The Laplacian with its smooth part in these directions, and directions for the next round, `rank` of them.

        `split` is what the weights make of `Y`, the directions `with_probes`.
        """
        r = self.Q.shape[1]
        Q, probes = self.Q.astype(np.float64), Y[:, r:]
        B = symmetrised(Q.T @ split.others[:, :r])
        of_probes = split.others[:, r:]
        rest = of_probes - Q @ (B @ (Q.T @ probes))
        missed = float(np.linalg.norm(rest) / max(float(np.linalg.norm(of_probes)), np.finfo(float).tiny))
        degrees, entries = split.degrees.astype(np.float32), split.same.astype(np.float32)
        laplacian = SketchedLaplacian(layout, degrees, entries, self.Q, B, missed)
        # Probes count as much as Q's columns, which are of unit length.
        seen = np.hstack([split.others[:, :r], of_probes / layout.n_samples**0.5])
        return laplacian, Range(_orthonormal(seen, min(rank, layout.n_samples)))


def _orthonormal(Y: Matrix, rank: int) -> Array:
    """The leading directions of the columns, rounded to float32: (N, at most rank)."""
    squares, V = np.linalg.eigh(Y.T @ Y)  # in a fifth of an SVD's time
    lengths, V = np.sqrt(np.maximum(squares[::-1], 0))[:rank], V[:, ::-1][:, :rank]
    kept = lengths > SHORTEST * lengths[:1]
    return np.ascontiguousarray((Y @ (V[:, kept] / lengths[kept])).astype(np.float32))
