"""Searches of a gallery in a folder: rows of a view that is steady meanwhile, then their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from samekind.gallery import search as searching
from samekind.gallery.backend import Codes
from samekind.gallery.cells import Cells, load
from samekind.gallery.layout import CODES, INT8
from samekind.gallery.records import Answer, Hit, records_at
from samekind.gallery.verifying import Checksum, unverified, verify_blocks
from samekind.gallery.view import PLACE_BITS, View
from samekind.gallery.writing import Place

if TYPE_CHECKING:
    from samekind.gallery.folder import FolderGallery

ROW_MASK = (1 << PLACE_BITS) - 1

Prepared = tuple[searching.Allowed, list[Checksum]]
Found = tuple[list[searching.Nearest], list[float]]  # and each query's own number


def answers(
    gallery: FolderGallery,
    codes: Codes,
    k: int,
    labels: Sequence[str] | None,
    model: int | None,
    n_jobs: int | None,
    one: bool,
    cells: Cells | None = None,
) -> list[Answer]:
    """Of one query by quantised copies, with cells only by those near to it; of many by matrix products."""
    kind = INT8 if one else CODES

    def prepare(view: View) -> Prepared:
        wanted = None if labels is None else _places_of_labels(gallery, view, labels)
        return view.allowed_rows(wanted), unverified(gallery._reads, view, kind, gallery._verified)

    def compute(view: View, prepared: Prepared) -> Found:
        allowed, checksums = prepared
        gallery._verified |= verify_blocks(view, checksums, n_jobs)
        split = [view.form.query(code) for code in codes]
        if one:
            usable = cells if cells is not None and cells.fits(view) else None
            found = [searching.nearest(view, vector, k, allowed, n_jobs, usable) for vector, _ in split]
        else:
            queries = np.array([vector for vector, _ in split]).reshape(len(codes), view.form.width)
            found = searching.nearest_of_many(view, queries, k, allowed, n_jobs)
        return found, [number for _, number in split]

    return gallery._steady(prepare, compute, lambda view, found: _with_records(gallery, found), model)


def approximate_answers(
    gallery: FolderGallery, codes: Codes, k: int, labels: Sequence[str] | None, n_jobs: int | None
) -> list[Answer]:
    """Exact ones where there is no index; of some labels, exact search is fast."""
    cells = present_cells(gallery) if labels is None else None
    found = [answers(gallery, code[np.newaxis], k, labels, None, n_jobs, True, cells)[0] for code in codes]
    return found if cells is None else [replace(answer, exact=False) for answer in found]


def present_cells(gallery: FolderGallery) -> Cells | None:
    """The index, if it belongs to the present files."""
    view = gallery._view()
    if gallery._cells is None or not gallery._cells.fits(view):
        gallery._cells = load(gallery.path, gallery._state().gallery, view)
    return gallery._cells


def _with_records(gallery: FolderGallery, found: Found) -> list[Answer]:
    lists = [[(int(p) >> PLACE_BITS, int(p) & ROW_MASK) for p in nearest.places] for nearest in found[0]]
    records = records_at(gallery._reads, [place for places in lists for place in places])
    return [
        Answer(
            tuple(
                Hit(records[place], float(distance) + own)
                for place, distance in zip(places, nearest.distances, strict=True)
            ),
            nearest.n_searched,
            nearest.n_computed,
        )
        for nearest, places, own in zip(found[0], lists, found[1], strict=True)
    ]


def _places_of_labels(gallery: FolderGallery, view: View, labels: Sequence[str]) -> list[Place]:
    rows = gallery._reads.all_among(
        "SELECT p.segment, p.row FROM records r JOIN places p ON p.id = r.id JOIN segments s "
        "ON s.segment = p.segment WHERE s.model = ? AND r.label IN",
        labels,
        (view.model,),
    )
    return [(row[0], row[1]) for row in rows]
