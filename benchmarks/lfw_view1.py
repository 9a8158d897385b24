"""What moves accuracy on LFW: one choice changed at a time, on View 1 only.

A base setting is learned as `samekind lfw --view 1` learns, then each variation of it: step 1 of the families that it
changes, step 2 of both together, and of one alone where it changes that one. Judged are 20,000 pairs of View 1's test
people, drawn as LFW's own were (a person and two images, or two people and an image of each): far less noisy than its
1,000 official ones, which are told beside them.

best      accuracy at the best threshold for these very pairs
chosen    accuracy at the threshold that is best on View 1's training pairs
official  accuracy on the 1,000 official test pairs, at the threshold that is best on the 20,000
auc, eer  area under the ROC curve, equal error rate

Differences to the base come with the standard error of a paired comparison, the same pairs being judged, and a person's
pairs taken together: of accuracies (best) by the pairs that only one of the two gets right, of areas after DeLong.

Told as well is how to choose a threshold on 1,000 pairs: 500 of each kind, of one half of the test people, choose it,
and what it lacks of the best threshold is told by the pairs of the other half; the mean over 100 such halves.

base_auc    of both families together, at least 92 (--quick: 55)
failed      variations that could not be learned: none
better      how many variations have an area that is two standard errors above the base's: not held; of 40 that change
            nothing one would

`--store` has all regions of both families. `--work DIR` and `--keep FILE` make it resumable: a step 1 or 2 that another
variation has learned with the same settings is not learned again. `--only` runs the base and these variations, `--list`
names them. `--write FILE` writes the table as markdown. `--quick` makes a small store of a few people, and tries two.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from harness import Report, parser
from lfwdata import DATA, Kept, some
from lfwfeatures import Codes, Features, Floats, Judged, Rows, pictures_of
from lfwstores import AtTheMean, TangentMetric, at_the_mean, with_fuzziness, with_mirrored
from numpy.typing import NDArray

from samekind.estimators import JointMetric
from samekind.evaluation import accuracy, best_threshold, image_rows, read_view1
from samekind.evaluation.lfw import Image, Pair, Person
from samekind.files import whole_file, write_whole
from samekind.images.extractor import Extractor
from samekind.images.listing import ImageFile, list_images
from samekind.lfw.faces import Faces, extracted
from samekind.lfw.learning import Intermediate, Learner, principal_directions, region_starts
from samekind.lfw.measuring import codes_of_pictures
from samekind.lfw.presets import Settings
from samekind.lfw.workplace import digest
from samekind.model.metric import Metric
from samekind.store import DiskStore
from samekind.threads import single_threaded_blas

FAMILIES = ("cov", "slbp")
BASE = "base"
OF_STEP1 = (
    *("regions", "max_groups", "min_images", "max_images", "roots", "whiten"),
    *("pair_balance", "threshold", "ridge", "seed"),
)
OF_FEATURES = ("mirrored", "joint_min_images", "normalise_groups", "weigh")  # that step 2 learns from
OF_STEP2 = ("pair_balance", "threshold", "joint_ridge", "n_components", "anchors", "seed")
MEMORY = "2GB"


@dataclass(frozen=True)
class Variation:
    """The base with some settings, or something else, changed."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # of settings
    families: tuple[str, ...] = FAMILIES  # whose step 1 it changes, if any; the other one stays the base's
    descriptors: str = "stored"
    share: float = 1.0  # of the training people
    loss: Mapping[str, Any] = field(default_factory=dict)  # options of JointMetric
    within: float | None = None  # features are whitened within people before step 2, so much added to their scatter


