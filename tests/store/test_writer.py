"""A store can be stopped at any moment, gone on with and added to, and never mixes what was made otherwise."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from samekind import files
from samekind.store import DiskStore, Family, StoreError, shard_rows_for, writer
from tests.store.written import FAMILIES, FRONT_END, IMAGES, SHARD_ROWS, arrays_of, descriptors, opened, write_all

ROOT = Path(__file__).parents[2]
REPLACED = 1 + 3 * 3  # the manifest; two arrays and a record for each shard

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and locks as on POSIX")


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_until_killed(folder, function, call):
    """For a process of its own, which a signal ends when a function of `os` is called for that time."""
    original, calls = getattr(os, function), []

    def last(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(os, function, last)
    write_all(Path(folder))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "store"
    write_all(folder)
    return bytes_of(folder)


def test_the_files_are_those_of_the_format(uninterrupted):
    shards = {
        f"{kind}-0000{n}.{end}" for n in range(3) for kind, end in [("cov", "npy"), ("lbp", "npy"), ("shard", "json")]
    }
    assert set(uninterrupted) == {"manifest.json", ".lock"} | shards


def test_the_same_images_give_the_same_bytes(tmp_path, uninterrupted):
    write_all(tmp_path / "deep" / "store")
    assert bytes_of(tmp_path / "deep" / "store") == uninterrupted


@posix_only
@pytest.mark.parametrize(
    ("function", "call"),
    [("fsync", 1), ("replace", 2), ("replace", 3), ("fsync", 7), ("replace", 6), ("fsync", 2 * REPLACED - 1)],
)
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path, uninterrupted, function, call):
    folder = tmp_path / "store"
    code = f"from tests.store.test_writer import *; write_until_killed({str(folder)!r}, {function!r}, {call})"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert bytes_of(folder) != uninterrupted
    assert list(folder.glob(".samekind-*.tmp"))
    write_all(folder)
    assert bytes_of(folder) == uninterrupted


def test_a_run_without_work_left_changes_nothing(tmp_path):
    write_all(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    with opened(tmp_path) as made:
        assert made.pending() == []
    after = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert after == before


def test_too_little_room_is_said_before_a_shard_is_written(tmp_path, uninterrupted, monkeypatch):
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage(100, 1, 99))
        with pytest.raises(OSError, match=r"needs 0.0 MB, and 0.0 MB are free.*run the same command again") as raised:
            write_all(tmp_path)
    assert raised.value.errno == errno.ENOSPC
    assert raised.value.filename == str(tmp_path)
    assert not list(tmp_path.glob("*.npy"))
    write_all(tmp_path)
    assert bytes_of(tmp_path) == uninterrupted


@pytest.mark.parametrize("call", range(2, REPLACED + 1))
def test_a_disk_that_fills_up_meanwhile_costs_one_shard(tmp_path, uninterrupted, monkeypatch, call):
    calls = []

    def fsync(descriptor):
        calls.append(not stat.S_ISDIR(os.fstat(descriptor).st_mode))
        if sum(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fsync)
        with pytest.raises(OSError, match=r"The disk is full: .* Nothing written so far is lost"):
            write_all(tmp_path)
    assert len(DiskStore.open(tmp_path).records) == (call - 2) // 3
    assert not list(tmp_path.glob(".samekind-*.tmp"))
    write_all(tmp_path)
    assert bytes_of(tmp_path) == uninterrupted


def test_what_an_unfinished_shard_left_makes_room_before_room_is_measured(tmp_path, monkeypatch):
    measure, seen = shutil.disk_usage, []

    def disk_usage(path):
        seen.append(sorted(left.name for left in path.glob("*.npy")))
        return measure(path)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    with opened(tmp_path, images=IMAGES[:4]) as made:
        (tmp_path / "cov-00000.npy").write_bytes(b"of a run that was killed")
        [shard] = made.pending()
        made.write(shard, arrays_of(shard), rows=range(4))
    assert seen == [[]]
    DiskStore.open(tmp_path).verify()


def test_other_troubles_with_a_disk_are_passed_on(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.EIO, "Input/output error")

    with opened(tmp_path) as made:
        monkeypatch.setattr(files.os, "fsync", fsync)
        with pytest.raises(OSError, match="Input/output error"):
            made.write(made.pending()[0], arrays_of(made.pending()[0]), rows=range(4))


def test_new_images_come_behind_the_old_ones_in_new_shards(tmp_path, uninterrupted):
    write_all(tmp_path)
    more = [("20.jpg", "new"), *IMAGES[3:5], ("21.jpg", "new")]
    with opened(tmp_path, images=more, shard_rows=1000) as made:
        [shard] = made.pending()
        assert shard.number == 3
        assert shard.images == (("20.jpg", "new"), ("21.jpg", "new"))
        made.write(shard, arrays_of(shard), rows=[0, 1])
    store = DiskStore.open(tmp_path)
    assert store.complete
    assert store.shard_rows == SHARD_ROWS
    assert store.image_ids.tolist() == [image for image, _ in IMAGES] + ["20.jpg", "21.jpg"]
    np.testing.assert_array_equal(store.panel([1], [11])[0], descriptors("21.jpg", FAMILIES[0])[1])
    unchanged = {name for name, content in bytes_of(tmp_path).items() if uninterrupted.get(name) == content}
    assert unchanged == set(uninterrupted) - {"manifest.json"}


def test_the_longer_plan_is_kept_at_once(tmp_path):
    write_all(tmp_path)
    opened(tmp_path, images=[("20.jpg", "new")]).close()
    store = DiskStore.open(tmp_path)
    assert store.planned == len(IMAGES) + 1
    assert not store.complete


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"front_end": {**FRONT_END, "align": "landmarks"}}, "front_end.align = 'none', and now it is 'landmarks'"),
        (
            {"front_end": {**FRONT_END, "crop": {"size": [110, 151], "blur": 1.0}}},
            r"front_end.crop.size\[1\] = 150,",
        ),
        ({"front_end": {}}, "front_end.align = 'none', and now it is None"),
        ({"families": FAMILIES[:1]}, "length of families = 2, and now it is 1"),
        (
            {"families": [Family("cov", 4, ["a", "B", "c"]), FAMILIES[1]]},
            r"groups\[1\] = 'b', and now it is 'B'",
        ),
        ({"families": [Family("cov", 5, ["a", "b", "c"]), FAMILIES[1]]}, r"families\[0\].size = 4, and now it is 5"),
        ({"images": [("1.jpg", "another")]}, "'1.jpg' is planned with label 'label 1', and now comes with 'another'"),
    ],
)
def test_what_was_made_otherwise_is_not_added_to(tmp_path, changes, message):
    write_all(tmp_path)
    before = bytes_of(tmp_path)
    with pytest.raises(StoreError, match=rf"(?s){message}.*another folder"):
        opened(tmp_path, **changes)
    assert bytes_of(tmp_path) == before
    opened(tmp_path).close()


def test_a_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match=r"not empty and not a samekind store \(it has 'thesis.tex'\)"):
        opened(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(NotADirectoryError, match="A store is a folder"):
        opened(tmp_path / "thesis.tex")


def test_a_damaged_store_is_not_added_to(tmp_path):
    write_all(tmp_path)
    (tmp_path / "lbp-00001.npy").unlink()
    with pytest.raises(StoreError, match=r"lbp-00001\.npy is damaged: it is missing"):
        opened(tmp_path)


@posix_only
def test_two_writers_at_once_are_one_too_many(tmp_path):
    with opened(tmp_path), pytest.raises(StoreError, match="another process is writing to this store"):
        opened(tmp_path)
    opened(tmp_path).close()


@posix_only
def test_a_failed_opening_keeps_nobody_out(tmp_path):
    write_all(tmp_path)
    with pytest.raises(StoreError):
        opened(tmp_path, front_end={})
    opened(tmp_path).close()


@posix_only
def test_a_file_system_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    import fcntl

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    write_all(tmp_path)
    assert DiskStore.open(tmp_path).complete


def test_a_folder_that_takes_no_files_is_named_itself(tmp_path, monkeypatch):
    """And not the lock that was tried in it."""
    import filelock

    def acquire(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path / ".lock"))

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    with pytest.raises(OSError, match="Nothing can be written here") as raised:
        opened(tmp_path)
    assert raised.value.filename == str(tmp_path)


def spoilt(name, value):
    def spoil(arrays):
        arrays[name][1, 2, 0] = value
        return arrays

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoilt("cov", np.nan), "Image '2.jpg' has infinity or no number in group 'cov' 'b'"),
        (spoilt("cov", -np.inf), "Image '2.jpg' has infinity or no number in group 'cov' 'b'"),
        (spoilt("lbp", np.inf), "Image '2.jpg' has infinity or no number in group 'lbp' 'y'"),
        (lambda arrays: {"cov": arrays["cov"]}, r"arrays has \['cov'\], but the store's families are"),
        (lambda arrays: {**arrays, "cov": arrays["cov"].astype(float)}, "comes as float64 of shape"),
        (
            lambda arrays: {**arrays, "cov": arrays["cov"][:, :3]},
            r"\(3, 3, 4\), but float16 of shape \(3, 4, 4\)",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, spoil, message):
    with opened(tmp_path) as made:
        shard = made.pending()[0]
        with pytest.raises(ValueError, match=message):
            made.write(shard, spoil(arrays_of(shard)), rows=range(4))
        assert made.pending()[0] == shard


def test_the_largest_numbers_of_float16_fit(tmp_path):
    with opened(tmp_path) as made:
        shard = made.pending()[0]
        made.write(shard, spoilt("cov", -65504)(arrays_of(shard)), rows=range(4))
    assert DiskStore.open(tmp_path).panel([1], [2])[0, 0] == -65504


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": [0, 1, 2]}, "Image '3.jpg' must have either a row or a reason"),
        ({"rows": [0, 1, 2, 3], "skipped": {"1.jpg": "broken"}}, "Image '1.jpg' must have either"),
        ({"rows": [0, 2, 1, 3]}, "must rise"),
        ({"rows": [0, 1, 2, 4]}, "within the 4 images"),
        ({"rows": [0, 1, 2, 3], "digests": ["a"]}, "1 digests for 4 rows"),
    ],
)
def test_every_image_is_accounted_for(tmp_path, arguments, message):
    with opened(tmp_path) as made:
        shard = made.pending()[0]
        with pytest.raises(ValueError, match=message):
            made.write(shard, arrays_of(shard), **arguments)


def test_a_shard_is_written_once(tmp_path):
    with opened(tmp_path) as made:
        shard = made.pending()[0]
        made.write(shard, arrays_of(shard), rows=range(4))
        with pytest.raises(ValueError, match="Shard 0 is written already"):
            made.write(shard, arrays_of(shard), rows=range(4))


def test_a_shard_may_have_no_usable_image(tmp_path):
    with opened(tmp_path, images=IMAGES[:2]) as made:
        [shard] = made.pending()
        arrays = {name: array[:, :0] for name, array in arrays_of(shard).items()}
        made.write(shard, arrays, rows=[], skipped={"0.jpg": "no face", "1.jpg": "no face"})
    store = DiskStore.open(tmp_path)
    store.verify()
    assert store.complete
    assert store.panel([0, 4], []).shape == (0, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"families": []}, "at least one"),
        ({"families": [FAMILIES[0], FAMILIES[0]]}, "a name of its own"),
        ({"shard_rows": 0}, "at least one image"),
        ({"images": [*IMAGES, ("3.jpg", "again")]}, "'3.jpg' is given twice"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        opened(tmp_path / "store", **changes)
    assert not (tmp_path / "store").exists()


def test_ids_may_have_any_characters(tmp_path):
    odd = [("naïve/π \udcff.jpg", "名"), ("a\nb", "")]
    opened(tmp_path, images=odd).close()
    assert DiskStore.open(tmp_path).manifest.images == tuple(odd)


@pytest.mark.parametrize(
    ("bytes_per_row", "budget", "rows"), [(100, 1000, 10), (100, 1099, 10), (100, 50, 1), (1, 10**9, 1024), (0, 5, 5)]
)
def test_a_shard_fits_its_budget(bytes_per_row, budget, rows):
    assert shard_rows_for(bytes_per_row, budget) == rows
    assert rows <= writer.MOST_SHARD_ROWS
