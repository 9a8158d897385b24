"""The parts of the retrieval experiment: what is learned, and how well it finds people that it was not learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from samekind.estimators.use import as_learned_from
from samekind.kernels.lengths import Normalise
from samekind.kernels.principal import leading_directions
from samekind.kernels.types import Array, IntArray
from samekind.lfw.experiment import Experiment
from samekind.lfw.faces import Faces
from samekind.lfw.protocol import Split, Subset, image_rows, read_view1
from samekind.lfw.protocol_files import Image, People
from samekind.lfw.retrieval.features import Features, Figures
from samekind.lfw.retrieval.fits import Fit, Fits, Samples
from samekind.lfw.retrieval.people import Cast
from samekind.lfw.retrieval.settings import PAPERS_LENGTH, PAPERS_TRACE, RetrievalSettings
from samekind.lfw.retrieval.synthetic import PAPERS_FEATURES, LikeLFW, like_sub_lfwext, unequal_sizes
from samekind.lfw.runs import SplitRun
from samekind.lfw.stages import Stage
from samekind.model.basis import Basis
from samekind.model.metric import Metric

PartName: TypeAlias = Literal["neighbors", "lmnn", "dimensions", "trace", "scale", "scale-trace"]
PARTS: tuple[PartName, ...] = get_args(PartName)
WITHOUT_PICTURES: tuple[PartName, ...] = ("scale", "scale-trace")
USUAL: tuple[PartName, ...] = tuple(part for part in PARTS if part not in WITHOUT_PICTURES)
LMNN_ITERATIONS = 1_000  # as in the paper
LFWEXT_CLASS = 36  # images of a person in LFWext, about
TRACE = "joint, nu = 6, by eigenvalue"
BY_EIGENVALUE = "joint, by eigenvalue"


@dataclass(frozen=True)
class Row:
    """A fit and the retrieval figures of its metric; no figures where it learned nothing."""

    fit: Fit
    figures: Figures | None = None
    neighbors: int | None = None
    dims: int = 0
    n_samples: int = 0
    n_people: int = 0


@dataclass(frozen=True)
class Curve:
    """Figures of codes of several lengths, cut from one solution."""

    name: str
    lengths: tuple[int, ...]
    figures: tuple[Figures, ...]


@dataclass(frozen=True)
class Steps:
    """3-NN errors of a metric during its fit."""

    iterations: tuple[int, ...]
    seconds: tuple[float, ...]
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Scale:
    """Times at a size: cells of Table 4, and section 4.3's method."""

    n_samples: int
    cells: dict[str, list[Row]] = field(default_factory=dict)
    trace: Fit | None = None


@dataclass
class Findings:
    settings: RetrievalSettings
    cast: Cast
    n_features: int | None  # after step 1, if it was run
    neighbors: list[Row] = field(default_factory=list)
    cells: dict[str, list[Row]] = field(default_factory=dict)  # by learner: "joint", "lmnn"
    steps: dict[str, Steps] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    trace: Row | None = None
    scales: list[Scale] = field(default_factory=list)


