"""Which settings a fit may choose among: those that are "auto"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sklearn.base import clone

from samekind.estimators.data import TrainingData, is_store
from samekind.estimators.joint import JointMetric
from samekind.estimators.tuning import (
    FEWEST_TO_CHOOSE,
    PATH,
    SHRINKAGES,
    Candidate,
    CompareBy,
    GroupsBy,
    Target,
    n_paired_classes,
)
from samekind.kernels.lengths import Normalise

if TYPE_CHECKING:
    from samekind.estimators.ensemble import EnsembleMetric
    from samekind.estimators.similarity import TwoCovariance

SHORT_CODE = 150  # numbers, as in the paper
PRINCIPAL = {"zero": 600, "identity": 300}  # directions that step 2 learns on at the most, by its ridge's target
DIRECTIONS_SHRINKAGE = 0.3  # of the two-covariance model whose directions are added to codes


@dataclass(frozen=True)
class CandidateGrid:
    """The candidates, in the order in which they are tried: the simplest first, then the most promising."""

    normalise_groups: tuple[GroupsBy, ...]
    weigh: tuple[float, ...]
    normalise: tuple[Normalise, ...]
    joint: JointMetric
    n_components: int | Literal["auto"] | None
    principal: int | Literal["auto"] | None
    plain_by_rule: bool  # whether plain distance counts too where nothing can be chosen
    comparisons: tuple[CompareBy, ...]  # what codes may be compared by
    similarity: TwoCovariance

    @classmethod
    def from_estimator(cls, estimator: EnsembleMetric, data: TrainingData) -> CandidateGrid:
        """The candidates for what is "auto"; a given setting is the only one. For pictures the order differs."""
        joint = estimator._joint
        pictures, groups, weigh = is_store(data.X), estimator.normalise_groups, estimator.weigh
        by_roots = pictures or _plain_by_rule(estimator, data)
        normalise: tuple[Normalise, ...] = ("root", "unit", "none") if by_roots else ("none", "root", "unit")
        if estimator.normalise != "auto":
            normalise = (estimator.normalise,)
        elif estimator.mirror == "distances":
            normalise = ("none",)
        by_rule: tuple[GroupsBy, ...] = ("unit", "scale", "none") if pictures else ("scale", "none", "unit")
        return cls(
            by_rule if groups == "auto" else (groups,),
            (0.5, 1.0, 0.0) if weigh == "auto" else (float(weigh),),
            normalise,
            joint,
            joint.n_components,
            estimator.principal,
            _plain_by_rule(estimator, data),
            _comparisons(estimator),
            estimator._similarity,
        )

    def step1_alone(self) -> list[Candidate]:
        rank = self._n_components()
        return [
            Candidate(groups, weigh, "none", n_components=rank)
            for groups in self.normalise_groups
            for weigh in self.weigh
        ]

    def with_step2(self, base: Candidate, *, free: bool = True) -> list[Candidate]:
        """Step 2 after the best of step 1 alone, along paths of ridges, the largest first; around zero only if `free`,
        unless that is what was asked for.
        """
        given, target = self.joint.ridge, self.joint.target
        made: list[Candidate] = []
        if target in ("auto", "identity"):
            path = PATH if given == "auto" else (given,)
            made += [replace(base, target="identity", ridge=ridge, n_components=self._n_components()) for ridge in path]
        if target == "zero" or (target == "auto" and free):
            ridges = [(None, 8.0), (None, 1.0)] if given == "auto" else [(given, 1.0)]
            # A free metric learns the weights of regions itself: their weights in step 1's metric say little about it.
            by_rule = replace(base, normalise_groups=self.normalise_groups[0], weigh=self.weigh[0])
            made += [
                replace(by_rule, target="zero", ridge=ridge, times=times, n_components=self._n_components("zero"))
                for ridge, times in ridges
            ]
        return made

    def with_similarity(self) -> list[Candidate]:
        """The two-covariance model on its own."""
        if self.comparisons == ("distance",):
            return []
        given = self.similarity.shrinkage
        free = Candidate(self.normalise_groups[0], self.weigh[0], "none", compare_by="similarity")
        return [replace(free, shrinkage=each) for each in (SHRINKAGES if given == "auto" else (given,))]

    def with_directions(self, distance: Candidate) -> Candidate | None:
        """With the directions of the two-covariance model added, where codes may be long and are linear."""
        linear = distance.normalise_groups in ("none", "scale")
        open_length = self.n_components in (None, "auto") and distance.n_components is None
        if not (self.may_skip_step2 and linear and open_length and "distance" in self.comparisons):
            return None
        given = self.similarity.shrinkage
        return replace(distance, shrinkage=DIRECTIONS_SHRINKAGE if given == "auto" else given)

    def summed(self, distance: Candidate, similarity: Candidate) -> Candidate | None:
        """The sum of a metric and the two-covariance model on the same features; None where sums are not allowed.

        Each gets half of the length that is given for codes.
        """
        if "sum" not in self.comparisons:
            return None
        half = self._halved(distance.n_components)
        return replace(distance, compare_by="sum", shrinkage=similarity.shrinkage, n_components=half)

    def two_covariance(self, candidate: Candidate) -> TwoCovariance:
        """The settings of the two-covariance model of a candidate that has one."""
        step = clone(self.similarity).set_params(shrinkage=candidate.shrinkage)
        asked = self.n_components
        if step.n_components is None and asked is not None:
            length = SHORT_CODE if asked == "auto" else max(1, asked // 2) if candidate.compare_by == "sum" else asked
            step.set_params(n_components=length)
        return step

    def by_rule(self) -> Candidate:
        """The candidate where there are too few classes to leave some out."""
        ridge = None if self.joint.ridge == "auto" else self.joint.ridge
        by_ridge: Target = "none" if ridge is None else "identity"
        target: Target = by_ridge if self.joint.target == "auto" else self.joint.target
        compare_by, shrinkage = self.comparisons[0], self.similarity.shrinkage
        rank = self._halved(self._n_components(target)) if compare_by == "sum" else self._n_components(target)
        plain = self.plain_by_rule and target == "none" and compare_by == "distance"
        return Candidate(
            self.normalise_groups[0],
            self.weigh[0],
            target,
            ridge,
            n_components=rank,
            plain=plain,
            compare_by=compare_by,
            shrinkage=None if compare_by == "distance" else SHRINKAGES[0] if shrinkage == "auto" else shrinkage,
        )

    def shortened(self, candidate: Candidate) -> Candidate | None:
        """The same candidate with short codes; None unless the length is to be chosen and is not short yet."""
        if self.n_components != "auto" or candidate.n_components is not None or candidate.compare_by != "distance":
            return None
        return replace(candidate, n_components=SHORT_CODE)

    def planned(self) -> list[Candidate]:
        """All candidates that may be tried."""
        alone, similar = self.step1_alone(), self.with_similarity()
        later = [self.with_directions(alone[0]), self.shortened(alone[0])]
        later += [self.summed(alone[0], similar[0])] if similar else []
        metrics = [] if self.comparisons == ("similarity",) else [*alone, *self.with_step2(alone[0])]
        return [*metrics, *similar, *(each for each in later if each is not None)]

    @property
    def may_skip_step2(self) -> bool:
        return bool(self.joint.target == "auto")

    def may_be_free(self, n_features: int, n_samples: int) -> bool:
        """Whether step 2 is worth trying without step 1's metric: not where it learns on all directions that the
        samples span, as such a metric fits any labels.
        """
        learned_on = min(self.principal_directions("zero") or n_features, n_features)
        return learned_on < n_samples - 1

    def principal_directions(self, target: Target) -> int | None:
        """How many principal directions step 2 learns on; None for all."""
        return PRINCIPAL[target] if self.principal == "auto" else self.principal

    def _halved(self, n_components: int | None) -> int | None:
        """The metric's half of the length that is given for codes."""
        return n_components if not isinstance(self.n_components, int) else -(-self.n_components // 2)

    def _n_components(self, target: Target = "none") -> int | None:
        """The largest length of codes; None where nothing bounds it."""
        asked = self.n_components
        if asked == "auto" or (asked is None and target == "zero" and self.joint.target == "auto"):
            return SHORT_CODE if target == "zero" else None
        return asked


def _comparisons(estimator: EnsembleMetric) -> tuple[CompareBy, ...]:
    if estimator.compare_by != "auto":
        return (estimator.compare_by,)
    return ("distance",) if estimator.mirror == "distances" else ("distance", "similarity", "sum")


def _plain_by_rule(estimator: EnsembleMetric, data: TrainingData) -> bool:
    """Whether plain distance counts by rule: few classes cannot show which features never matter.

    Not where some groups or settings were asked for: these then count alone.
    """
    open_settings = estimator.normalise_groups == "auto" and estimator.weigh == "auto"
    all_groups = estimator._selection.max_groups is None and estimator._given_basis() is None
    return open_settings and all_groups and not is_store(data.X) and n_paired_classes(data.y) < FEWEST_TO_CHOOSE