def variations() -> Iterator[Variation]:
    """The promising ones first."""
    yield Variation("the paper's flip-free distances", {"mirror_mean": False})
    for normalise in ("none", "unit"):
        yield Variation(f"normalise {normalise}", {"normalise": normalise})
    for normalise in ("none", "root"):
        yield Variation(f"normalise groups {normalise}", {"normalise_groups": normalise})
    for power in (0.0, 1.0):
        yield Variation(f"features weighed by step 1 to the power {power:g}", {"weigh": power})
    yield Variation("regions and features as in the paper", {"normalise_groups": "none", "weigh": 0.0})
    yield Variation("step 2 from people with two images", {"joint_min_images": 2})
    yield Variation("mirror images in step 2", {"mirrored": True})
    yield Variation("mirror images in step 2 and flip-free distances", {"mirrored": True, "mirror_mean": False})
    for dims in (300, 600, 1000):
        if dims != FULL.base.principal:
            yield Variation(f"step 2 on {dims} principal features", {"principal": dims})
    for dims in (300, 600):
        name = f"step 2 on {dims} principal features whitened within people"
        yield Variation(name, {"principal": dims}, within=0.0)
        yield Variation(f"{name} and normalise unit", {"principal": dims, "normalise": "unit"}, within=0.0)
    yield Variation("step 2 on all features", {"principal": None})
    name = "step 2 on all features whitened within people + 0.1"
    yield Variation(name, {"principal": None}, within=0.1)
    yield Variation(f"{name} and normalise unit", {"principal": None, "normalise": "unit"}, within=0.1)
    for ridge in (1.0, 10.0, 0.3):
        yield Variation(f"ridge of step 2: {ridge:g}", {"joint_ridge": ridge})
    for rank in (300, 100, 50):
        yield Variation(f"rank {rank}", {"n_components": rank})
    yield Variation("2000 anchors", {"anchors": 2_000})
    yield Variation("triplet loss in step 2", loss={"loss": "triplet"})
    yield Variation("triplet loss in step 2 at ridge 0.3", {"joint_ridge": 0.3}, loss={"loss": "triplet"})
    yield Variation("pairs of one person and of two alike", {"pair_balance": "equal"})
    for seed in (1, 2, 3):
        yield Variation(f"seed {seed}", {"seed": seed})
    for ridge in (0.3, 3.0, 0.1, 10.0):
        yield Variation(f"ridge of step 1: {ridge:g}", {"ridge": ridge})
    for threshold in (7.0, 28.0):
        yield Variation(f"threshold {threshold:g}", {"threshold": threshold})
    yield Variation("80 groups", {"max_groups": 80})
    for dims in (30, 20):
        yield Variation(f"{dims} whitened dimensions", {"whiten": dims})
    yield Variation("59 whitened dimensions (slbp)", {"whiten": 59}, ("slbp",))
    yield Variation("mirror images in both steps", descriptors="mirrored")
    for fuzziness in (0.01, 0.04, 0.0, 0.08):
        yield Variation(f"fuzziness {fuzziness:g} (slbp)", {}, ("slbp",), f"fuzziness {fuzziness:g}")
    yield Variation("tangent at the mean (cov)", {}, ("cov",), "tangent")
    yield Variation("plain histograms (slbp)", {"roots": False}, ("slbp",))
    yield Variation("pairs not balanced", {"pair_balance": "literal"})
    yield Variation("3000 regions", {"regions": 3_000})
    yield Variation("300 regions", {"regions": 300})
    yield Variation("200 groups of 4000 regions", {"max_groups": 200, "regions": 4_000})
    yield Variation("20 groups", {"max_groups": 20})
    yield Variation("10 groups", {"max_groups": 10})
    yield Variation("50 % of the people", share=0.5)
    yield Variation("25 % of the people", share=0.25)
    yield Variation("step 1 from all images", {"max_images": None})
    yield Variation("step 1 from everybody", {"min_images": 1})
    yield Variation("rank as the data ask for", {"n_components": None})


@dataclass(frozen=True)
class Size:
    base: Settings
    share: float  # of the training people
    every: tuple[int, int]  # of the training pairs, of the official test pairs
    drawn: int  # of one person and of two, each
    auc: float


