"""The distances so far, at a site: each process keeps those of its leaves, brought up to the steps of the site's log.

PresentSite            a site with such distances, and what others ask of it
present_distances      D0, for a recipe; `scaled`: alpha D0
cells_on, wanted_cells the part of another plan's tiles that some leaves have
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from samekind.compute.executor import Executor
from samekind.compute.site import Recipe, Share, Site
from samekind.compute.sources import FixedTiles, ReplayedDistances, Scaled
from samekind.compute.tiles import Plan, Tile
from samekind.kernels.types import Array, BoolArray


class PresentSite(Site):
    """The objective, and the distances after the steps of the log.

    The distances of a leaf are computed when they are needed, by taking the steps one by one in their order.
    """

    def __init__(self, objective: Any, room: int, token: str | None = None):
        super().__init__(token)
        self.objective = replace(objective, site=self)
        self.room = room  # bytes for distances
        self.present = ReplayedDistances(objective.plan, objective.dtype, room)

    @abstractmethod
    def codes_of(self, t: int) -> tuple[float, Array]:
        """What step t of the log does: D0 <- alpha D0 + the squared distances of codes (N, r)."""

    def distances(self) -> Recipe:
        """Of the distances under the present metric."""
        return Recipe(present_distances, len(self.log))

    def present_at(self, n_steps: int, leaves: Share) -> ReplayedDistances:
        self.present.bring_to(n_steps, leaves, self.codes_of, self.objective.executor)
        return self.present

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


def present_distances(site: PresentSite, leaves: Share, n_steps: int) -> ReplayedDistances:
    """D0, the distances after some steps."""
    return site.present_at(n_steps, leaves)


def scaled(site: PresentSite, leaves: Share, present: Recipe, alpha: float) -> Scaled:
    """`alpha * D0`"""
    return Scaled(alpha, present.open(site, leaves))


def cells_on(objective: Any, leaves: Share, n_steps: int, plan: Plan) -> list[tuple[int, slice, slice, Array]]:
    """What these leaves have of the tiles of another plan: number of the tile, places in it, distances."""
    present = objective.site.present_at(n_steps, leaves)
    keys = {tile.key for strip in objective.plan.strips_of(leaves) for tile in strip}

    def of_tile(at: tuple[int, Tile]) -> list[tuple[int, slice, slice, Array]]:
        number, tile = at
        return [(number, *found) for found in present.kept_cells(tile, keys, partial(wanted_cells, objective))]

    return [each for parts in objective.executor.map(of_tile, enumerate(plan.tiles())) for each in parts]


def wanted_cells(objective: Any, tile: Tile) -> BoolArray | None:
    """The pairs of one class where the others do not count, which saves most of the transport; None for all."""
    if tile.others:
        return None
    wanted = np.zeros(tile.shape, bool)
    wanted[objective.relation.tile(tile.rows, tile.cols).same] = True
    return wanted
