"""What moves accuracy on LFW: one choice changed at a time, on View 1 only.

A base setting is learned by the learner of `samekind lfw --view 1`, then each variation of it: step 1 of the families
that it changes, step 2 of both together, and of one alone where it changes that one. Judged are 20,000 pairs of View
1's test people, drawn as LFW's own were (a person and two images, or two people and an image of each): far less noisy
than its 1,000 official ones, which are reported beside them.

best      accuracy at the best threshold for these very pairs
chosen    accuracy at the threshold that is best on View 1's training pairs
official  accuracy on the 1,000 official test pairs, at the threshold that is best on the 20,000
auc, eer  area under the ROC curve, equal error rate

Differences to the base come with the standard error of a paired comparison, the same pairs being judged, and a person's
pairs taken together: of accuracies (best) by the pairs that only one of the two gets right, of areas after DeLong.

Reported as well is how to choose a threshold on 1,000 pairs: 500 of each kind, of one half of the test people, choose
it, and the pairs of the other half say what it lacks of the best threshold; the mean over 100 such halves.

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
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from harness import Report, parser
from lfwdata import DATA, SavedRecords, some
from lfwfigures import Floats, Judged
from numpy.typing import NDArray

from samekind.estimators import presets
from samekind.evaluation import accuracy, best_threshold
from samekind.extraction import extract
from samekind.files import whole_file, write_whole
from samekind.images.listing import ImageFile, list_images
from samekind.images.slbp import SoftLBP
from samekind.lfw.faces import Faces, extracted
from samekind.lfw.learning import Learner
from samekind.lfw.measuring import distances_of_pairs
from samekind.lfw.presets import ExperimentSettings
from samekind.lfw.protocol import image_rows, read_view1
from samekind.lfw.protocol_files import Image, Pair, Person
from samekind.lfw.workplace import digest
from samekind.model.metric import Metric
from samekind.store import DiskStore

FAMILIES = ("cov", "slbp")
BASE = "base"
IN_USE = ("normalise", "mirror")  # settings that no step learns with
MEMORY = "2GB"
MODEL, FACTS = "metric.safetensors", "facts.json"


@dataclass(frozen=True)
class Variation:
    """The base with some settings, or something else, changed."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the learner's settings, by their names
    families: tuple[str, ...] = FAMILIES  # whose step 1 it changes, if any; the other one stays the base's
    regions: int | None = None
    seed: int | None = None
    fuzziness: float | None = None  # of soft LBP
    share: float = 1.0  # of the training people

    def of(self, base: ExperimentSettings) -> ExperimentSettings:
        """The base, changed."""
        made = base.changed(regions=self.regions, seed=self.seed)
        return replace(made, learner=dict(made.learner) | dict(self.changes))


def variations() -> Iterator[Variation]:
    """The promising ones first."""
    chosen = {name: own for name, own in presets.PRESETS["faces"].items() if name not in ("max_groups", "n_components")}
    yield Variation("as `fit --preset faces` chooses on people left out", chosen)
    for ridge in (0.1, 0.01, 1.0):
        yield Variation(f"step 2 towards step 1, ridge {ridge:g}", TOWARDS_STEP1 | {"joint__ridge": ridge})
    yield Variation("the paper's flip-free distances", {"mirror": "distances"})
    yield Variation("without mirror images", {"mirror": "none"})
    for normalise in ("none", "unit"):
        yield Variation(f"normalise {normalise}", {"normalise": normalise})
    for normalise in ("none", "scale", "root"):
        yield Variation(f"normalise groups {normalise}", {"normalise_groups": normalise})
    for power in (0.0, 1.0):
        yield Variation(f"features weighed by step 1 to the power {power:g}", {"weigh": power})
    yield Variation("regions and features as in the paper", {"normalise_groups": "none", "weigh": 0.0})
    yield Variation("step 2 from people with two images", {"joint__min_per_class": 2})
    for dims in (300, 1000):
        yield Variation(f"step 2 on {dims} principal features", {"principal": dims})
    yield Variation("step 2 on all features", {"principal": None})
    for ridge in (1.0, 10.0, 0.3):
        yield Variation(f"ridge of step 2: {ridge:g}", {"joint__ridge": ridge})
    for rank in (300, 100, 50):
        yield Variation(f"rank {rank}", {"n_components": rank})
    yield Variation("2000 anchors", {"joint__anchors": 2_000})
    yield Variation("triplet loss in step 2", {"joint__loss": "triplet"})
    yield Variation("triplet loss in step 2 at ridge 0.3", {"joint__loss": "triplet", "joint__ridge": 0.3})
    yield Variation("pairs of one person and of two alike", _of_both("pair_balance", "equal"))
    for seed in (1, 2, 3):
        yield Variation(f"seed {seed}", seed=seed)
    for ridge in (0.3, 3.0, 0.1, 10.0):
        yield Variation(f"ridge of step 1: {ridge:g}", {"selection__ridge": ridge})
    for threshold in (7.0, 28.0):
        yield Variation(f"threshold {threshold:g}", _of_both("threshold", threshold))
    yield Variation("80 groups", {"max_groups": 80})
    for dims in (30, 20):
        yield Variation(f"{dims} whitened dimensions", {"selection__whiten": dims})
    yield Variation("59 whitened dimensions (slbp)", {"selection__whiten": 59}, ("slbp",))
    for fuzziness in (0.01, 0.04, 0.0, 0.08):
        yield Variation(f"fuzziness {fuzziness:g} (slbp)", {}, ("slbp",), fuzziness=fuzziness)
    yield Variation("plain histograms (slbp)", {"roots": False}, ("slbp",))
    yield Variation("pairs not balanced", _of_both("pair_balance", "literal"))
    yield Variation("3000 regions", regions=3_000)
    yield Variation("300 regions", regions=300)
    yield Variation("200 groups of 4000 regions", {"max_groups": 200}, regions=4_000)
    yield Variation("20 groups", {"max_groups": 20})
    yield Variation("10 groups", {"max_groups": 10})
    yield Variation("50 % of the people", share=0.5)
    yield Variation("25 % of the people", share=0.25)
    yield Variation("step 1 from all images", {"selection__max_per_class": None})
    yield Variation("step 1 from everybody", {"selection__min_per_class": 1})
    yield Variation("rank as the data ask for", {"n_components": None})


