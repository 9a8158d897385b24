"""Z^T (S - W - W^T) Z and its kin (Eq. 6), from tiles of weights, half of the pairs being enough.

Tiles cover each unordered pair of row and column blocks once, or some rows against all columns. A tile of H holds
the weights of its pairs from both ends, so that `H + H^T = W + W^T`, and S holds the row sums of H + H^T. Each
form takes the tiles of one strip (`strip`), joins strips (`gathered`), joins what was joined (`merged`) and makes the
result of it (`finished`): strips are independent, so that they may be made in any order and by any number of threads or
machines, and so are the blocks of rows that `finished` maps over.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from samekind.kernels.exponentials import row_and_column_sums
from samekind.kernels.spectral import Matrix, symmetrised
from samekind.kernels.types import Array, Samples


class WeightTile(NamedTuple):
    rows: Samples
    cols: Samples
    H: Array  # (n, m)
    row_sums: Array  # (n,) of H; kept with it, as every form needs them
    col_sums: Array  # (m,)
    value: float  # the tile's share of the loss, where the loss is a sum over tiles
    number: int | None  # of a sample's tile

    @classmethod
    def of(cls, rows: Samples, cols: Samples, H: Array, value: float, number: int | None = None) -> "WeightTile":
        return cls(rows, cols, H, *row_and_column_sums(H), value, number)


Result_co = TypeVar("Result_co", covariant=True)
Degrees: TypeAlias = Array
StripSums: TypeAlias = tuple[Any, Degrees]  # of one strip: its part of the form without S, and its part of S
OverBlocks: TypeAlias = Callable[[Callable[[slice], Any]], Iterator[Any]]  # maps over blocks of rows, in order


class Form(Protocol[Result_co]):
    """A sum over the weights of all pairs, made strip by strip."""

    def strip(self, tiles: Iterator[WeightTile]) -> StripSums: ...

    def gathered(self, parts: Iterable[StripSums]) -> Any:
        """The parts of some strips, at least one, added up in order."""
        ...

    def merged(self, first: Any, second: Any) -> Any:
        """Two of these added up, in the memory of the first."""
        ...

    def finished(self, gathered: Any, over_blocks: OverBlocks) -> Result_co:
        """The form, from the parts of all strips."""
        ...

    def total(self, parts: Iterable[StripSums], over_blocks: OverBlocks) -> Result_co:
        return self.finished(self.gathered(parts), over_blocks)


class _Inner:
    """Base of the forms that are inner products of a fixed size: their parts are arrays that are added up."""

    def gathered(self, parts: Iterable[StripSums]) -> StripSums:
        return _summed(parts)

    def merged(self, first: StripSums, second: StripSums) -> StripSums:
        for mine, other in zip(first, second, strict=True):
            mine += other
        return first


class GramForm(_Inner, Form[Matrix]):
    """`Z^T (S - H - H^T) Z`, Z (N, D) -> (D, D): the gradient of a loss with respect to A."""

    def __init__(self, Z: Array):
        self.Z = Z

    def strip(self, tiles: Iterator[WeightTile]) -> StripSums:
        degrees = np.zeros(len(self.Z))
        return _sum(self.Z[rows].T @ HZ for rows, HZ in _products(self.Z, tiles, degrees)), degrees

    def finished(self, gathered: StripSums, over_blocks: OverBlocks) -> Matrix:
        inner, degrees = gathered
        ZSZ = _sum(over_blocks(lambda rows: _scaled(self.Z, degrees, rows).T @ self.Z[rows]))
        gram: Matrix = symmetrised(ZSZ) - inner - inner.T
        return gram


class BlockForm(_Inner, Form[list[Matrix]]):
    """The diagonal blocks of `Z^T (S - H - H^T) Z`: Z (N, D) and slices of its columns -> one matrix per slice."""

    def __init__(self, Z: Array, blocks: Sequence[slice]):
        self.Z = Z
        self.runs = [(len(run), size, slice(run[0].start, run[-1].stop)) for size, run in _equal_widths(blocks)]

    def strip(self, tiles: Iterator[WeightTile]) -> StripSums:
        degrees = np.zeros(len(self.Z))
        return _sum(self._inner(self.Z[rows], HZ) for rows, HZ in _products(self.Z, tiles, degrees)), degrees

    def finished(self, gathered: StripSums, over_blocks: OverBlocks) -> list[Matrix]:
        inner, degrees = gathered
        ZSZ = _sum(over_blocks(lambda rows: self._inner(self.Z[rows], _scaled(self.Z, degrees, rows))))
        packed, made, filled = ZSZ - 2 * inner, [], 0
        for n, size, _ in self.runs:
            entries = packed[filled : filled + n * size**2]
            made += list(symmetrised(entries.reshape(n, size, size)))
            filled += len(entries)
        return made

    def _inner(self, Z: Array, V: Array) -> Array:
        """`Z_k^T V_k` of every block, end to end in one vector."""
        parts = []
        for n, size, columns in self.runs:
            Z_k, V_k = (each[:, columns].reshape(-1, n, size) for each in (Z, V))
            parts.append((Z_k.transpose(1, 2, 0) @ V_k.transpose(1, 0, 2)).ravel())
        return np.concatenate(parts)


def _equal_widths(blocks: Sequence[slice]) -> Iterator[tuple[int, list[slice]]]:
    """Runs of blocks of one width, each next to the one before."""
    width, run = 0, list[slice]()
    for block in blocks:
        if run and (block.stop - block.start != width or block.start != run[-1].stop):
            yield width, run
            run = []
        width = block.stop - block.start
        run.append(block)
    if run:
        yield width, run


class ProductForm(Form[Matrix]):
    """`(S - H - H^T) Y`, Y (N, r) -> (N, r): what a factored gradient needs."""

    def __init__(self, Y: Array):
        self.Y = Y

    def strip(self, tiles: Iterator[WeightTile]) -> StripSums:
        products = Sums()
        degrees = np.zeros(len(self.Y))
        for tile in tiles:
            products.add(tile.rows, tile.H @ self.Y[tile.cols])
            products.add(tile.cols, tile.H.T @ self.Y[tile.rows])
            add_degrees(degrees, tile)
        return products, degrees

    def gathered(self, parts: Iterable[StripSums]) -> StripSums:
        lost, degrees = RowSums(self.Y.shape), np.zeros(len(self.Y))
        for products, more_degrees in parts:
            lost.subtract(products)
            degrees += more_degrees
        return lost, degrees

    def merged(self, first: StripSums, second: StripSums) -> StripSums:
        first[0].add(second[0])
        degrees = first[1]
        degrees += second[1]
        return first

    def finished(self, gathered: StripSums, over_blocks: OverBlocks) -> Matrix:
        product: Matrix = gathered[0].whole()
        degrees = gathered[1]
        for rows, SY in zip(
            over_blocks(lambda rows: rows), over_blocks(lambda r: _scaled(self.Y, degrees, r)), strict=True
        ):
            product[rows] += SY
        return product


class Sums:
    """Sums of arrays by the samples that they belong to."""

    def __init__(self) -> None:
        self.sums: list[tuple[Samples, Array]] = []  # few: those of one strip

    def add(self, samples: Samples, array: Array) -> None:
        for present, total in self.sums:
            if present is samples or (isinstance(samples, slice) and isinstance(present, slice) and present == samples):
                total += array
                return
        self.sums.append((samples, array))

    @property
    def first(self) -> int:
        """The first sample."""
        return min(int(each.start if isinstance(each, slice) else each[0]) for each, _ in self.sums)


class RowSums:
    """Sums for each sample (N, r), of which only those from `first` on are stored: zeros come before."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.first = shape[0]
        self.sums = np.zeros((0, *shape[1:]))

    def subtract(self, parts: Sums) -> None:
        self._reach(parts.first)
        for samples, array in parts.sums:
            if isinstance(samples, slice):
                self.sums[samples.start - self.first : samples.stop - self.first] -= array
            else:
                self.sums[samples - self.first] -= array

    def add(self, other: "RowSums") -> None:
        self._reach(other.first)
        self.sums[other.first - self.first :] += other.sums

    def whole(self) -> Matrix:
        self._reach(0)
        return self.sums

    def _reach(self, first: int) -> None:
        if first < self.first:
            wider = np.zeros((self.shape[0] - first, *self.shape[1:]))
            wider[self.first - first :] = self.sums
            self.first, self.sums = first, wider


