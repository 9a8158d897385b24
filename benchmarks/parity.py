"""What the commands of README reach on faces: `samekind extract`, `fit --preset faces`, `evaluate`, `lfw`, as typed.

view1        LFW-a, View 1: learned from its training people (`extract --regions 1000`, `fit --preset faces
             --max-groups 40 --components 150`), judged on its 1,000 official test pairs by the saved model alone: its
             encoder, its distance, its threshold. Beside it `samekind lfw --view 1` at the same size.
             view1_own   accuracy at the model's own threshold, in percent: at least 90
             view1_best  accuracy at the best threshold for these pairs: at least 90.5
             view1_auc   area under the ROC curve: at least 97.0
             view1_lfw   AUC of `samekind lfw` less that: at most 0.3
small        three draws of 40 people x 10 pictures, 20 of them to learn from (`extract --regions 500`, `fit --preset
             faces --max-groups 50`), 20 unseen (`evaluate`). Beside it pixels: standardised crops, PCA, LDA with
             shrinkage, cosine, the better of two sizes.
             small_seconds  of the slowest `fit`, start of Python included: at most 30
             small_auc      ours less that of pixels, in the worst draw: at least 0
             small_map      the same of mean average precision, mean over draws: not held
calibration  each quarter of View 1's training people left out in turn, the other three to learn from (settings as in
             view1). On the quarter left out `evaluate` compares what the model promises with what is observed.
             tenths   largest difference of predicted and observed frequency of "same", in points, over all quarters: at
                      most 3. Tenths of probability with fewer than 100 pairs are shown, not held
             tenths_one  the same of the worst quarter alone: not held. A quarter has 300 people with two pictures or
                      more; a bootstrap over them, on two quarters with LDA in place of the learned metric, gave a
                      tenth's frequency a standard error of up to 4 points whatever the calibration is
             rate_over, rate_under  realised false match rate at the threshold for 1e-2, over 1e-2, in every quarter: at
                      most 2, at least 0.5
time_left    progress lines of these fits, which have no terminal: the time left that a line names, from a tenth of the
             fit's time on, against the time that the fit took from there. Times are rounded: a line is wrong where
             all of its rounding interval is off by more than a factor of two.
             time_left_wrong  share of the lines that are wrong: at most 0

`--work DIR` keeps stores, models and results: what is there is not done again. `--without NAME[,NAME]` leaves parts
out. `--quick` has few people and regions and wide bounds, and says little: that all commands work together, and that
something is learned.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, parser
from lfwdata import DATA, pairs_among, pixels_of, some
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from samekind.evaluation import accuracy, best_threshold, mean_average_precision, roc_curve, verify_codes
from samekind.files import write_whole
from samekind.lfw.protocol import Split, pair_rows, read_view1
from samekind.lfw.protocol_files import Image, Pair, Person, pairs_text, people_text
from samekind.model.metric import Metric

PARTS = ("view1", "small", "calibration", "time_left")
MANY_FACES = ("joint__anchors=auto", "selection__max_per_class=10", "joint__min_per_class=1")  # over `lfw`'s quick
PICTURES_EACH = 10  # of the people in a small set
PIXELS = ((32, 44), (16, 22))  # width, height
FEWEST_PAIRS = 100  # of a tenth that is held
RATE = 1e-2


@dataclass(frozen=True)
class Size:
    people: float  # share of View 1's training people, and of its test people
    regions: int
    max_groups: int
    components: int
    draws: int
    small_people: int
    small_regions: int
    small_groups: int
    own: float
    best: float
    auc: float
    from_lfw: float
    seconds: float
    ahead: float
    quarters: int  # of the people that are left out in turn for the calibration
    tenths: float
    rates: tuple[float, float]


FULL = Size(
    1.0, 1_000, 40, 150, 3, 40, 500, 50,
    own=90, best=90.5, auc=97, from_lfw=0.3, seconds=30, ahead=0, quarters=4, tenths=3, rates=(0.5, 2),
)  # fmt: skip
QUICK = Size(
    0.03, 60, 6, 30, 1, 24, 60, 6,
    own=65, best=67, auc=75, from_lfw=8, seconds=30, ahead=0, quarters=1, tenths=25, rates=(0, 5),
)  # fmt: skip


# Commands


@dataclass(frozen=True)
class Done:
    """What a command printed, how long it took, and its progress: seconds from its start, and the line."""

    result: dict[str, Any]
    seconds: float
    lines: list[tuple[float, str]]


@dataclass(frozen=True)
class Commands:
    """`samekind VERB ... --json`, each once for a folder."""

    work: Path

    def __call__(self, name: str, *arguments: object) -> Done:
        kept = self.work / f"{name}.json"
        command = [str(argument) for argument in arguments]
        if kept.exists():
            record = json.loads(kept.read_text())
            if record["command"] == command:
                return Done(record["result"], record["seconds"], [(at, line) for at, line in record["lines"]])
            sys.exit(f"{kept} is of another command: give another folder with --work.")
        print("$ samekind", *command, flush=True)
        done = self._run(command)
        print(f"  {done.seconds:.1f} s", flush=True)
        record = {"command": command, "result": done.result, "seconds": done.seconds, "lines": done.lines}
        write_whole(kept, json.dumps(record) + "\n")
        return done

    def _run(self, command: list[str]) -> Done:
        started, lines = time.perf_counter(), []
        with (
            tempfile.TemporaryFile("w+") as output,
            subprocess.Popen(
                [sys.executable, "-m", "samekind", *command, "--json"],
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            assert process.stderr is not None
            for line in process.stderr:
                lines.append((round(time.perf_counter() - started, 2), line.rstrip("\n")))
            status = process.wait()
            seconds = time.perf_counter() - started
            output.seek(0)
            printed = output.read()
        if status:
            sys.exit("\n".join([f"exit status {status}", *(line for _, line in lines[-20:])]))
        return Done(json.loads(printed), seconds, lines)


def listed(path: Path, images: Sequence[Image]) -> Path:
    """A CSV of file and label."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["file", "label"])
        rows.writerows((DATA / "images" / image.file_name(), image.person) for image in images)
    return path