TOWARDS_STEP1 = {"joint__target": "identity", "principal": "auto", "weigh": 1.0}


def _of_both(name: str, value: Any) -> dict[str, Any]:
    return {f"selection__{name}": value, f"joint__{name}": value}


@dataclass(frozen=True)
class Size:
    base: ExperimentSettings
    share: float  # of the training people
    every: tuple[int, int]  # of the training pairs, of the official test pairs
    drawn: int  # of one person and of two, each
    auc: float


FULL = Size(ExperimentSettings(1_000, presets.MANY_FACES | {"max_groups": 40}), 1.0, (1, 1), 10_000, 92)
SMALL = {"max_groups": 5, "n_components": 20, "joint__min_per_class": 2}
QUICK = Size(ExperimentSettings(40, presets.MANY_FACES | SMALL), 0.08, (20, 8), 60, 55)
QUICK_NAMES = ["without mirror images", "fuzziness 0.04 (slbp)"]


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
    def store(self) -> DiskStore:
        if self.given:
            return DiskStore.open(self.given)
        return extracted(
            self.training_files, self.work / "store", FAMILIES, self.size.base.regions, n_jobs=None, progress=_silent
        )

    @property
    def training_files(self) -> list[ImageFile]:
        return [self.files[row] for row in np.sort(image_rows(self.images(1.0), [file.name for file in self.files]))]

    def images(self, share: float) -> list[Image]:
        """Of a share of the training people; of all people where the base learns from those with one image as well."""
        least = self.size.base.learner.get("joint__min_per_class", 1)
        people = [person for person in read_view1(DATA / "protocol").train.people if person.n_images >= least]
        chosen = some({person.name for person in people}, share * self.size.share)
        return [image for person in people if person.name in chosen for image in person.images]

    def faces(self, settings: ExperimentSettings, fuzziness: float | None) -> Faces:
        """The descriptors that steps learn from; those that are not stored are made."""
        stored = Faces(self.store, FAMILIES, settings.regions, settings.roots)
        if fuzziness is None:
            return stored
        chosen = stored.extractor.only(stored.view.numbers.tolist())
        parts = tuple(
            replace(part, family=SoftLBP(fuzziness)) if isinstance(part.family, SoftLBP) else part
            for part in chosen.parts
        )
        path = self.work / f"store-{settings.regions}-fuzziness-{fuzziness:g}"
        made = extract(self.training_files, path, replace(chosen, parts=parts))
        return replace(stored, store=made)

    def learner(self, settings: ExperimentSettings, variation: Variation) -> Learner:
        """From the images of the training people."""
        faces = self.faces(settings, variation.fuzziness)
        rows = image_rows(self.images(variation.share), faces.store.image_ids.tolist(), faces.store.labels)
        return Learner(faces, rows, settings, MEMORY, None)


def _silent(done: int, total: int) -> None:
    return None


