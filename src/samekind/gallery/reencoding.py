"""A gallery's way to another model: its codes beside the old ones, compared, then in their place.

What was encoded is durable batch by batch, so that an interrupted `reencode` goes on where it stopped. Searches use the
old model until the switch, one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from samekind.gallery.errors import GalleryError
from samekind.gallery.forms import CodeForm
from samekind.gallery.records import Record
from samekind.model.metric import Metric

if TYPE_CHECKING:
    from samekind.gallery.backend import Progress
    from samekind.gallery.gallery import Gallery


@dataclass(frozen=True)
class Reencoding:
    """How far the next model is: records with its codes, and ids of those that could not be encoded."""

    model: int
    n_encoded: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """A record whose nearest other record differs between the models."""

    record: Record
    before: Record
    after: Record


@dataclass(frozen=True)
class Comparison:
    """Nearest neighbours with the next model against those of the present one, over `n_queries` records as queries."""

    n_queries: int
    k: int
    overlap: float  # mean share of the k nearest that stay among them
    changed: tuple[Change, ...]  # queries whose very nearest is another

    def describe(self) -> list[str]:
        return [
            f"Of the {self.k} nearest of {self.n_queries:,} records, {100 * self.overlap:.1f} % stay among them.",
            f"{len(self.changed):,} of {self.n_queries:,} records get another nearest neighbour.",
        ]


def reencode(
    gallery: Gallery,
    model: Metric,
    encode: Callable[[list[Record]], Sequence[ArrayLike | None]],
    batch: int,
    progress: Progress,
) -> Reencoding:
    """`encode` gives a code of the new model for each of some records, None where that is not possible."""
    number = _begin(gallery, model)
    missing: list[int] = []
    total, last = len(gallery), 0
    while True:
        records = gallery._lacking(number, last, batch)
        if not records:
            break
        last = records[-1].id
        codes = encode(records)
        if len(codes) != len(records):
            raise GalleryError(f"encode was given {len(records)} records and returned {len(codes)} codes.")
        missing += [record.id for record, code in zip(records, codes, strict=True) if code is None]
        made = [(record.id, code) for record, code in zip(records, codes, strict=True) if code is not None]
        if made:
            rows = gallery._checked_codes(np.array([np.asarray(code) for _, code in made]), number)
            gallery._keep(number, [at for at, _ in made], rows)
        progress(gallery._n_encoded(number), total)
    return Reencoding(number, gallery._n_encoded(number), tuple(missing))


def _begin(gallery: Gallery, model: Metric) -> int:
    """The number of the next model, new or from an earlier call."""
    if model.fingerprint == gallery.fingerprint:
        raise GalleryError(f"{gallery.location} has codes of this very model already.")
    started = gallery.next_model
    if started is None:
        return gallery._begin_next(CodeForm.of_model(model), model.fingerprint)
    if gallery._model(started)[1] != model.fingerprint:
        raise GalleryError(
            f"{gallery.location} is being moved to another model. Finish that with switch, or give it up with abandon."
        )
    return started


def compare(gallery: Gallery, k: int, n_queries: int, seed: int) -> Comparison:
    """Records that have codes of both models, drawn at random, as queries against all others."""
    number = needed_next_model(gallery)
    ids = gallery._encoded(number)
    if len(ids) < 2:
        raise GalleryError("Fewer than two records have codes of the next model: run reencode first.")
    rng = np.random.default_rng(seed)
    drawn = sorted(rng.choice(ids, min(n_queries, len(ids)), replace=False).tolist())
    before = _neighbours(gallery, drawn, k, None)
    after = _neighbours(gallery, drawn, k, number)
    shares, changed = [], []
    for query, old, new in zip(gallery.records(drawn), before, after, strict=True):
        shares.append(len({r.id for r in old} & {r.id for r in new}) / max(len(old), 1))
        if old and new and old[0].id != new[0].id:
            changed.append(Change(query, old[0], new[0]))
    return Comparison(len(drawn), k, float(np.mean(shares)), tuple(changed))


def _neighbours(gallery: Gallery, ids: Sequence[int], k: int, model: int | None) -> list[list[Record]]:
    """The k nearest others of each record; a record is left out by its id."""
    codes = gallery.codes(ids, model=model)
    answers = gallery.search_many(codes, k + 1, model=model)
    return [
        [hit.record for hit in answer.hits if hit.record.id != at][:k] for at, answer in zip(ids, answers, strict=True)
    ]


def switch(gallery: Gallery, remove_missing: bool) -> None:
    number = needed_next_model(gallery)
    missing = [record.id for record in gallery._lacking(number, 0, len(gallery) + 1)]
    if missing and not remove_missing:
        raise GalleryError(
            f"{len(missing):,} records, such as {missing[0]}, have no code of the next model. Run reencode again, or "
            "switch with remove_missing=True to erase them."
        )
    if missing:
        gallery.remove(missing)
    gallery._switch_to(number)


def needed_next_model(gallery: Gallery) -> int:
    number = gallery.next_model
    if number is None:
        raise GalleryError(f"{gallery.location} has no next model: run reencode first.")
    return number
