"""A store on disk hands out what was written, and notices when it is no longer what was written."""

import ast
import hashlib
import json
import mmap
import os
import pickle
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.store import DiskStore, Family, StoreError, StoreWriter, disk
from samekind.store.disk import ReadOptions

FAMILIES = [Family("cov", 5, ["a", "b", "c"]), Family("lbp", 3, ["x", "y"])]
N_PLANNED, SHARD_ROWS = 17, 4
SKIPPED = [3, 4, 5, 6, 7]  # the last of a shard, and all of the next
KEPT = [image for image in range(N_PLANNED) if image not in SKIPPED]
IMAGES = [(f"person {at % 3}/{at}.jpg", f"person {at % 3}") for at in range(N_PLANNED)]
SIZES = [5, 5, 5, 3, 3]
VALUES = np.random.default_rng(0).normal(size=(N_PLANNED, sum(SIZES)))
STORED = VALUES.astype(np.float16).astype(np.float32)[KEPT]
ENDS = np.cumsum(SIZES)


def columns_of(groups):
    return np.concatenate([np.arange(ENDS[k] - SIZES[k], ENDS[k]) for k in groups] or [np.zeros(0, int)])


def write(folder, n_shards=None):
    with StoreWriter.open(
        folder, families=FAMILIES, front_end={"crop": [110, 150]}, images=IMAGES, shard_rows=SHARD_ROWS
    ) as writer:
        for shard in writer.pending()[:n_shards]:
            start = shard.number * SHARD_ROWS
            rows = [row for row in range(len(shard.images)) if start + row in KEPT]
            left = [row for row in range(len(shard.images)) if start + row in SKIPPED]
            X = VALUES[start:][rows].astype(np.float16)
            writer.write(
                shard,
                {
                    "cov": X[:, :15].reshape(-1, 3, 5).transpose(1, 0, 2),
                    "lbp": X[:, 15:].reshape(-1, 2, 3).transpose(1, 0, 2),
                },
                rows=rows,
                skipped={shard.images[row][0]: f"broken {start + row}" for row in left},
                notes={shard.images[0][0]: ["first", "of a shard"]} if shard.number == 2 else {},
                digests=[f"{(start + row) % 14}" for row in rows],
            )
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write(tmp_path_factory.mktemp("original") / "store")


@pytest.fixture
def folder(original, tmp_path):
    """A copy to be spoilt."""
    return shutil.copytree(original, tmp_path / "store")


@pytest.fixture(scope="module")
def store(original):
    return DiskStore.open(original)


def test_a_store_is_the_array_to_float16(store):
    panel = store.panel(range(5), np.arange(len(store)))
    np.testing.assert_array_equal(panel, STORED)
    np.testing.assert_allclose(panel, VALUES[KEPT], rtol=2**-11, atol=2**-25)
    assert panel.dtype == store.dtype == np.float32
    assert panel.flags.c_contiguous
    assert store.stored_dtype == np.float16


def test_a_store_knows_its_images_and_groups(store):
    assert store.n_rows == len(store) == len(KEPT)
    assert store.planned == N_PLANNED
    assert store.complete
    assert store.image_ids.tolist() == [IMAGES[at][0] for at in KEPT]
    assert store.labels.tolist() == [IMAGES[at][1] for at in KEPT]
    assert store.families == {"cov": range(3), "lbp": range(3, 5)}
    assert store.group_sizes.tolist() == SIZES
    assert store.group_names == ["cov a", "cov b", "cov c", "lbp x", "lbp y"]
    assert store.n_features == sum(SIZES)
    assert store.nbytes == STORED.size * 2
    assert store.front_end == {"crop": [110, 150]}
    assert store.shard_rows == SHARD_ROWS


def test_a_store_knows_what_was_skipped_noted_and_the_same(store):
    assert store.skipped == {IMAGES[at][0]: f"broken {at}" for at in SKIPPED}
    assert store.notes == {IMAGES[8][0]: ["first", "of a shard"]}
    assert store.duplicates() == [(IMAGES[at][0], IMAGES[at + 14][0]) for at in (0, 1, 2)]


def test_its_text_says_what_it_is(store, tmp_path):
    assert "12 images; cov 3 x 5, lbp 2 x 3;" in repr(store)
    assert "7 images so far, 17 planned;" in repr(DiskStore.open(write(tmp_path / "part", 3)))


@given(st.lists(st.integers(0, 4), max_size=9), st.lists(st.integers(0, len(KEPT) - 1), max_size=30))
def test_a_panel_has_any_groups_and_rows_in_any_order(store, groups, rows):
    np.testing.assert_array_equal(
        store.panel(groups, np.array(rows, dtype=int)), STORED[np.ix_(rows, columns_of(groups))]
    )


