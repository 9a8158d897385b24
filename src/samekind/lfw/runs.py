"""The splits of a view, and how well their metrics judge its pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from samekind.evaluation import FoldsResult, best_threshold, verify, verify_folds
from samekind.lfw.protocol import Split, View2
from samekind.lfw.protocol_files import Image, Pair
from samekind.lfw.stages import Stage
from samekind.lfw.workplace import Distances

Results = Mapping[str, FoldsResult]  # by where the threshold comes from
ThresholdBy = Literal["logistic", "accuracy"]


@dataclass(frozen=True)
class SplitRun:
    """A split, and the pairs whose distances its metrics are asked for."""

    name: str  # of its folder
    title: str
    split: Split
    pairs: tuple[Pair, ...]

    @classmethod
    def from_view1(cls, split: Split) -> SplitRun:
        """The training pairs, after them the test pairs, and more pairs of the test people, for thresholds."""
        return cls("view1", "View 1", split, split.train.pairs + split.test.pairs + split.test.more_pairs())

    @classmethod
    def from_fold(cls, view2: View2, fold: int) -> SplitRun:
        """All pairs: those of the other folds choose a threshold. `fold` counts from 1."""
        return cls(f"fold-{fold:02d}", f"Fold {fold}", view2.split(fold - 1), view2.pairs)

    @property
    def same(self) -> NDArray[np.bool_]:
        return np.array([pair.same for pair in self.pairs], dtype=np.bool_)

    @property
    def training_images(self) -> tuple[Image, ...]:
        """Of the training people."""
        return self.split.train.images

    @property
    def images(self) -> tuple[Image, ...]:
        """All that are learned from or compared."""
        return self.split.train.images + tuple(image for pair in self.pairs for image in pair)


@dataclass(frozen=True)
class Learned:
    """What a split's stages have brought: figures of each, and the distances of the run's pairs."""

    run: SplitRun
    facts: Mapping[Stage, Mapping[str, Any]]
    distances: Mapping[Stage, Distances]


def judged_on_view1(learned: Learned, stage: Stage, threshold_by: ThresholdBy) -> Results:
    """Test pairs at the threshold from the training pairs, and at their own best one, which is slightly optimistic."""
    run, distances = learned.run, learned.distances[stage]
    n = len(run.split.train.pairs)
    test = slice(n, n + len(run.split.test.pairs))
    chosen = best_threshold(distances[:n], run.same[:n], strategy=threshold_by)
    strict = replace(verify(distances[test], run.same[test], threshold=chosen), threshold_source="training pairs")
    return {
        result.threshold_source: FoldsResult((run.title,), (result,), result.roc)
        for result in (strict, verify(distances[test], run.same[test]))
    }


def judged_by_folds(
    view1: Learned | None, folds: Mapping[int, Learned], view2: View2, stage: Stage, threshold_by: ThresholdBy
) -> Results:
    """Each fold's pairs at the threshold from pairs of View 1's test people, if any, and from pairs of other folds."""
    tested = list(folds)
    rows = np.stack([learned.distances[stage] for learned in folds.values()])
    same, numbers = folds[tested[0]].run.same, view2.fold_numbers + 1
    results = [verify_folds(rows, same, numbers, strategy=threshold_by, tested=tested)]
    if view1 is not None:
        n = len(view1.run.split.train.pairs)
        elsewhere = view1.distances[stage][n:], view1.run.same[n:]
        paper = verify_folds(rows, same, numbers, view1=elsewhere, strategy=threshold_by, tested=tested)
        results.insert(0, paper)
    return {result.threshold_source: result for result in results}


def checked_folds(folds: Sequence[int], n_folds: int) -> list[int]:
    """Numbers of folds from 1, each once, in rising order."""
    wrong = [fold for fold in folds if not 1 <= fold <= n_folds]
    if wrong or not folds or len(set(folds)) < len(folds):
        raise ValueError(
            f"folds {', '.join(map(str, folds)) or '(none)'}: the protocol has folds 1 to {n_folds}; name some of "
            "them, each once."
        )
    return sorted(folds)
