"""From picture files to a store of their feature groups: where `images` and `store` meet."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from samekind.compute.cluster import current_executor
from samekind.compute.executor import Executor
from samekind.compute.site import Site
from samekind.images.align import Frame, Several, fitted_frame, picture_size
from samekind.images.extractor import Extractor
from samekind.images.landmarks import Landmarks
from samekind.images.listing import ImageFile
from samekind.images.load import ImageError, load_image
from samekind.images.slbp import SoftLBP
from samekind.kernels.types import IntArray
from samekind.store import DiskStore, Family, FeatureStore, RootsOf, Shard, StoreWriter, shard_rows_for
from samekind.store.views import MirrorMeansOf

SHARD_BYTES = 512_000_000
PICTURES_SENT = 8  # whose descriptors come back from a worker at once
HALF = np.float16

OnError = Literal["skip", "fail"]
Progress = Callable[[int, int], None]


def extract(
    files: Sequence[ImageFile],
    store: str | os.PathLike[str],
    extractor: Extractor,
    *,
    landmarks: Landmarks | None = None,
    several: Several = "error",
    on_error: OnError = "skip",
    retry: bool = False,
    n_jobs: int | None = None,
    progress: Progress = lambda done, total: None,
    shard_bytes: int = SHARD_BYTES,
    compute: Executor | None = None,
) -> DiskStore:
    """Compute the descriptors of labelled pictures into a store; go on where an earlier run stopped, add what is new.

    Parameters
    ----------
    files : sequence of ImageFile
        As `samekind.images.listing.list_images` gives them, with labels.
    store : path
        A folder: new, empty, or a store that the same extractor made.
    landmarks, several
        For the extractor's alignment: eyes and mouth by file name; what to do with several faces.
    on_error : "skip" or "fail"
        What a file that cannot be used does: stay out, with its reason in the store's `skipped`, or end the run with
        its `ImageError`. What was finished before is kept either way.
    retry : bool
        Try files again that an earlier run skipped; they may have been repaired.
    n_jobs : int or None
        Threads; None means all cores. The store's bytes do not depend on it.
    progress : function of (done, total)
        Called after each picture, with the numbers of this run.
    shard_bytes : int
        Descriptors that are held in memory before they are written; an interrupted run loses no more.
    compute : executor or None
        What `samekind.cluster` gives: then its workers read and describe the pictures, which they see at the same
        paths; the store is written here. None: the cluster around, if there is one, or else threads.
    """
    executor = current_executor(n_jobs, compute)
    extractor.aligner(landmarks, several)  # what is missing for it is said before a folder is made
    by_name = {file.name: file for file in files}
    with StoreWriter.open(
        store,
        families=[Family(part.name, part.family.size, part.group_names) for part in extractor.parts],
        front_end=extractor.to_json(),
        images=[(file.name, _label(file)) for file in files],
        shard_rows=shard_rows_for(extractor.n_features * HALF().itemsize, shard_bytes),
        retry=retry,
    ) as writer:
        shards = writer.pending()
        _check_given(shards, by_name, store)
        writer.check_room()
        total, done = sum(len(shard.images) for shard in shards), 0
        planned = [by_name[name] for shard in shards for name, _ in shard.images]
        site = PictureSite(extractor, planned, landmarks, several, on_error)
        start = 0
        for shard in shards:
            work, places = _ShardWork(extractor, len(shard.images)), range(start, start + len(shard.images))
            size = PICTURES_SENT if executor.is_remote else 1
            for at, pictures in executor.over_items(site, describe_on, places, size):
                for each, picture in zip(at, pictures, strict=True):
                    work.fill(each, picture)
                    done += 1
                    progress(done, total)
            work.write(writer, shard)
            start = places.stop
    return DiskStore.open(store)


def picture_sizes(files: Sequence[ImageFile]) -> IntArray:
    """Widths and heights (n, 2) of the pictures that can be read, from their headers alone."""
    sizes = [size for file in files if (size := picture_size(file.path)) is not None]
    return np.array(sizes, dtype=np.intp).reshape(-1, 2)


def frame_for(files: Sequence[ImageFile]) -> Frame:
    """The crop for pictures that are aligned already: the largest up to the default's 110 x 150 that 98 % hold."""
    return fitted_frame(picture_sizes(files))


def mirror_means(store: FeatureStore) -> MirrorMeansOf:
    """A view of a store, or of a view of one, whose rows are means of a picture's and its mirror image's descriptors.

    They come from the descriptors in the store; no picture is read.
    """
    extractor = _reading(store)
    mirrored = {part.name: part.family.mirrored for part in extractor.parts}
    return MirrorMeansOf(store, extractor.mirror_groups(), mirrored)


def mirrored_groups(store: FeatureStore) -> IntArray:
    """For each group of a store of pictures the one that shows its mirror image; -1 where there is none."""
    return _reading(store).mirror_groups()


def _reading(store: FeatureStore) -> Extractor:
    """The extractor of the groups that a store, or a view of one, has."""
    extractor, numbers = _made_by(store), store.numbers
    return extractor if numbers is None else extractor.only(numbers.tolist())


def with_roots(store: FeatureStore) -> RootsOf:
    """A view of a store, or of a view of one, with square roots of the histograms of soft LBP that are still plain."""
    extractor = _made_by(store)
    plain = [part for part in extractor.parts if isinstance(part.family, SoftLBP) and not part.family.root]
    parts = tuple(
        replace(part, family=replace(part.family, root=True)) if isinstance(part.family, SoftLBP) else part
        for part in extractor.parts
    )
    names = [part.name for part in plain if part.name in (store.families or {})]
    return RootsOf(store, replace(extractor, parts=parts).to_json(), families=names)


