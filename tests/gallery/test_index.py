"""Approximate search: right distances, the recall that was asked for, nothing erased, and exact without the index."""

import sys

import numpy as np
import pytest

from samekind import Metric
from samekind.gallery import Gallery, GalleryError, Layout
from samekind.gallery.answering import present_cells
from samekind.gallery.layout import CACHE_END
from samekind.gallery.recall import measured_recall
from samekind.model.similarity import Similarity

pytest.importorskip("faiss", reason="faiss is not installed")

WIDTH, N = 8, 500
LAYOUT = Layout(block_rows=32, segment_blocks=8)


def made_codes(n=N, seed=0):
    """Classes of ten."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((N // 10, WIDTH))
    return (centres[rng.integers(len(centres), size=n)] + 0.3 * rng.standard_normal((n, WIDTH))).astype(np.float32)


@pytest.fixture
def gallery(place):
    with Gallery.create(place("g"), length=WIDTH, layout=LAYOUT) as made:
        made.add(made_codes(), label=[str(at % 7) for at in range(N)])
        yield made


@pytest.fixture
def folder(tmp_path):
    with Gallery.create(tmp_path / "g", length=WIDTH, layout=LAYOUT) as made:
        made.add(made_codes())
        yield made


def found(gallery, code, k=5, **options):
    return [hit.record.id for hit in gallery.search(code, k, **options).hits]


def test_an_index_has_the_recall_that_was_asked_for_and_right_distances(gallery):
    assert gallery.search(made_codes(1)[0], approximate=True).exact
    report = gallery.build_index(recall=0.9, k=5, n_queries=100)
    assert report.measured.recall >= 0.9
    assert "recall@5" in report.measured.describe()
    hits = wanted = 0
    for code in made_codes(60, seed=3):
        answer, exact = gallery.search(code, 5, approximate=True), gallery.search(code, 5)
        assert not answer.exact
        assert exact.exact
        distances = {hit.record.id: hit.distance for hit in gallery.search(code, N).hits}
        assert [hit.distance for hit in answer.hits] == [distances[hit.record.id] for hit in answer.hits]
        hits += len({hit.record.id for hit in answer.hits} & {hit.record.id for hit in exact.hits})
        wanted += len(exact.hits)
    assert hits / wanted > 0.8
    again = measured_recall(gallery, 5, 100)
    assert again.recall == report.measured.recall


def test_reading_every_cell_is_exact(gallery):
    gallery.build_index(recall=1.0, k=3, n_queries=N)
    for code in made_codes()[:50]:
        assert found(gallery, code, 3, approximate=True) == found(gallery, code, 3)


def test_added_records_are_found_and_removed_ones_are_not(gallery):
    gallery.build_index()
    new = made_codes(40, seed=5) + np.float32(50)
    ids = gallery.add(new).tolist()
    assert found(gallery, new[7], 1, approximate=True) == [ids[7]]
    gone = found(gallery, made_codes()[0], 4, approximate=True)
    gallery.remove(gone)
    assert not gallery.search(made_codes()[0], 4, approximate=True).exact
    assert not set(found(gallery, made_codes()[0], 50, approximate=True)) & set(gone)


def test_labels_are_searched_exactly(gallery):
    gallery.build_index()
    code = made_codes(1, seed=8)[0]
    answer = gallery.search(code, 5, label="3", approximate=True)
    assert answer.exact
    assert answer.hits == gallery.search(code, 5, label="3").hits


def test_the_index_may_be_dropped_at_any_time(gallery, place):
    gallery.build_index()
    with Gallery.open(place("g")) as other:
        assert not other.search(made_codes()[0], approximate=True).exact
        other.drop_index()
    code = made_codes(1, seed=8)[0]
    with Gallery.open(place("g"), read_only=True) as other:
        assert other.search(code, approximate=True).exact
        assert other.search(code, approximate=True).hits == other.search(code).hits


@pytest.mark.parametrize("kind", ["mirror", "similarity"])
def test_codes_with_a_number_each(place, kind):
    if kind == "mirror":
        model = Metric.linear(np.eye(WIDTH), np.arange(WIDTH), WIDTH).with_mirror("distances")
        codes = np.column_stack([made_codes(), np.random.default_rng(1).uniform(0, 2, N)]).astype(np.float32)
    else:
        similarity = Similarity(np.eye(WIDTH), np.zeros(WIDTH), np.linspace(0, 1, WIDTH))
        model = Metric.linear(np.zeros((0, WIDTH)), np.arange(WIDTH), WIDTH, similarity=similarity)
        codes = model.transform(made_codes().astype(np.float64)).astype(np.float32)
    with Gallery.create(place("g"), model, layout=LAYOUT) as gallery:
        gallery.add(codes)
        report = gallery.build_index(recall=0.9, k=5, n_queries=100)
        assert report.measured.recall >= 0.9
        if hasattr(report, "effort") and report.kind == "cells":
            assert report.effort < report.size / 2
        distances = {hit.record.id: hit.distance for hit in gallery.search(codes[3], N).hits}
        answer = gallery.search(codes[3], 5, approximate=True)
        assert not answer.exact
        assert [hit.distance for hit in answer.hits] == [distances[hit.record.id] for hit in answer.hits]


def cache(gallery):
    (path,) = gallery.path.glob(f"*{CACHE_END}")
    return path


def members(gallery):
    """Rows in the cells of a new reader, by segment."""
    with Gallery.open(gallery.path, read_only=True) as other:
        cells = present_cells(other)
        return {number: sorted(each.members.tolist()) for number, each in cells.segments.items()}


def test_an_erased_row_is_overwritten_in_the_lists(folder):
    folder.build_index()
    before = members(folder)
    assert 17 in before[1]
    folder.remove(18)
    assert members(folder) == {**before, 1: sorted([-1, *(row for row in before[1] if row != 17)])}


def test_compaction_and_another_model_make_the_index_useless(folder):
    folder.build_index()
    folder.remove([3])
    folder.compact()
    answer = folder.search(made_codes()[9], 3, approximate=True)
    assert answer.exact
    assert answer.hits[0].record.id == 10


@pytest.mark.parametrize("harm", ["missing", "short", "empty", "foreign", "rows", "text"])
def test_a_damaged_index_is_not_used(folder, harm):
    folder.build_index()
    path = cache(folder)
    content = bytearray(path.read_bytes())
    if harm == "missing":
        path.unlink()
    elif harm == "short":
        path.write_bytes(content[:-100])
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "foreign":
        path.write_bytes(content.replace(b'"gallery": "', b'"gallery": "x', 1))
    elif harm == "rows":
        content[4096 + 8 * 40 :: 8] = b"\xff" * len(content[4096 + 8 * 40 :: 8])
        path.write_bytes(content)
    else:
        path.write_bytes(b"no index at all" * 1000)
    with Gallery.open(folder.path) as other:
        for code in made_codes(5, seed=4):
            assert found(other, code, 5, approximate=True) == found(other, code, 5)
        other.remove(5)  # caches that cannot be read are deleted
        assert other.check().sound


def test_what_an_index_needs(tmp_path, monkeypatch, folder):
    with Gallery.create(tmp_path / "h", length=WIDTH, layout=LAYOUT) as small:
        small.add(made_codes(5))
        with pytest.raises(GalleryError, match="needs no index"):
            small.build_index()
    with pytest.raises(GalleryError, match="recall=2"):
        folder.build_index(recall=2)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(GalleryError, match=r"samekind\[faiss\]"):
        folder.build_index()
