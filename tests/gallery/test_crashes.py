"""What was acknowledged is there after a kill, and what was erased is not; writes are durable in the right order."""

import errno
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from samekind.gallery import Gallery, GalleryError, layout
from samekind.gallery.folder import FolderGallery
from tests.gallery.cases import LENGTH, SMALL, check_holds, codes_of

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills as on POSIX")
def test_a_hundred_kills_lose_nothing_and_bring_nothing_back(tmp_path):
    command = [sys.executable, "-m", "tests.gallery.crashes", str(tmp_path / "g"), "1", "100"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills as on POSIX")
def test_clients_of_a_server_that_are_killed_lose_nothing(server):
    address = f"{server}&gallery=crashes_{secrets.token_hex(4)}"
    command = [sys.executable, "-m", "tests.gallery.crashes", address, "2", "30"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def gallery(tmp_path):
    with Gallery.create(tmp_path / "g", length=LENGTH, layout=SMALL) as made:
        yield made


@pytest.fixture
def steps(gallery, monkeypatch):
    """What is written, synchronised and committed, in order."""
    seen = []
    original = {name: getattr(layout.RowsWriter, name) for name in ("write", "sync")}

    def write(self, row, content):
        seen.append(("write", self.path.suffix))
        original["write"](self, row, content)

    def sync(self):
        original["sync"](self)
        seen.append(("sync", self.path.suffix))

    monkeypatch.setattr(layout.RowsWriter, "write", write)
    monkeypatch.setattr(layout.RowsWriter, "sync", sync)
    gallery._writes.connection.set_trace_callback(
        lambda text: seen.append(("commit", "")) if text == "COMMIT" else None
    )
    return seen


def unsynchronised_at_commits(steps):
    """Kinds of files that have been written since they were synchronised, at each commit."""
    waiting, found = set(), []
    for step, kind in steps:
        if step == "write":
            waiting.add(kind)
        elif step == "sync":
            waiting.discard(kind)
        else:
            found.append(set(waiting))
    return found


def test_rows_are_on_disk_before_the_database_says_that_they_exist(gallery, steps):
    gallery.add(codes_of(range(30)))
    gallery.add(codes_of(range(30, 31)))
    assert ("write", ".int8") in steps
    assert unsynchronised_at_commits(steps) == [set(), set()]


def test_a_record_is_gone_before_its_row_is_overwritten_and_the_row_before_that_is_forgotten(gallery, steps):
    ids = gallery.add(codes_of(range(30)))
    steps.clear()
    gallery.remove(ids[:2])
    assert steps[0] == ("commit", "")
    assert steps[-1] == ("commit", "")
    assert steps[1:-1].count(("write", ".codes")) == 2
    assert unsynchronised_at_commits(steps) == [set(), set()]


def test_the_database_synchronises_every_commit_and_overwrites_what_is_deleted(gallery):
    connection = gallery._writes.connection
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert connection.execute("PRAGMA secure_delete").fetchone()[0] == 1
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_full_disk_changes_nothing_and_takes_no_space(gallery, monkeypatch, call):
    gallery.add(codes_of(range(5)), label="a")
    sizes = {path.name: path.stat().st_size for path in gallery.path.glob("*.codes")}
    original, calls = os.pwrite, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        gallery.add(codes_of(range(5, 60)))
    assert raised.value.filename.startswith(str(gallery.path))
    monkeypatch.undo()
    expected = {at + 1: (at, "a") for at in range(5)}
    check_holds(gallery, expected)
    assert {name: (gallery.path / name).stat().st_size for name in sizes} == sizes
    ids = gallery.add(codes_of(range(5, 60)), label="b").tolist()
    check_holds(gallery, expected | {at: (number, "b") for at, number in zip(ids, range(5, 60), strict=True)})
    assert gallery.check().sound


def test_a_full_database_changes_nothing(gallery):
    gallery.add(codes_of(range(5)), label="a")
    connection = gallery._writes.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(GalleryError, match="disk is full"):
        gallery.add(codes_of(range(5, 20)), note="x" * 100_000)
    check_holds(gallery, {at + 1: (at, "a") for at in range(5)})
    connection.execute("PRAGMA max_page_count=100000")
    assert len(gallery.add(codes_of(range(5, 20)))) == 15
    assert gallery.check().sound


def test_an_erasure_that_was_interrupted_is_completed_by_the_next_writer(gallery, monkeypatch):
    ids = gallery.add(codes_of(range(30)), label="a").tolist()
    monkeypatch.setattr(FolderGallery, "_finish_erasing", lambda self: False)
    assert not gallery.remove(ids[3:5]).journal
    expected = {at: (number, "a") for number, at in enumerate(ids) if number not in (3, 4)}
    check_holds(gallery, expected)  # not found, although the rows are still there
    monkeypatch.undo()
    with Gallery.open(gallery.path) as other:
        other.add(codes_of([99]), label="b")
        check_holds(other, expected | {31: (99, "b")})
        content = b"".join(path.read_bytes() for path in gallery.path.glob("*.codes"))
        assert codes_of([3]).tobytes() not in content
        assert other.check().sound


def test_files_that_a_killed_writer_left_are_removed(gallery):
    gallery.add(codes_of(range(3)))
    (gallery.path / "000009-00000000.codes").write_bytes(b"left over")
    with Gallery.open(gallery.path) as other:
        other.add(codes_of(range(3)))
    assert not (gallery.path / "000009-00000000.codes").exists()
    assert gallery.check().sound