@dataclass
class RetrievalExperiment:
    """Pictures and protocol (`base`), and what is compared; fits that are finished are not made again."""

    base: Experiment
    settings: RetrievalSettings
    lmnn_python: str | None = None
    lmnn_minutes: float | None = None  # None: as the settings say
    memory_limit: int | None = None  # bytes, of each fit
    samples: Sequence[int] = (51_000,)  # of the parts "scale" and "scale-trace"

    def run(self, parts: Sequence[PartName] = USUAL) -> Findings:
        """In the order of `PARTS`; times at larger sizes alone need no pictures."""
        of_pictures = set(parts).difference(WITHOUT_PICTURES)
        found = Findings(self.settings, self.cast, self.features.n_features if of_pictures else None)
        if "neighbors" in parts:
            found.neighbors = [self._joint(k) for k in self.settings.neighbors]
        if "lmnn" in parts:
            found.cells, found.steps = self._against_lmnn()
        if "trace" in parts:
            found.trace = self._traced()
        if "dimensions" in parts:
            found.curves = self._curves(found.trace)
        if set(parts).intersection(WITHOUT_PICTURES):
            found.scales = [self.scaled(n, parts) for n in self.samples]
        return found

    @cached_property
    def split(self) -> Split:
        """View 1, or a share of its people."""
        whole = read_view1(self.base.protocol)
        return Split(Subset(self._some(whole.train.people), ()), Subset(self._some(whole.test.people), ()))

    def _some(self, people: People) -> People:
        n = round(len(people) * self.settings.share)
        return tuple(people[at * len(people) // n] for at in range(n))

    @cached_property
    def cast(self) -> Cast:
        return Cast.from_split(self.split, *self.settings.query_images)

    @cached_property
    def features(self) -> Features:
        """Of all images, by the basis that step 1 learns from the training people."""
        cast, mirror = self.cast, self.settings.experiment.mirror
        if mirror == "distances":
            raise ValueError(
                "mirror=distances: codes by four distances are not linear in the features of step 1, so that methods "
                "cannot be compared on these. Give --set mirror=none or mirror=mean."
            )
        images = cast.images
        store = self._faces.store
        rows = image_rows(images, store.image_ids.tolist(), store.labels)
        X = self.basis.transform(as_learned_from(self._faces.view, mirror), rows)
        at = {image: place for place, image in enumerate(images)}

        def places(some: Sequence[Image]) -> IntArray:
            return np.array([at[image] for image in some])

        return Features.scaled(
            X, store.labels[rows], places(cast.train), places(cast.queries), places(cast.distractors), self._normalise
        )

    @cached_property
    def basis(self) -> Basis:
        """What step 1 chose of each family, normalised and weighed as the settings say."""
        own = {"normalise": self._set("normalise_groups"), "weigh": self._set("weigh")}
        return Basis.joined([replace(metric.basis, **own) for metric in self._step1.values()])

    @property
    def _normalise(self) -> Normalise:
        value: Normalise = self._set("normalise")
        return value

    def _set(self, name: str) -> Any:
        value = self.settings.experiment.learner[name]
        if value == "auto":
            raise ValueError(
                f"{name}=auto: this experiment compares methods at settings that are given, and chooses none. Give a "
                f"value (--set {name}=...)."
            )
        return value

    @cached_property
    def _run(self) -> SplitRun:
        return SplitRun("retrieval", "Retrieval", self.split, ())

    @cached_property
    def _faces(self) -> Faces:
        return self.base.faces(self.cast.images)

    @cached_property
    def _step1(self) -> dict[str, Metric]:
        stages = [Stage(1, (family,)) for family in self.base.families]
        place = self.base.workplace(self._run, self._faces)
        self.base.learn(self._run, place, self._faces, stages)
        return {stage.families[0]: place.metric(stage) for stage in stages}

    @cached_property
    def _fits(self) -> Fits:
        return Fits(self.base.work / "retrieval" / "fits", self.base.reporter, self.memory_limit, self.lmnn_python)

    @cached_property
    def _learned_on(self) -> Features:
        return self.features.principal(self.settings.principal)

    def _options(self, **own: Any) -> dict[str, Any]:
        return self.settings.joint | {"memory_budget": self.base.memory, "n_jobs": self.base.n_jobs} | own

    def _row(self, fit: Fit, features: Features, **facts: Any) -> Row:
        figures = features.figures(fit.metric, n_jobs=self.base.n_jobs) if fit.has_metric else None
        return Row(fit, figures, **facts)

    def _joint(self, k: int | None) -> Row:
        """A joint metric with k target neighbours, on all training people."""
        name, features = "all" if k is None else str(k), self._learned_on
        fit = self._fits.fitted(
            f"joint-k-{name}",
            "joint",
            features.training_samples,
            self._options(n_neighbors=k),
            title=f"joint learning, {name} target neighbours",
        )
        return self._row(fit, features, neighbors=k, dims=features.n_features, n_samples=len(features.train))

    def _against_lmnn(self) -> tuple[dict[str, list[Row]], dict[str, Steps]]:
        """Both learners in every cell of Table 4; of the first cell also their metrics during the fit."""
        cells: dict[str, list[Row]] = {"joint": [], "lmnn": []}
        steps: dict[str, Steps] = {}
        for dims in [n for n in self.settings.dims if n <= self.features.n_features]:
            features = self.features.principal(dims)
            for k in self.settings.lmnn_neighbors:
                for learner, rows in cells.items():
                    rows.append(self._compared(learner, features, k, first=not rows))
                    if len(rows) == 1 and rows[0].fit.has_metric:
                        steps[learner] = self._steps(rows[0].fit, features)
        return cells, steps

    def _compared(self, learner: str, features: Features, k: int, first: bool) -> Row:
        """From people with more images than target neighbours."""
        samples = partial(features.training_samples, more_than=k, most=self.settings.most_images)
        classes = samples()[1]
        n_people, dims = len(np.unique(classes)), features.n_features
        if n_people > 1:
            fit = self._cell(f"table4-{dims}-{k}-{learner}", learner, samples, dims, k, path=first)
        else:
            fit = Fit.failed(f"not run: {n_people} people with more than {k} images")
        return self._row(fit, features, neighbors=k, dims=dims, n_samples=len(classes), n_people=n_people)

    def _steps(self, fit: Fit, features: Features) -> Steps:
        errors = [features.figures(own, n_jobs=self.base.n_jobs).error.value for own in fit.components]
        return Steps(tuple(fit.iterations.tolist()), tuple(fit.seconds.tolist()), tuple(errors))

    def _cell(
        self, name: str, learner: str, samples: Callable[[], Samples], dims: int, k: int, path: bool = False
    ) -> Fit:
        own = {"n_neighbors": k, "max_iter": LMNN_ITERATIONS} if learner == "lmnn" else self._options(n_neighbors=k)
        minutes = self.settings.lmnn_minutes if self.lmnn_minutes is None else self.lmnn_minutes
        return self._fits.fitted(
            name,
            learner,
            samples,
            own,
            title=f"{learner}, {dims} dimensions, {k} target neighbours",
            minutes=minutes if learner == "lmnn" else np.inf,
            path=path,
        )

    def _traced(self) -> Row:
        """Section 4.3's method: the optimum under a bound on the trace, then the leading directions."""
        features = self._learned_on
        fit = self._fits.fitted(
            "trace",
            "joint",
            features.training_samples,
            self._options(**PAPERS_TRACE),
            title="joint learning, nu = 6",
            resumable=True,
        )
        figures = None
        if fit.has_metric:
            figures = features.figures(fit.metric[:PAPERS_LENGTH], n_jobs=self.base.n_jobs)
        return Row(fit, figures, dims=features.n_features, n_samples=len(features.train))

    def _curves(self, trace: Row | None) -> list[Curve]:
        """Codes of several lengths: joint metrics, LDA, PCA, and plain features, those that vary most."""
        learned_on, whole = self._learned_on, self.features
        joint = self._joint(self.settings.joint.get("n_neighbors"))
        curves: list[Curve] = []
        if joint.fit.has_metric:
            turned = by_variance(joint.fit.metric, learned_on)
            curves.append(self._curve("joint", learned_on, turned, in_full=True))
            curves.append(self._curve(BY_EIGENVALUE, learned_on, joint.fit.metric, in_full=True))
        if trace is not None and trace.fit.has_metric:
            curves.append(self._curve(TRACE, learned_on, trace.fit.metric, in_full=True))
        for dims in self.settings.lda_dims:
            if dims <= whole.n_features:
                features = whole.principal(dims)
                curves.append(self._curve(f"LDA, {dims} principal features", features, discriminants(features)))
        longest = min(max(self.settings.final_dims), whole.n_features)
        curves.append(self._curve("PCA", whole.principal(longest), np.eye(longest)))
        by_spread = np.argsort(-whole.X[whole.train].var(axis=0), kind="stable")
        return [*curves, self._curve("Euclidean", whole, np.eye(whole.n_features)[by_spread], in_full=True)]

    def _curve(self, name: str, features: Features, components: Array, *, in_full: bool = False) -> Curve:
        """Of the leading components; `in_full`: of all of them as well."""
        whole = [len(components)] if in_full else []
        lengths = tuple(sorted({*(n for n in self.settings.final_dims if n <= len(components)), *whole}))
        figures = tuple(features.figures(components[:n], n_jobs=self.base.n_jobs) for n in lengths)
        return Curve(name, lengths, figures)

    def scaled(self, n_samples: int, parts: Sequence[PartName] = WITHOUT_PICTURES) -> Scale:
        """Times on features like those of LFW, of as many samples as asked for."""
        made = Scale(n_samples)
        if "scale" in parts:
            made.cells.update(self._scaled_cells(n_samples))
        return replace(made, trace=self._scaled_trace(n_samples)) if "scale-trace" in parts else made

    def _scaled_cells(self, n_samples: int) -> dict[str, list[Row]]:
        cells: dict[str, list[Row]] = {"joint": [], "lmnn": []}
        for dims in [n for n in self.settings.dims if n <= PAPERS_FEATURES]:
            for k in self.settings.lmnn_neighbors:
                for learner, rows in cells.items():
                    name = f"scale-{n_samples}-{dims}-{k}-{learner}"
                    fit = self._cell(name, learner, partial(like_sub_lfwext, n_samples, dims), dims, k)
                    rows.append(Row(fit, neighbors=k, dims=dims, n_samples=n_samples))
        return cells

    def _scaled_trace(self, n_samples: int) -> Fit:
        return self._fits.fitted(
            f"scale-{n_samples}-trace",
            "joint",
            lambda: LikeLFW(self.settings.scale_dims).samples(unequal_sizes(n_samples, n_samples // LFWEXT_CLASS)),
            self._options(**PAPERS_TRACE),
            title=f"joint learning, nu = 6, {n_samples:,} x {self.settings.scale_dims:,}",
            resumable=True,
        )

    def model(self, row: Row, length: int = PAPERS_LENGTH) -> Metric:
        """The leading directions of a metric over pictures, for `samekind index` and the like."""
        turned = row.fit.metric[:length]
        if self._learned_on is not self.features:
            turned = turned @ self.features.directions[:, : self._learned_on.n_features].T
        first = next(iter(self._step1.values()))
        return replace(first, basis=self.basis, components=turned.astype(np.float32), normalise=self._normalise)

    @property
    def folder(self) -> Path:
        return self.base.work / "retrieval"


def by_variance(components: Array, features: Features) -> Array:
    """The same distances in the principal axes of the training images' codes: what varies most comes first.

    The paper keeps the eigenvectors of A with the largest eigenvalues, whatever varies along them.
    """
    axes = leading_directions(features.X[features.train] @ components.T.astype(np.float32), len(components))
    return np.asarray(axes.T @ components)


def discriminants(features: Features) -> Array:
    """LDA's directions (r, D), scikit-learn's, the most telling first."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    made = LinearDiscriminantAnalysis().fit(features.X[features.train], features.labels[features.train])
    return np.asarray(made.scalings_.T)
