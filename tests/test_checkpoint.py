"""What a checkpoint gives back, what it refuses, and what a failure leaves of it."""

import errno
import json
import math
import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from samekind.checkpoint import Checkpoint, CheckpointError, NoCheckpoint, Snapshot, fingerprint

IDENTITY = {"data": "a1b2", "settings": {"tol": 1e-3, "max_groups": 4}}
DTYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint32, np.uint8, np.bool_]


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "fit", IDENTITY)


def some(number=1.5):
    return Snapshot({"A": np.arange(6.0).reshape(2, 3) + number}, {"number": number})


def names_in(folder):
    return sorted(os.listdir(folder))


def refusal(checkpoint, name="joint"):
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(name)
    return str(caught.value)


class TestWhatComesBack:
    def test_nothing_where_nothing_was_saved(self, checkpoint):
        assert checkpoint.load("joint") is None

    def test_the_last_one_saved_under_its_name(self, checkpoint):
        for name, number in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
            checkpoint.save(name, some(number))
        assert [checkpoint.load(name).facts["number"] for name in "ab"] == [3.0, 2.0]

    def test_to_another_process(self, checkpoint):
        checkpoint.save("joint", some())
        again = Checkpoint(str(checkpoint.folder), json.loads(json.dumps(IDENTITY))).load("joint")
        np.testing.assert_array_equal(again.arrays["A"], some().arrays["A"])
        assert again.facts == some().facts

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (2, 3), (1, 2, 3)])
    def test_arrays_keep_type_and_shape(self, checkpoint, dtype, shape):
        array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
        checkpoint.save("joint", Snapshot({"A": array}, {}))
        again = checkpoint.load("joint").arrays["A"]
        assert (again.dtype, again.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(again, array)

    def test_arrays_are_saved_as_they_read_and_not_as_they_lie(self, checkpoint):
        whole = np.arange(24.0).reshape(4, 6)
        arrays = {
            "turned": whole.T,
            "parts": whole[::2, 1::2],
            "backwards": whole[::-1],
            "swapped": whole.astype(">f8"),
        }
        checkpoint.save("joint", Snapshot(arrays, {}))
        again = checkpoint.load("joint").arrays
        for name, array in arrays.items():
            np.testing.assert_array_equal(again[name], array)

    def test_arrays_are_ones_own(self, checkpoint):
        checkpoint.save("joint", some())
        first = checkpoint.load("joint").arrays["A"]
        checkpoint.save("joint", some(9.0))
        first[0, 0] += 1
        assert first[0, 0] == 2.5
        assert checkpoint.load("joint").arrays["A"][0, 0] == 9.0

    def test_not_a_number_and_infinity_in_arrays(self, checkpoint):
        array = np.array([np.nan, np.inf, -np.inf, -0.0])
        checkpoint.save("joint", Snapshot({"A": array}, {}))
        assert checkpoint.load("joint").arrays["A"].tobytes() == array.tobytes()

    @given(st.lists(st.floats()))
    def test_floats_in_facts_to_the_last_bit(self, tmp_path_factory, floats):
        checkpoint = Checkpoint(tmp_path_factory.mktemp("fit"), {})
        checkpoint.save("joint", Snapshot({}, {"floats": floats}))
        again = checkpoint.load("joint").facts["floats"]
        assert [math.isnan(x) or x.hex() for x in again] == [math.isnan(x) or x.hex() for x in floats]

    def test_facts_of_every_kind(self, checkpoint):
        facts = {"text": "naïve 日本 \ud800", "none": None, "yes": True, "list": [1, [2.5, "a"]], "dict": {"a": {}}}
        checkpoint.save("joint", Snapshot({}, facts))
        assert checkpoint.load("joint").facts == facts


class TestNames:
    def test_plain_ones_name_the_file(self, checkpoint):
        checkpoint.save("selection-0", some())
        assert names_in(checkpoint.folder) == ["selection-0.snapshot"]

    def test_any_text_is_a_name_of_its_own(self, checkpoint):
        names = [
            "",
            ".",
            "..",
            "../joint",
            "/etc",
            "a/b",
            "a b",
            "a-b",
            "A-B",
            "a_b",
            "日本",
            "\0",
            "\ud800",
            "n" * 1000,
        ]
        for number, name in enumerate(names):
            checkpoint.save(name, some(float(number)))
        assert [checkpoint.load(name).facts["number"] for name in names] == list(range(len(names)))
        files = names_in(checkpoint.folder)
        assert len({name.lower() for name in files}) == len(names)
        assert all(name.endswith(".snapshot") for name in files)


class TestOtherFits:
    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"data": "ffff", "settings": IDENTITY["settings"]}, ["data = 'a1b2'", "this fit has 'ffff'"]),
            ({"data": "a1b2", "settings": {"tol": 0.1, "max_groups": 5}}, ["settings.tol = 0.001", "fit has 0.1"]),
            ({"data": "a1b2", "settings": {"tol": 1e-3}}, ["settings.max_groups = 4", "this fit has None"]),
            (IDENTITY | {"seed": 3}, ["seed = None", "this fit has 3"]),
        ],
    )
    def test_the_first_difference_is_named(self, checkpoint, other, said):
        checkpoint.save("joint", some())
        message = refusal(Checkpoint(checkpoint.folder, other))
        for text in [*said, str(checkpoint.path("joint")), "another folder", f"delete {checkpoint.folder}"]:
            assert text in message
        assert checkpoint.load("joint") is not None

    @pytest.mark.parametrize("entry", [math.nan, math.inf, (1, 2), [math.nan], {"a": math.nan}, 1])
    def test_equal_settings_are_the_same_fit(self, tmp_path, entry):
        Checkpoint(tmp_path, {"entry": entry}).save("joint", some())
        assert Checkpoint(tmp_path, {"entry": entry}).load("joint") is not None

    def test_a_whole_number_is_that_number(self, tmp_path):
        Checkpoint(tmp_path, {"ridge": 1}).save("joint", some())
        assert Checkpoint(tmp_path, {"ridge": 1.0}).load("joint") is not None

    def test_a_long_entry_is_cut(self, tmp_path):
        Checkpoint(tmp_path, {"entry": "x" * 10_000}).save("joint", some())
        assert len(refusal(Checkpoint(tmp_path, {"entry": "y" * 10_000}))) < 1000


