"""`Gallery`: codes and records, searched exactly, in a folder or on a PostgreSQL server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.gallery.addresses import Address, is_server
from samekind.gallery.backend import Backend, Codes, Progress
from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.layout import Layout
from samekind.gallery.records import TEXTS, Answer, Record, Removal, Size, check_text, checked_texts, now
from samekind.model.calibration import Calibration
from samekind.model.metric import Metric

if TYPE_CHECKING:
    from samekind.gallery.chances import FalseMatchChance
    from samekind.gallery.checking import CheckReport
    from samekind.gallery.doctor import Diagnosis
    from samekind.gallery.recall import IndexReport
    from samekind.gallery.reencoding import Comparison, Reencoding

Texts = Sequence[str | None] | str | None

PLAIN = "plain codes"  # fingerprint of codes that come from no model


def no_progress(done: int, total: int) -> None: ...


def _labels(given: str | Iterable[str] | None) -> list[str] | None:
    """Each once; None for all entries, those without a label too."""
    return None if given is None else [given] if isinstance(given, str) else list(dict.fromkeys(given))


class Gallery(Backend):
    """Codes with records: `Gallery.create` makes one, `Gallery.open` opens one; a context manager.

    An address is a folder, or `postgresql://user@host/database?gallery=name` for a PostgreSQL server with pgvector.
    What `add`, `replace` and `remove` return from is durable. Several processes and threads may read while one writes;
    writers wait for each other. Codes are kept in float32, and distances are computed from them in float64.
    """

    @staticmethod
    def create(
        path: Address, model: Metric | None = None, *, length: int | None = None, layout: Layout | None = None
    ) -> Gallery:
        """A new gallery for codes of a model, or for plain codes of `length` numbers, compared by squared distance.

        The model is copied into the gallery. `layout` is of the files of a folder.
        """
        if (model is None) == (length is None):
            raise GalleryError("Give the model whose codes the gallery is for, or the length of plain codes.")
        form = CodeForm.plain(int(length or 0)) if model is None else CodeForm.of_model(model)
        if is_server(path):
            from samekind.gallery.postgres import PostgresGallery

            return PostgresGallery.made(str(path), form)
        from samekind.gallery.folder import FolderGallery

        return FolderGallery.made(Path(path), form, layout or Layout())

    @staticmethod
    def open(path: Address, *, read_only: bool = False, timeout: float = 60.0) -> Gallery:
        """A gallery that is there; `timeout` is how many seconds to wait for another writer."""
        if is_server(path):
            from samekind.gallery.postgres import PostgresGallery

            return PostgresGallery.opened(str(path), read_only, timeout)
        from samekind.gallery.folder import FolderGallery

        return FolderGallery.opened(Path(path), read_only, timeout)

    @staticmethod
    def exists(path: Address) -> bool:
        """Whether there is anything at an address: `create` refuses that, `open` may take it."""
        if is_server(path):
            from samekind.gallery.postgres import PostgresGallery

            return PostgresGallery.is_there(str(path))
        folder = Path(path)
        return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))

    def __enter__(self) -> Gallery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Gallery({self.location!r}: {len(self):,} records, codes of {self.length} numbers)"

    # What it is

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it is, without a password."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of its location."""

    @abstractmethod
    def __len__(self) -> int:
        """How many records there are."""

    @abstractmethod
    def is_same_as(self, other: Gallery) -> bool:
        """Whether both are one gallery, whatever their addresses."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def form(self) -> CodeForm:
        """How codes are compared."""
        return self._model(None)[0]

    @property
    def model(self) -> Metric | None:
        """The model whose codes are searched; None for plain codes."""
        return self.form.model

    @property
    def fingerprint(self) -> str:
        """Of the model in use."""
        return self._model(None)[1]

    @property
    def length(self) -> int:
        """Numbers of a code."""
        return self.form.length

    @property
    @abstractmethod
    def next_model(self) -> int | None:
        """The number of the model that `reencode` is moving to, for `search(model=)`; None where there is none."""

    @abstractmethod
    def n_bytes(self) -> int:
        """Space on disk."""

    @abstractmethod
    def n_erased_rows(self) -> int:
        """Rows of removed records that still take space, until `compact`."""

    @abstractmethod
    def problems(self) -> list[str]:
        """What is wrong, although the gallery works."""

    # Changes

    def add(
        self,
        codes: ArrayLike,
        *,
        label: Texts = None,
        name: Texts = None,
        source: Texts = None,
        note: Texts = None,
        added: str | None = None,
        thumbnails: Sequence[bytes | None] | None = None,
        model: Metric | str | None = None,
        once: bool = False,
    ) -> NDArray[np.int64]:
        """Add codes (n, length), or one (length,), with their records; returns their ids, all durable.

        A text may be one for all codes or a list with one for each. `model` (or its fingerprint) says where the codes
        come from; those of another model than the gallery's are refused. With `once`, codes whose names records have
        already are left out, also where another process adds the same at the same time; their ids are 0.
        """
        rows = self._checked_codes(codes)
        texts = checked_texts(len(rows), dict(zip(TEXTS, (label, name, source, note), strict=True)))
        if thumbnails is not None and len(thumbnails) != len(rows):
            raise GalleryError(f"thumbnails must be one for each of the {len(rows)} codes; got {len(thumbnails)}.")
        self.check_model(model)
        ids = self._add(rows, texts, added or now(), thumbnails or [None] * len(rows), once)
        return np.array(ids, np.int64)

    def remove(self, ids: Iterable[int] | int) -> Removal:
        """Erase records, their codes and their thumbnails; an unknown id is refused before anything."""
        return self._remove(tuple(dict.fromkeys([int(ids)] if isinstance(ids, int | np.integer) else map(int, ids))))

    def replace(
        self, id: int, code: ArrayLike | None = None, *, model: Metric | str | None = None, **texts: str | None
    ) -> Record:
        """Another code for a record, or other texts (label, name, source, note); the id stays, the old code is erased.

        A code of the next model, where `reencode` has made one, is erased with it and has to be made again.
        """
        unknown = sorted(set(texts) - set(TEXTS))
        if unknown:
            raise GalleryError(f"A record has {', '.join(TEXTS)}, but no {unknown[0]}.")
        for column, text in texts.items():
            check_text(column, text)
        rows = None if code is None else self._checked_codes(code)
        if rows is not None and len(rows) != 1:
            raise GalleryError(f"One record has one code; got {len(rows)}.")
        self.check_model(model)
        self._replace(int(id), rows, texts)
        return self.record(id)

    def check_model(self, model: Metric | str | None) -> None:
        """`GalleryError` where codes come from another model than the gallery's."""
        if model is None:
            return
        given = model.fingerprint if isinstance(model, Metric) else model
        if given != self.fingerprint:
            raise GalleryError(
                f"These codes are of the model {given[:12]}, but {self.location} has codes of {self.fingerprint[:12]}: "
                "distances between them mean nothing. Encode with the gallery's own model, or move the gallery to the "
                "new one (Gallery.reencode)."
            )

    # Records

    def record(self, id: int) -> Record:
        return self.records([id])[0]

    def records(self, ids: Iterable[int]) -> list[Record]:
        """In the order of the ids; an unknown one is refused."""
        wanted = [int(at) for at in ids]
        found = self._records_by_id(wanted)
        missing = next((at for at in wanted if at not in found), None)
        if missing is not None:
            raise GalleryError(f"There is no record {missing} in {self.location}.")
        return [found[at] for at in wanted]

    @abstractmethod
    def find(self, *, label: str | None = None, name: str | None = None) -> list[Record]:
        """All records with a label, a name, or both, in the order of their ids."""

    @abstractmethod
    def labels(self) -> dict[str | None, int]:
        """How many records each label has."""

    def names(self, among: Iterable[str] | None = None) -> set[str]:
        """Names of all records that have one, or those of the given names that records have."""
        return self._names(None if among is None else list(among))

    @abstractmethod
    def thumbnail(self, id: int) -> bytes | None: ...

    @abstractmethod
    def codes(self, ids: Iterable[int], *, model: int | None = None) -> Codes:
        """Codes of records, (n, length)."""

    def iterate(self, batch: int = 4096, model: int | None = None) -> Iterator[tuple[list[Record], Codes]]:
        """All records with their codes, some at a time, in the order in which codes were added.

        Records that are added meanwhile are left out. Each batch is as it is when it is read: without records that were
        removed, and with what others were replaced by.
        """
        number = self._model_in_use() if model is None else model
        ids = self._ids_in_order(number)
        for start in range(0, len(ids), batch):
            records, codes = self._with_codes(ids[start : start + batch].tolist(), number)
            if records:
                yield records, codes

    # Search

    def search(
        self,
        code: ArrayLike,
        k: int = 10,
        *,
        label: str | Iterable[str] | None = None,
        model: Metric | str | int | None = None,
        approximate: bool = False,
        n_jobs: int | None = None,
    ) -> Answer:
        """The k nearest records of one code (length,), exactly; `label` restricts them to one label or several.

        `approximate` allows for a few to be missing, where there is an index (`build_index`); distances are right.
        """
        rows = self._checked_codes(code, model if isinstance(model, int) else None)
        if len(rows) != 1:
            raise GalleryError(f"search takes one code; got {len(rows)}. For several, use search_many.")
        return self._searched(rows, k, label, model, n_jobs, one=True, approximate=approximate)[0]

    def search_many(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        label: str | Iterable[str] | None = None,
        model: Metric | str | int | None = None,
        n_jobs: int | None = None,
    ) -> list[Answer]:
        """The same for many codes (m, length): an answer for each."""
        rows = self._checked_codes(codes, model if isinstance(model, int) else None)
        return self._searched(rows, k, label, model, n_jobs, one=False)

    def _searched(
        self,
        rows: Codes,
        k: int,
        label: str | Iterable[str] | None,
        model: Metric | str | int | None,
        n_jobs: int | None,
        one: bool,
        approximate: bool = False,
    ) -> list[Answer]:
        if k < 1:
            raise GalleryError(f"k={k}: ask for one neighbour at least.")
        if not isinstance(model, int):
            self.check_model(model)
        labels = _labels(label)
        number = model if isinstance(model, int) else None
        if approximate and number is None:
            return self._approximate_answers(rows, k, labels, n_jobs)
        return self._answers(rows, k, labels, number, n_jobs, one)

    def size(self, label: str | Iterable[str] | None = None) -> Size:
        """How many entries a search goes through, and of how many people; `label` as in `search`."""
        return self._size(_labels(label))

    def false_match_chance(
        self, threshold: float, *, label: str | Iterable[str] | None = None, calibration: Calibration | None = None
    ) -> FalseMatchChance | None:
        """What a threshold means for a gallery of this size: the chance of any false match among its people.

        The calibration is the model's own, unless another is given. None where it supports no false match rate, or
        where there is nobody.
        """
        from samekind.gallery.chances import false_match_chance

        if calibration is None and self.model is not None:
            calibration = self.model.calibration
        return false_match_chance(calibration, threshold, self.size(label))

    def build_index(
        self, *, recall: float = 0.95, k: int = 10, n_queries: int = 200, progress: Progress = no_progress
    ) -> IndexReport:
        """An index for `search(approximate=True)`, with the effort that a recall of the k nearest needs.

        The recall is measured on records of this gallery as queries. The index may be deleted at any time.
        """
        if not 0 < recall <= 1:
            raise GalleryError(f"recall={recall}: give a share above 0 and up to 1.")
        return self._build_index(recall, k, n_queries, progress)

    @abstractmethod
    def drop_index(self) -> None:
        """Delete the index; searches are exact until another is built."""

    # Maintenance

    @abstractmethod
    def compact(self, progress: Progress = no_progress) -> int:
        """Give up the space of removed records; returns how many rows were given up."""

    @abstractmethod
    def check(self, *, repair: bool = True, progress: Progress = no_progress) -> CheckReport:
        """Read everything and compare it with what it must be; make again what can be."""

    def export(self, path: Address, progress: Progress = no_progress) -> int:
        """Write all records and codes to PATH.parquet, or to PATH.csv and PATH.npy; returns how many."""
        from samekind.gallery.transfer import export

        return export(self, Path(path), progress)

    def import_(self, path: Address, progress: Progress = no_progress) -> NDArray[np.int64]:
        """Add what `export` wrote, with new ids; durable in batches."""
        from samekind.gallery.transfer import import_

        return import_(self, Path(path), progress)

    def reencode(
        self,
        model: Metric,
        encode: Callable[[list[Record]], Sequence[ArrayLike | None]],
        *,
        batch: int = 256,
        progress: Progress = no_progress,
    ) -> Reencoding:
        """Codes of a new model for all records; both models can be searched until `switch` or `abandon`."""
        from samekind.gallery.reencoding import reencode

        return reencode(self, model, encode, batch, progress)

    def compare_models(self, *, k: int = 10, n_queries: int = 1000, seed: int = 0) -> Comparison:
        """Which nearest neighbours would change with the next model."""
        from samekind.gallery.reencoding import compare

        return compare(self, k, n_queries, seed)

    def switch(self, *, remove_missing: bool = False) -> None:
        """Use the next model from now on, and erase the codes of the old one."""
        from samekind.gallery.reencoding import switch

        switch(self, remove_missing)

    def abandon(self) -> None:
        """Erase the codes of the next model."""
        from samekind.gallery.reencoding import needed_next_model

        self._forget_next(needed_next_model(self))

    def doctor(
        self,
        *,
        calibration: Calibration | None = None,
        wrong: float = 0.02,
        duplicate: float = 0.05,
        most: int = 100,
        n_jobs: int | None = None,
        progress: Progress = no_progress,
    ) -> Diagnosis:
        """Likely duplicates, labels that look like one or like several, and outliers, by distances of all pairs.

        `wrong` is the share of labels that is expected to be wrong, `duplicate` the share of the mean squared distance
        up to which two codes count as duplicates; `most` findings of each kind are returned. The calibration is the
        model's own, unless another is given.
        """
        from samekind.gallery.doctor import examine

        return examine(
            self, calibration=calibration, wrong=wrong, duplicate=duplicate, most=most, n_jobs=n_jobs, progress=progress
        )

    def _checked_codes(self, codes: ArrayLike, model: int | None = None) -> Codes:
        return self._model(model)[0].checked(codes)
