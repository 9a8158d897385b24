"""Where step 1 is done: features of the store and present distances, and the recipes that are opened there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from samekind.compute.executor import Executor
from samekind.compute.site import Recipe, Share, Site
from samekind.compute.sources import FactoredDistances, FixedTiles, ReplayedDistances, Scaled, ScaledSum
from samekind.compute.tiles import Plan, Tile
from samekind.kernels.laplacian import BlockForm, GramForm, InnerForm, WeightTile
from samekind.kernels.sketch import ClassLayout, SplitForm
from samekind.kernels.spectral import Matrix, leading_factor
from samekind.kernels.types import Array, BoolArray, IntArray, Samples
from samekind.objective import Objective
from samekind.store import FeatureStore, centred
from samekind.store.base import columns_of
from samekind.store.scan import Sources

if TYPE_CHECKING:
    from samekind.solvers.selection.state import Step

FEATURES_KEPT = 2  # groups whose features are kept: the present one and the one before


class SelectionSite(Site):
    """The objective, the store, and the distances after the steps of the log.

    The distances of a leaf are computed when they are needed, by taking the steps one by one in their order.
    """

    log: list[Step]

    def __init__(self, objective: Objective, store: FeatureStore, room: int, token: str | None = None):
        super().__init__(token)
        self.objective: Objective = replace(objective, site=self)
        self.store = store
        self.room = room  # bytes for distances
        self.present = ReplayedDistances(objective.plan, objective.dtype, room)
        self._features: dict[int, Array] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SelectionSite, (replace(self.objective, site=None), self.store, self.room, self.token)

    @property
    def rows(self) -> IntArray:
        return self.objective.relation.order

    @cached_property
    def layout(self) -> ClassLayout:
        return ClassLayout.of(self.objective.relation.class_sizes, self.objective.memory.classes // 8)

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.store, self.rows)

    def features(self, k: int) -> Array:
        """Z (N, d) of a group, in class order, centred."""
        if k not in self._features:
            self._features = dict(list(self._features.items())[1 - FEATURES_KEPT :])
            self._features[k] = centred(self.store.panel([k], self.rows))
        return self._features[k]

    def distances(self) -> Present:
        """A recipe of the distances under the present metric."""
        return Present(len(self.log))

    def present_at(self, n_steps: int, leaves: Share) -> ReplayedDistances:
        self.present.bring_to(n_steps, leaves, self._codes, self.objective.executor)
        return self.present

    def _codes(self, t: int) -> tuple[float, Array]:
        step = self.log[t]
        Z = self.features(step.group)
        return step.alpha, Z @ leading_factor(step.A, share=0.0).astype(Z.dtype)

    def on(self, plan: Plan, executor: Executor | None = None) -> FixedTiles:
        """The present distances of another plan's tiles: of some anchors, say."""
        executor, n = self.objective.executor, len(self.log)
        if not executor.is_remote:
            return self.present_at(n, range(len(self.objective.plan.leaves()))).on(plan, executor)
        if not n or not self.present.keeps_all:
            return self.present_at(n, ()).on(plan, executor)
        tiles = list(plan.tiles())
        made = [np.zeros(tile.shape, self.present.codes.dtype) for tile in tiles]
        wanted_of = cache(lambda number: wanted_cells(self.objective, tiles[number]))
        for parts in executor.over_leaves(self.objective, cells_on, n, plan):
            for number, at_rows, at_cols, part in parts:
                here, wanted = made[number][at_rows, at_cols], wanted_of(number)
                here[... if wanted is None else wanted[at_rows, at_cols]] = part
        return FixedTiles({tile.key: cells for tile, cells in zip(tiles, made, strict=True)})


def cells_on(objective: Objective, leaves: Share, n_steps: int, plan: Plan) -> list[tuple[int, slice, slice, Array]]:
    """What these leaves have of the tiles of another plan: number of the tile, places in it, distances."""
    site = site_of(objective)
    present = site.present_at(n_steps, leaves)
    keys = {tile.key for strip in objective.plan.strips_of(leaves) for tile in strip}

    def of_tile(at: tuple[int, Tile]) -> list[tuple[int, slice, slice, Array]]:
        number, tile = at
        return [(number, *found) for found in present.kept_cells(tile, keys, partial(wanted_cells, objective))]

    return [each for parts in objective.executor.map(of_tile, enumerate(plan.tiles())) for each in parts]


def wanted_cells(objective: Objective, tile: Tile) -> BoolArray | None:
    """The pairs of one class where the others do not count, which saves most of the transport; None for all."""
    if tile.others:
        return None
    wanted = np.zeros(tile.shape, bool)
    wanted[objective.relation.tile(tile.rows, tile.cols).same] = True
    return wanted


def site_of(objective: Objective) -> SelectionSite:
    assert isinstance(objective.site, SelectionSite)
    return objective.site


@dataclass(frozen=True)
class Present(Recipe):
    """D0, the distances after some steps."""

    n_steps: int

    def open(self, site: SelectionSite, leaves: Share) -> ReplayedDistances:
        return site.present_at(self.n_steps, leaves)


@dataclass(frozen=True)
class ScaledPresent(Recipe):
    """`alpha * D0`"""

    n_steps: int
    alpha: float

    def open(self, site: SelectionSite, leaves: Share) -> Scaled:
        return Scaled(self.alpha, site.present_at(self.n_steps, leaves))


@dataclass(frozen=True, eq=False)
class BlockDistances(Recipe):
    """`alpha * D0 + D(A; Z)`, Z being a group's features."""

    n_steps: int
    group: int
    alpha: float
    A: Matrix

    def open(self, site: SelectionSite, leaves: Share) -> ScaledSum:
        Z = site.features(self.group)
        own = FactoredDistances.quadratic(Z, Z @ self.A.astype(Z.dtype))
        return ScaledSum(self.alpha, site.present_at(self.n_steps, leaves), own)


@dataclass(frozen=True)
class BlockGradient(Recipe):
    """The gradient of the loss by A_k and by alpha."""

    group: int

    def open(self, site: SelectionSite, leaves: Share) -> InnerForm:
        return block_gradient(site.features(self.group), site.present)


def block_gradient(Z: Array, present: Any) -> InnerForm:
    """`Z^T (S - H - H^T) Z` and `sum_ij w_ij d0_ij`, D0 being the present distances."""

    def fixed(tile: WeightTile) -> Array:
        cells: Array = present.tile(Tile(tile.rows, tile.cols, tile.number))
        return cells

    return InnerForm(GramForm(Z), fixed)


@dataclass(frozen=True)
class GroupBlocks(Recipe):
    """The gradients of some groups' blocks, side by side."""

    groups: Sequence[int]

    def open(self, site: SelectionSite, leaves: Share) -> BlockForm:
        Z = centred(site.store.panel(self.groups, site.rows))
        return BlockForm(Z, columns_of(site.store, self.groups))


@dataclass(frozen=True, eq=False)
class SketchForm(Recipe):
    """The parts of the Laplacian, the smooth one times Y (N, r)."""

    Y: Array

    def open(self, site: SelectionSite, leaves: Share) -> SplitForm:
        relation = site.objective.relation

        def same(rows: Samples, cols: Samples) -> tuple[IntArray, IntArray]:
            return relation.tile(rows, cols).same

        return SplitForm(self.Y, site.layout, same)
