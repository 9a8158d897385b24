"""A view of the protocol: for each split learn from its training people, compare pairs, judge them by thresholds."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from samekind.images.extractor import Extractor
from samekind.images.landmarks import Landmarks
from samekind.images.listing import ImageFile, list_images
from samekind.kernels.types import Array
from samekind.lfw.faces import Faces, extracted, n_regions_needed, ordered_families
from samekind.lfw.learning import Learner
from samekind.lfw.measuring import distances_of_pairs, mean_pictures
from samekind.lfw.presets import ExperimentSettings
from samekind.lfw.protocol import image_rows, read_view1, read_view2
from samekind.lfw.protocol_files import Image
from samekind.lfw.reporter import NoProgress, ProgressReporter
from samekind.lfw.runs import Learned, Results, SplitRun, ThresholdBy, checked_folds, judged_by_folds, judged_on_view1
from samekind.lfw.stages import Stage, stages_of
from samekind.lfw.workplace import Workplace, digest
from samekind.store import DiskStore

COMPARING = "comparing pictures"


@dataclass(frozen=True)
class Outcome:
    """A stage over all splits of the view: figures of each, and how well it judges test pairs."""

    stage: Stage
    facts: Sequence[Mapping[str, Any]]
    results: Results


@dataclass(frozen=True)
class Findings:
    view: int
    settings: ExperimentSettings
    families: tuple[str, ...]
    threshold_by: ThresholdBy
    runs: Sequence[SplitRun]
    outcomes: Sequence[Outcome]
    candidates: Mapping[str, int]  # regions of each family that step 1 chooses from
    seconds: Mapping[str, float]  # that this call took, by what was done


@dataclass
class Experiment:
    """Pictures, protocol and settings; what is finished in `work` is not done again."""

    images: Path
    protocol: Path
    work: Path
    settings: ExperimentSettings
    families: Sequence[str] = ("cov", "slbp")
    store: Path | None = None  # ready descriptors; None: they are computed into `work`
    landmarks: Landmarks | None = None  # pictures are aligned by them; None: they are aligned already
    memory: str = "2GB"
    n_jobs: int | None = None
    reporter: ProgressReporter = field(default_factory=NoProgress)
    threshold_by: ThresholdBy = "logistic"  # how pairs choose a threshold; nothing that is learned or kept has it
    held_bytes: int = 1_000_000_000  # of metrics that pictures are compared by in one pass; codes come on top

    def __post_init__(self) -> None:
        self.families = ordered_families(self.families)
        self.seconds: dict[str, float] = defaultdict(float)

    @cached_property
    def files(self) -> list[ImageFile]:
        return list_images(self.images, labelled=True)

    @property
    def stages(self) -> list[Stage]:
        return stages_of(self.families)

    def view1(self) -> Findings:
        """Learned from View 1's training people, judged on its test pairs."""
        (learned,) = self.learned([SplitRun.from_view1(read_view1(self.protocol))])
        return self._findings(
            1, [learned], {stage: judged_on_view1(learned, stage, self.threshold_by) for stage in self.stages}
        )

    def view2(self, folds: Sequence[int] | None = None, *, with_view1: bool = True) -> Findings:
        """Each fold (from 1; None: all) judged by what the others teach, at thresholds from View 1 and from them.

        Without View 1 it need not be learned.
        """
        view2 = read_view2(self.protocol)
        tested = checked_folds(range(1, len(view2) + 1) if folds is None else folds, len(view2))
        runs = [SplitRun.from_fold(view2, fold) for fold in tested]
        first = [SplitRun.from_view1(read_view1(self.protocol))] if with_view1 else []
        learned = self.learned([*first, *runs])
        view1, others = learned[0] if with_view1 else None, learned[len(first) :]
        by_fold = dict(zip(tested, others, strict=True))
        judged = {stage: judged_by_folds(view1, by_fold, view2, stage, self.threshold_by) for stage in self.stages}
        return self._findings(2, others, judged)

    def mean_faces(self) -> dict[str, Array]:
        """Of the pictures as each family's descriptors see them."""
        return mean_pictures(self._extractor, self.files, self.landmarks, self.n_jobs)

    @property
    def _extractor(self) -> Extractor:
        """Which made the descriptors."""
        return Extractor.from_json(DiskStore.open(self.store or self.work / "store").front_end)

    def learned(self, runs: Sequence[SplitRun]) -> list[Learned]:
        """Each split's metrics and distances, made where they are not there yet."""
        faces = self.faces([image for run in runs for image in run.images])
        places = [self.workplace(run, faces) for run in runs]
        for place in places:
            place.check()
        both = list(zip(runs, places, strict=True))
        pending = [each for each in both if not all(each[1].has(stage) for stage in self.stages)]
        started = time.perf_counter()
        for done, (run, place) in enumerate(pending, 1):
            self.learn(run, place, faces, self.stages)
            self._say_done(run, done, len(pending), time.perf_counter() - started)
        for several in _together(both, self.held_bytes):
            self._compare(several)
        return [self._learned(run, place) for run, place in both]

    def faces(self, images: Sequence[Image]) -> Faces:
        """The descriptors of these images; computed first where no store was given."""
        rows = np.sort(image_rows(dict.fromkeys(images), [file.name for file in self.files]))
        if self.store is None:
            store = self._extracted([self.files[row] for row in rows])
        else:
            store = DiskStore.open(self.store, n_jobs=self.n_jobs)
        return Faces(store, tuple(self.families), self.settings.regions, self.settings.roots)

    def _extracted(self, files: Sequence[ImageFile]) -> DiskStore:
        title = "describing pictures"
        with self._clocked(title), self.reporter.counting(title) as progress:
            return extracted(
                files,
                self.work / "store",
                self.families,
                self.settings.regions,
                landmarks=self.landmarks,
                n_jobs=self.n_jobs,
                progress=progress,
            )

    def workplace(self, run: SplitRun, faces: Faces) -> Workplace:
        """The folder of a split's results."""
        made_with = {
            "settings": self.settings.to_json(),
            "descriptors": faces.made_with(),
            "training images": digest(sorted(image.file_name() for image in run.split.train.images)),
            "pairs": digest([[*(image.file_name() for image in pair), pair.same] for pair in run.pairs]),
        }
        return Workplace(self.work / run.name, made_with)

    def learn(self, run: SplitRun, place: Workplace, faces: Faces, stages: Sequence[Stage]) -> None:
        """Those of the stages that are not finished yet."""
        place.begin()
        # Whatever learns, whitens or chooses regions gets the rows that it has and no others.
        learner = Learner.from_run(run, faces, self.settings, self.memory, self.n_jobs)
        for stage in stages:
            if not place.has(stage):
                self._learn_stage(run, stage, place, learner)

    def _learn_stage(self, run: SplitRun, stage: Stage, place: Workplace, learner: Learner) -> None:
        checkpoint = place.checkpoint(stage)
        firsts = {family: place.metric(Stage(1, (family,))) for family in stage.families} if stage.step == 2 else {}
        with self._clocked(stage.title), self.reporter.learning(f"{run.title}: {stage.title}") as observer:
            if stage.step == 1:
                metric, facts = learner.step1(stage.families[0], checkpoint, observer)
            else:
                metric, facts = learner.step2(firsts, checkpoint, observer)
        place.finish(stage, metric, facts)

    def _compare(self, several: Sequence[tuple[SplitRun, Workplace]]) -> None:
        """The pairs that these splits share, under the metrics of all of them."""
        missing = [(place, stage) for _, place in several for stage in self.stages if not place.has_distances(stage)]
        if not missing:
            return
        titles, (first, _) = ", ".join(run.title for run, _ in several), several[0]
        with self._clocked(COMPARING), self.reporter.counting(f"{titles}: {COMPARING}") as progress:
            metrics = {(place, stage): place.metric(stage) for place, stage in missing}
            made = distances_of_pairs(
                metrics,
                first.pairs,
                self.files,
                landmarks=self.landmarks,
                n_jobs=self.n_jobs,
                progress=progress,
            )
        for (place, stage), distances in made.items():
            place.keep_distances(stage, distances)

    def _learned(self, run: SplitRun, place: Workplace) -> Learned:
        place.tidy(self.stages)
        facts = {stage: place.facts(stage) for stage in self.stages}
        return Learned(run, facts, {stage: place.distances(stage) for stage in self.stages})

    def _findings(self, view: int, learned: Sequence[Learned], results: Mapping[Stage, Results]) -> Findings:
        outcomes = [Outcome(stage, [each.facts[stage] for each in learned], results[stage]) for stage in results]
        runs = [each.run for each in learned]
        families, seconds = tuple(self.families), dict(self.seconds)
        candidates = n_regions_needed(self._extractor, families, self.settings.regions)
        return Findings(view, self.settings, families, self.threshold_by, runs, outcomes, candidates, seconds)

    def _say_done(self, run: SplitRun, done: int, total: int, spent: float) -> None:
        left = f", about {spent / done * (total - done) / 60:.0f} min left" if done < total else ""
        self.reporter.say(f"{run.title} is learned: {done} of {total} in {spent / 60:.1f} min{left}.")

    @contextmanager
    def _clocked(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[what] += time.perf_counter() - started


def _together(
    runs: Sequence[tuple[SplitRun, Workplace]], held_bytes: int
) -> Iterator[list[tuple[SplitRun, Workplace]]]:
    """Runs of the same pairs, as many as may be held at once, but one at least."""
    several: list[tuple[SplitRun, Workplace]] = []
    for run, place in runs:
        held = sum(each.model_bytes for _, each in several)
        if several and (run.pairs != several[0][0].pairs or held + place.model_bytes > held_bytes):
            yield several
            several = []
        several.append((run, place))
    yield several
