"""A store with larger shards has the same images, groups and numbers; whatever stops the joining, both stay valid."""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samekind.store import DiskStore, StoreError, StoreWriter
from samekind.store.compaction import compact
from tests import stores
from tests.store import written

ROOT = Path(__file__).parents[2]
N, ROW_BYTES = 37, 96 * 2


def made(folder, n=N, shard_rows=5, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 96)).astype(np.float32)
    return stores.disk_store(folder, X, np.arange(n) % 4, {"a": 4, "b": 2}, shard_rows)


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def same_content(one, other):
    """All but the shards."""
    plain = [replace(each.manifest, shards=(), shard_rows=1) for each in (one, other)]
    assert plain[0] == plain[1]
    assert one.image_ids.tolist() == other.image_ids.tolist()
    assert one.labels.tolist() == other.labels.tolist()
    assert one.skipped == other.skipped
    assert one.notes == other.notes
    assert one.duplicates() == other.duplicates()
    groups, rows = range(len(one.group_sizes)), range(len(one))
    np.testing.assert_array_equal(one.panel(groups, rows), other.panel(groups, rows))


@pytest.fixture
def store(tmp_path):
    return made(tmp_path / "store")


@pytest.mark.parametrize(
    ("shard_bytes", "sizes"),
    [(10**9, [37]), (20 * ROW_BYTES, [20, 17]), (11 * ROW_BYTES, [10, 10, 10, 7])],
)
def test_all_is_the_same_in_larger_shards(store, tmp_path, shard_bytes, sizes):
    before = bytes_of(store.path)
    joined = compact(store, tmp_path / "out", shard_bytes)
    assert [len(shard) for shard in joined.manifest.shards] == sizes
    same_content(store, joined)
    joined.verify()
    assert bytes_of(store.path) == before


def test_the_files_are_those_of_a_store_that_was_made_so(store, tmp_path):
    made(tmp_path / "at once", shard_rows=20)
    compact(store, tmp_path / "out", 20 * ROW_BYTES)
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "at once")


def with_gaps(folder):
    """Pictures that were skipped, one of them for good; the others were tried again, one in vain; notes on some."""
    images = [(f"{at}.jpg", "x") for at in range(9)]
    for retry, bad in ((False, {0: "dark", 4: "blurred", 5: "torn"}), (True, {0: "dark", 2: "still torn"})):
        with written.opened(folder, images=images, shard_rows=3, retry=retry) as writer:
            for shard in writer.pending():
                skipped = {
                    image: bad[at]
                    for at, (image, _) in enumerate(shard.images, shard.number * 3 * (not retry))
                    if at in bad
                }
                rows = [at for at, (image, _) in enumerate(shard.images) if image not in skipped]
                arrays = {name: array[:, rows] for name, array in written.arrays_of(shard).items()}
                ids = [shard.images[at][0] for at in rows]
                writer.write(
                    shard, arrays, rows=rows, skipped=skipped, notes={i: ["odd"] for i in ids[:1]}, digests=ids
                )
    return DiskStore.open(folder)


def test_what_was_skipped_noted_or_tried_again_is_kept(tmp_path):
    store = with_gaps(tmp_path / "store")
    assert len(store.skipped) == 2
    assert len(store) == 7
    joined = compact(store, tmp_path / "out")
    assert len(joined.records) == 1
    same_content(store, joined)
    assert sum(len(record.skipped) for record in store.records.values()) == len(joined.records[0].skipped) == 5
    assert store.skipped["5.jpg"] == joined.skipped["5.jpg"] == "still torn"


def test_pictures_are_added_to_it_as_to_any_store(tmp_path):
    written.write_all(tmp_path / "store")
    joined = compact(DiskStore.open(tmp_path / "store"), tmp_path / "out")
    written.write_all(joined.path, images=[*written.IMAGES, ("20.jpg", "new")])
    longer = DiskStore.open(joined.path)
    assert longer.complete
    assert len(longer) == len(joined) + 1


def stopped_at(call, store, out):
    """For a process of its own: killed when a file takes its name for that time."""
    original, calls = os.replace, []

    def last(*given):
        calls.append(given)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        original(*given)

    os.replace = last
    compact(DiskStore.open(store), out, 20 * ROW_BYTES)


