"""What travels: bytes, and large arrays as files."""

import numpy as np
import pytest

from samekind.compute.packing import LARGE, SharedFolder, open_array, packed


def test_large_arrays_become_one_file_and_come_back(tmp_path):
    shared = SharedFolder(tmp_path)
    large, small = np.arange(LARGE, dtype=np.float32), np.arange(5)
    sent = [shared.packed({"large": large, "small": small, "again": large}) for _ in range(2)]
    assert all(len(each.data) < 2000 for each in sent)
    assert len(list(shared.folder.iterdir())) == 1
    back = sent[0].load()
    np.testing.assert_array_equal(back["large"], large)
    np.testing.assert_array_equal(back["small"], small)
    del large, back
    assert not list(shared.folder.iterdir())  # nobody can ask for it again
    shared.close()
    assert not shared.folder.exists()


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_in_memory_is_kept(tmp_path, order):
    shared = SharedFolder(tmp_path)
    array = np.asarray(np.random.default_rng(0).normal(size=(600, 400)), order=order)
    back = shared.packed(array).load()
    assert back.flags.c_contiguous == array.flags.c_contiguous


def test_a_folder_that_a_worker_does_not_see_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="--shared") as caught:
        open_array(str(tmp_path / "absent.npy"))
    assert "absent.npy" in str(caught.value)


def test_what_is_packed_comes_back():
    assert packed((1, "two", [3.0])).load() == (1, "two", [3.0])