@dataclass(frozen=True)
class Fitted:
    """A model that the commands of README made of some pictures."""

    model: Path
    fit: Done

    @classmethod
    def of(
        cls, commands: Commands, name: str, images: Sequence[Image], regions: int, *options: object, resumable: bool
    ) -> Fitted:
        pictures, store = listed(commands.work / f"{name}.csv", images), commands.work / f"{name}.store"
        model = commands.work / f"{name}.safetensors"
        commands(f"{name}-extract", "extract", pictures, store, "--regions", regions)
        kept = ["--checkpoint", commands.work / f"{name}.fit"] if resumable else []
        return cls(model, commands(f"{name}-fit", "fit", store, model, "--preset", "faces", *options, *kept))

    def evaluated(self, commands: Commands, images: Sequence[Image]) -> dict[str, Any]:
        name = f"{self.model.stem}-unseen"
        return commands(name, "evaluate", self.model, listed(commands.work / f"{name}.csv", images)).result

    def describe(self) -> None:
        made = self.fit.result
        how = f"codes {made['normalise']}, groups {made['normalise_groups']}, mirror {made['mirror']}"
        print(f"  {made['images']:,} images of {made['labels']:,} people; {made['n_components']} numbers, {how}")
        for line in [*made["calibration_in_words"], *made["warnings"]]:
            print(f"  {line}")


# View 1


