"""The descriptors that an experiment learns from: some regions of each family of a store."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from samekind.extraction import extract, with_roots
from samekind.images.align import Method
from samekind.images.extractor import FAMILIES, Extractor, canonical_name
from samekind.images.landmarks import Landmarks
from samekind.images.levels import FamilyName
from samekind.images.listing import ImageFile
from samekind.images.regions import evenly_spaced, symmetric_subset
from samekind.kernels.types import IntArray
from samekind.lfw.workplace import digest
from samekind.store import DiskStore, GroupsOf
from samekind.store.manifest import MANIFEST


@dataclass(frozen=True)
class Faces:
    """A store, of which each family counts with `regions` regions, spread evenly over those that it has.

    At other levels than the usual one there are as many as `Extractor.over` has for so many.
    """

    store: DiskStore
    families: tuple[str, ...]
    regions: int
    roots: bool = False  # of the histograms of slbp

    def __post_init__(self) -> None:
        store = self.store
        if not store.complete:
            raise ValueError(
                f"The store {store.path} is unfinished: {len(store):,} of {store.planned:,} pictures are in it. Run "
                "what began it again, to finish it."
            )
        _check_enough(store, self.extractor, self.families, self.regions)

    @cached_property
    def view(self) -> Any:
        """The regions that count, of every family that the store has enough of; a family has the same place always."""
        families = self.store.families.items()
        return self.of_families([name for name, members in families if len(members) >= self._needed[name]])

    def of_families(self, families: Sequence[str]) -> Any:
        """The same of some families."""
        chosen = [self._chosen(family) for family in families]
        groups = GroupsOf(self.store, np.concatenate(chosen))
        return with_roots(groups) if self.roots else groups

    def members(self, family: str) -> list[int]:
        """The groups of a family in the view."""
        return list(self.view.families[family])

    def _chosen(self, family: str) -> IntArray:
        """In mirror pairs, where enough of the store's regions are."""
        members, needed = self.store.families[family], self._needed[family]
        mirrors = self._mirrors[members.start : members.stop] - members.start
        if (mirrors >= 0).sum() > needed:
            return members.start + symmetric_subset(mirrors, needed)
        return evenly_spaced(np.array(members), needed)

    @cached_property
    def _needed(self) -> dict[str, int]:
        return n_regions_needed(self.extractor, self.store.families, self.regions)

    @cached_property
    def _mirrors(self) -> IntArray:
        return self.extractor.mirror_groups()

    @cached_property
    def extractor(self) -> Extractor:
        """How pictures became the store's descriptors."""
        return Extractor.from_json(self.store.front_end)

    def made_with(self) -> dict[str, Any]:
        """What tells these descriptors from others, family by family."""
        notes = self.extractor.to_json()
        shared = {"crop": notes["crop"], "alignment": notes["alignment"]}
        parts = {part["name"]: part for part in notes["families"]}
        return {
            family: digest(
                shared | {"parameters": parts[family]["parameters"], "names": groups.group_names, "roots": self.roots}
            )
            for family in self.families
            for groups in [self.of_families([family])]
        }


def ordered_families(names: Sequence[str]) -> tuple[str, ...]:
    """In the order in which descriptors are computed, whatever order they were asked for in."""
    return tuple(sorted({canonical_name(name) for name in names}, key=_place))


def _place(family: str) -> tuple[Any, ...]:
    """Larger scales come first, at each scale smaller crops, and kinds as they stand in FAMILIES."""
    kind, options, level = FamilyName.parse(family)
    return -level.scale, level.crop or (), list(FAMILIES).index(kind), options


def n_regions_needed(extractor: Extractor, families: Iterable[str], regions: int) -> dict[str, int]:
    """How many of each family where `regions` are asked for."""
    return {family: FamilyName.parse(family).level.n_regions(extractor.frame, regions) for family in families}


def extracted(
    files: Sequence[ImageFile],
    path: Path,
    families: Sequence[str],
    regions: int,
    *,
    landmarks: Landmarks | None = None,
    n_jobs: int | None,
    progress: Callable[[int, int], None],
) -> DiskStore:
    """A store of these pictures: new, or one that was begun here before."""
    alignment: Method = "none" if landmarks is None else "landmarks"
    extractor = Extractor.over(families, n_regions=regions, alignment=alignment)  # as `samekind extract --regions`
    if (path / MANIFEST).exists():  # a run that was killed before leaves a folder without one
        begun = DiskStore.open(path)
        extractor = Extractor.from_json(begun.front_end)
        _check_enough(begun, extractor, families, regions)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "The work needs a folder; this is a file", str(path.parent)) from error
    return extract(files, path, extractor, landmarks=landmarks, on_error="fail", n_jobs=n_jobs, progress=progress)


def _check_enough(store: DiskStore, extractor: Extractor, families: Sequence[str], regions: int) -> None:
    for family, needed in n_regions_needed(extractor, families, regions).items():
        there = len(store.families.get(family, ()))
        if there < needed:
            raise ValueError(
                f"The store {store.path} has {there:,} regions of the family {family}, but {needed:,} are needed. Ask "
                "for fewer (--regions, or a smaller --preset) or for other --families, or have the descriptors "
                "computed: leave --store out, with a new folder for --work."
            )