@pytest.mark.parametrize("n_jobs", [1, 2, 3, None])
def test_threads_change_nothing(original, n_jobs):
    rows = np.random.default_rng(1).integers(0, len(KEPT), 40)
    panel = DiskStore.open(original, n_jobs, ReadOptions(worth_threads=0)).panel([4, 1], rows)
    np.testing.assert_array_equal(panel, STORED[np.ix_(rows, columns_of([4, 1]))])


def test_reading_parses_nothing_as_python_cannot_in_several_threads_at_once(original, monkeypatch):
    DiskStore.open(original).panel([0], [0])  # compiles
    store = DiskStore.open(original)
    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", None)
        panel = store.panel(range(5), np.arange(len(store)))
    np.testing.assert_array_equal(panel, STORED)


def test_more_files_than_may_be_open_are_mapped_in_turn(original):
    store = DiskStore.open(original, options=ReadOptions(most_maps=2))
    for _ in range(2):
        np.testing.assert_array_equal(store.panel(range(5), np.arange(len(store))), STORED)
    assert store._mapped.cache_info().currsize == 2


@pytest.mark.parametrize(
    ("groups", "memory", "fetched"),
    [
        ([2], 1.0, {"cov": [2]}),
        ([4, 1], 1.0, {"cov": [1], "lbp": [1]}),
        ([0, 2, 3], 1.0, {"lbp": [0]}),  # two of three are not few
        ([2], 1e-12, {}),  # too much for this machine
    ],
)
def test_few_groups_that_fit_memory_are_read_ahead(original, monkeypatch, groups, memory, fetched):
    asked = []
    plain = disk._Mapped.read_ahead
    monkeypatch.setattr(disk._Mapped, "read_ahead", lambda self, some: (asked.append((self, some)), plain(self, some)))
    store = DiskStore.open(original, options=ReadOptions(cache_share=memory))
    store.read_ahead(groups)
    shards = [record for record in store.records.values() if record.rows]
    assert len(asked) == len(shards) * len(fetched)
    for mapped, some in asked:
        family = next(family for family in FAMILIES if family.size == mapped.bits.shape[2])
        assert some.tolist() == fetched[family.name]
    np.testing.assert_array_equal(store.panel(range(5), np.arange(len(store))), STORED)


def test_reading_ahead_names_whole_pages_that_hold_the_groups(original):
    class Advised:
        def __init__(self):
            self.ranges = []

        def madvise(self, advice, start=0, length=None):
            self.ranges += [(start, length)] if advice == mmap.MADV_WILLNEED else []

    bits, advised = np.zeros((100, 30, 59), np.uint16), Advised()
    disk._Mapped(bits, advised, 128).read_ahead(np.array([0, 7, 99]))
    assert [start % mmap.PAGESIZE for start, _ in advised.ranges] == [0, 0, 0]
    for k, (start, length) in zip([0, 7, 99], advised.ranges, strict=True):
        begin = 128 + k * bits[0].nbytes
        assert start <= begin < start + mmap.PAGESIZE
        assert start + length == begin + bits[0].nbytes


def test_a_panel_goes_into_an_array_that_is_there(store):
    out = np.zeros((3, 8), np.float32)
    assert store.panel([3, 0], [1, 0, 1], out) is out
    np.testing.assert_array_equal(out, STORED[np.ix_([1, 0, 1], columns_of([3, 0]))])
    for wrong in (np.zeros((3, 7), np.float32), np.zeros((3, 8)), np.zeros((8, 3), np.float32).T):
        with pytest.raises(ValueError, match=r"needs a C-contiguous float32 array of \(3, 8\)"):
            store.panel([3, 0], [1, 0, 1], wrong)


@pytest.mark.parametrize(
    ("groups", "rows", "message"),
    [
        ([5], [0], "There is no group 5: the store has 5 groups, counted from 0"),
        ([0, -1], [0], "There is no group -1"),
        ([0], [len(KEPT)], "There is no row 12: the store has 12 rows"),
        ([0], [-1], "There is no row -1"),
        ([0], [0.5], "rows must be a list or a 1-d array of whole numbers"),
        ([[0]], [0], "groups must be a list"),
    ],
)
def test_what_is_not_there_is_an_index_error(store, groups, rows, message):
    with pytest.raises(IndexError, match=message):
        store.panel(groups, np.array(rows))


def test_an_unfinished_store_has_the_rows_so_far(tmp_path):
    store = DiskStore.open(write(tmp_path / "store", 3))
    assert not store.complete
    assert store.planned == N_PLANNED
    np.testing.assert_array_equal(store.panel(range(5), np.arange(7)), STORED[:7])
    with pytest.raises(IndexError, match="no row 7"):
        store.panel([0], np.array([7]))


