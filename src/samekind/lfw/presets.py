"""Every choice of the study, and the presets."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from samekind.kernels.lengths import Normalise
from samekind.losses.pairwise import Balance


@dataclass(frozen=True)
class Settings:
    """What is learned, from how much."""

    regions: int  # of each family, spread evenly over those there are
    max_groups: int  # chosen of each family by step 1
    min_images: int = 1  # step 1 does not learn from people with fewer
    max_images: int | None = None  # of a person, the first ones, that step 1 learns from; None: all
    joint_min_images: int = 1  # step 2 does not learn from people with fewer
    roots: bool = True  # of the histograms of slbp
    whiten: int = 45  # dimensions kept of a region
    pair_balance: Balance = "samples"
    threshold: float = 14.0  # of the pairwise loss
    ridge: float | Literal["auto"] = 1.0  # of step 1
    mirrored: bool = False  # step 2 learns from mirror images as well
    normalise_groups: Normalise = "unit"  # of the intermediate features of each region, before step 2
    weigh: float = 0.5  # power of step 1's deviations by which they are weighed; 0: all alike, 1: as in its codes
    principal: int | None = 600  # directions of the intermediate features that step 2 learns from; None: all
    joint_ridge: float | Literal["auto"] = 3.0  # of step 2
    n_components: int | None = 150  # length of step 2's codes at the most; None: what the data ask for
    anchors: int | Literal["auto", "all", "grow"] = "auto"  # images that step 2 compares with all others
    normalise: Normalise = "root"  # of codes, after each step
    mirror_mean: bool = True  # compares means of a picture and its mirror image, not by the paper's four distances
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.max_groups <= self.regions:
            raise ValueError(
                f"{self.max_groups} groups are to be chosen from {self.regions} regions: give at least 1 and at most "
                "as many as there are regions."
            )
        if not (math.isfinite(self.weigh) and self.weigh >= 0):
            raise ValueError(f"weigh is {self.weigh!r}: give a number of at least 0.")

    def changed(self, **changes: Any) -> Settings:
        """With the changes that are not None."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def with_limits(
        self, *, n_components: int | None = None, principal: int | None = None, max_images: int | None = None
    ) -> Settings:
        """With limits that are not None; 0 means no limit."""
        given = {"n_components": n_components, "principal": principal, "max_images": max_images}
        limits: dict[str, Any] = {name: length or None for name, length in given.items() if length is not None}
        return replace(self, **limits)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PRESETS = {
    "quick": Settings(regions=1_000, max_groups=20, min_images=2, joint_min_images=2, n_components=100, anchors=2_000),
    "standard": Settings(regions=4_000, max_groups=200, min_images=2, max_images=10),
    "full": Settings(regions=13_260, max_groups=400),
}