def view1(size: Size, work: Path) -> tuple[Split, Path]:
    """View 1, or a small one like it, and the folder of its protocol."""
    protocol = DATA / "protocol"
    if not protocol.is_dir():
        sys.exit(f"There is no {protocol}: this benchmark reads LFW-a and its protocol from {DATA}.")
    split = read_view1(protocol)
    if size.people == 1:
        return split, protocol
    small = work / "protocol"
    small.mkdir(exist_ok=True)
    for part, name in ((split.train, "DevTrain"), (split.test, "DevTest")):
        several = [Person(person.name, min(person.n_images, 5)) for person in part.people if person.n_images > 2]
        chosen = some({person.name for person in several}, 4 * size.people)
        people = [person for person in several if person.name in chosen]
        write_whole(small / f"people{name}.txt", people_text([people]))
        write_whole(small / f"pairs{name}.txt", pairs_text([pairs_among(people)]))
    return read_view1(small), small


def options_of(size: Size) -> list[object]:
    return ["--max-groups", size.max_groups, "--components", size.components]


def hold_view1(size: Size, commands: Commands, report: Report) -> list[Done]:
    split, protocol = view1(size, commands.work)
    fitted = Fitted.of(
        commands, "view1", split.train.images, size.regions, *options_of(size), resumable=True
    )  # fmt: skip
    fitted.describe()
    metric, pairs = Metric.load(fitted.model), split.test.pairs
    distances, same = judged(metric, pairs)
    roc = roc_curve(distances, same)
    changes = [part for change in MANY_FACES for part in ("--set", change)]
    found = commands(
        "lfw", "lfw", DATA / "images", protocol, "--view", 1, "--preset", "quick", "--regions", size.regions,
        *options_of(size), *changes, "--work", commands.work / "lfw",
    ).result  # fmt: skip
    lfw = 100 * found["stages"][-1]["results"][0]["auc"]
    print(f"{len(pairs):,} pairs: EER {100 * roc.eer:.2f} %; `samekind lfw`: AUC {lfw:.2f}")
    assert metric.threshold is not None, "a fitted model has a threshold"
    report.hold("view1_own", 100 * accuracy(distances, same, metric.threshold), at_least=size.own)
    report.hold("view1_best", 100 * accuracy(distances, same, best_threshold(distances, same)), at_least=size.best)
    report.hold("view1_auc", 100 * roc.auc, at_least=size.auc)
    report.hold("view1_lfw", lfw - 100 * roc.auc, at_most=size.from_lfw)
    report.note("view1_seconds", fitted.fit.seconds)
    return [fitted.fit]


