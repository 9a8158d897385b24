"""Both steps on the training images of one split, by the public learner; step 1 of a family serves several steps 2."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samekind.estimators import EnsembleMetric, presets
from samekind.estimators.use import as_learned_from, groups_with_mirror
from samekind.events import Observer
from samekind.images.regions import Region
from samekind.kernels.types import IntArray
from samekind.lfw.faces import Faces
from samekind.lfw.measuring import extractor_of
from samekind.lfw.presets import ExperimentSettings
from samekind.lfw.protocol import image_rows
from samekind.lfw.runs import SplitRun
from samekind.model.basis import Basis
from samekind.model.metric import Metric

Facts = dict[str, Any]


@dataclass(frozen=True)
class Learner:
    """Learns from some rows of the store, and reads no others."""

    faces: Faces
    rows: IntArray
    settings: ExperimentSettings
    memory: str
    n_jobs: int | None

    @classmethod
    def from_run(
        cls, run: SplitRun, faces: Faces, settings: ExperimentSettings, memory: str, n_jobs: int | None
    ) -> Learner:
        """From the images of a split's training people."""
        rows = image_rows(run.training_images, faces.store.image_ids.tolist(), faces.store.labels)
        return cls(faces, rows, settings, memory, n_jobs)

    def step1(self, family: str, checkpoint: Path, observer: Observer | None) -> tuple[Metric, Facts]:
        started, learner = time.perf_counter(), self._learner(checkpoint, observer)
        view, members = as_learned_from(self.faces.view, learner.mirror), self.faces.members(family)
        if learner.mirror == "mean":
            members = sorted(set(members) & set(groups_with_mirror(view, "mean")))
        made = learner.step1().fit(view, view.labels, rows=self.rows, groups=members)
        if made.basis_ is None:
            raise ValueError(
                f"Step 1 chose none of the {len(self.faces.members(family))} {family} regions: none brings the people "
                "apart. Give a smaller ridge (--set selection__ridge=0.1), or more people."
            )
        normalise = self.settings.learner["normalise"]
        metric = self._used(made.metric_, "none" if normalise == "auto" else normalise)
        return metric, self._facts(metric, started) | {
            "objective": made.objective_,
            "stopped_because": made.stopped_because_,
        }

    def step2(
        self, families: Mapping[str, Metric], checkpoint: Path, observer: Observer | None
    ) -> tuple[Metric, Facts]:
        """On what step 1 chose of each family; where settings are to be chosen, all of it on people left out."""
        started, view = time.perf_counter(), self.faces.view
        learner = self._learner(checkpoint, observer)
        if learner.cv is None:
            bases = [replace(metric.basis, weigh=0.0) for metric in families.values()]
            learner.set_params(selection=Basis.joined(bases))
        else:
            view = self.faces.of_families(tuple(families))
        learner.fit(view, view.labels, rows=self.rows)
        metric = self._used(learner.metric_, learner.metric_.normalise)
        return metric, self._facts(metric, started) | {
            "objective": learner.objective_,
            "converged": bool(learner.converged_),
            "tried": [trial.record() for trial in learner.trials_],
        }

    def _learner(self, checkpoint: Path, observer: Observer | None) -> EnsembleMetric:
        # The paper's distances to mirror images are for pictures that are compared, not for those learned from.
        mirror = "none" if self.settings.mirror == "distances" else self.settings.mirror
        return presets.learner(
            dict(self.settings.learner) | {"mirror": mirror},
            random_state=self.settings.seed,
            memory_budget=self.memory,
            n_jobs=self.n_jobs,
            checkpoint=checkpoint,
            callback=observer,
        )

    def _used(self, metric: Metric, normalise: Any) -> Metric:
        """As pictures are compared; thresholds are the protocol's."""
        return metric.with_normalise(normalise).with_mirror(self.settings.mirror)

    def _facts(self, metric: Metric, started: float) -> Facts:
        return {
            "images": len(self.rows),
            "rank": metric.n_components,
            "regions": chosen_regions(metric),
            "seconds": round(time.perf_counter() - started, 1),
        }


def chosen_regions(metric: Metric) -> dict[str, list[list[int]]]:
    """Family -> its regions (top, left, height, width), in order of choice."""
    chosen = {}
    for part in extractor_of(metric).parts:
        known = {f"{part.name} {Region(*region).name}": region for region in part.regions.tolist()}
        chosen[part.name] = [known[group] for group in metric.groups if group in known]
    return chosen
