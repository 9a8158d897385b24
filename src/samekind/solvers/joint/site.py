"""Where step 2 is done: the features, and the recipes that are opened there. A or L travels, Z does not."""

from dataclasses import replace
from typing import Any

import numpy as np

from samekind.compute.site import Share, Site
from samekind.compute.sources import FactoredDistances
from samekind.kernels.laplacian import GramForm, ProductForm
from samekind.kernels.spectral import Matrix
from samekind.kernels.types import Array
from samekind.objective import Objective


class JointSite(Site):
    """The objective and Z (N, D)."""

    def __init__(self, objective: Objective, Z: Array, token: str | None = None):
        super().__init__(token)
        self.objective: Objective = replace(objective, site=self)
        self.Z = Z
        self._last: tuple[Matrix, Array] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return JointSite, (replace(self.objective, site=None), self.Z, self.token)

    def times(self, M: Matrix) -> Array:
        """Z M; that of the last M is remembered, since distances and gradient need the same."""
        if self._last is None or not np.array_equal(self._last[0], M):
            narrow = M.astype(self.Z.dtype)
            parts = self.objective.over_blocks(lambda rows: self.Z[rows] @ narrow)
            self._last = M.copy(), np.concatenate(list(parts))
        return self._last[1]

    def release(self) -> None:
        super().release()
        self._last = None


# -- what recipes make here ------------------------------------------------------------------------------------------


def quadratic(site: JointSite, leaves: Share, A: Matrix) -> FactoredDistances:
    """D(A; Z)"""
    return FactoredDistances.quadratic(site.Z, site.times(A))


def euclidean(site: JointSite, leaves: Share, L: Matrix) -> FactoredDistances:
    """D(L L^T; Z)"""
    return FactoredDistances.euclidean(site.times(L))


def gram_of_features(site: JointSite, leaves: Share) -> GramForm:
    """The gradient by A."""
    return GramForm(site.Z)


def laplacian_of_codes(site: JointSite, leaves: Share, L: Matrix) -> ProductForm:
    """`(S - W - W^T) Z L`"""
    return ProductForm(site.times(L))