@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
@pytest.mark.parametrize("call", [1, 2, 4, 5, 7])
def test_a_killed_run_goes_on_to_the_same_bytes(store, tmp_path, call):
    expected = bytes_of(compact(store, tmp_path / "at once", 20 * ROW_BYTES).path)
    code = (
        f"from tests.store.test_compaction import *; stopped_at({call}, {str(store.path)!r}, {str(tmp_path / 'out')!r})"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    same_content(store, DiskStore.open(store.path))
    assert bytes_of(tmp_path / "out") != expected
    compact(store, tmp_path / "out", 20 * ROW_BYTES)
    assert bytes_of(tmp_path / "out") == expected


def test_a_full_disk_is_said_and_costs_nothing(store, tmp_path, monkeypatch):
    calls, fsync = [], os.fsync

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 9:  # of the second shard
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"The disk is full.*run the same command again"):
            compact(store, tmp_path / "out", 20 * ROW_BYTES)
    same_content(store, compact(store, tmp_path / "out", 20 * ROW_BYTES))


def test_a_damaged_shard_is_not_passed_on(store, tmp_path):
    path = store.path / "b-00003.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match=r"b-00003\.npy is damaged"):
        compact(store, tmp_path / "out", 20 * ROW_BYTES)


def test_what_another_store_has_begun_is_not_gone_on_with(store, tmp_path):
    compact(made(tmp_path / "other", seed=1), tmp_path / "out")
    (tmp_path / "out" / "shard-00000.json").unlink()
    same_content(store, compact(store, tmp_path / "out"))  # nothing was there yet
    other = with_gaps(tmp_path / "gaps")
    with pytest.raises(StoreError, match="another store in this folder"):
        compact(other, tmp_path / "out")
    with pytest.raises(StoreError, match="another store in this folder"):
        compact(store, tmp_path / "out", 20 * ROW_BYTES)


def test_shards_of_other_pictures_are_told_by_their_digests(store, tmp_path):
    out = compact(store, tmp_path / "out")
    record = out.path / "shard-00000.json"
    record.write_text(record.read_text().replace(f"{5:032d}", f"{99:032d}"))
    with pytest.raises(StoreError, match="was not joined from"):
        compact(store, out.path)


def without_digests(folder):
    with written.opened(folder) as writer:
        for shard in writer.pending():
            digests = [] if shard.number else [image for image, _ in shard.images]
            writer.write(shard, written.arrays_of(shard), rows=range(len(shard.images)), digests=digests)
    return DiskStore.open(folder)


def test_shards_with_digests_and_without_are_not_joined(tmp_path):
    store = without_digests(tmp_path / "store")
    joined = compact(store, tmp_path / "out")
    assert [len(shard) for shard in joined.manifest.shards] == [4, 6]
    same_content(store, joined)
    with pytest.raises(StoreError, match="no digests"):  # of another run: whose pictures are these?
        compact(store, tmp_path / "out")


def test_what_cannot_be_joined_is_an_error_that_says_why(store, tmp_path):
    with pytest.raises(ValueError, match=r"No two of the 8 shards .* 1,152 bytes .*--shard-bytes"):
        compact(store, tmp_path / "out", 6 * ROW_BYTES)
    with pytest.raises(ValueError, match="is the store itself"):
        compact(store, store.path)
    with pytest.raises(ValueError, match="shard_bytes=0"):
        compact(store, tmp_path / "out", 0)
    assert not (tmp_path / "out").exists()


def test_an_unfinished_store_is_refused(tmp_path):
    with written.opened(tmp_path / "store"):
        pass
    with pytest.raises(ValueError, match="unfinished"):
        compact(DiskStore.open(tmp_path / "store"), tmp_path / "out")


def test_one_process_at_a_time_writes(store, tmp_path):
    compact(store, tmp_path / "out", 20 * ROW_BYTES)
    manifest = DiskStore.open(tmp_path / "out").manifest
    with StoreWriter.following(tmp_path / "out", manifest), pytest.raises(StoreError, match="another process"):
        compact(store, tmp_path / "out", 20 * ROW_BYTES)