@dataclass(frozen=True, eq=False)
class Steps:
    """Both steps, each learned once for all variations that ask for the same."""

    view1: View1

    def first(self, family: str, variation: Variation, settings: ExperimentSettings) -> tuple[Metric, Path]:
        """Step 1 of a family, and its folder."""
        of_step1 = presets.learner(settings.learner).step1().get_params()
        key = of_step1 | _descriptors(variation, settings) | {"share": variation.share, "seed": settings.seed}
        folder = self._folder(f"step1-{family}", key)
        learner = self.view1.learner(settings, variation)
        return self._learned(folder, lambda: learner.step1(family, folder / "checkpoint", None)), folder

    def second(
        self, variation: Variation, settings: ExperimentSettings, firsts: Mapping[str, tuple[Metric, Path]]
    ) -> Path:
        """The folder of step 2 on what step 1 chose of several families."""
        learned = {name: value for name, value in settings.learner.items() if name not in IN_USE or value == "auto"}
        key = learned | _descriptors(variation, settings) | {"share": variation.share, "seed": settings.seed}
        folder = self._folder("step2", key | {"firsts": [first.name for _, first in firsts.values()]})
        learner = self.view1.learner(settings, variation)
        metrics = {family: metric for family, (metric, _) in firsts.items()}
        self._learned(folder, lambda: learner.step2(metrics, folder / "checkpoint", None))
        return folder

    def distances(self, folders: Mapping[str, Path], settings: ExperimentSettings) -> dict[str, Floats]:
        """Squared distances of all pairs under metrics of step 2, used as the settings say."""
        kept_as = f"distances-{'-'.join(str(settings.learner[name]) for name in IN_USE)}.npy"
        missing = {name: folder for name, folder in folders.items() if not (folder / kept_as).exists()}
        if missing:
            metrics = {name: _used(Metric.load(folder / MODEL), settings) for name, folder in missing.items()}
            made = distances_of_pairs(metrics, self.view1.pairs.all, self.view1.files)
            for name, folder in missing.items():
                with whole_file(folder / kept_as) as file:
                    np.save(file, made[name])
        return {name: np.load(folder / kept_as) for name, folder in folders.items()}

    def _learned(self, folder: Path, learn: Callable[[], tuple[Metric, dict[str, Any]]]) -> Metric:
        if not (folder / MODEL).exists():
            metric, facts = learn()
            write_whole(folder / FACTS, json.dumps(facts) + "\n")
            metric.save(folder / MODEL)
        return Metric.load(folder / MODEL)

    def _folder(self, name: str, key: Mapping[str, Any]) -> Path:
        folder = self.view1.work / f"{name}-{digest(key)[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "key.json", json.dumps(key, indent=1) + "\n")
        return folder


def _descriptors(variation: Variation, settings: ExperimentSettings) -> dict[str, Any]:
    return {"regions": settings.regions, "roots": settings.roots, "fuzziness": variation.fuzziness}


def _used(metric: Metric, settings: ExperimentSettings) -> Metric:
    """As the settings compare pictures; normalised as was chosen where that was asked for."""
    normalise = settings.learner["normalise"]
    return metric.with_normalise(metric.normalise if normalise == "auto" else normalise).with_mirror(settings.mirror)


def seconds_of(folder: Path) -> float:
    return float(json.loads((folder / FACTS).read_text())["seconds"])


def judged(variation: Variation, steps: Steps) -> tuple[dict[str, OnView1], float]:
    """Both families together, and the one that the variation changes, after step 2; seconds of all it needs."""
    base, settings = steps.view1.size.base, variation.of(steps.view1.size.base)
    firsts = {
        family: steps.first(family, variation, settings)
        if family in variation.families
        else steps.first(family, Variation(BASE), base)
        for family in FAMILIES
    }
    alone = variation.families if variation.name == BASE or variation.families != FAMILIES else ()
    folders = {
        "+".join(families): steps.second(variation, settings, {family: firsts[family] for family in families})
        for families in [FAMILIES, *((family,) for family in alone)]
    }
    found = {
        name: steps.view1.pairs.judged(distances) for name, distances in steps.distances(folders, settings).items()
    }
    return found, sum(map(seconds_of, [*folders.values(), *(folder for _, folder in firsts.values())]))


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
    case = {"base": size.base.to_json(), "share": size.share, "every": size.every, "drawn": size.drawn}
    kept = SavedRecords(given.keep, case)
    n_images = len(view1.images(1.0))
    print(f"{n_images:,} training images, {len(view1.pairs.drawn):,} pairs to judge", flush=True)
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


def recorded(variation: Variation, steps: Steps, base: Mapping[str, OnView1], kept: SavedRecords) -> dict[str, Any]:
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