class TestDamage:
    def test_a_file_cut_anywhere(self, checkpoint):
        checkpoint.save("joint", some())
        path = checkpoint.path("joint")
        whole = path.read_bytes()
        for length in [0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 1]:
            path.write_bytes(whole[:length])
            message = refusal(checkpoint)
            assert str(path) in message
            assert "cut short" in message
            assert "delete this file" in message

    def test_any_byte_altered(self, checkpoint):
        checkpoint.save("joint", some())
        path = checkpoint.path("joint")
        whole = path.read_bytes()
        for place in range(len(whole)):
            altered = bytearray(whole)
            altered[place] ^= 1
            path.write_bytes(altered)
            # Such as a space of the header's padding: nothing that counts.
            assert self.tells_or_is_unharmed(checkpoint), f"byte {place}"

    def tells_or_is_unharmed(self, checkpoint):
        try:
            again = checkpoint.load("joint")
        except CheckpointError as error:
            return str(checkpoint.path("joint")) in str(error)
        same = {name: array.tolist() for name, array in again.arrays.items()} == {"A": some().arrays["A"].tolist()}
        return same and again.facts == some().facts

    @pytest.mark.parametrize(
        "content",
        [
            b"hello" * 100,
            save({"A": np.zeros(3)}),
            save({"A": np.zeros(3)}, {"samekind": "[]"}),
            save({"A": np.zeros(3)}, {"samekind": '{"format": "samekind.metric", "format_version": 1}'}),
        ],
    )
    def test_a_foreign_file(self, checkpoint, content):
        checkpoint.path("joint").write_bytes(content)
        assert "no snapshot" in refusal(checkpoint)
        assert checkpoint.path("joint").read_bytes() == content

    def test_a_later_version(self, checkpoint):
        text = '{"format": "samekind.checkpoint", "format_version": 99}'
        checkpoint.path("joint").write_bytes(save({}, {"samekind": text}))
        assert "Upgrade samekind" in refusal(checkpoint)

    def test_a_folder_in_its_place(self, checkpoint):
        checkpoint.path("joint").mkdir()
        with pytest.raises(IsADirectoryError, match="this is a folder"):
            checkpoint.load("joint")


