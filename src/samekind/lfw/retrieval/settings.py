"""What is learned and compared in the retrieval experiment, and its presets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from samekind.estimators.presets import MANY_FACES
from samekind.estimators.presets import PRESETS as OF_LEARNER
from samekind.images.regions import DEFAULT_COUNT
from samekind.lfw.presets import ExperimentSettings

# Section 4.3. The factored solver reaches the same optimum, to the gap that is reported, in less time.
PAPERS_TRACE = {"solver": "factored", "trace_bound": 6.0, "ridge": 1.0}
PAPERS_LENGTH = 150


@dataclass(frozen=True)
class RetrievalSettings:
    """`experiment` has the settings of both steps; the rest says what is compared."""

    experiment: ExperimentSettings
    share: float = 1.0  # of the people, spread evenly over the protocol's lists
    query_images: tuple[int, int] = (5, 20)  # of a person who is a query: the least, and the most that count
    neighbors: tuple[int | None, ...] = (1, 2, 3, 5, 10, 20, 30, None)  # of Table 3; None: all of a person's
    dims: tuple[int, ...] = (100, 200, 300, 500, 1000)  # of Table 4
    lmnn_neighbors: tuple[int, ...] = (5, 10, 30)
    most_images: int = 40  # of a person, for Table 4
    final_dims: tuple[int, ...] = (10, 20, 50, 100, 150, 200, 300)  # of Figure 3
    lda_dims: tuple[int, ...] = (150, 200, 300, 600)  # principal features that LDA learns from: it may have the best
    lmnn_minutes: float = 10.0  # for a fit of LMNN
    scale_dims: int = 2513  # features of section 4.3 at larger sizes

    def changed(self, changes: Sequence[str] = (), **more: Any) -> RetrievalSettings:
        """As `ExperimentSettings.changed`."""
        return replace(self, experiment=self.experiment.changed(changes, **more))

    def with_query_images(self, least: int | None) -> RetrievalSettings:
        """With this many images or more of a person who is a query; None changes nothing."""
        return self if least is None else replace(self, query_images=(least, max(least, self.query_images[1])))

    @property
    def principal(self) -> int | None:
        """Principal features that joint metrics are learned on."""
        found: int | None = self.experiment.learner["principal"]
        return found

    @property
    def joint(self) -> dict[str, Any]:
        """Settings of step 2, by their names in `JointMetric`."""
        own = {"loss": self.experiment.learner["loss"], "random_state": self.experiment.seed}
        for name, value in self.experiment.learner.items():
            if name.startswith("joint__"):
                own[name.removeprefix("joint__")] = value
        return own

    def to_json(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "experiment"}
        return self.experiment.to_json() | own


# Mirror images do not count, as in the paper. Chosen on training people left out (docs/retrieval.md).
FACES = MANY_FACES | {
    "loss": "triplet",
    "mirror": "none",
    "compare_by": "distance",
    "n_components": None,
    "joint__ridge": 5.0,
    "joint__beta": 1e6,
}

PRESETS = {
    "quick": RetrievalSettings(
        ExperimentSettings(200, FACES | {"max_groups": 12, "principal": 100}),
        share=0.25,
        neighbors=(1, 5, None),
        dims=(50, 100),
        lmnn_neighbors=(5,),
        final_dims=(10, 20, 50, 100),
        lda_dims=(50, 100),
        lmnn_minutes=0.1,
        scale_dims=200,
    ),
    "standard": RetrievalSettings(ExperimentSettings(2_000, FACES | {"max_groups": 100})),
    # Sections 4.2 and 4.3 as printed.
    "paper": RetrievalSettings(
        ExperimentSettings(
            DEFAULT_COUNT,
            OF_LEARNER["paper"] | {"loss": "triplet", "mirror": "none", "cv": None, "joint__beta": 1e6},
        ),
    ),
}
