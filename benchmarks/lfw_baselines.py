"""Step 2 against LDA, NCA, LMNN, PCA and plain distances, all on the same output of step 1, on LFW.

From a folder that `samekind lfw` has left come step 2's metrics of each split. Every method learns components over the
same basis, its groups normalised and weighed as step 2 has them, from the same training images, of each family and of
both together, and judges the same pairs with mirror images counted as step 2's metric says. Each method is taken with
codes as they are (Euclidean), divided by the square roots of their lengths, and by their lengths (cosine).

Where View 1 is among the splits, thresholds come from it, as in the paper: a method learns from its training people,
its test pairs choose a threshold for all folds, and View 1 itself does not count. Without it, a fold's threshold comes
from the pairs of the other folds, whose people the method has learned from.

Others get more than ours: of each the best of several ranks and of the three ways to take codes counts, chosen by the
very pairs that are judged; ours counts as `samekind lfw` learned it, without the similarity term.

LDA    scikit-learn's, on 100, 300, 600 and 1,000 principal features
NCA    scikit-learn's, 50 iterations at the most
LMNN   metric-learn's, k = 1 and 3, from people with more than k images, in an environment of its own
       NCA and LMNN: on 100 principal features; cut off after --limit minutes, with what they had by then
       all three also on all features, where these are at most 2,000
PCA    150 principal features, as they are and whitened

ahead  accuracy of ours minus that of the best other, of both families together, mean over the splits, in points: at
       least 0

`--store` is the one that `samekind lfw` had. `--splits` are folders of WORK, such as view1,fold-01; all finished folds
by default, and view1 if it is there. `--keep FILE` makes it resumable, and lets a learner that `--without` left out
come later; one that did not run in all splits does not count in `ahead`. `--quick` lets `samekind lfw` learn from a few
people first: too few for a comparison, so it holds only that each method ran (`ran`, a share).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, environment, parser
from lfwdata import DATA, SavedRecords, pairs_among
from lfwfigures import Floats, Judged
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from samekind.estimators.steps import limited
from samekind.evaluation import best_threshold, pair_distances
from samekind.images.listing import ImageFile, list_images
from samekind.kernels.lengths import NORMALISATIONS, Normalise, normalised
from samekind.lfw.experiment import Experiment
from samekind.lfw.faces import Faces
from samekind.lfw.learning import Learner
from samekind.lfw.presets import PRESETS, ExperimentSettings
from samekind.lfw.protocol import pair_rows, read_view1, read_view2
from samekind.lfw.protocol_files import Pair, Person, pairs_text, people_text
from samekind.lfw.runs import SplitRun
from samekind.lfw.stages import Stage, stages_of
from samekind.lfw.workplace import MADE_WITH
from samekind.model.metric import Metric
from samekind.store import DiskStore

FAMILIES = ("cov", "slbp")
OURS = "step 2"
VIEW1 = "view1"
LEARNERS = ("plain", "lda", "nca", "lmnn")
RANK = 150  # of PCA
MOST_DIMS = 2_000  # of any learner
MEMORY = "2GB"
LEARNER = "settings.learner."  # of the entries in which a split says what it was made with
GRACE = 60  # seconds that a process may take after its limit


@dataclass(frozen=True)
class Size:
    lda: tuple[int, ...]  # principal features
    few: int  # principal features of NCA and LMNN
    neighbors: tuple[int, ...]  # of LMNN
    all_too: bool  # on all features as well
    alone: bool  # each family too
    minutes: float


FULL = Size((100, 300, 600, 1_000), 100, (1, 3), all_too=True, alone=True, minutes=10)
QUICK = Size((100,), 50, (1,), all_too=False, alone=False, minutes=0.05)


@dataclass(frozen=True, eq=False)
class Split:
    """A split that `samekind lfw` has learned."""

    run: SplitRun
    folder: Path
    protocol: Path

    @classmethod
    def named(cls, name: str, work: Path, protocol: Path) -> Split:
        if name == VIEW1:
            return cls(SplitRun.from_view1(read_view1(protocol)), work / name, protocol)
        return cls(SplitRun.from_fold(read_view2(protocol), int(name.removeprefix("fold-"))), work / name, protocol)

    @cached_property
    def settings(self) -> ExperimentSettings:
        entries = json.loads((self.folder / MADE_WITH).read_text())
        of_learner = {name.removeprefix(LEARNER): own for name, own in entries.items() if name.startswith(LEARNER)}
        return ExperimentSettings(entries["settings.regions"], of_learner, entries["settings.seed"])

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(
            family for family in FAMILIES if all(self._model(Stage(step, (family,))).exists() for step in (1, 2))
        )

    @property
    def finished(self) -> bool:
        return bool(self.families) and all(self._model(stage).exists() for stage in stages_of(self.families))

    @cached_property
    def tested(self) -> NDArray[np.bool_]:
        """The pairs that are judged; the others choose the threshold."""
        if self.run.name == VIEW1:
            return np.arange(len(self.run.pairs)) >= len(self.run.split.train.pairs)
        return read_view2(self.protocol).fold_numbers == int(self.run.name.removeprefix("fold-")) - 1

    def metric(self, families: tuple[str, ...]) -> Metric:
        """After step 2."""
        return Metric.load(self._model(Stage(2, families)))

    def _model(self, stage: Stage) -> Path:
        return self.folder / f"{stage.name}.safetensors"

    def described(
        self, store: DiskStore, files: Sequence[ImageFile], compared: Sequence[tuple[str, ...]], alone: bool
    ) -> Described:
        """All that methods learn from and are judged by; where the tested pairs stand alone, no others are shown."""
        faces = Faces(store, self.families, self.settings.regions, self.settings.roots)
        self._check(faces)
        every = Learner.from_run(self.run, faces, self.settings, MEMORY, None).rows
        rows = every[limited(store.labels[every], self.settings.learner.get("joint__min_per_class", 1), None)]
        tested = self.tested | (not alone)
        pairs = [pair for pair, shown in zip(self.run.pairs, tested, strict=True) if shown]
        pictures, places = pictures_of(pairs, files)
        features = {own: Features.of(self.metric(own), faces, own, rows, pictures) for own in compared}
        _, labels = np.unique(store.labels[rows], return_inverse=True)
        return Described(features, labels, pairs, places, self.tested[tested])

    def _check(self, faces: Faces) -> None:
        """That these are the descriptors which step 1 has learned from."""
        entries = json.loads((self.folder / MADE_WITH).read_text())
        for family, own in faces.made_with().items():
            if entries[f"descriptors.{family}"] != own:
                sys.exit(f"{self.folder} was learned from other descriptors of {family} than {faces.store.path} has.")


@dataclass(frozen=True, eq=False)
class Features:
    """Of step 2's basis: (N, D) of the training images; (n, D) of the pictures of pairs, mirror images counted."""

    train: Floats
    shown: Floats
    ours: NDArray[Any] | None  # step 2's components, (r, D)

    @classmethod
    def of(
        cls, metric: Metric, faces: Faces, families: tuple[str, ...], rows: NDArray[np.intp], pictures: list[ImageFile]
    ) -> Features:
        if metric.mirror == "distances":
            sys.exit("Codes by four distances are not linear in features: let `samekind lfw` learn with mirror=mean.")
        own = faces.of_families(families)
        view = own if int(own.group_sizes.sum()) == metric.n_features else faces.view
        plain = replace(metric, components=None, similarity=None, normalise="none")
        encoded = plain.encoder().encode_each([(file.path, file.name) for file in pictures])
        return cls(metric.basis.transform(view, rows), encoded.codes, metric.components)

    def distances(self, components: NDArray[Any] | None, places: NDArray[np.intp], normalise: Normalise) -> Floats:
        """Squared distances of pairs (m, 2) of the pictures, under components over the features."""
        codes = self.shown if components is None else self.shown @ components.T.astype(np.float32)
        return pair_distances(normalised(codes, normalise), places)


