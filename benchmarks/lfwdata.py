"""What the benchmarks of both steps share: LFW-a, its protocol and feature groups; records.

LFW comes from a store of `samekind extract` or `benchmarks/extract.py --store DIR` that has covariance groups. Without
one, a smaller store is made of ../shared/data/lfw-a in a temporary folder, and removed.
"""

import json
import shutil
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from harness import parser
from numpy.typing import NDArray

from samekind.estimators import SparseBlockMetric, steps
from samekind.evaluation.pairs import pair_distances
from samekind.evaluation.verification import VerificationResult, verify
from samekind.lfw.protocol import read_pairs, read_people
from samekind.lfw.protocol_files import Image, Pair, Person
from samekind.store import DiskStore, GroupsOf

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "lfw-a"
THRESHOLD, RIDGE = 14.0, 1.0
GB = 1e9
CROP = (slice(50, 200), slice(70, 180))  # rows, columns: the paper's 110 x 150

Rows = NDArray[np.intp]
People = set[str]
Named = tuple[str, str, bool]  # two images, and whether they show one person


def lfw_parser(doc: str) -> ArgumentParser:
    made = parser(doc)
    made.add_argument("--store", type=Path, help="a store of LFW-a with covariance groups (else a small one is made)")
    return made


# The protocol


def _file(name: str) -> Path:
    path = DATA / "protocol" / f"{name}.txt"
    if not path.is_file():
        sys.exit(f"There is no {path}: this benchmark reads LFW-a and its protocol from {DATA}.")
    return path


def people(name: str = "people") -> list[People]:
    """The names in a file of people, fold by fold; View 1's files have one fold."""
    return [{person.name for person in fold} for fold in read_people(_file(name)).folds]


def some(names: People, share: float) -> People:
    """A share of the people, evenly through the alphabet: classes keep their sizes."""
    ordered = sorted(names)
    return {ordered[int(at / share)] for at in range(int(len(ordered) * share))}


def pairs(name: str, fold: int | None = None) -> list[Named]:
    """Of one fold of View 2, if asked for."""
    folds = read_pairs(_file(name))
    chosen = folds if fold is None else folds[fold : fold + 1]
    return [(pair.first.file_name(), pair.second.file_name(), pair.same) for pairs in chosen for pair in pairs]


def pairs_among(people: Sequence[Person]) -> list[Pair]:
    """For a small protocol: two of each person, and as many of neighbours in the list."""
    same = [Pair(Image(name, 1), Image(name, at)) for name, _ in people for at in (2, 3)]
    neighbours = zip(people, [*people[1:], people[0]], strict=True)
    return same + [Pair(Image(one.name, at), Image(two.name, at)) for one, two in neighbours for at in (1, 2)]


# Pictures


def pixels_of(names: Sequence[str], shape: tuple[int, int]) -> NDArray[np.float64]:
    """The paper's crop of pictures, resized to (width, height) and standardised each: (n, width * height)."""
    from PIL import Image as Picture

    made = []
    for name in names:
        with Picture.open(DATA / "images" / name) as picture:
            crop = Picture.fromarray(np.asarray(picture.convert("L"))[CROP])
            made.append(np.asarray(crop.resize(shape, Picture.Resampling.BOX), np.float64).ravel())
    X = np.stack(made)
    return np.asarray((X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True))


# The store


@dataclass(frozen=True)
class Faces:
    """Images of LFW, and which groups of the store count: covariance groups."""

    store: DiskStore
    groups: Rows
    images: NDArray[np.str_]
    labels: NDArray[np.str_]

    def of(self, names: People) -> Rows:
        return np.flatnonzero(np.isin(self.labels, sorted(names)))

    def verify(self, codes_of: Callable[[Rows], NDArray[Any]], listed: list[Named]) -> VerificationResult:
        """How well codes of rows tell pairs, those whose images are there, at the best threshold."""
        at = {image: row for row, image in enumerate(self.images.tolist())}
        there = [(at[a], at[b], same) for a, b, same in listed if a in at and b in at]
        rows, places = np.unique([pair[:2] for pair in there], return_inverse=True)
        distances = pair_distances(codes_of(rows), places.reshape(-1, 2))
        return verify(distances, np.array([same for *_, same in there]))


