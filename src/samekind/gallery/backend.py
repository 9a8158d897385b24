"""What a kind of gallery does in its own way: `FolderGallery` and `PostgresGallery` fill this in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.forms import CodeForm
from samekind.gallery.records import Answer, Record, Removal, Size

if TYPE_CHECKING:
    from samekind.gallery.recall import IndexReport

Codes = NDArray[np.float32]
Ids = NDArray[np.int64]
Progress = Callable[[int, int], None]


class Backend(ABC):
    """Arguments are checked by `Gallery` before they come here."""

    @abstractmethod
    def _model(self, number: int | None) -> tuple[CodeForm, str]:
        """How codes of a model are compared, and its fingerprint; None stands for the model in use."""

    @abstractmethod
    def _add(
        self,
        codes: Codes,
        texts: Sequence[tuple[str | None, ...]],
        added: str,
        thumbnails: Sequence[bytes | None],
        once: bool,
    ) -> list[int]:
        """With `once`, 0 for those whose names other records have; no other writer adds a name meanwhile."""

    @abstractmethod
    def _names(self, among: Sequence[str] | None) -> set[str]: ...

    @abstractmethod
    def _remove(self, ids: tuple[int, ...]) -> Removal: ...

    @abstractmethod
    def _replace(self, id: int, code: Codes | None, texts: dict[str, str | None]) -> None: ...

    @abstractmethod
    def _records_by_id(self, ids: Sequence[int]) -> dict[int, Record]: ...

    @abstractmethod
    def _size(self, labels: Sequence[str] | None) -> Size: ...

    @abstractmethod
    def _model_in_use(self) -> int:
        """Its number."""

    @abstractmethod
    def _ids_in_order(self, model: int) -> Ids:
        """Of all records that have a code of a model, in the order in which codes were added."""

    @abstractmethod
    def _with_codes(self, ids: Sequence[int], model: int) -> tuple[list[Record], Codes]:
        """Of those records that are still there, in the order of the ids, as they are at one moment."""

    @abstractmethod
    def _answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, model: int | None, n_jobs: int | None, one: bool
    ) -> list[Answer]: ...

    @abstractmethod
    def _id_range(self) -> tuple[int, int]:
        """The lowest and the highest id; (0, 0) where there are no records."""

    @abstractmethod
    def _approximate_answers(
        self, codes: Codes, k: int, labels: Sequence[str] | None, n_jobs: int | None
    ) -> list[Answer]:
        """Exact ones where there is no index."""

    @abstractmethod
    def _build_index(self, recall: float, k: int, n_queries: int, progress: Progress) -> IndexReport: ...

    @abstractmethod
    def _begin_next(self, form: CodeForm, fingerprint: str) -> int:
        """Keep another model beside the one in use; its number."""

    @abstractmethod
    def _lacking(self, model: int, after: int, most: int) -> list[Record]:
        """Records that have no code of a model yet, in order of their ids."""

    @abstractmethod
    def _keep(self, model: int, ids: Sequence[int], codes: Codes) -> None:
        """Codes of records that are still there."""

    @abstractmethod
    def _encoded(self, model: int) -> list[int]:
        """Ids of the records that have a code of a model."""

    @abstractmethod
    def _n_encoded(self, model: int) -> int: ...

    @abstractmethod
    def _switch_to(self, model: int) -> None: ...

    @abstractmethod
    def _forget_next(self, model: int) -> None: ...
