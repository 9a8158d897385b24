"""The descriptors that an experiment learns from: some regions of each family of a store."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from samekind.extraction import extract, with_roots
from samekind.images.extractor import FAMILIES, Extractor
from samekind.images.listing import ImageFile
from samekind.images.regions import evenly_spaced
from samekind.lfw.workplace import digest
from samekind.store import DiskStore, GroupsOf


@dataclass(frozen=True)
class Faces:
    """A store, of which each family counts with `regions` regions, spread evenly over those that it has."""

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
        _check_enough(store, self.families, self.regions)

    @cached_property
    def view(self) -> Any:
        """The regions that count, of every family that the store has enough of; a family has the same place always."""
        return self.of_families([name for name, members in self.store.families.items() if len(members) >= self.regions])

    def of_families(self, families: Sequence[str]) -> Any:
        """The same of some families."""
        chosen = [evenly_spaced(np.array(self.store.families[family]), self.regions) for family in families]
        groups = GroupsOf(self.store, np.concatenate(chosen))
        return with_roots(groups) if self.roots else groups

    def members(self, family: str) -> list[int]:
        """The groups of a family in the view."""
        return list(self.view.families[family])

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
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise ValueError(f"There is no family {unknown[0]!r}: choose from {', '.join(FAMILIES)}.")
    return tuple(name for name in FAMILIES if name in names)


def extracted(
    files: Sequence[ImageFile],
    path: Path,
    families: Sequence[str],
    regions: int,
    *,
    n_jobs: int | None,
    progress: Callable[[int, int], None],
) -> DiskStore:
    """A store of these pictures: new, or one that was begun here before."""
    extractor = Extractor.over(families, n_regions=regions)  # the regions of `samekind extract --regions`
    if path.exists() and any(path.iterdir()):
        begun = DiskStore.open(path)
        _check_enough(begun, families, regions)
        extractor = Extractor.from_json(begun.front_end)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "The work needs a folder; this is a file", str(path.parent)) from error
    return extract(files, path, extractor, on_error="fail", n_jobs=n_jobs, progress=progress)


def _check_enough(store: DiskStore, families: Sequence[str], regions: int) -> None:
    for family in families:
        there = len(store.families.get(family, ()))
        if there < regions:
            raise ValueError(
                f"The store {store.path} has {there:,} regions of the family {family}, but {regions:,} are needed. Ask "
                "for fewer (--regions, or a smaller --preset) or for other --families, or have the descriptors "
                "computed: leave --store out, with a new folder for --work."
            )
