"""Workers that read copies of a store's groups: the same bits, and a warning where there is no room for copies."""

import warnings

import numpy as np
import pytest

from samekind.estimators.on_store import whitened_by
from samekind.store import DiskStore, RowsOf, StripedStore
from tests import clusters, stores

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

from samekind.compute.dask import DaskExecutor, group_shares  # noqa: E402
from samekind.compute.packing import SharedFolder  # noqa: E402


@pytest.fixture(scope="module")
def data():
    return clusters.planted()


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    X, y = data
    return stores.disk_store(tmp_path_factory.mktemp("stripes") / "store", X, y, {"a": 4}, shard_rows=200)


@pytest.fixture(scope="module")
def local():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as made:
        yield made


@pytest.mark.slow
def test_step_1_on_copies_is_the_same_in_every_bit(local, store, data, tmp_path):
    alone = clusters.selected(clusters.serial(), *data, store=store)
    files = set()
    for _ in range(2):
        with DaskExecutor(local.scheduler_address, 1, stripes=tmp_path / "near") as executor:
            clusters.same_selection(clusters.selected(executor, *data, store=store), alone)
        there = {(path, path.stat().st_mtime_ns) for path in (tmp_path / "near").rglob("*.group")}
        assert there
        files = files or there
        assert there == files  # the second fit copies nothing


def test_views_of_a_store_are_read_from_copies(store, tmp_path):
    shared = SharedFolder(tmp_path, tmp_path / "near")
    back = shared.packed(RowsOf(store, np.arange(5))).load()
    assert isinstance(back.store, StripedStore)
    np.testing.assert_array_equal(back.panel([1], np.arange(5)), store.panel([1], range(5)))
    assert isinstance(SharedFolder(tmp_path).packed(store).load(), DiskStore)


def test_a_worker_without_room_reads_the_store_and_the_driver_warns_once(local, store, tmp_path):
    (tmp_path / "near").write_text("a file, where a folder is needed")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with DaskExecutor(local.scheduler_address, 1, stripes=tmp_path / "near") as executor:
            made, _ = (whitened_by(executor, store, None, None) for _ in range(2))
    said = [str(each.message) for each in caught if "no more copies" in str(each.message)]
    assert 1 <= len(said) <= 2  # of each worker
    assert len(set(said)) == len(said)
    assert all(text.startswith("Worker ") and str(tmp_path / "near") in text for text in said)
    for one, other in zip(made.maps, whitened_by(clusters.serial(), store, None, None).maps, strict=True):
        np.testing.assert_array_equal(one, other)


def test_workers_get_the_same_groups_whoever_came_first():
    """Or the next fit would not find its copies."""
    one, other = (group_shares(range(100), workers) for workers in (["a", "b"], ["b", "a"]))
    assert one == other
    assert set(one) == {"a", "b"}