class TestTheFolder:
    def test_it_is_made_with_those_above_it(self, tmp_path):
        Checkpoint(tmp_path / "a" / "b", {}).save("joint", some())
        assert names_in(tmp_path / "a" / "b") == ["joint.snapshot"]

    def test_a_file_is_no_folder(self, tmp_path):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(NotADirectoryError, match="A checkpoint is a folder"):
            Checkpoint(tmp_path / "file", {})

    @pytest.mark.skipif(os.name != "posix", reason="names as on POSIX")
    def test_its_name_may_be_no_text(self, tmp_path):
        checkpoint = Checkpoint(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"), {})
        checkpoint.save("joint", some())
        assert checkpoint.load("joint").facts == some().facts

    @pytest.mark.parametrize("full_at", ["fsync", "replace"])
    def test_a_full_disk_leaves_the_last_snapshot(self, checkpoint, monkeypatch, full_at):
        checkpoint.save("joint", some(1.0))

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, full_at, full)
            with pytest.raises(OSError, match="No space left on device") as caught:
                checkpoint.save("joint", some(2.0))
        assert str(checkpoint.path("joint")) in str(caught.value)
        assert checkpoint.load("joint").facts["number"] == 1.0
        assert names_in(checkpoint.folder) == ["joint.snapshot"]

    def test_facts_that_json_cannot_hold_touch_nothing(self, checkpoint):
        checkpoint.save("joint", some(1.0))
        with pytest.raises(TypeError, match="JSON"):
            checkpoint.save("joint", Snapshot({}, {"number": np.float32(2)}))
        assert checkpoint.load("joint").facts["number"] == 1.0

    def test_what_a_killed_writer_left_is_removed_once_no_one_writes_it(self, checkpoint):
        old, new, others = (checkpoint.folder / name for name in (".samekind-0.tmp", ".samekind-1.tmp", "mine.tmp"))
        for path in (old, new, others):
            path.write_bytes(b"half")
        yesterday = time.time() - 24 * 3600
        for path in (old, others):
            os.utime(path, (yesterday, yesterday))
        assert checkpoint.load("joint") is None
        checkpoint.save("joint", some())
        assert names_in(checkpoint.folder) == [".samekind-1.tmp", "joint.snapshot", "mine.tmp"]


def test_no_checkpoint_keeps_nothing():
    nothing = NoCheckpoint()
    nothing.save("joint", some())
    assert nothing.load("joint") is None


def test_the_file_is_plain_safetensors(checkpoint):
    checkpoint.save("joint", some())
    np.testing.assert_array_equal(load(checkpoint.path("joint").read_bytes())["A"], some().arrays["A"])


class TestFingerprint:
    def test_is_that_of_the_contents(self):
        array = np.arange(24.0).reshape(4, 6)
        prints = {fingerprint(each) for each in (array, array.copy(), np.asfortranarray(array), array.T.copy().T)}
        assert len(prints) == 1
        assert len(prints.pop()) == 32

    def test_tells_contents_types_and_shapes_apart(self):
        array = np.arange(24.0).reshape(4, 6)
        changed = array.copy()
        changed[3, 5] = np.nextafter(23.0, 24.0)
        others = [changed, array.T, array.ravel(), array.view(np.int64), array[:0], array[:0].T, np.array(1.0)]
        assert len({fingerprint(each) for each in [array, *others, np.array(["a"]), np.array(["b"])]}) == 10

    def test_of_a_large_array_is_made_in_parts(self):
        array = np.arange(1000.0).reshape(100, 10)[:, ::2]
        assert fingerprint(array, block=100) == fingerprint(array)

    def test_objects_have_none(self):
        with pytest.raises(TypeError, match="numbers or texts"):
            fingerprint(np.array(["a", 1], dtype=object))
