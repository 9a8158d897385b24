"""Both steps on the training images of one split; step 1 of a family serves its own step 2 and the combined one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from samekind.estimators import JointMetric, SparseBlockMetric
from samekind.estimators.data import codes_of
from samekind.evaluation import image_rows
from samekind.model.basis import GroupCodes
from samekind.images.listing import ImageFile
from samekind.images.regions import Region
from samekind.kernels.lengths import Normalise, normalised_blocks
from samekind.kernels.types import Array, IntArray
from samekind.lfw.faces import Faces
from samekind.lfw.measuring import codes_of_pictures, extractor_of
from samekind.lfw.presets import Settings
from samekind.lfw.runs import Run
from samekind.lfw.watch import Count
from samekind.model.metric import Metric
from samekind.solvers.events import Observer
from samekind.threads import single_threaded_blas

Facts = dict[str, Any]


@dataclass(frozen=True)
class Intermediate:
    """U_dagger^T x of the training images, Algorithm 2, line 2, and how it comes from step 1's codes.

    Where there are mirror images, Z has them after all others.
    """

    Z: Array
    deviations: NDArray[np.float64]  # of step 1's codes: the roots of their eigenvalues
    starts: IntArray  # first feature of each region

    @classmethod
    def of(cls, codes: Array, starts: IntArray, mirrored: Array | None = None) -> Intermediate:
        """Whitened groups have the covariance I, so a code's variance is its eigenvalue: without it, U_dagger^T x."""
        deviations = codes.std(axis=0, ddof=1, dtype=np.float64)
        deviations[deviations == 0] = 1
        every = codes if mirrored is None else np.vstack([codes, mirrored.astype(codes.dtype)])
        return cls(every / deviations.astype(codes.dtype), deviations, starts)

    @classmethod
    def together(cls, parts: Sequence[Intermediate]) -> Intermediate:
        """Of several families, side by side; a copy."""
        before = np.cumsum([0, *(part.Z.shape[1] for part in parts)])
        return cls(
            np.hstack([part.Z for part in parts]),
            np.concatenate([part.deviations for part in parts]),
            np.concatenate([part.starts + start for part, start in zip(parts, before, strict=False)]),
        )

    def weights(self, power: float) -> NDArray[np.float64]:
        """Of the features: a power of step 1's deviations, 1 in the mean square."""
        weights: NDArray[np.float64] = self.deviations**power
        return weights / np.sqrt(np.mean(weights**2))


