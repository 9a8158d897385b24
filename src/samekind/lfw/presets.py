"""What an experiment learns, and the presets: the learner's own, and sizes of the experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samekind.estimators import presets
from samekind.estimators.presets import MANY_FACES
from samekind.images.regions import DEFAULT_COUNT


@dataclass(frozen=True)
class ExperimentSettings:
    """Regions of each family, spread evenly over those there are, and the learner's settings by their names."""

    regions: int
    learner: Mapping[str, Any]
    seed: int = 0  # of all that is drawn at random

    def __post_init__(self) -> None:
        if self.regions < 1:
            raise ValueError(f"regions={self.regions!r} must be at least 1.")

    def changed(
        self, changes: Sequence[str] = (), *, regions: int | None = None, seed: int | None = None, **learner: Any
    ) -> ExperimentSettings:
        """With changes as `name=value`, and with those by name that are not None."""
        given = {name: value for name, value in learner.items() if value is not None}
        made = presets.changed(dict(self.learner) | given, changes)
        return ExperimentSettings(
            self.regions if regions is None else regions, made, self.seed if seed is None else seed
        )

    @property
    def roots(self) -> bool:
        """Whether square roots of histograms are learned from."""
        return bool(self.learner["roots"])

    @property
    def mirror(self) -> Any:
        """How mirror images count when pictures are compared."""
        return self.learner["mirror"]

    def to_json(self) -> dict[str, Any]:
        return {"regions": self.regions, "learner": dict(self.learner), "seed": self.seed}


PRESETS = {
    "quick": ExperimentSettings(
        1_000,
        MANY_FACES
        | {"max_groups": 20, "n_components": 200, "joint__anchors": 2_000}
        | {"selection__max_per_class": None, "joint__min_per_class": 2},
    ),
    "standard": ExperimentSettings(4_000, MANY_FACES | {"max_groups": 200}),
    "full": ExperimentSettings(
        DEFAULT_COUNT,
        MANY_FACES | {"max_groups": 400, "selection__min_per_class": 1, "selection__max_per_class": None},
    ),
    "pictures": ExperimentSettings(4_000, presets.PRESETS["pictures"]),
    "faces": ExperimentSettings(4_000, presets.PRESETS["faces"]),
    # The protocol's pairs give thresholds, so that nothing is to be chosen or calibrated on people left out.
    "paper": ExperimentSettings(DEFAULT_COUNT, presets.PRESETS["paper"] | {"cv": None}),
}