def rooted_as(store: FeatureStore, front_end: Mapping[str, Any]) -> FeatureStore:
    """A store of pictures with roots of its histograms where `front_end`, that of a model, has them.

    `ValueError` where pictures became descriptors in another way.
    """
    needed, made = Extractor.from_json(front_end), _made_by(store)
    if any(isinstance(part.family, SoftLBP) and part.family.root for part in needed.parts):
        store = with_roots(store)
        made = _made_by(store)
    there = {part.name: part for part in made.parts}
    alike = made.alignment == needed.alignment and replace(made.frame, margin=needed.frame.margin) == needed.frame
    for part in needed.parts:
        own = there.get(part.name)
        if not alike or own is None or (own.family, own.level) != (part.family, part.level):
            raise ValueError(
                f"The model's pictures became {part.name} descriptors in another way than the store's (crop, alignment "
                "or parameters; `samekind info` shows both): extract the pictures as those of the model were."
            )
    return store


def _made_by(store: FeatureStore) -> Extractor:
    """The extractor of the whole store."""
    if not store.front_end:
        raise ValueError("This store was not made from pictures by `extract`, so it does not say how its groups arise.")
    return Extractor.from_json(store.front_end)


def _check_given(shards: Sequence[Shard], by_name: dict[str, ImageFile], store: str | os.PathLike[str]) -> None:
    """An unfinished run is finished with the pictures it was begun with."""
    absent = [name for shard in shards for name, _ in shard.images if name not in by_name]
    if absent:
        raise ValueError(
            f"{os.fspath(store)} is unfinished, and {len(absent)} of the pictures it still needs are not among those "
            f"given (the first: {absent[0]}). Finish it with the pictures it was begun with, then add others."
        )


def _label(file: ImageFile) -> str:
    if file.label is None:
        raise ValueError(f"{file.name} has no label: put it in a folder of its label, or give a CSV of file and label.")
    return file.label


@dataclass(frozen=True)
class DescribedPicture:
    """The descriptors of a picture, or why it has none."""

    skipped: str | None = None
    notes: tuple[str, ...] = ()
    digest: str = ""
    descriptors: Mapping[str, NDArray[np.float16]] = field(default_factory=dict)


class PictureSite(Site):
    """Pictures, and how they are described: whoever sees them can do it."""

    def __init__(
        self,
        extractor: Extractor,
        files: Sequence[ImageFile],
        landmarks: Landmarks | None,
        several: Several,
        on_error: OnError,
        token: str | None = None,
    ):
        super().__init__(token)
        self.recipe = extractor, files, landmarks, several, on_error
        self.extractor = extractor
        self.files = files
        self.on_error = on_error
        self.align = extractor.aligner(landmarks, several)
        self.objective: Any = self

    def __reduce__(self) -> tuple[Any, ...]:
        extractor, files, *others = self.recipe
        anywhere = [replace(file, path=Path(os.path.abspath(file.path))) for file in files]
        return _picture_site, (extractor.to_json(), anywhere, *others, self.token)

    def described(self, at: int) -> DescribedPicture:
        """Load, align and describe one picture."""
        file = self.files[at]
        try:
            aligned = self.align(load_image(file.path), file.name)
        except ImageError as error:
            if self.on_error == "fail":
                raise
            return DescribedPicture(skipped=error.reason)
        digest = hashlib.sha256(aligned.picture.tobytes()).hexdigest()[:32]
        descriptors = {name: made.astype(HALF) for name, made in self.extractor.describe(aligned.picture).items()}
        return DescribedPicture(None, aligned.notes, digest, descriptors)


def _picture_site(extractor: Mapping[str, Any], *others: Any) -> PictureSite:
    return PictureSite(Extractor.from_json(extractor), *others)


def describe_on(site: PictureSite, places: Sequence[int]) -> list[DescribedPicture]:
    """The pictures at these places of the site's files."""
    if len(places) == 1:  # a thread's own
        return [site.described(places[0])]
    return list(Executor().map(site.described, places))


@dataclass
class _ShardWork:
    """Descriptors of a shard's pictures while they are computed, picture by picture, in any order."""

    extractor: Extractor
    n_pictures: int
    skipped: dict[int, str] = field(default_factory=dict)
    notes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    arrays: dict[str, NDArray[np.float16]] = field(init=False)

    def __post_init__(self) -> None:
        self.arrays = {
            part.name: np.zeros((len(part.regions), self.n_pictures, part.family.size), HALF)
            for part in self.extractor.parts
        }

    def fill(self, at: int, picture: DescribedPicture) -> None:
        if picture.skipped is not None:
            self.skipped[at] = picture.skipped
            return
        self.digests[at] = picture.digest
        if picture.notes:
            self.notes[at] = picture.notes
        for name, descriptors in picture.descriptors.items():
            self.arrays[name][:, at] = descriptors

    def write(self, writer: StoreWriter, shard: Shard) -> None:
        kept = [at for at in range(self.n_pictures) if at not in self.skipped]
        names = [name for name, _ in shard.images]
        writer.write(
            shard,
            {family: array if not self.skipped else array[:, kept] for family, array in self.arrays.items()},
            rows=kept,
            skipped={names[at]: self.skipped[at] for at in sorted(self.skipped)},
            notes={names[at]: list(self.notes[at]) for at in sorted(self.notes)},
            digests=[self.digests[at] for at in kept],
        )
