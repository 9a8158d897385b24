"""Groups are read from copies that are whole and theirs, and come out as from the store."""

import logging
import os
import pickle
import threading

import numpy as np
import pytest

from samekind.store import ArrayStore, DiskStore, FeatureGroups, ReadOptions, StoreError, StripedStore, stripes
from tests import stores

N, FAMILIES = 37, {"a": 4, "b": 2}
EVERYTHING = range(12 + 24)  # groups: 48 columns of each family


def numbers(seed=0):
    return np.random.default_rng(seed).normal(size=(N, 96)).astype(np.float32)


def labels():
    return np.arange(N) % 5


@pytest.fixture
def store(tmp_path):
    return stores.disk_store(tmp_path / "store", numbers(), labels(), FAMILIES)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "near"


def copies(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def spoil(store):
    """Other numbers in all shards, of the same shapes."""
    for path in store.path.glob("*.npy"):
        content = bytearray(path.read_bytes())
        content[-100:] = bytes(100)
        path.write_bytes(bytes(content))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("groups", "rows"), [(EVERYTHING, range(N)), ([20, 3, 3, 35], [36, 0, 5, 5]), ([], [1]), ([1], [])]
)
def test_panels_are_those_of_the_store(store, folder, groups, rows, n_jobs):
    options = ReadOptions(worth_threads=1)
    striped = DiskStore.open(store.path, n_jobs, options).copied_into(folder)
    np.testing.assert_array_equal(striped.panel(groups, rows), store.panel(groups, rows))


@pytest.mark.parametrize("width", [4, 9])
def test_stacks_are_those_of_the_store(store, folder, width):
    groups, rows = [30, 2, 5, 17], np.array([4, 36, 4, 0, 20])
    means = np.random.default_rng(1).normal(size=(4, width)).astype(np.float32)
    expected, found = (np.full((4, 5, width), np.nan, np.float32) for _ in range(2))
    store.stacked(groups, rows, means, expected)
    store.copied_into(folder).stacked(groups, rows, means, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("number", [-1, len(EVERYTHING)])
def test_groups_and_rows_that_are_not_there_are_refused(store, folder, number):
    striped = store.copied_into(folder)
    with pytest.raises(IndexError, match="There is no group"):
        striped.panel([number], [0])
    with pytest.raises(IndexError, match="There is no row"):
        striped.panel([0], [N if number > 0 else -1])
    assert not folder.exists()


def test_only_what_is_asked_for_is_copied(store, folder):
    store.copied_into(folder).panel([3, 20], range(2))
    assert [path.name for path in copies(folder)] == ["00003.group", "00020.group"]


def test_what_is_copied_is_not_read_from_the_store_again(store, folder):
    expected = store.panel(EVERYTHING, range(N))
    striped = store.copied_into(folder)
    striped.panel(EVERYTHING, range(N))
    spoil(store)
    np.testing.assert_array_equal(striped.panel(EVERYTHING, range(N)), expected)
    later = DiskStore.open(store.path).copied_into(folder)  # the next fit
    np.testing.assert_array_equal(later.panel(EVERYTHING, range(N)), expected)
    with pytest.raises(StoreError, match="altered"):
        DiskStore.open(store.path).panel([0], range(N))


def cut_short(path, content):
    path.write_bytes(content[:-7])


def lengthened(path, content):
    path.write_bytes(content + bytes(8))


def emptied(path, content):
    path.write_bytes(b"")


def flipped(path, content):
    path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])


def of_another_group(path, content):
    path.write_bytes(path.with_name("00002.group").read_bytes())


@pytest.mark.parametrize("damage", [cut_short, lengthened, emptied, flipped, of_another_group])
def test_a_damaged_copy_is_made_anew(store, folder, damage):
    expected = store.panel([1, 2], range(N))
    store.copied_into(folder).panel([1, 2], range(N))
    copy = copies(folder)[0]
    whole = copy.read_bytes()
    damage(copy, whole)
    assert copy.read_bytes() != whole
    np.testing.assert_array_equal(store.copied_into(folder).panel([1, 2], range(N)), expected)
    assert copy.read_bytes() == whole