def _products(Z: Array, tiles: Iterator[WeightTile], degrees: Degrees) -> Iterator[tuple[Samples, Array]]:
    """`H Z` of each run of tiles with the same rows; their share of S is added to `degrees`."""
    first = next(tiles)
    present, HZ = first.rows, first.H @ Z[first.cols]
    add_degrees(degrees, first)
    for tile in tiles:
        if tile.rows is present:
            HZ += tile.H @ Z[tile.cols]
        else:
            yield present, HZ
            present, HZ = tile.rows, tile.H @ Z[tile.cols]
        add_degrees(degrees, tile)
    yield present, HZ


def _scaled(Z: Array, degrees: Degrees, rows: slice) -> Array:
    """`S Z` of some rows."""
    return Z[rows] * degrees[rows, None].astype(Z.dtype)


def add_degrees(degrees: Degrees, tile: WeightTile) -> None:
    degrees[tile.rows] += tile.row_sums
    degrees[tile.cols] += tile.col_sums


def _summed(parts: Iterable[StripSums]) -> tuple[Matrix, Degrees]:
    parts = iter(parts)
    first, degrees = next(parts)
    inner = first.astype(np.float64)
    for more, more_degrees in parts:
        inner += more
        degrees += more_degrees
    return inner, degrees


def _sum(arrays: Iterator[Array]) -> Matrix:
    total = next(arrays).astype(np.float64)
    for array in arrays:
        total += array
    return total


class InnerForm(Form[tuple[Any, float]]):
    """Another form, and with it `sum_ij w_ij d0_ij` for some fixed distances d0, the derivative by their scale."""

    def __init__(self, form: Form[Any], fixed: Callable[[WeightTile], Array]):
        self.form = form
        self.fixed = fixed

    def strip(self, tiles: Iterator[WeightTile]) -> StripSums:
        inner: list[float] = []

        def passing() -> Iterator[WeightTile]:
            for tile in tiles:
                inner.append(float(np.einsum("ij,ij->i", tile.H, self.fixed(tile)).sum(dtype=np.float64)))
                yield tile

        part, degrees = self.form.strip(passing())
        return part, np.append(degrees, sum(inner))

    def gathered(self, parts: Iterable[StripSums]) -> tuple[Any, float]:
        inner: list[float] = []

        def passing() -> Iterator[StripSums]:
            for part, degrees in parts:
                inner.append(float(degrees[-1]))
                yield part, degrees[:-1]

        gathered = self.form.gathered(passing())
        return gathered, sum(inner)

    def merged(self, first: tuple[Any, float], second: tuple[Any, float]) -> tuple[Any, float]:
        return self.form.merged(first[0], second[0]), first[1] + second[1]

    def finished(self, gathered: tuple[Any, float], over_blocks: OverBlocks) -> tuple[Any, float]:
        return self.form.finished(gathered[0], over_blocks), gathered[1]