def test_a_shard_counts_when_its_record_is_there(folder):
    (folder / "shard-00002.json").unlink()
    store = DiskStore.open(folder)
    assert not store.complete
    assert store.image_ids.tolist() == [IMAGES[at][0] for at in KEPT if at // SHARD_ROWS != 2]
    np.testing.assert_array_equal(store.panel(range(5), np.arange(8)), np.delete(STORED, range(3, 7), axis=0))


def test_an_undamaged_store_verifies(store):
    store.verify()


def test_a_changed_byte_is_found_and_the_file_named(folder):
    path = folder / "lbp-00003.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    store = DiskStore.open(folder)
    with pytest.raises(StoreError, match=r"lbp-00003.npy is damaged: it was altered.*Delete shard-00003.json beside"):
        store.verify()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def put_nan(path):
    """With the right checksum in the record beside it."""
    array = np.load(path)
    array[1, 2, 3] = np.nan
    np.save(path, array)
    record = path.with_name(f"shard-{path.stem[-5:]}.json")
    sha256 = json.loads(record.read_text())["sha256"]
    edited(record, sha256=sha256 | {"cov": hashlib.sha256(path.read_bytes()).hexdigest()})


@pytest.mark.parametrize(
    ("spoil", "message"), [(flip, "it was altered after it was written"), (put_nan, "it holds infinity or what is no")]
)
class TestTheFirstReadOfAFile:
    def test_finds_what_was_altered(self, folder, spoil, message):
        spoil(folder / "cov-00003.npy")
        store = DiskStore.open(folder)
        n = len(store) - 4
        store.panel([0, 4], range(n - 4))  # of other shards
        store.panel([4], range(len(store)))  # of the other family
        for _ in range(2):
            with pytest.raises(StoreError, match=rf"cov-00003.npy is damaged: {message}.*Delete shard-00003.json"):
                store.panel([0], range(len(store)))

    def test_may_be_told_not_to_look(self, folder, spoil, message):
        spoil(folder / "cov-00003.npy")
        store = DiskStore.open(folder, options=ReadOptions(verify=False))
        assert store.panel([0], range(len(store))).shape == (len(store), 5)


def test_a_file_is_verified_once(original, monkeypatch):
    seen = []
    monkeypatch.setattr("samekind.store.disk.array_problem", lambda path, sha256: seen.append(path.name))
    store = DiskStore.open(original, 2, ReadOptions(most_maps=1, worth_threads=0))
    for _ in range(3):
        store.panel([0, 4], range(len(store)))
    assert len(seen) == len(set(seen)) == 2 * sum(bool(record.rows) for record in store.records.values())


def test_a_worker_verifies_a_file_once_until_it_changes(folder, monkeypatch):
    """A worker opens the store for each fit, from what the driver sends."""
    seen, real = [], disk.array_problem
    monkeypatch.setattr(disk, "array_problem", lambda path, sha256: seen.append(path.name) or real(path, sha256))
    sent = pickle.dumps(DiskStore.open(folder))
    for _ in range(2):
        store = pickle.loads(sent)
        store.panel([0, 4], range(len(store)))
    assert len(seen) == len(set(seen)) > 0
    flip(folder / "cov-00003.npy")
    with pytest.raises(StoreError, match="altered"):
        pickle.loads(sent).panel([0], range(len(store)))


@pytest.mark.parametrize("at", range(6, 128, 3))
@pytest.mark.parametrize("value", [0, 10, 39, 40, 123, 255])
def test_a_damaged_header_of_an_array_is_found_at_opening(folder, at, value):
    path = folder / "cov-00003.npy"
    content = bytearray(path.read_bytes())
    if content[at] == value:
        return
    content[at] = value
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"cov-00003\.npy is damaged"):
        DiskStore.open(folder)


@pytest.mark.parametrize("name", ["cov-00003.npy", "shard-00003.json", "manifest.json"])
def test_a_pipe_is_not_waited_for(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(StoreError, match=r"no plain file|no manifest\.json"):
        DiskStore.open(folder)


def cut(path):
    os.truncate(path, path.stat().st_size - 2)


def cut_to_nothing(path):
    os.truncate(path, 0)


def replace_by_text(path):
    path.write_text("not an array, although it is long enough for a header" * 9)


def replace_by_float32(path):
    np.save(path, np.load(path).astype(np.float32))


def replace_by_objects(path):
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)


def replace_by_a_row_less(path):
    np.save(path, np.load(path)[:, 1:])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (os.unlink, "it is missing"),
        (cut, "it has .* bytes instead of"),
        (cut_to_nothing, "it is no .npy file"),
        (replace_by_text, "it is no .npy file"),
        (replace_by_float32, r"it holds float32 of shape \(3, 4, 5\), not float16"),
        (replace_by_objects, "it holds object of shape"),
        (replace_by_a_row_less, r"it holds float16 of shape \(3, 3, 5\), not float16 of shape \(3, 4, 5\)"),
    ],
)
def test_a_spoilt_array_is_found_at_opening(folder, spoil, message):
    spoil(folder / "cov-00003.npy")
    with pytest.raises(StoreError, match=rf"cov-00003.npy is damaged: {message}.*Delete shard-00003.json"):
        DiskStore.open(folder)