FULL = Size(Settings(regions=1_000, max_groups=40, min_images=2, max_images=10), 1.0, (1, 1), 10_000, 92)
SMALL = Settings(regions=40, max_groups=5, min_images=2, max_images=10, joint_min_images=2, n_components=20)
QUICK = Size(SMALL, 0.08, (20, 8), 60, 55)
QUICK_NAMES = ["mirror images in step 2", "mirror images in both steps"]


class OnView1(NamedTuple):
    """How something judges View 1's test people."""

    drawn: Judged
    official: float  # accuracy, in percent, at the threshold that is best for the drawn pairs


class Pairs(NamedTuple):
    """Of View 1's training people, and of its test people: the official ones, and those that are judged."""

    training: list[Pair]
    official: list[Pair]
    drawn: list[Pair]

    @property
    def all(self) -> list[Pair]:
        return [*self.training, *self.official, *self.drawn]

    def judged(self, distances: Floats) -> OnView1:
        """By the distances of all."""
        ends = np.cumsum([len(self.training), len(self.official)])
        training, official, drawn = (
            (own, np.array([pair.same for pair in pairs]))
            for own, pairs in zip(np.split(distances, ends), self, strict=True)
        )
        people = np.array([pair.first.person for pair in self.drawn])
        return OnView1(
            Judged(*drawn, people, best_threshold(*training)), 100 * accuracy(*official, best_threshold(*drawn))
        )


def drawn_pairs(people: Sequence[Person], n: int) -> list[Pair]:
    """n of a person and as many of two people, as LFW's were drawn; always the same ones."""
    rng = np.random.default_rng(0)
    several = [person for person in people if person.n_images > 1]
    same = []
    for person in rng.choice(len(several), n):
        name, n_images = several[person]
        one, two = rng.choice(n_images, 2, replace=False) + 1
        same.append(Pair(Image(name, int(one)), Image(name, int(two))))
    others = []
    for _ in range(n):
        both = [people[at] for at in rng.choice(len(people), 2, replace=False)]
        others.append(Pair(*(Image(name, int(rng.integers(n_images)) + 1) for name, n_images in both)))
    return same + others


RULES: tuple[Literal["balanced", "logistic"], ...] = ("balanced", "logistic")
HALVES, CHOOSING = 100, 500


