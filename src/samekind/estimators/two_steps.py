"""Both steps of one fit: step 1, then what a candidate says lies between the steps and what step 2 is."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from samekind.estimators.candidates import CandidateGrid
from samekind.estimators.coordinates import shortened
from samekind.estimators.data import TrainingData
from samekind.estimators.steps import (
    JointSolution,
    Resources,
    Selection,
    limited,
    run_joint,
    run_selection,
    run_similarity,
    warn_of_zero,
)
from samekind.estimators.time_left import Stage
from samekind.estimators.tuning import Candidate
from samekind.estimators.validation import ridge_from
from samekind.evaluation.pairs import Distance
from samekind.kernels.distances import squared_distances
from samekind.kernels.lengths import Normalise
from samekind.kernels.principal import leading_directions, weighted_mean
from samekind.kernels.similarity import offset_distances, split_codes
from samekind.kernels.types import Array
from samekind.model.basis import Basis
from samekind.model.metric import Metric
from samekind.model.similarity import Similarity
from samekind.relation import Relation
from samekind.store import centred

if TYPE_CHECKING:
    from samekind.estimators.ensemble import EnsembleMetric

SIMILARITY_WEIGHT = 2.0  # of the similarity beside the metric, where the distances of both have the same spread
SPREAD_SAMPLES = 1_000  # whose pairs show how much distances differ
FOLD_TOL, FOLD_ITERATIONS = 1e-2, 100  # of both steps, of step 2 on a fold: enough to choose by


@dataclass
class Learned:
    """A metric, and the solution of step 2 where there was one."""

    metric: Metric
    joint: JointSolution | None


@dataclass
class TwoSteps:
    """The steps of one estimator on its data, or on a fold of it."""

    estimator: EnsembleMetric
    data: TrainingData
    families: Mapping[Hashable, Sequence[int]]
    resources: Resources
    candidates: CandidateGrid
    selection: Selection | None = None  # step 1 on all samples, once it is done

    @property
    def stopped(self) -> bool:
        """Whether a callback has asked for the end."""
        return self.resources.listeners.stopped

    def select_groups(self, data: TrainingData, resources: Resources) -> Basis | None:
        """Step 1 on a fold, or what was given in its stead."""
        given = self.estimator._given_basis()
        if given is not None:
            return given
        step = self.estimator._selection
        step.set_params(tol=max(step.tol, FOLD_TOL))
        return run_selection(data, step, self.families, resources).basis

    def learn(self, candidate: Candidate, normalise: Normalise, fallback: Basis | None = None) -> Learned:
        """Both steps on all samples; `fallback` is what step 1 chose on a fold, for a fit that was stopped."""
        given = self.estimator._given_basis()
        if given is None and self.stopped:
            given = fallback
        if given is None:
            self.selection = run_selection(self.data, self.estimator._selection, self.families, self.resources)
        else:
            numbers = {name: k for k, name in enumerate(self.data.groups.names)}
            chosen = [numbers[name] for name in given.groups if name in numbers]
            self.selection = Selection(given, chosen, {}, {}, 0.0)
        if self.selection.basis is None:
            warn_of_zero()
            return Learned(self.step1_metric(self.selection), None)
        if self.stopped:
            candidate = Candidate("none", 1.0, "none", n_components=candidate.n_components)
        self.resources.listeners.begin(Stage("joint"))
        return self.go_on(self.selection.basis, self.data, candidate, self.resources, normalise=normalise)

    def go_on(
        self,
        basis: Basis,
        data: TrainingData,
        candidate: Candidate,
        resources: Resources,
        *,
        normalise: Normalise = "none",
        start: Any = None,
    ) -> Learned:
        """From what step 1 chose to a metric, on some samples; `start` is the `state` of a similar solution.

        Codes are left as they are, to be normalised in several ways, unless a similarity term is weighed against them.
        """
        data = data.part(limited(data.y, self.candidates.joint.min_per_class, None))
        basis = between_steps(basis, data, candidate)
        by_distance = candidate.compare_by == "distance"
        if by_distance and candidate.target == "none" and candidate.shrinkage is None and _whole(basis, candidate):
            return Learned(self.metric(basis, None), None)
        Z = basis.transform(data.X, data.rows)
        directions = self.directions(Z, candidate)
        joint, components = None, None
        if candidate.compare_by == "similarity":
            components = np.zeros((0, basis.n_codes))
        elif candidate.target != "none":
            joint = self.joint(Z, data.y, basis, candidate, resources, directions, start)
            components = joint.components
        elif not _whole(basis, candidate):
            components = shortened(None, centred(Z.copy()), basis.weights, candidate.n_components)
        ridges = {} if joint is None else {"ridge": [self.selection.ridge if self.selection else 0.0, joint.ridge]}
        metric = self.metric(basis, components, **ridges)
        if candidate.shrinkage is not None:
            step = self.candidates.two_covariance(candidate)
            similarity, _ = run_similarity(Z, data.y, step, directions=directions)
            if by_distance:
                metric = with_directions(metric, similarity, Z, data.y)
            else:
                metric = in_balance(replace(metric, normalise=normalise, similarity=similarity), Z, data.y)
        return Learned(metric, joint)

    def directions(self, Z: Array, candidate: Candidate) -> Array | None:
        """Principal directions of the features, for step 2 and the two-covariance model; None where all count."""
        steps = candidate.compare_by != "similarity" and candidate.target != "none"
        asked = [self.candidates.principal_directions(candidate.target)] if steps else []
        asked += [] if candidate.shrinkage is None else [self.candidates.similarity.principal]
        most = min(len(Z) - 1, Z.shape[1])
        n = max((most if each is None else min(each, most) for each in asked), default=most)
        return None if n == most else leading_directions(Z, n, weighted_mean(Z))

    def joint(
        self,
        Z: Array,
        y: NDArray[Any],
        basis: Basis,
        candidate: Candidate,
        resources: Resources,
        directions: Array | None,
        start: Any,
    ) -> JointSolution:
        """Step 2 on the features Z of samples with labels y."""
        step, relation = clone(self.candidates.joint), Relation.from_labels(y)
        if resources.part:  # a fold, to choose by
            step.set_params(tol=max(step.tol, FOLD_TOL), max_iter=min(step.max_iter, FOLD_ITERATIONS))
        principal = self.candidates.principal_directions(candidate.target)
        dims = min(principal or basis.n_codes, basis.n_codes)
        by_rule = candidate.times * ridge_from("auto", dims, candidate.target == "identity")
        step.set_params(
            target=candidate.target,
            ridge=by_rule if candidate.ridge is None else candidate.ridge,
            n_components=None if candidate.n_components is None else min(candidate.n_components, basis.n_codes),
        )
        made = run_joint(
            Z[relation.order],
            relation,
            step,
            resources,
            name="step2" if not resources.part else f"step2-{candidate}",
            directions=None if directions is None else directions[:, :principal],
            weights=basis.weights,
            start=start,
        )
        if not len(made.components):
            warn_of_zero()
            made = replace(made, components=np.zeros((1, basis.n_codes)))
        return made

    def step1_metric(self, selection: Selection) -> Metric:
        """What step 1 alone gives: zero where it chose nothing."""
        if selection.basis is None:
            empty = Basis.plain(np.arange(1), self.data.n_features, mean=np.zeros(1))
            return self.metric(empty, np.zeros((1, 1)))
        return self.metric(replace(selection.basis, normalise="none", weigh=1.0), None)

    def metric(self, basis: Basis, components: Array | None, **notes: Any) -> Metric:
        """Codes not normalised."""
        cast = None if components is None else components.astype(self.data.dtype)
        return self.estimator._metric(basis, cast, self.data, "none", **notes)


def in_balance(metric: Metric, Z: Array, y: NDArray[Any]) -> Metric:
    """With a similarity term that counts `SIMILARITY_WEIGHT` times as much as the codes.

    That is, its part of the distances of samples of different classes has so many times the standard deviation of
    theirs, on the features Z of samples with labels y. Where there are no codes, it stays as it is.
    """
    similarity = metric.similarity
    assert similarity is not None
    codes = metric.codes_of_features(Z)
    n_own = codes.shape[1] - similarity.n_codes
    if not n_own:
        return metric
    own, other = spread(codes[:, :n_own], y, None), spread(codes[:, n_own:], y, offset_distances)
    return replace(metric, similarity=similarity.times(SIMILARITY_WEIGHT * own / other))


def with_directions(metric: Metric, similarity: Similarity, Z: Array, y: NDArray[Any]) -> Metric:
    """The components of a similarity below those of a metric, in the same balance as in a sum; a distance as before."""
    own, other = (spread(each, y, None) for each in (metric.codes_of_features(Z), similarity(Z)[:, :-1]))
    below = similarity.times(SIMILARITY_WEIGHT * own / other).components
    above = np.eye(metric.basis.n_codes, dtype=below.dtype) if metric.components is None else metric.components
    return replace(metric, components=np.vstack([above, below]))


def spread(codes: Array, y: NDArray[Any], distance: Distance | None) -> float:
    """Standard deviation of the distances of samples of different classes; 1 where it is 0."""
    return float(np.std(between_classes(codes, y, distance))) or 1.0


def between_classes(codes: Array, y: NDArray[Any], distance: Distance | None) -> NDArray[np.float64]:
    """Distances of samples of different classes, some drawn at random."""
    some = np.random.RandomState(0).permutation(len(y))[:SPREAD_SAMPLES]
    vectors, numbers = split_codes(codes[some].astype(np.float64), distance)
    distances = squared_distances(vectors, vectors) + numbers[:, np.newaxis] + numbers
    return np.asarray(distances[y[some, np.newaxis] != y[some]])


def between_steps(basis: Basis, data: TrainingData, candidate: Candidate) -> Basis:
    """What step 2 learns on: groups normalised and features weighted as a candidate says."""
    if candidate.normalise_groups == "scale":
        made = replace(basis, normalise="none", weigh=candidate.weigh).scaled(data.X, data.rows)
    else:
        made = replace(basis, normalise=candidate.normalise_groups, weigh=candidate.weigh)
    return with_plain_distance(made, data) if candidate.plain else made


def with_plain_distance(basis: Basis, data: TrainingData) -> Basis:
    """A basis of all groups whose distance is the mean of that of a linear basis and of plain Euclidean distance.

    Plain distance is multiplied so that both have the same mean over the samples.
    """
    own, plain = (_mean_square(each.transform(data.X, data.rows)) for each in (basis, data.plain_basis()))
    place = {name: at for at, name in enumerate(basis.groups)}
    factors = {}
    for k, (name, columns) in enumerate(zip(data.groups.names, data.groups.columns, strict=True)):
        A = np.eye(len(columns)) * own / plain
        if name in place:
            L = basis.only([place[name]]).over_columns(None)[:, np.argsort(np.argsort(columns))]
            A += L.T.astype(np.float64) @ L
        values, vectors = np.linalg.eigh(A / 2)
        factors[k] = vectors * np.sqrt(values)
    return replace(data.basis(factors), weigh=1.0)


def _mean_square(Z: Array) -> float:
    """Of the lengths of samples, measured from their mean."""
    return float(Z.var(axis=0, dtype=np.float64).sum())


def _whole(basis: Basis, candidate: Candidate) -> bool:
    """Whether step 1's own codes are short enough for the candidate."""
    return candidate.n_components is None or candidate.n_components >= basis.n_codes