@dataclass
class Learner:
    """Learns from some rows of the store and the pictures that they describe, and reads no others."""

    faces: Faces
    first_rows: IntArray  # that step 1 learns from
    rows: IntArray  # that step 2 learns from
    pictures: Sequence[ImageFile]  # one for each of these, for their mirror images
    settings: Settings
    memory: str
    n_jobs: int | None
    _intermediate: dict[str, Intermediate] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        run: Run,
        faces: Faces,
        files: Sequence[ImageFile],
        settings: Settings,
        memory: str,
        n_jobs: int | None,
    ) -> Learner:
        """From the images of a split's training people that the settings ask for."""
        names = faces.store.image_ids.tolist()
        first = run.training_images(settings.min_images, settings.max_images)
        images = run.training_images(settings.joint_min_images)
        first_rows, rows = (image_rows(each, names, faces.store.labels) for each in (first, images))
        pictures = [files[row] for row in image_rows(images, [file.name for file in files])]
        return cls(faces, first_rows, rows, pictures, settings, memory, n_jobs)

    def step1(self, family: str, checkpoint: Path, observer: Observer | None) -> tuple[Metric, Facts]:
        settings, started = self.settings, time.perf_counter()
        store = self.faces.of_family(family)
        learner = SparseBlockMetric(
            max_groups=settings.max_groups,
            ridge=settings.ridge,
            whiten=settings.whiten,
            **self._shared(checkpoint, observer),
        ).fit(store, store.labels, rows=self.first_rows)
        metric = learner.metric_.with_normalise(settings.normalise)
        if not metric.groups:
            raise ValueError(
                f"Step 1 chose none of the {self.faces.regions} {family} regions: none brings the people apart. "
                "Give a smaller --ridge, or more people."
            )
        return metric, _facts(metric, self.first_rows, started) | {
            "objective": learner.objective_,
            "stopped_because": learner.stopped_because_,
        }

    def step2(self, firsts: dict[str, Metric], checkpoint: Path, observer: Observer | None) -> tuple[Metric, Facts]:
        """On what step 1 chose of each family."""
        settings, started = self.settings, time.perf_counter()
        made = Intermediate.together([self.intermediate(family, metric) for family, metric in firsts.items()])
        weights, labels = made.weights(settings.weigh), self.faces.store.labels[self.rows]
        Z = normalised_blocks(made.Z, made.starts, settings.normalise_groups)
        Z *= weights.astype(Z.dtype)
        directions = principal_directions(Z, settings.principal, settings.seed)
        if directions is not None:
            with single_threaded_blas():
                Z = Z @ directions.T
        learner = JointMetric(
            n_components=None if settings.n_components is None else min(settings.n_components, Z.shape[1]),
            ridge=settings.joint_ridge,
            anchors=settings.anchors,
            **self._shared(checkpoint, observer),
        ).fit(Z, np.tile(labels, len(Z) // len(labels)))
        components = learner.components_ if directions is None else learner.components_ @ directions
        metric = joined(list(firsts.values()), components * weights, made.deviations, settings.normalise_groups)
        metric = metric.with_normalise(settings.normalise)
        return metric, _facts(metric, self.rows, started) | {
            "objective": learner.objective_,
            "converged": bool(learner.converged_),
            "solver": learner.solver_,
        }

    def _shared(self, checkpoint: Path, observer: Observer | None) -> dict[str, Any]:
        return {
            "threshold": self.settings.threshold,
            "pair_balance": self.settings.pair_balance,
            "random_state": self.settings.seed,
            "memory_budget": self.memory,
            "n_jobs": self.n_jobs,
            "checkpoint": checkpoint,
            "callback": observer,
        }

    def knows(self, family: str) -> bool:
        """Whether its `intermediate` features were made before."""
        return family in self._intermediate

    def intermediate(self, family: str, metric: Metric, progress: Count = lambda done, total: None) -> Intermediate:
        """What step 2 learns from, of a family; pictures are described once for all that need it."""
        if not self.knows(family):
            plain = metric.with_normalise("none")
            # On one thread the same to the last bit each time, or a checkpoint would be taken for another fit's.
            with single_threaded_blas():
                codes = codes_of(self.faces.of_family(family), self.rows, plain)
                starts = region_starts(metric)
                self._intermediate[family] = Intermediate.of(codes, starts, self._mirrored(plain, progress))
        return self._intermediate[family]

    def _mirrored(self, plain: Metric, progress: Count) -> Array | None:
        """Codes of the mirror images, where they are to be learned from."""
        if not self.settings.mirrored:
            return None
        described = codes_of_pictures({"all": plain}, self.pictures, n_jobs=self.n_jobs, progress=progress)
        return described["all"][1]


def _facts(metric: Metric, rows: IntArray, started: float) -> Facts:
    return {
        "images": len(rows),
        "rank": metric.n_components,
        "regions": chosen_regions(metric),
        "seconds": round(time.perf_counter() - started, 1),
    }


def principal_directions(Z: Array, n: int | None, seed: int) -> Array | None:
    """The n leading ones (n, D), as rows; None where all features are meant, or there are no more than n."""
    if n is None or n >= min(Z.shape):
        return None
    # On one thread the same to the last bit each time, as the features themselves.
    with single_threaded_blas():
        found: Array = PCA(n, svd_solver="randomized", random_state=seed).fit(Z).components_
    return found


def joined(
    firsts: Sequence[Metric], components: Array, deviations: NDArray[np.float64], normalise_groups: Normalise
) -> Metric:
    """Components over the features `U_dagger^T x` of several families, side by side, as one metric over all columns."""
    dtype, bounds = firsts[0].components.dtype, np.cumsum([first.n_components for first in firsts])[:-1]
    scaled = [
        first.components / own[:, np.newaxis].astype(dtype)
        for first, own in zip(firsts, np.split(deviations, bounds), strict=True)
    ]
    if normalise_groups == "none":
        parts = zip(np.split(components, bounds, axis=1), scaled, strict=True)
        components, group_codes = np.hstack([part @ own for part, own in parts]), None
    else:
        each = zip(scaled, map(region_of_columns, firsts), strict=True)
        group_codes = GroupCodes.together([GroupCodes.of(own.astype(dtype), at, normalise_groups) for own, at in each])
    starts = np.cumsum([0, *(first.n_features for first in firsts)])
    extractors = [extractor_of(first) for first in firsts]
    every = replace(extractors[0], parts=tuple(part for each in extractors for part in each.parts))
    means = [first.mean for first in firsts if first.mean is not None]
    return Metric(
        components=components.astype(dtype),
        columns=np.concatenate([first.columns + start for first, start in zip(firsts, starts, strict=False)]),
        n_features=int(starts[-1]),
        groups=tuple(group for first in firsts for group in first.groups),
        attributes=dict(firsts[0].attributes) | {"estimator": JointMetric.__name__},
        mean=np.concatenate(means) if len(means) == len(firsts) else None,
        extractor=every.to_json(),
        group_codes=group_codes,
    )


def region_of_columns(first: Metric) -> IntArray:
    """The region, by number, of each column that step 1 of a family reads."""
    (part,) = extractor_of(first).parts
    return np.repeat(np.arange(len(part.regions)), part.family.size)


def region_starts(first: Metric) -> IntArray:
    """Where the codes of each region begin, among those of step 1 of a family."""
    regions = region_of_columns(first)[np.abs(first.components).argmax(axis=1)]
    return np.flatnonzero(np.diff(regions, prepend=-1))


def chosen_regions(metric: Metric) -> dict[str, list[list[int]]]:
    """Family -> its regions (top, left, height, width), in order of choice."""
    chosen = {}
    for part in extractor_of(metric).parts:
        name = part.family.name
        known = {f"{name} {Region(*region).name}": region for region in part.regions.tolist()}
        chosen[name] = [known[group] for group in metric.groups if group in known]
    return chosen
