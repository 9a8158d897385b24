"""A gallery that is damaged, cut short or foreign is refused or repaired, never searched as if it were right."""

import os
import shutil
import sqlite3

import numpy as np
import pytest

from samekind import Metric
from samekind.gallery import Gallery, GalleryError
from tests.gallery.cases import LENGTH, SMALL, check_holds, code_of, codes_of

N = 60
EXPECTED = {at + 1: (at, "a") for at in range(N)}


@pytest.fixture
def folder(tmp_path):
    with Gallery.create(tmp_path / "g", length=LENGTH, layout=SMALL) as made:
        made.add(codes_of(range(N)), label="a")
    return tmp_path / "g"


def first(folder, kind):
    return sorted(folder.glob(f"*.{kind}"))[0]


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


def test_codes_that_changed_are_reported_and_not_searched_in_batches(folder):
    flip(first(folder, "codes"), 4096 + 100)
    with Gallery.open(folder) as gallery:
        report = gallery.check()
        assert not report.sound
        assert "block 0 is not as it was written" in report.problems[0]
        with pytest.raises(GalleryError, match="damaged in block 0"):
            gallery.search_many(codes_of([1]))


def test_a_quantised_copy_that_changed_is_not_used_and_made_again(folder):
    flip(first(folder, "int8"), 4096 + 30)
    with Gallery.open(folder) as gallery:
        check_holds(gallery, EXPECTED)
        assert "is damaged" in gallery.problems()[0]
        report = gallery.check()
        assert report.sound
        assert "made again" in report.repaired[0]
        assert not gallery.problems()
        check_holds(gallery, EXPECTED)
        assert gallery.check().repaired == ()


@pytest.mark.parametrize("harm", ["missing", "short", "foreign"])
def test_a_quantised_copy_that_is_not_there_is_made_again(folder, harm):
    path = first(folder, "int8")
    if harm == "missing":
        path.unlink()
    elif harm == "short":
        os.truncate(path, 4096 + 10)
    else:
        flip(path, 3)
    with Gallery.open(folder) as gallery:
        check_holds(gallery, EXPECTED)
        assert gallery.problems()
        assert gallery.check().repaired
        check_holds(gallery, EXPECTED)
        ids = gallery.add(codes_of([77]), label="b")
        check_holds(gallery, EXPECTED | {int(ids[0]): (77, "b")})
    with Gallery.open(folder) as gallery:
        assert not gallery.problems()
        assert gallery.check().sound


@pytest.mark.parametrize(
    ("harm", "said"),
    [("missing", "is missing"), ("short", "cut short"), ("foreign", "belongs to another gallery"), ("empty", "header")],
)
def test_a_file_of_codes_that_is_not_as_it_must_be_is_refused_on_opening(folder, tmp_path, harm, said):
    path = first(folder, "codes")
    if harm == "missing":
        path.unlink()
    elif harm == "short":
        os.truncate(path, path.stat().st_size - 1)
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        with Gallery.create(tmp_path / "other", length=LENGTH, layout=SMALL) as other:
            other.add(codes_of(range(N)))
        shutil.copy(first(tmp_path / "other", "codes"), path)
    with pytest.raises(GalleryError, match=said):
        Gallery.open(folder)


def test_a_database_that_is_none_or_of_something_else(folder, tmp_path):
    (tmp_path / "a").mkdir()
    sqlite3.connect(tmp_path / "a" / "gallery.sqlite").execute("CREATE TABLE cakes (name)").connection.close()
    with pytest.raises(GalleryError, match="not that of a gallery"):
        Gallery.open(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "gallery.sqlite").write_bytes(b"no database at all, but long enough to look like one" * 100)
    with pytest.raises(GalleryError, match="damaged or not a gallery"):
        Gallery.open(tmp_path / "b")
    connection = sqlite3.connect(folder / "gallery.sqlite")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(GalleryError, match="Upgrade samekind"):
        Gallery.open(folder)


def test_a_database_with_a_damaged_page_is_reported(folder):
    size = (folder / "gallery.sqlite").stat().st_size
    with open(folder / "gallery.sqlite", "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    with pytest.raises(GalleryError, match="damaged"):
        Gallery.open(folder)


def test_a_model_that_was_exchanged_is_refused(tmp_path):
    model = Metric.linear(np.eye(LENGTH), np.arange(LENGTH), LENGTH)
    Gallery.create(tmp_path / "g", model).close()
    Metric.linear(2 * np.eye(LENGTH), np.arange(LENGTH), LENGTH).save(tmp_path / "g" / "000001.safetensors")
    with pytest.raises(GalleryError, match="not the model of this gallery"):
        Gallery.open(tmp_path / "g")


def test_a_row_without_a_record_is_reported(folder):
    connection = sqlite3.connect(folder / "gallery.sqlite")
    connection.execute("DELETE FROM places WHERE row = 3")
    connection.execute("DELETE FROM records WHERE id = 9")
    connection.commit()
    connection.close()
    with Gallery.open(folder) as gallery:
        problems = " ".join(gallery.check().problems)
    assert "records have no code" in problems
    assert "belong to no record" in problems
    assert "records that are not there" in problems


def test_a_gallery_is_as_before_after_a_failed_check(folder):
    with Gallery.open(folder, read_only=True) as gallery:
        assert gallery.check().sound
        check_holds(gallery, EXPECTED)
        assert gallery.search(code_of(5), 1).hits[0].record.id == 6
