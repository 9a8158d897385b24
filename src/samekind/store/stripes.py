"""A store on disk whose groups are copied to a folder of this machine when they are first read, and read from there.

    DIR/STORE/00017.group    of group 17: a checksum, then the rows of all shards end to end, (N, d) float16

STORE is the store's `content_digest`, so a store that was changed has another folder; so has one that is read without
comparing its files with their checksums. A copy's checksum is of that name, the number of the group and its rows: what
is damaged, or of another store or group, is not used but copied anew. Groups of a stripe that are asked for
together are copied together, as they are neighbours in the shards.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.feature_store import FeatureStore
from samekind.files import LEFTOVERS, whole_file
from samekind.kernels.types import Array, IntArray
from samekind.store.disk import DiskStore, checked_indices
from samekind.store.manifest import Family
from samekind.store.views import AllGroups
from samekind.threads import ThreadPool

STRIPE = 16  # neighbouring groups that are copied together, as `compute.owners` gives them to a worker
CHECKSUM = hashlib.sha256().digest_size
ABANDONED = 3600.0  # seconds since anything was written to a temporary file: whoever began it was killed

_ONLY = np.zeros(1, dtype=np.intp)  # the one group of a copy


class _Place(NamedTuple):
    """Where a group is in the shards."""

    family: Family
    at: int  # of the family's groups


class StripedStore(AllGroups):
    """A view of a `DiskStore` that reads each of its groups once, into `folder`, and from there afterwards.

    Several processes may share the folder. Where it takes no more copies (a full disk), that is logged as a warning,
    and groups that have none are read from the store.
    """

    store: DiskStore

    def __init__(self, store: DiskStore, folder: str | os.PathLike[str]) -> None:
        self.store = store
        self.root = os.path.abspath(folder)
        self.digest = store.content_digest()
        self.folder = Path(self.root) / (self.digest + ("" if store.options.verify else "-unchecked"))
        self._places = [_Place(family, at) for family in store.manifest.families for at in range(len(family.groups))]
        self._mapped = lru_cache(maxsize=store.options.most_maps)(self._map)
        self._sound: set[int] = set()  # groups whose copies were checked, or made, by this process
        self._copying: defaultdict[int, Lock] = defaultdict(Lock)  # by stripe
        self._takes_copies = True
        self._cleaned = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (*self.store.__reduce__(), self.root)

    def content_digest(self) -> str:
        return self.digest

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        from samekind.kernels.halves import gather

        chosen = checked_indices(groups, len(self._places), "group")
        wanted = checked_indices(rows, len(self), "row")
        copies = self._copies(chosen.tolist())
        if copies is None:
            return self.store.panel(groups, rows)
        sizes = self.group_sizes[chosen]
        starts = np.cumsum(sizes) - sizes
        panel = np.empty((len(wanted), int(sizes.sum())), self.dtype)

        def fill(places: IntArray) -> None:
            for at, copy in enumerate(copies):
                gather(copy, _ONLY, wanted[places], places, starts[at : at + 1], panel)

        n_threads = self.store.n_threads_for(panel.nbytes)
        with ThreadPool(n_threads) as pool:
            pool.run(fill, np.array_split(np.argsort(wanted, kind="stable"), n_threads))
        return panel

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        from samekind.kernels.halves import gather_stacked

        chosen = checked_indices(groups, len(self._places), "group")
        wanted = checked_indices(rows, len(self), "row")
        copies = self._copies(chosen.tolist())
        if copies is None:
            self.store.stacked(groups, rows, means, out)
            return
        order = np.argsort(wanted, kind="stable")
        for at, copy in enumerate(copies):
            gather_stacked(copy, _ONLY, wanted[order], order, _ONLY + at, means, out)

    def read_ahead(self, groups: Sequence[int]) -> None:
        return None  # the shards are not read again, and the disk is near

    def copied_into(self, folder: str | os.PathLike[str]) -> FeatureStore:
        return StripedStore(self.store, folder)

    def _copies(self, groups: Sequence[int]) -> list[NDArray[np.uint16]] | None:
        """Of each group (1, N, d), copied where need be; None where one cannot be."""
        for stripe, members in groupby(sorted(set(groups)), key=lambda k: k // STRIPE):
            if not self._have(stripe, list(members)):
                return None
        try:
            return [self._mapped(k) for k in groups]
        except (OSError, ValueError):  # removed or cut short since they were checked
            self._sound.difference_update(groups)
            return None

    def _have(self, stripe: int, members: list[int]) -> bool:
        if self._sound.issuperset(members):
            return True
        with self._copying[stripe]:
            missing = [k for k in members if k not in self._sound and not self._is_sound(k)]
            if missing and not self._copy(missing):
                return False
            self._sound.update(members)
        return True

    def _copy(self, groups: list[int]) -> bool:
        if not self._takes_copies:
            return False
        try:
            self._prepare_folder()
            self._write(groups)
        except OSError as error:
            if error.filename is not None and Path(os.fsdecode(error.filename)).is_relative_to(self.store.path):
                raise  # it is the store that cannot be read
            self._takes_copies = False
            logging.getLogger("samekind.stripes").warning(
                "%s on %s takes no more copies of groups (%s): those without one are read from the store %s itself at "
                "each use. Make room there, or give another folder with --stripes.",
                self.root,
                socket.gethostname(),
                error.strerror or error,
                self.store.path,
            )
            return False
        return True

    def _prepare_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._cleaned:
            return
        self._cleaned = True
        for leftover in self.folder.glob(LEFTOVERS):
            with suppress(FileNotFoundError):
                if time.time() - leftover.stat().st_mtime > ABANDONED:
                    leftover.unlink()

    def _write(self, groups: list[int]) -> None:
        """Go through the shards once for several groups."""
        with ExitStack() as stack:
            files = [stack.enter_context(whole_file(self._path(k))) for k in groups]
            sums = [self._begun_sum(k)() for k in groups]
            for file in files:
                file.write(bytes(CHECKSUM))
            for number in self.store.records:
                for k, file, made in zip(groups, files, sums, strict=True):
                    place = self._places[k]
                    rows = self.store.shard_array(place.family, number)[place.at].tobytes()
                    made.update(rows)
                    file.write(rows)
            for file, made in zip(files, sums, strict=True):
                file.seek(0)
                file.write(made.digest())

    def _is_sound(self, k: int) -> bool:
        """Whether there is a copy, whole and of this very group. Reads all of it."""
        try:
            with self._path(k).open("rb", buffering=0) as file:
                expected = file.read(CHECKSUM)
                return hashlib.file_digest(file, self._begun_sum(k)).digest() == expected
        except OSError:
            return False

    def _begun_sum(self, k: int) -> Callable[[], hashlib._Hash]:
        return lambda: hashlib.sha256(f"{self.folder.name} {k} ".encode())

    def _map(self, k: int) -> NDArray[np.uint16]:
        with self._path(k).open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        n, d = len(self), self._places[k].family.size
        return np.frombuffer(mapped, np.dtype("<u2"), n * d, CHECKSUM).reshape(1, n, d)

    def _path(self, k: int) -> Path:
        return self.folder / f"{k:05d}.group"


def _reopened(reopen: Callable[..., DiskStore], arguments: tuple[Any, ...], folder: str) -> StripedStore:
    return StripedStore(reopen(*arguments), folder)
