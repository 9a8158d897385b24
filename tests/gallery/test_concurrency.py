"""Readers in threads and processes beside a writer see whole states only; writers wait for each other."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from samekind.gallery import Gallery, GalleryError
from samekind.kernels.nearest import distances_to
from tests.gallery.cases import LENGTH, SMALL, code_of, codes_of

ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from samekind.gallery import Gallery
from tests.gallery.cases import codes_of
with Gallery.open(sys.argv[1]) as gallery:
    for batch in range(int(sys.argv[2])):
        first = int(sys.argv[3]) + 10 * batch
        ids = gallery.add(codes_of(range(first, first + 10)), label=[str(n) for n in range(first, first + 10)])
        if batch % 3 == 0:
            gallery.remove(ids[:5])
        if batch % 7 == 6:
            gallery.compact()
"""


def start_writer(folder, batches, first):
    command = [sys.executable, "-c", WRITER, str(folder), str(batches), str(first)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def check_answer(answer, query):
    """Each hit is a record whose code has that very distance, in order."""
    found = [hit.distance for hit in answer.hits]
    assert found == sorted(found)
    for hit in answer.hits:
        code = codes_of([int(hit.record.label)])
        assert hit.distance == distances_to(code, np.zeros(1), query.astype(np.float64))[0]


@pytest.fixture
def folder(tmp_path):
    Gallery.create(tmp_path / "g", length=LENGTH, layout=SMALL).close()
    return tmp_path / "g"


@pytest.mark.slow
def test_readers_in_threads_beside_writers_in_processes(place):
    folder = place("g")
    with Gallery.create(folder, length=LENGTH, layout=SMALL) as gallery:
        gallery.add(codes_of(range(20)), label=[str(n) for n in range(20)])
        writers = [start_writer(folder, 30, 1000), start_writer(folder, 30, 5000)]
        failed, searches = [], []

        def read(seed):
            try:
                while any(writer.poll() is None for writer in writers):
                    query = code_of(10**7 + seed + len(searches))
                    answer = gallery.search(query, 6, n_jobs=1)
                    assert len(answer.hits) == 6
                    check_answer(answer, query)
                    check_answer(gallery.search_many([query], 6, n_jobs=1)[0], query)
                    searches.append(answer.n_searched)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in (0, 10**6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for writer in writers:
            assert writer.wait() == 0, writer.stderr.read()
        assert not failed, failed
        assert searches
        assert len(gallery) == 20 + 2 * (30 * 10 - 10 * 5)
        assert gallery.check().sound


def test_a_second_writer_waits_and_then_says_who_is_in_the_way(folder):
    with Gallery.open(folder) as first, Gallery.open(folder, timeout=0.1) as second:
        with first._writing():
            with pytest.raises(GalleryError, match="another process is writing"):
                second.add(codes_of([1]))
            assert second.search(code_of(1)).hits == ()  # reading goes on
        assert len(second.add(codes_of([1]))) == 1


def test_a_second_writer_goes_on_when_the_first_has_finished(folder):
    with Gallery.open(folder) as first, Gallery.open(folder) as second:
        added = []
        with first._writing():
            waiting = threading.Thread(target=lambda: added.append(second.add(codes_of([1]))))
            waiting.start()
            time.sleep(0.05)
            assert not added
        waiting.join()
        assert len(first) == 1


def test_a_search_that_meets_an_erasure_is_repeated(folder, monkeypatch):
    from samekind.gallery import search

    with Gallery.open(folder) as gallery, Gallery.open(folder) as other:
        ids = gallery.add(codes_of(range(40)), label=[str(n) for n in range(40)]).tolist()
        original, calls = search.nearest, []

        def meanwhile(*arguments):
            found = original(*arguments)
            calls.append(1)
            if len(calls) <= 2:
                other.remove(ids[len(calls)])
                other.compact()
            return found

        monkeypatch.setattr(search, "nearest", meanwhile)
        answer = gallery.search(code_of(1), 40)
        assert len(calls) == 3
        assert sorted(hit.record.id for hit in answer.hits) == [at for at in ids if at not in ids[1:3]]


def test_a_search_that_always_meets_erasures_ends(folder, monkeypatch):
    from samekind.gallery import search

    with Gallery.open(folder) as gallery, Gallery.open(folder, timeout=0.01) as other:
        ids = gallery.add(codes_of(range(40))).tolist()
        original, refused = search.nearest, []

        def meanwhile(*arguments):
            found = original(*arguments)
            try:
                other.remove(ids.pop())
            except GalleryError:
                refused.append(1)
            return found

        monkeypatch.setattr(search, "nearest", meanwhile)
        assert len(gallery.search(code_of(1), 40).hits) == len(ids) + 1
        assert refused == [1]


def test_iterating_meets_every_record_once_while_another_changes_the_gallery(place):
    with Gallery.create(place("g"), length=LENGTH, layout=SMALL) as gallery, Gallery.open(place("g")) as other:
        ids = gallery.add(codes_of(range(60)), note=[str(n) for n in range(60)]).tolist()
        parts = gallery.iterate(batch=10)
        found = [next(parts)]
        other.remove([ids[3], ids[25], ids[55]])
        other.replace(ids[30], code_of(100), note="100")
        other.add(codes_of([200]), note="200")
        other.compact()
        found += parts
        records = [record for part, _ in found for record in part]
        left = [at for at in ids if at not in (ids[25], ids[55])]  # the first batch was read before
        assert [record.id for record in records] == left
        codes = np.concatenate([codes for _, codes in found])
        assert np.array_equal(codes, codes_of([int(record.note) for record in records]))


def test_iterating_over_a_model_that_is_given_up_meanwhile_is_refused(place):
    from samekind import Metric

    models = [Metric.linear((1 + m) * np.eye(LENGTH), np.arange(LENGTH), LENGTH) for m in range(2)]
    with Gallery.create(place("g"), models[0], layout=SMALL) as gallery:
        gallery.add(codes_of(range(40)))
        parts = gallery.iterate(batch=10)
        next(parts)
        gallery.reencode(models[1], lambda records: list(codes_of([record.id for record in records])))
        gallery.switch()
        with pytest.raises(GalleryError, match="no model 1"):
            next(parts)
        with pytest.raises(GalleryError, match="no model 1"):
            gallery.codes([1], model=1)