def test_the_copy_of_another_store_is_not_used(store, folder, tmp_path):
    other = stores.disk_store(tmp_path / "other", numbers(1), labels(), FAMILIES)
    other.copied_into(folder).panel([1], range(N))
    striped = store.copied_into(folder)
    striped.panel([2], range(N))  # makes its folder
    [theirs] = [path for path in copies(folder) if path.name == "00001.group"]
    theirs.rename(striped.folder / theirs.name)
    np.testing.assert_array_equal(striped.panel([1], range(N)), store.panel([1], range(N)))


def test_copies_of_what_was_not_compared_with_checksums_are_kept_apart(store, folder):
    spoil(store)
    DiskStore.open(store.path, options=ReadOptions(verify=False)).copied_into(folder).panel([35], range(N))
    with pytest.raises(StoreError, match="altered"):
        DiskStore.open(store.path).copied_into(folder).panel([35], range(N))


def test_a_damaged_store_is_an_error_and_leaves_no_copy(store, folder):
    spoil(store)
    with pytest.raises(StoreError, match="altered"):
        DiskStore.open(store.path).copied_into(folder).panel([0], range(N))
    assert not copies(folder)


def test_a_shard_that_cannot_be_read_is_not_blamed_on_the_copies(store, folder, caplog):
    (store.path / "a-00001.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"a-00001\.npy"):
        store.copied_into(folder).panel([0], range(N))
    assert not caplog.records


@pytest.mark.parametrize("obstacle", ["a file", "a full disk"])
def test_where_no_copy_can_be_made_the_store_is_read_and_that_is_said_once(
    store, folder, caplog, monkeypatch, obstacle
):
    if obstacle == "a file":
        folder.write_text("")
    else:

        def full(_):
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, "fsync", full)
    striped = store.copied_into(folder)
    for groups in (EVERYTHING, [3]):
        np.testing.assert_array_equal(striped.panel(groups, range(N)), store.panel(groups, range(N)))
    out = np.empty((1, N, 4), np.float32)
    striped.stacked([1], np.arange(N), np.zeros((1, 4), np.float32), out)
    np.testing.assert_array_equal(out[0], store.panel([1], range(N)))
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert str(folder) in record.getMessage()
    assert "--stripes" in record.getMessage()
    if obstacle == "a full disk":
        assert not copies(folder)


def test_copies_that_are_removed_meanwhile_do_no_harm(store, folder):
    striped = store.copied_into(folder)
    striped.panel([1], range(N))
    copies(folder)[0].unlink()
    striped._mapped.cache_clear()
    for _ in range(2):
        np.testing.assert_array_equal(striped.panel([1], range(N)), store.panel([1], range(N)))
    assert len(copies(folder)) == 1


def test_what_a_killed_process_left_goes_and_what_others_write_stays(store, folder):
    striped = store.copied_into(folder)
    striped.folder.mkdir(parents=True)
    old, new = (striped.folder / f".samekind-{name}.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"")
    long_ago = old.stat().st_mtime - stripes.ABANDONED - 1
    os.utime(old, (long_ago, long_ago))
    striped.panel([1], range(N))
    assert not old.exists()
    assert new.exists()


def test_several_threads_copy_each_group_once(store, folder, monkeypatch):
    striped, made, write = store.copied_into(folder), [], StripedStore._write
    monkeypatch.setattr(StripedStore, "_write", lambda self, groups: (made.extend(groups), write(self, groups)))
    threads = [threading.Thread(target=striped.panel, args=(EVERYTHING, range(N))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(EVERYTHING)


def test_it_travels_as_where_it_is(store, folder):
    back = pickle.loads(pickle.dumps(store.copied_into(folder)))
    assert back.folder == store.copied_into(folder).folder
    np.testing.assert_array_equal(back.panel([5], range(N)), store.panel([5], range(N)))
    assert back.content_digest() == store.content_digest()


def test_a_store_in_memory_needs_no_copies(folder):
    store = ArrayStore(numbers(), FeatureGroups.parse(4, 96))
    assert store.copied_into(folder) is store