def judged(metric: Metric, pairs: Sequence[Pair]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Distances of pairs as the model itself encodes and compares their pictures, and which are of one person."""
    names = sorted({image.file_name() for pair in pairs for image in pair})
    rows, same = pair_rows(pairs, names)
    codes = metric.encode([DATA / "images" / name for name in names])
    return metric.code_distance(*codes[rows.T]), same


# Small sets


def hold_small(size: Size, commands: Commands, report: Report) -> list[Done]:
    fits, ahead = [], []
    for draw in range(size.draws):
        learned, unseen = drawn_people(size.small_people, draw)
        fitted = Fitted.of(
            commands, f"small-{draw}", learned, size.small_regions, "--max-groups", size.small_groups, resumable=False
        )
        fitted.describe()
        measures = fitted.evaluated(commands, unseen)["measures"]
        ours = np.array([100 * measures[name]["value"] for name in ("auc", "mean_average_precision")])
        pixels = np.array([by_pixels(learned, unseen, shape) for shape in PIXELS])
        print(f"draw {draw}: AUC {ours[0]:.2f}, mAP {ours[1]:.2f}; fit {fitted.fit.seconds:.1f} s;", end=" ")
        print("pixels", "; ".join(f"AUC {auc:.2f}, mAP {precision:.2f}" for auc, precision in pixels), flush=True)
        fits.append(fitted.fit)
        ahead.append(ours - pixels.max(axis=0))
    report.hold("small_seconds", max(fit.seconds for fit in fits), at_most=size.seconds)
    report.hold("small_auc", float(np.min(ahead, axis=0)[0]), at_least=size.ahead)
    report.note("small_map", float(np.mean(ahead, axis=0)[1]))
    return fits


def drawn_people(n: int, draw: int) -> tuple[list[Image], list[Image]]:
    """Ten pictures each of n people of LFW-a: of one half to learn from, of the other half unseen."""
    folders = sorted((DATA / "images").iterdir())
    several = [folder.name for folder in folders if len(list(folder.glob("*.jpg"))) >= PICTURES_EACH]
    names = np.random.default_rng(draw).permutation(several)[:n]
    halves = [
        [Image(str(name), at) for name in half for at in range(1, PICTURES_EACH + 1)]
        for half in (names[: n // 2], names[n // 2 :])
    ]
    return halves[0], halves[1]


def by_pixels(learned: Sequence[Image], unseen: Sequence[Image], shape: tuple[int, int]) -> tuple[float, float]:
    """AUC and mean average precision, in percent, of PCA, LDA with shrinkage and cosine."""
    X, Q = (pixels_of([image.file_name() for image in images], shape) for images in (learned, unseen))
    y, classes = (np.array([image.person for image in images]) for images in (learned, unseen))
    pca = PCA(min(len(X) - 1, 100), random_state=0).fit(X)
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(pca.transform(X), y)
    codes = lda.transform(pca.transform(Q))
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    return 100 * verify_codes(codes, classes).auc, 100 * mean_average_precision(codes, classes)


# Calibration


def hold_calibration(size: Size, commands: Commands, report: Report) -> list[Done]:
    """Quarters are pooled: one has too few people to tell an error of 3 points from chance (module docstring)."""
    split, _ = view1(size, commands.work)
    names = np.random.default_rng(0).permutation(sorted(person.name for person in split.train.people))
    fits, pooled, alone, rates = [], np.zeros((10, 4)), [], []
    for number, quarter in enumerate(np.array_split(names, 4)[: size.quarters]):
        held = set(quarter.tolist())
        learned, unseen = (
            [image for image in split.train.images if (image.person in held) == out] for out in (False, True)
        )
        name = f"calibration-{number}"
        fitted = Fitted.of(commands, name, learned, size.regions, *options_of(size), resumable=True)
        fitted.describe()
        found = fitted.evaluated(commands, unseen)
        print(f"{found['n_samples']:,} pictures of {found['n_classes']:,} people left out")
        sums = tenth_sums(found["tenths"])
        alone.append(largest_difference(sums))
        pooled += sums
        rates += realised_rates(found)
        fits.append(fitted.fit)
    print(f"all {len(fits)} together")
    report.hold("tenths", largest_difference(pooled), at_most=size.tenths)
    report.note("tenths_one", max(alone))
    if len(rates) < len(fits):
        print(f"a model has no threshold for a false match rate of {RATE:g}: too few people")
        report.note("rate", float("nan"))
        report.short |= size is FULL
        return fits
    least, most = size.rates
    report.hold("rate_over", max(rates) / RATE, at_most=most)
    report.hold("rate_under", min(rates) / RATE, at_least=least)
    return fits


def tenth_sums(tenths: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """(10, 4): weight, sums of predicted and observed probability, number of pairs; sums of several sets add up."""
    sums = np.zeros((10, 4))
    for tenth in tenths:
        weight = tenth["weight"]
        values = [weight, weight * tenth["predicted"], weight * tenth["observed"], tenth["n_pairs"]]
        sums[min(int(10 * tenth["predicted"]), 9)] = values
    return sums


def largest_difference(sums: NDArray[np.float64]) -> float:
    """Of predicted and observed frequency, in points, over the tenths that have enough pairs."""
    worst = 0.0
    for weight, predicted, observed, n_pairs in sums[sums[:, 0] > 0]:
        counts = n_pairs >= FEWEST_PAIRS
        worst = max(worst, 100 * abs(predicted - observed) / weight if counts else 0.0)
        print(
            f"  predicted {predicted / weight:.3f}, observed {observed / weight:.3f}, {n_pairs:,.0f} pairs",
            "" if counts else "(too few)",
        )
    return worst


def realised_rates(found: dict[str, Any]) -> list[float]:
    """The false match rate at the threshold for `RATE`; none where the model has no such threshold."""
    realised = [rate["realised"] for rate in found["false_match_rates"] if rate["false_match_rate"] == RATE]
    for rate in realised:
        print(f"false match rate {RATE:g}: {rate['value']:.4f} ({rate['low']:.4f} to {rate['high']:.4f})")
    return [rate["value"] for rate in realised]


# Time left


LEFT = re.compile(r", (?P<words>under|about) (?P<number>[\d.]+) (?P<unit>s|min|h) left$")
UNITS = {"s": 1, "min": 60, "h": 3600}
ROUNDING = {"s": 2.5, "min": 0.5, "h": 0.25}  # half of what a time left is rounded to, at the least


@dataclass(frozen=True)
class Line:
    """A line of progress: when it came, and between which times the fit had left by what it says, if it says so."""

    at: float
    text: str
    left: tuple[float, float] | None

    @classmethod
    def parsed(cls, at: float, text: str) -> Line:
        found = LEFT.search(text)
        if not found:
            return cls(at, text, None)
        number, unit = float(found["number"]), found["unit"]
        half = max(ROUNDING[unit], 2.5 if unit == "min" and number >= 10 else 0.0)
        low = 0.0 if found["words"] == "under" else number - half
        high = number + (0 if found["words"] == "under" else half)
        return cls(at, text, (low * UNITS[unit], high * UNITS[unit]))

    def is_wrong(self, end: float) -> bool:
        """Whether its time left is off by more than a factor of two, the fit having ended then."""
        assert self.left is not None
        low, high = self.left
        return high < (end - self.at) / 2 or low > 2 * (end - self.at)


def hold_time_left(fits: Sequence[Done], report: Report) -> None:
    named, wrong = 0, 0
    for fit in fits:
        lines = [Line.parsed(at, text) for at, text in fit.lines if at >= fit.seconds / 10]
        judged = [line for line in lines if line.left is not None]
        named += len(judged)
        for line in judged:
            if line.is_wrong(fit.seconds):
                wrong += 1
                print(f"  {line.at:.0f} of {fit.seconds:.0f} s: {line.text}")
    print(f"{named} lines name a time left, in {len(fits)} fits")
    report.note("time_left_lines", named)
    if named:
        report.hold("time_left_wrong", wrong / named, at_most=0)
    else:
        print("these fits are too short for lines that name a time left")


def run(parts: Sequence[str], size: Size, work: Path, report: Report) -> None:
    work.mkdir(parents=True, exist_ok=True)
    commands, fits = Commands(work), []
    for part, hold in (("view1", hold_view1), ("small", hold_small), ("calibration", hold_calibration)):
        if part in parts:
            print(f"== {part}", flush=True)
            fits += hold(size, commands, report)
    if "time_left" in parts and fits:
        print("== time_left")
        hold_time_left(fits, report)
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--work", type=Path, metavar="DIR", help="stores, models and results, to go on from")
    options.add_argument("--without", default="", metavar="NAME[,NAME]", help=f"parts to leave out: {', '.join(PARTS)}")
    given = options.parse_args()
    without = [name for name in given.without.split(",") if name]
    if unknown := set(without) - set(PARTS):
        sys.exit(f"There is no part {sorted(unknown)[0]!r}: {', '.join(PARTS)}.")
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parts = [part for part in PARTS if part not in without]
        run(parts, QUICK if given.quick else FULL, work, Report("parity"))


if __name__ == "__main__":
    main()