@contextmanager
def faces(path: Path | None, n_groups: int, names: People, tested: list[Named] | None = None) -> Iterator[Faces]:
    """LFW with `n_groups` covariance groups, spread evenly over those of the store.

    Without a store, one is made of so many regions, of these people and the images of these pairs.
    """
    needed = {image for *images, _ in tested or [] for image in images}
    folder = None if path else Path(tempfile.mkdtemp())
    try:
        store = DiskStore.open(path) if path else _extracted(folder / "store", n_groups, names, needed)
        if "cov" not in store.families:
            sys.exit(f"{store!r} has no covariance groups (family cov).")
        members = np.array(store.families["cov"])
        groups = members[np.arange(n_groups) * len(members) // n_groups] if n_groups < len(members) else members
        print(f"{store!r}: {len(groups):,} covariance groups", flush=True)
        yield Faces(store, groups, store.image_ids, store.labels)
    finally:
        if folder:
            shutil.rmtree(folder)


def _extracted(folder: Path, n_regions: int, names: People, images: set[str]) -> DiskStore:
    from samekind.extraction import extract
    from samekind.images.extractor import Extractor
    from samekind.images.listing import list_images

    if not (DATA / "images").is_dir():
        sys.exit(f"There is no {DATA / 'images'} to make a store of: give --store.")
    listed = list_images(DATA / "images", labelled=True)
    files = [file for file in listed if file.label in names or file.name in images]
    print(f"no --store: {len(files):,} images, {n_regions:,} regions each, into a temporary one", flush=True)
    start = time.perf_counter()
    store = extract(files, folder, Extractor.over(["cov"], n_regions=n_regions))
    print(f"extracted in {time.perf_counter() - start:.0f} s")
    return store


# Step 1


def fitted(
    found: Faces, rows: Rows, clocks: "Clocks", groups: Sequence[int] | None = None, **options: Any
) -> tuple[SparseBlockMetric, GroupsOf]:
    """Step 1 by its estimator, with what it reads; `clocks` has the seconds of Algorithm 1 as "rounds"."""
    source = GroupsOf(found.store, found.groups)
    settings: dict[str, Any] = {"ridge": RIDGE, "threshold": THRESHOLD, "memory_budget": "2GB", "random_state": 0}
    with clocks.on("rounds", steps, "select_groups"):
        return SparseBlockMetric(**settings | options).fit(source, found.labels, rows, groups), source


def nearest_error(codes: NDArray[Any], y: NDArray[Any]) -> float:
    """Leave-one-out error of 3-NN."""
    from sklearn.neighbors import KNeighborsClassifier

    near = KNeighborsClassifier(3, algorithm="brute").fit(codes, y).kneighbors(return_distance=False)
    votes = y[near]
    voted = np.where(votes[:, 1] == votes[:, 2], votes[:, 1], votes[:, 0])
    return float(np.mean(voted != y))


# Records


class PrivateMemory:
    """The largest private memory (RssAnon: pages of a mapped store are not in it) of this process, in GB: `peak`."""

    def __enter__(self) -> "PrivateMemory":
        self.peak = _private()
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._over.wait(0.02):
            self.peak = max(self.peak, _private())


def _private() -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / GB
    raise RuntimeError("/proc/self/status has no RssAnon: private memory can be measured on Linux only.")


class Clocks:
    """Seconds spent in methods, by the names given to them, while a `with` block of `on` lasts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def on(self, name: str, owner: Any, method: str) -> Iterator[None]:
        original = getattr(owner, method)

        def clocked(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*args, **options)
            finally:
                self.seconds[name] += time.perf_counter() - start

        with patch.object(owner, method, clocked):
            yield

    def shares(self, of: float) -> str:
        parts = self.seconds | {"rest": of - sum(self.seconds.values())}
        return ", ".join(f"{name} {seconds:.3g} s ({seconds / of:.0%})" for name, seconds in parts.items())


class SavedRecords:
    """Records of one case in a file of JSON lines, for a run that was interrupted; forgotten where no file is given."""

    def __init__(self, path: Path | None, case: dict[str, Any]):
        self.path = path
        self.case = json.loads(json.dumps(case))
        self.records: list[dict[str, Any]] = []
        for line in path.read_text().splitlines() if path and path.exists() else []:
            with suppress(json.JSONDecodeError):  # cut short when it was interrupted
                record = json.loads(line)
                if record.get("case") == self.case:
                    self.records.append(record)

    def find(self, **facts: Any) -> dict[str, Any] | None:
        """The last record with these facts."""
        return next((r for r in reversed(self.records) if all(r.get(k) == v for k, v in facts.items())), None)

    def add(self, **record: Any) -> dict[str, Any]:
        record |= {"case": self.case}
        self.records.append(record)
        if self.path:
            with self.path.open("a") as file:
                file.write("\n" * (file.tell() > 0 and not self.path.read_text().endswith("\n")))
                file.write(json.dumps(record) + "\n")
        return record


class Spent:
    """Seconds and peak memory of a fit with a checkpoint, earlier runs of it included: kept beside its snapshots."""

    def __init__(self, checkpoint: Path | None):
        self.path = checkpoint / "spent.json" if checkpoint else None
        known = self.path is not None and self.path.exists()
        self.earlier = json.loads(self.path.read_text()) if known else {"seconds": 0.0, "peak": 0.0}
        self.start = time.perf_counter()
        if known:
            print(f"goes on; {self.earlier['seconds'] / 60:.1f} minutes were spent before", flush=True)

    @property
    def seconds(self) -> float:
        return float(self.earlier["seconds"]) + time.perf_counter() - self.start

    def note(self, peak: float) -> float:
        """The peak over all runs, written down."""
        peak = max(peak, float(self.earlier["peak"]))
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            made = self.path.with_suffix(".new")
            made.write_text(json.dumps({"seconds": self.seconds, "peak": peak}))
            made.replace(self.path)
        return peak