@dataclass(frozen=True, eq=False)
class Described:
    features: dict[tuple[str, ...], Features]  # by families
    labels: NDArray[np.intp]
    pairs: Sequence[Pair]
    places: NDArray[np.intp]
    tested: NDArray[np.bool_]


def pictures_of(pairs: Sequence[Pair], files: Sequence[ImageFile]) -> tuple[list[ImageFile], NDArray[np.intp]]:
    """The pictures that pairs show, each once, and the places (m, 2) of each pair among them."""
    rows, _ = pair_rows(pairs, [file.name for file in files])
    needed, places = np.unique(rows, return_inverse=True)
    return [files[row] for row in needed], places.reshape(-1, 2)


def principal(Z: NDArray[Any], n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Deviations along the n leading principal directions, falling, and these as rows; fewer where there are fewer."""
    few = n < min(Z.shape)
    found = PCA(n if few else None, svd_solver="randomized" if few else "full", random_state=0).fit(Z)
    deviations = np.sqrt(found.explained_variance_)
    kept = deviations > 1e-3 * deviations[0]
    return deviations[kept], found.components_[kept]


# Methods: each gives linear maps by name, or says why it cannot


@dataclass(frozen=True)
class Failed:
    why: str


Made = tuple[str, NDArray[Any] | Failed | None, str]  # method, components (None: features as they are), remark


@dataclass(frozen=True, eq=False)
class Others:
    """The methods that ours is compared with, on some features; `limit` in seconds, for each fit."""

    features: Features
    labels: NDArray[np.intp]
    size: Size
    limit: float

    def made(self, learner: str) -> Iterator[Made]:
        """All ways in which a learner of LEARNERS is tried."""
        size, D = self.size, self.features.train.shape[1]
        if learner == "plain":
            yield from self._plain()
            return
        named = {f"LMNN k={k}": k for k in size.neighbors} if learner == "lmnn" else {learner.upper(): 0}
        few = size.lda if learner == "lda" else (size.few,)
        for dims in [*(dims for dims in few if dims < D), *[D] * size.all_too]:
            for name, k in named.items():
                yield from self._fitted(name, learner, dims, k)

    @cached_property
    def _principal(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return principal(
            self.features.train, MOST_DIMS if self.features.train.shape[1] <= MOST_DIMS else max(self.size.lda)
        )

    def _plain(self) -> Iterator[Made]:
        deviations, directions = self._principal
        yield "Euclidean", None, ""
        yield "PCA", directions[:RANK], ""
        yield "PCA, whitened", directions[:RANK] / deviations[:RANK, np.newaxis], ""

    def _fitted(self, name: str, learner: str, dims: int, k: int) -> Iterator[Made]:
        """Of a process of its own, on principal features; LDA also with its leading components only."""
        directions = self._principal[1][:dims]
        title = f"{name}, {'all' if dims == self.features.train.shape[1] else dims} features"
        if dims > MOST_DIMS:
            yield title, Failed(f"not tried: {dims:,} features, more than {MOST_DIMS:,}"), ""
            return
        components, remark = fit(learner, self.features.train @ directions.T, self.labels, k, self.limit)
        if isinstance(components, Failed):
            yield title, components, remark
            return
        yield title, components @ directions, remark
        if learner == "lda" and len(components) > RANK:
            yield f"{title}, rank {RANK}", components[:RANK] @ directions, ""


def fit(
    learner: str, X: NDArray[Any], labels: NDArray[np.intp], k: int, limit: float
) -> tuple[NDArray[Any] | Failed, str]:
    """Components by lmnn_worker.py, and a remark on how it went."""
    used = np.bincount(labels)[labels] > k
    X, y = X[used], np.unique(labels[used], return_inverse=True)[1]
    try:
        python = environment("metric-learn-0.7.0", "metric-learn==0.7.0", "scikit-learn<1.8") if k else sys.executable
    except subprocess.CalledProcessError:
        return Failed("metric-learn could not be installed"), ""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.npz"
        for name, array in (("X", X), ("y", y)):
            np.save(Path(folder) / f"{name}.npy", array)
        worker, options = Path(__file__).with_name("lmnn_worker.py"), {"n_neighbors": k} if k else {}
        command = [python, "-W", "ignore", worker, learner, folder, result, f"--options={json.dumps(options)}"]
        command += [f"--limit={limit}"]
        try:
            subprocess.run(list(map(str, command)), check=True, timeout=limit + GRACE, capture_output=True)
        except subprocess.TimeoutExpired:
            return Failed(f"nothing within {limit / 60:.3g} minutes"), ""
        except subprocess.CalledProcessError as error:
            last = (error.stderr.decode().strip().splitlines() or [f"exit status {error.returncode}"])[-1]
            return Failed(last if error.returncode > 0 else f"ended by signal {-error.returncode}: memory?"), ""
        with np.load(result) as made:
            end = "" if str(made["status"]) == "finished" else ", cut off"
            return made["components"][-1], f"{len(X):,} images, {made['seconds'][-1]:.0f} s{end}"


# Judging


Figures = dict[str, dict[str, float]]  # by how codes are normalised
Thresholds = dict[str, dict[str, float]]  # from View 1, by method and by how codes are normalised


def judged(described: Described, others: Others, learner: str, known: Thresholds) -> Iterator[dict[str, Any]]:
    """A record for each way in which a learner is tried."""
    for method, components, remark in others.made(learner):
        if isinstance(components, Failed):
            yield {"method": method, "failed": components.why}
        else:
            figures = _figures(described, others.features, components, known.get(method))
            yield {"method": method, "figures": figures, "remark": remark}


def _figures(
    described: Described, features: Features, components: NDArray[Any] | None, known: dict[str, float] | None
) -> Figures:
    """At known thresholds, or at those from the pairs that are not tested; and what the tested ones would choose."""
    found, tested, same = {}, described.tested, np.array([pair.same for pair in described.pairs])
    people = np.array([pair.first.person for pair in described.pairs])[tested]
    for normalise in NORMALISATIONS:
        distances = features.distances(components, described.places, normalise)
        elsewhere = chosen(distances[~tested], same[~tested]) if known is None else known[normalise]
        own = Judged(distances[tested], same[tested], people, elsewhere)
        found[normalise] = own.figures() | {"threshold": chosen(own.distances, own.same)}
    return found


def chosen(distances: Floats, same: NDArray[np.bool_]) -> float:
    """A threshold, as `samekind lfw` chooses it."""
    return best_threshold(distances, same, strategy="logistic")


def thresholds_of(records: Sequence[Mapping[str, Any]], families: tuple[str, ...]) -> Thresholds:
    """Those that a split's tested pairs chose."""
    return {
        record["method"]: {normalise: own["threshold"] for normalise, own in record["figures"].items()}
        for record in records
        if record.get("families") == list(families) and "figures" in record
    }


def compared(split: Split, size: Size) -> list[tuple[str, ...]]:
    """Families whose features methods are compared on; all together come last."""
    every = [stage.families for stage in stages_of(split.families) if stage.step == 2]
    return every if size.alone else every[-1:]


def compare(
    split: Split,
    store: DiskStore,
    files: Sequence[ImageFile],
    size: Size,
    learners: Sequence[str],
    limit: float,
    keep: Path | None,
    elsewhere: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Records of the methods on one split; what is kept is not done again. `elsewhere` are View 1's records, if any."""
    made_with = json.loads((split.folder / MADE_WITH).read_text())
    kept = SavedRecords(keep, {"made with": made_with, "limit": limit, "thresholds from view 1": bool(elsewhere)})
    pending = {
        families: [
            learner
            for learner in learners
            if not kept.find(split=split.run.name, families=list(families), done=learner)
        ]
        for families in compared(split, size)
    }
    if any(pending.values()):
        described = split.described(store, files, list(pending), alone=bool(elsewhere))
        for families, missing in pending.items():
            others = Others(described.features[families], described.labels, size, limit)
            _compare(split, described, families, others, missing, kept, thresholds_of(elsewhere, families))
    return [record for record in kept.records if "method" in record]


def _compare(
    split: Split,
    described: Described,
    families: tuple[str, ...],
    others: Others,
    learners: Sequence[str],
    kept: SavedRecords,
    known: Thresholds,
) -> None:
    """Ours and these learners on the features of some families; shown and kept."""
    n_images, n_features = others.features.train.shape
    about = f"{split.run.title}, {' + '.join(families)}: {n_images:,} training images"
    print(f"{about} of {described.labels.max() + 1:,} people, {n_features:,} features", flush=True)
    facts = {"split": split.run.name, "families": list(families)}
    ours = _figures(described, others.features, others.features.ours, known.get(OURS))
    show(kept.add(**facts, method=OURS, figures=ours))
    for learner in learners:
        for record in judged(described, others, learner, known):
            show(kept.add(**facts, **record))
        kept.add(**facts, done=learner)


def show(record: Mapping[str, Any]) -> None:
    print(f"  {record['method']:32}", end="")
    if "failed" in record:
        print(record["failed"], flush=True)
        return
    print(*(f"{name} {own['chosen']:6.2f}" for name, own in record["figures"].items()), end="  ")
    print(f"AUC {max(own['auc'] for own in record['figures'].values()):.2f}  {record.get('remark', '')}", flush=True)


Accuracies = dict[str, dict[str, float]]  # by normalise, by split


def accuracies(kept: SavedRecords, families: tuple[str, ...]) -> dict[str, Accuracies]:
    """Of each method."""
    found: dict[str, Accuracies] = {}
    for record in kept.records:
        if record["families"] == list(families) and "figures" in record:
            for normalise, own in record["figures"].items():
                by_split = found.setdefault(record["method"], {}).setdefault(normalise, {})
                by_split[record["split"]] = own["chosen"]
    return found


def summary(kept: SavedRecords, families: tuple[str, ...], n_splits: int, normalise: str) -> dict[str, float]:
    """Ours and the best other, of those that ran in all splits; the table is printed."""
    found = accuracies(kept, families)
    ours = found.pop(OURS)
    print(f"{' + '.join(families)}: mean accuracy over {n_splits} split(s), codes as they are, by roots, by lengths")
    rows = sorted([(OURS, ours), *found.items()], key=lambda row: -max(map(_mean, row[1].values())))
    for method, own in rows:
        ran = own[normalise]
        note = (
            "" if len(ran) == n_splits else f"in {len(ran)} split(s), where ours has {_mean(ours[normalise], ran):.2f}"
        )
        print(f"  {method:32}", *(f"{_mean(own[name]):6.2f}" for name in NORMALISATIONS), note)
    best = max((own for each in found.values() for own in each.values() if len(own) == n_splits), key=_mean)
    ahead = np.array([ours[normalise][split] - best[split] for split in best])
    numbers = {"ahead": float(ahead.mean()), "ours": _mean(ours[normalise]), "best_other": _mean(best)}
    if n_splits > 1:
        numbers["ahead_error"] = float(ahead.std(ddof=1) / np.sqrt(n_splits))
    return numbers


def _mean(by_split: Mapping[str, float], of: Collection[str] | None = None) -> float:
    return float(np.mean([by_split[split] for split in (by_split if of is None else of)]))


def run(
    splits: Sequence[Split],
    store: Path,
    images: Path,
    size: Size,
    learners: Sequence[str],
    limit: float,
    keep: Path | None,
    report: Report,
) -> None:
    opened, files, every = DiskStore.open(store), list_images(images, labelled=True), SavedRecords(None, {})
    elsewhere: list[dict[str, Any]] = []
    if len(splits) > 1 and splits[0].run.name == VIEW1:
        first, *splits = splits
        elsewhere = compare(first, opened, files, size, learners, limit, keep, [])
    for split in splits:
        every.records += compare(split, opened, files, size, learners, limit, keep, elsewhere)
    for families in compared(splits[0], size):
        numbers = summary(every, families, len(splits), splits[0].metric(families).normalise)
        together = families == splits[0].families
        for name, value in numbers.items():
            if size is not QUICK and together and name == "ahead":
                report.hold(name, value, at_least=0)
            else:
                report.note(name if together else f"{name}_{families[0]}", value)
    ran = float(np.mean(["figures" in record for record in every.records]))
    if size is QUICK:
        report.hold("ran", ran, at_least=1)
    else:
        report.note("ran", ran)
    report.note("splits", len(splits))
    report.end()


# A small case of its own


QUICK_SETTINGS = PRESETS["quick"].changed(regions=40, max_groups=6, n_components=20)
QUICK_FOLDS, QUICK_PEOPLE, QUICK_IMAGES = 3, 60, 5


def small_work(folder: Path) -> tuple[Path, Path]:
    """What `samekind lfw` leaves of a few people, and their protocol."""
    protocol = folder / "protocol"
    protocol.mkdir()
    known = [person for fold in read_view2(DATA / "protocol").folds for person in fold.people if person.n_images >= 3]
    chosen = [Person(name, min(n_images, QUICK_IMAGES)) for name, n_images in known[:: len(known) // 200]]
    folds = [chosen[at * QUICK_PEOPLE : (at + 1) * QUICK_PEOPLE] for at in range(QUICK_FOLDS)]
    (protocol / "people.txt").write_text(people_text(folds))
    (protocol / "pairs.txt").write_text(pairs_text([pairs_among(fold) for fold in folds]))
    experiment = Experiment(DATA / "images", protocol, folder / "work", QUICK_SETTINGS)
    experiment.view2([1], with_view1=False)
    return folder / "work", protocol


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--work", type=Path, metavar="DIR", help="what `samekind lfw` has left")
    options.add_argument("--store", type=Path, metavar="DIR", help="the store that it had; WORK/store by default")
    options.add_argument("--images", type=Path, default=DATA / "images", help="the pictures that it had")
    options.add_argument("--protocol", type=Path, default=DATA / "protocol", help="the protocol that it had")
    options.add_argument("--splits", help="such as view1,fold-01; all finished folds by default")
    options.add_argument("--without", default="", metavar="NAME[,NAME]", help="learners to leave out: lda, nca, lmnn")
    options.add_argument("--together", action="store_true", help="compare on the features of both families only")
    options.add_argument("--limit", type=float, help="minutes for each fit of another (10; with --quick 0.05)")
    options.add_argument("--keep", type=Path, metavar="FILE", help="JSON lines, to go on from when interrupted")
    given = options.parse_args()
    if not (given.work or given.quick):
        sys.exit("Give --work, a folder that `samekind lfw` has left, or --quick.")
    with ExitStack() as stack:
        work, protocol, store = given.work, given.protocol, given.store
        if given.quick:
            work, protocol = small_work(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            store = None
        known = [path.name for pattern in (VIEW1, "fold-*") for path in sorted(work.glob(pattern))]
        names = given.splits.split(",") if given.splits else known
        splits = [Split.named(name, work, protocol) for name in sorted(names, key=lambda name: (name != VIEW1, name))]
        most = max((len(split.families) for split in splits), default=0)
        finished = [split for split in splits if split.finished and len(split.families) == most]
        if not finished:
            sys.exit(f"{work} has no split that is finished.")
        print("splits:", ", ".join(split.run.title for split in finished), flush=True)
        size = QUICK if given.quick else replace(FULL, alone=not given.together)
        limit = 60 * (size.minutes if given.limit is None else given.limit)
        learners = [learner for learner in LEARNERS if learner not in given.without.split(",")]
        report = Report("lfw_baselines")
        run(finished, store or work / "store", given.images, size, learners, limit, given.keep, report)


if __name__ == "__main__":
    main()