def test_a_damaged_shard_is_made_anew_as_the_error_says(folder, original):
    cut(folder / "cov-00003.npy")
    (folder / "shard-00003.json").unlink()
    write(folder)
    for path in original.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()


def edited(path, **changes):
    notes = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in {**notes, **changes}.items() if value is not None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "samekind.metric"}, "it holds 'samekind.metric', not 'samekind.store'"),
        ({"format_version": 2}, r"has format version 2, but this samekind reads up to 1. Upgrade samekind"),
        ({"format_version": "1"}, "its format version reads '1'"),
        ({"families": None}, "it lacks 'families'"),
        ({"families": [{"name": "../cov", "size": 5, "groups": ["a"]}]}, "names files"),
        (
            {"families": [{"name": "cov", "size": "5", "groups": ["a"]}]},
            r"size must be a whole number .* but is '5'",
        ),
        ({"families": [{"name": "cov", "size": 10**30, "groups": ["a"]}]}, r"families\[0\].size must be"),
        ({"families": [{"name": "cov", "size": True, "groups": ["a"]}]}, r"families\[0\].size must be"),
        ({"families": [{"name": "cov", "size": 5, "groups": "ab"}]}, r"families\[0\].groups must be a list"),
        ({"families": []}, "give at least one"),
        ({"shard_rows": 0}, "shard_rows must be a whole number"),
        ({"shard_rows": 1e9}, "shard_rows must be a whole number"),
        ({"shard_rows": 10**9}, "a shard of so many images takes"),
        ({"shard_rows": 3}, "do not have 1 to shard_rows=3 images each"),
        ({"images": [["only an id"]]}, r"images\[0\] must be a list of 2 to 2 values"),
        ({"images": [["id", 7]]}, r"images\[0\] must be a text .* but is 7"),
        ({"images": 7}, "images must be a list"),
        ({"front_end": {"families": [], "crop": 1}}, "The extractor lacks 'alignment'"),
        ({"shards": [[0, 4], [5, 17]]}, "its shards do not cover its images"),
        ({"shards": [[0, 4]]}, "its shards do not cover its images"),
        ({"front_end": []}, "front_end must be an object"),
        ({"samekind": 5}, "samekind must be a text"),
        ({"more": 5}, "it has 'more', which this samekind does not know"),
    ],
)
def test_a_wrong_manifest_is_refused(folder, changes, message):
    edited(folder / "manifest.json", **changes)
    with pytest.raises(StoreError, match=rf"manifest.json.*{message}"):
        DiskStore.open(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [8, 9, 9, 11]}, "its rows do not rise"),
        ({"rows": [7, 9, 10, 11]}, "its rows do not rise"),
        ({"rows": [8, 9, 10, 12]}, "row 12 is none of its images"),
        ({"rows": [8, 9, 10]}, r"it has 4 digests for 3 rows"),
        ({"rows": [8, 9, 10], "digests": []}, r"cov-00002.npy is damaged: it holds float16 of shape \(3, 4, 5\)"),
        ({"sha256": {"cov": ""}}, "it has checksums of"),
        ({"skipped": [{"id": "a"}]}, r"skipped\[0\] lacks 'reason'"),
        ({"notes": {"id": "a"}}, "notes must be a list"),
        ({"rows": "all"}, "rows must be a list"),
        ({"rows": [8, 9.0, 10, 11]}, r"rows\[1\] must be a whole number"),
    ],
)
def test_a_wrong_shard_record_is_refused(folder, changes, message):
    edited(folder / "shard-00002.json", **changes)
    with pytest.raises(StoreError, match=rf"{message}.*Delete shard-00002.json"):
        DiskStore.open(folder)


@pytest.mark.parametrize("name", ["manifest.json", "shard-00002.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"{name} is damaged, or not of a store"):
        DiskStore.open(folder)


def test_other_places_are_no_store(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no such store"):
        DiskStore.open(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="A store is a folder"):
        DiskStore.open(tmp_path / "file")
    with pytest.raises(StoreError, match=r"is not a samekind store: it has no manifest\.json"):
        DiskStore.open(tmp_path)


@pytest.mark.parametrize(("name", "size", "groups"), [("a/b", 1, ["g"]), ("", 1, ["g"]), ("a", 0, ["g"]), ("a", 1, [])])
def test_a_family_needs_a_plain_name_and_something_in_it(name, size, groups):
    with pytest.raises(ValueError, match="give"):
        Family(name, size, groups)