def lost_by_rules(drawn: Judged, pairs: Sequence[Pair]) -> dict[str, tuple[float, float]]:
    """Points of balanced accuracy that a threshold chosen on few pairs lacks, and its spread, by how it is chosen."""
    rng, names = np.random.default_rng(0), np.array([[image.person for image in pair] for pair in pairs])
    everybody, same = np.unique(names), drawn.same
    lost: dict[str, list[float]] = {rule: [] for rule in RULES}
    thresholds: dict[str, list[float]] = {rule: [] for rule in RULES}
    for _ in range(HALVES):
        half = rng.choice(everybody, len(everybody) // 2, replace=False)
        n_of_half = np.isin(names, half).sum(axis=1)
        inside = [np.flatnonzero((n_of_half == 2) & kind) for kind in (same, ~same)]
        few = np.concatenate([rng.choice(each, min(CHOOSING, len(each)), replace=False) for each in inside])
        others = drawn.distances[n_of_half == 0], same[n_of_half == 0]
        best = _balanced(*others, best_threshold(*others, strategy="balanced"))
        for rule in RULES:
            threshold = best_threshold(drawn.distances[few], same[few], strategy=rule)
            lost[rule].append(100 * (best - _balanced(*others, threshold)))
            thresholds[rule].append(threshold)
    return {rule: (float(np.mean(lost[rule])), float(np.std(thresholds[rule]))) for rule in RULES}


def _balanced(distances: Floats, same: NDArray[np.bool_], threshold: float) -> float:
    called = distances.astype(np.float64) <= threshold
    return float(np.mean(called[same]) + np.mean(~called[~same])) / 2


@dataclass(frozen=True, eq=False)
class View1:
    """Training images of View 1, its pairs, and the descriptors that steps learn from."""

    size: Size
    work: Path
    given: Path | None  # store of all regions

    @cached_property
    def files(self) -> list[ImageFile]:
        return list_images(DATA / "images", labelled=True)

    @cached_property
    def pairs(self) -> Pairs:
        split, (of_training, of_test) = read_view1(DATA / "protocol"), self.size.every
        training, official = split.train.pairs[::of_training], split.test.pairs[::of_test]
        return Pairs(list(training), list(official), drawn_pairs(split.test.people, self.size.drawn))

    @cached_property
    def shown(self) -> tuple[list[ImageFile], Rows]:
        return pictures_of(self.pairs.all, self.files)

    @cached_property
    def store(self) -> DiskStore:
        if self.given:
            return DiskStore.open(self.given)
        regions, training = self.size.base.regions, self.files_of(self.images(1.0, self.size.base.joint_min_images))
        return extracted(
            training, self.work / "store", FAMILIES, regions, n_jobs=None, progress=lambda done, total: None
        )

    def images(self, share: float, min_images: int, max_images: int | None = None) -> list[Image]:
        people = [person for person in read_view1(DATA / "protocol").train.people if person.n_images >= min_images]
        chosen = some({person.name for person in people}, share * self.size.share)
        return [image for person in people if person.name in chosen for image in person.images[:max_images]]

    def files_of(self, images: Sequence[Image]) -> list[ImageFile]:
        return [self.files[row] for row in np.sort(image_rows(images, [file.name for file in self.files]))]

    def stored(self, settings: Settings, families: tuple[str, ...] = FAMILIES) -> Faces:
        return Faces(self.store, families, settings.regions, settings.roots)

    def faces(self, family: str, variety: str, settings: Settings) -> Faces:
        """The descriptors that step 1 of a family learns from; those that are not stored are made."""
        if variety == "stored":
            return self.stored(settings)
        every = self.stored(settings)
        numbers = np.concatenate([every.of_family(each).numbers for each in FAMILIES])
        extractor = every.extractor.only(numbers.tolist())
        path = self.work / f"store-{variety.replace(' ', '-')}"
        files = self.files_of(self.images(1.0, min(settings.min_images, settings.joint_min_images)))
        if variety == "mirrored":
            return Faces(with_mirrored(path, files, extractor), FAMILIES, settings.regions, settings.roots)
        if variety == "tangent":
            own = Extractor.only(extractor, range(settings.regions))
            made = at_the_mean(path, every.of_family("cov"), self.rows(every, settings)[1], own)
            return Faces(made, ("cov",), settings.regions)
        made = with_fuzziness(path, files, extractor, float(variety.removeprefix("fuzziness ")))
        return Faces(made, ("slbp",), settings.regions, settings.roots)

    def rows(self, faces: Faces, settings: Settings, share: float = 1.0) -> tuple[Rows, Rows]:
        """That step 1 learns from, and step 2."""
        first = self.images(share, settings.min_images, settings.max_images)
        second = self.images(share, settings.joint_min_images)
        names, labels = faces.store.image_ids.tolist(), faces.store.labels
        if not names[-1].endswith("mirrored"):
            return image_rows(first, names, labels), image_rows(second, names, labels)
        pictures = [2 * image_rows(each, names[::2], labels[::2]) for each in (first, second)]
        one, two = (np.concatenate([rows, rows + 1]) for rows in pictures)
        return one, two

    def reader(self, metric: Metric, variety: str, settings: Settings) -> Any:
        """What turns descriptors of pictures into codes."""
        if variety != "tangent":
            return metric.with_normalise("none")
        every = self.stored(settings)
        return TangentMetric(metric, AtTheMean.learned(every.of_family("cov"), self.rows(every, settings)[1]))


@dataclass(frozen=True, eq=False)
class Steps:
    """Both steps, each learned once for all variations that ask for the same."""

    view1: View1

    def first(self, family: str, variation: Variation, settings: Settings) -> tuple[Features, NDArray[Any], float, str]:
        """Features after step 1 of a family, labels of the training images, seconds, and its key.

        With mirror images, those of the training images come after them.
        """
        key = self._key(family, variation, settings)
        folder = self._folder(f"step1-{family}", key)
        faces = self.view1.faces(family, variation.descriptors, settings)
        first_rows, rows = self.view1.rows(faces, settings, variation.share)
        model, kept = folder / "metric.safetensors", folder / f"features-{settings.joint_min_images}.npz"
        if not model.exists():
            learner = Learner(faces, first_rows, rows, [], settings, MEMORY, None)
            metric, facts = learner.step1(family, folder / "checkpoint", None)
            write_whole(folder / "facts.json", json.dumps(facts) + "\n")
            metric.save(model)
        if not kept.exists():
            metric = Metric.load(model)
            reader = self.view1.reader(metric, variation.descriptors, settings)
            sources, readers = {family: faces.of_family(family)}, {family: reader}
            Features.of({family: metric}, sources, rows, self.view1.shown[0], readers).save(kept)
        features, labels = Features.load(kept), faces.store.labels[rows]
        if settings.mirrored:
            mirrored = self._mirrored(folder, f"mirrored-{settings.joint_min_images}", faces.store.image_ids[rows])
            features = features.with_mirrored(mirrored)
        seconds = json.loads((folder / "facts.json").read_text())["seconds"]
        return features, labels, seconds, folder.name

    def _mirrored(self, folder: Path, kept_as: str, names: NDArray[Any]) -> Floats:
        """Features of the mirror images of these, described once."""
        kept = folder / f"{kept_as}.npy"
        if not kept.exists():
            plain = Metric.load(folder / "metric.safetensors").with_normalise("none")
            files = {file.name: file for file in self.view1.files}
            with single_threaded_blas():
                codes, mirrored = codes_of_pictures({"all": plain}, [files[name] for name in names])["all"]
            with whole_file(kept) as file:
                deviations = Intermediate.of(codes, region_starts(plain)).deviations
                np.save(file, (mirrored / deviations).astype(np.float32))
        made: Floats = np.load(kept)
        return made

    def second(self, variation: Variation, settings: Settings, firsts: Sequence[Any]) -> tuple[Codes, float]:
        """Codes after step 2 on the features of several families, and seconds."""
        features = Features.together([first[0] for first in firsts]).as_learned_from(settings)
        labels = np.tile(firsts[0][1], len(features.train) // len(firsts[0][1]))
        options = {name: getattr(settings, name) for name in OF_STEP2} | dict(variation.loss)
        key = {"firsts": [first[3] for first in firsts], **options}
        key |= {name: getattr(settings, name) for name in OF_FEATURES}
        # On one thread the same to the last bit each time, or a checkpoint would be taken for another fit's.
        with single_threaded_blas():
            directions = principal_directions(features.train, settings.principal, settings.seed)
            if directions is not None:
                features = features.mapped(directions)
                key |= {"directions": len(directions)}
            if variation.within is not None:
                features = features.mapped(_within_whitening(features.train, labels, variation.within))
                key |= {"within": variation.within}
        folder = self._folder("step2", key)
        kept, facts = folder / "components.npy", folder / "facts.json"
        if not kept.exists():
            started = time.perf_counter()
            rank, seed = options.pop("n_components"), options.pop("seed")
            learner = JointMetric(
                None if rank is None else min(rank, features.train.shape[1]),
                ridge=options.pop("joint_ridge"),
                memory_budget=MEMORY,
                random_state=seed,
                checkpoint=folder / "checkpoint",
                **options,
            ).fit(features.train, labels)
            seconds = time.perf_counter() - started
            write_whole(facts, json.dumps({"seconds": seconds, "converged": bool(learner.converged_)}) + "\n")
            with whole_file(kept) as file:
                np.save(file, learner.components_)
        return features.mapped(np.load(kept)), json.loads(facts.read_text())["seconds"]

    def _key(self, family: str, variation: Variation, settings: Settings) -> dict[str, Any]:
        chosen = {name: getattr(settings, name) for name in OF_STEP1 if (family, name) != ("cov", "roots")}
        return {"descriptors": variation.descriptors, "share": variation.share, **chosen}

    def _folder(self, name: str, key: Mapping[str, Any]) -> Path:
        folder = self.view1.work / f"{name}-{digest(key)[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "key.json", json.dumps(key, indent=1) + "\n")
        return folder


def _within_whitening(Z: NDArray[Any], labels: NDArray[Any], added: float) -> NDArray[Any]:
    """The map that makes the scatter within classes I; so much of its mean variance is added to it first."""
    _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.zeros((len(counts), Z.shape[1]))
    np.add.at(means, numbers, Z)
    deviations = Z - (means / counts[:, np.newaxis])[numbers]
    S = deviations.T @ deviations / (len(Z) - len(counts))
    values, vectors = np.linalg.eigh(S)
    return (vectors / np.sqrt(values + added * values.mean())).T


def judged(variation: Variation, steps: Steps) -> tuple[dict[str, OnView1], float]:
    """Both families together, and the one that the variation changes, after step 2; seconds of all it needs."""
    view1 = steps.view1
    base, settings = view1.size.base, replace(view1.size.base, **variation.changes)
    unchanged = replace(variation, descriptors="stored")
    firsts = {
        family: steps.first(family, variation, settings)
        if family in variation.families
        else steps.first(family, unchanged, base)
        for family in FAMILIES
    }
    found, seconds = {}, sum(first[2] for first in firsts.values())
    alone = variation.families if variation.name == BASE or variation.families != FAMILIES else ()
    for families in [FAMILIES, *((family,) for family in alone)]:
        codes, spent = steps.second(variation, settings, [firsts[family] for family in families])
        distances = codes.distances(view1.shown[1], settings.normalise, settings.mirror_mean)
        found["+".join(families)] = view1.pairs.judged(distances)
        seconds += spent
    return found, seconds


def record_of(found: Mapping[str, OnView1], base: Mapping[str, OnView1]) -> dict[str, Any]:
    """Figures of each, and differences to the base."""
    return {
        name: drawn.figures()
        | {
            "official": official,
            "accuracy_over": drawn.accuracy_over(base[name].drawn),
            "auc_over": drawn.auc_over(base[name].drawn),
        }
        for name, (drawn, official) in found.items()
    }


BOTH = "+".join(FAMILIES)
FIGURES = {"best": "best", "chosen": "chosen", "official": "official", "auc": "AUC", "eer": "EER"}
DIFFERENCES = ["best - base", "AUC - base", "cov: AUC - base", "slbp: AUC - base"]
HEAD = ["", *FIGURES.values(), *DIFFERENCES, "s"]


def cells(record: Mapping[str, Any]) -> list[str]:
    """A row of the table."""
    if "problem" in record:
        return [record["name"], record["problem"], *[""] * (len(HEAD) - 2)]
    found, is_base = record["found"], record["name"] == BASE
    figures = [f"{found[BOTH][name]:.2f}" for name in FIGURES]
    if is_base:
        return [
            BASE,
            *figures,
            "",
            "",
            *(f"({found[family]['auc']:.2f})" for family in FAMILIES),
            f"{record['seconds']:.0f}",
        ]
    over = [_text(found[BOTH]["accuracy_over"]), _text(found[BOTH]["auc_over"])]
    over += [_text(found[family]["auc_over"]) if family in found else "" for family in FAMILIES]
    return [record["name"], *figures, *over, f"{record['seconds']:.0f}"]


def _text(difference: Sequence[float]) -> str:
    return f"{difference[0]:+.2f} ± {difference[1]:.2f}"


def show(row: Sequence[str]) -> None:
    print(f"{row[0]:60}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], WIDTHS, strict=True)), flush=True)


WIDTHS = (6, 6, 8, 6, 6, 14, 14, 15, 16, 6)


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    lines = [HEAD, ["---", *["--:"] * (len(HEAD) - 1)], *map(cells, records)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def run(size: Size, names: Sequence[str], given: Any, work: Path, report: Report) -> None:
    view1 = View1(size, work, given.store)
    steps = Steps(view1)
    case = {"base": asdict(size.base), "share": size.share, "every": size.every, "drawn": size.drawn}
    kept = Kept(given.keep, case)
    first, second = (
        len(view1.images(1.0, *limits))
        for limits in ((size.base.min_images, size.base.max_images), (size.base.joint_min_images,))
    )
    print(f"{first:,} and {second:,} training images, {len(view1.pairs.drawn):,} pairs to judge", flush=True)
    base, seconds = judged(Variation(BASE), steps)
    records = [kept.find(name=BASE) or kept.add(name=BASE, found=record_of(base, base), seconds=seconds)]
    show(HEAD)
    show(cells(records[0]))
    for variation in variations():
        if variation.name in names:
            records.append(kept.find(name=variation.name) or recorded(variation, steps, base, kept))
            show(cells(records[-1]))
    for rule, (lost, spread) in lost_by_rules(base[BOTH].drawn, view1.pairs.drawn).items():
        print(f"a {rule} threshold of few pairs: {lost:.3f} points short of the best, standard deviation {spread:.3f}")
        report.note(f"lost_{rule}", lost)
    if given.write:
        given.write.write_text(markdown(records))
    finish(records, size, report)


def recorded(variation: Variation, steps: Steps, base: Mapping[str, OnView1], kept: Kept) -> dict[str, Any]:
    """One that fails does not keep the others from being tried, and is tried again next time."""
    try:
        found, seconds = judged(variation, steps)
    except Exception as error:
        traceback.print_exc()
        return {"name": variation.name, "problem": f"failed: {error}"}
    return kept.add(name=variation.name, found=record_of(found, base), seconds=seconds)


def finish(records: Sequence[Mapping[str, Any]], size: Size, report: Report) -> None:
    base, *others = records
    report.hold("base_auc", base["found"][BOTH]["auc"], at_least=size.auc)
    report.note("base_accuracy", base["found"][BOTH]["chosen"])
    over = [record["found"][BOTH]["auc_over"] for record in others if "found" in record]
    report.note("better", sum(mean > 2 * error for mean, error in over))
    report.note("worse", sum(mean < -2 * error for mean, error in over))
    report.note("variations", len(others))
    report.hold("failed", len(others) - len(over), at_most=0)
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--store", type=Path, metavar="DIR", help="all regions of both families of LFW-a")
    options.add_argument("--work", type=Path, metavar="DIR", help="what was learned, to go on from")
    options.add_argument("--keep", type=Path, metavar="FILE", help="JSON lines of results, to go on from")
    options.add_argument("--only", metavar="NAME[,NAME]", help="the base and these variations")
    options.add_argument("--write", type=Path, metavar="FILE", help="the table as markdown")
    options.add_argument("--list", action="store_true", help="the names of all variations")
    given = options.parse_args()
    known = [variation.name for variation in variations()]
    if given.list:
        print("\n".join(known))
        return
    names = given.only.split(",") if given.only else QUICK_NAMES if given.quick else known
    if unknown := set(names) - set(known):
        sys.exit(f"There is no variation {sorted(unknown)[0]!r}: --list names them.")
    if not (given.store or given.quick):
        sys.exit("Give --store, a store of all regions of both families of LFW-a, or --quick.")
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run(QUICK if given.quick else FULL, names, given, work, Report("lfw_view1"))


if __name__ == "__main__":
    main()
