"""What a loss is: a function of tiles of distances and of the relation, never of the data.

A loss with row statistics goes over all tiles once to make them (`statistics`, joined by `merge_log_sum_exp`), turns
them into its value and what the weights need of each anchor (`anchors`), then gives the weights of any tile.
A loss without them has a value on each tile instead.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.reductions import LogSums
from samekind.kernels.types import Array, IntArray
from samekind.relation import PairTile, Relation


class Anchors(NamedTuple):
    """What the weights need of each sample: of all of them, or of the rows or columns of one tile."""

    factors: NDArray[np.float64]  # (n,)
    statistics: LogSums  # (n, n_statistics)

    def of(self, part: slice | IntArray) -> "Anchors":
        return Anchors(self.factors[part], self.statistics[part])


class BoundLoss(Protocol):
    """A loss with the normalisers of one relation."""

    @property
    def n_statistics(self) -> int:
        """Running row statistics that the weights need; 0 for none."""
        ...

    @property
    def has_tile_values(self) -> bool:
        """Whether the value is a sum over tiles; or else it comes from the row statistics."""
        ...

    @property
    def has_all_same(self) -> bool:
        """Whether same-class pairs count one by one, so that a sample of anchors may be joined by all of them."""
        ...

    def anchor_candidates(self, relation: Relation) -> IntArray:
        """The samples that anchors may be drawn from."""
        ...

    def on_anchors(self, anchors: IntArray) -> "BoundLoss":
        """The same loss, its mean over rows taken over some anchors."""
        ...

    def statistics(self, D: Array, pairs: PairTile, mirrored: bool) -> tuple[LogSums, LogSums | None]:
        """Row statistics (n, n_statistics) of a tile's rows and, where it is mirrored, of its columns (m, ...)."""
        ...

    def anchors(self, statistics: LogSums) -> tuple[float, Anchors]:
        """The merged row statistics (N, n_statistics), made into the value and what the weights need."""
        ...

    def anchor_values(self, statistics: LogSums) -> NDArray[np.float64]:
        """What each sample adds to the value by way of its row statistics, (N,)."""
        ...

    def tile_value(self, D: Array, pairs: PairTile, rows: Anchors, mirrored: bool) -> float: ...

    def tile_weights(
        self, D: Array, pairs: PairTile, rows: Anchors, cols: Anchors | None, out: Array | None = None
    ) -> tuple[float, Array]:
        """The tile's value and its H (see kernels.laplacian); `cols` is None where the tile is not mirrored.

        `out`: memory for H, which may be taken.
        """
        ...


class Loss(Protocol):
    def bind(self, relation: Relation) -> BoundLoss: ...
