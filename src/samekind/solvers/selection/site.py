"""Where step 1 is done: features of the store and present distances, and the recipes that are opened there."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from samekind.compute.present import PresentSite
from samekind.compute.site import Recipe, Share
from samekind.compute.sources import FactoredDistances, ScaledSum, TileSource
from samekind.compute.tiles import Tile
from samekind.kernels.laplacian import BlockForm, GramForm, InnerForm, WeightTile
from samekind.kernels.sketch import ClassLayout, SplitForm
from samekind.kernels.spectral import Matrix, leading_factor
from samekind.kernels.types import Array, IntArray, Samples
from samekind.objective import Objective
from samekind.solvers.selection.state import Step
from samekind.store import FeatureStore, centred
from samekind.store.base import columns_of
from samekind.store.scan import Sources

FEATURES_KEPT = 2  # groups whose features are kept: the present one and the one before


class SelectionSite(PresentSite):
    """The objective, the store, and the distances after the steps of the log."""

    objective: Objective
    log: list[Step]

    def __init__(self, objective: Objective, store: FeatureStore, room: int, token: str | None = None):
        super().__init__(objective, room, token)
        self.store = store
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

    def codes_of(self, t: int) -> tuple[float, Array]:
        step = self.log[t]
        Z = self.features(step.group)
        return step.alpha, Z @ leading_factor(step.A, share=0.0).astype(Z.dtype)


def site_of(objective: Objective) -> SelectionSite:
    assert isinstance(objective.site, SelectionSite)
    return objective.site


def block_distances(Z: Array, present: TileSource[Array], alpha: float, A: Matrix) -> ScaledSum:
    """`alpha * D0 + D(A; Z)`"""
    return ScaledSum(alpha, present, FactoredDistances.quadratic(Z, Z @ A.astype(Z.dtype)))


def block_gradient(Z: Array, present: TileSource[Array]) -> InnerForm:
    """`Z^T (S - H - H^T) Z` and `sum_ij w_ij d0_ij`: the gradient of the loss by A_k and by alpha."""

    def fixed(tile: WeightTile) -> Array:
        return present.tile(Tile(tile.rows, tile.cols, tile.number))

    return InnerForm(GramForm(Z), fixed)


def group_distances(
    site: SelectionSite, leaves: Share, group: int, present: Recipe, alpha: float, A: Matrix
) -> ScaledSum:
    return block_distances(site.features(group), present.open(site, leaves), alpha, A)


def group_gradient(site: SelectionSite, leaves: Share, group: int) -> InnerForm:
    return block_gradient(site.features(group), site.present)


def gradients_of_groups(site: SelectionSite, leaves: Share, groups: Sequence[int]) -> BlockForm:
    """The gradients of some groups' blocks, side by side."""
    return BlockForm(centred(site.store.panel(groups, site.rows)), columns_of(site.store, groups))


def split_laplacian(site: SelectionSite, leaves: Share, Y: Array) -> SplitForm:
    """The parts of the Laplacian, the smooth one times Y (N, r)."""

    def same(rows: Samples, cols: Samples) -> tuple[IntArray, IntArray]:
        return site.objective.relation.tile(rows, cols).same

    return SplitForm(Y, site.layout, same)
