"""Workers and scheduler as processes: whatever happens to them, fits end with the same bits, or an error in time."""

import errno
import os
import time

import numpy as np
import pytest

from tests import clusters, stores
from tests.faults import disks

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

from samekind.compute import running as running_room  # noqa: E402
from samekind.compute.dask import ClusterError, DaskExecutor, Limits  # noqa: E402
from samekind.compute.site import Site  # noqa: E402
from samekind.estimators.on_store import whitened_by  # noqa: E402

pytestmark = pytest.mark.slow

LIMITS = Limits(connect=3, gone=60, silent=4)
PHASES = {  # an operation, and which of its submissions
    "weights": ("form_on", 5),
    "scores": ("sketched_on", 3),
    "correction": ("cells_on", 3),
    "update": ("values_on", 9),
}


@pytest.fixture(scope="module")
def data():
    return clusters.planted()


@pytest.fixture(scope="module")
def alone(data):
    return clusters.selected(clusters.serial(), *data), clusters.joined(clusters.serial(), *data)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with clusters.Processes(tmp_path_factory.mktemp("cluster")) as processes:
        processes.start_workers("a", "b")
        with DaskExecutor(processes.address, 1, limits=LIMITS) as executor:
            processes.wait_for(executor, "a", "b")
            yield processes, executor


@pytest.fixture
def cluster(running):
    """Two workers, whatever an earlier test did to them."""
    processes, executor = running
    for name in ("a", "b"):
        if processes.workers[name].poll() is not None:
            processes.start_worker(name)
    processes.wait_for(executor, "a", "b")
    return running


@pytest.fixture
def at(monkeypatch):
    """Do something when an operation is submitted for the n-th time."""

    def planned(operation, number, action):
        submit, seen = running_room.Run._submit, []

        def submitting(run, *arguments, **options):
            submit(run, *arguments, **options)
            if run.operation.__name__ == operation:
                seen.append(time.monotonic())
                if len(seen) == number:
                    action()

        monkeypatch.setattr(running_room.Run, "_submit", submitting)
        return seen

    return planned


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_killed_in_step_1_changes_no_bit(cluster, alone, data, at, phase):
    processes, executor = cluster
    executor.given_up.clear()
    seen = at(*PHASES[phase], lambda: processes.kill("b"))
    clusters.same_selection(clusters.selected(executor, *data), alone[0])
    assert len(seen) > PHASES[phase][1], "the fit ended before the fault"
    assert "b" in executor.given_up


def test_a_worker_killed_in_step_2_changes_no_bit(cluster, alone, data, at):
    processes, executor = cluster
    seen = at("form_on", 5, lambda: processes.kill("b"))
    clusters.same_joint(clusters.joined(executor, *data), alone[1])
    assert len(seen) > 5


def test_a_hung_worker_loses_its_share_and_may_come_back(cluster, alone, data, at):
    processes, executor = cluster
    at("form_on", 5, lambda: processes.stop("b"))
    try:
        clusters.same_selection(clusters.selected(executor, *data), alone[0])
    finally:
        processes.go_on("b")
    processes.wait_for(executor, "a", "b")  # as after a partition that heals
    clusters.same_selection(clusters.selected(executor, *data), alone[0])


def test_a_worker_that_is_slow_for_a_while_keeps_its_share(cluster, alone, data, at):
    processes, executor = cluster
    executor.given_up.clear()

    def pause():
        processes.stop("b")
        time.sleep(1.0)
        processes.go_on("b")

    at("form_on", 5, pause)
    clusters.same_selection(clusters.selected(executor, *data), alone[0])
    assert not executor.given_up


def test_a_worker_that_comes_late_takes_a_part(cluster, alone, data, at):
    processes, executor = cluster
    processes.kill("b")

    def late():
        processes.start_worker("late")
        processes.wait_for(executor, "late")

    at("form_on", 5, late)
    clusters.same_selection(clusters.selected(executor, *data), alone[0])
    assert executor.traffic.received.get("late", 0) > 0
    processes.kill("late")


def test_a_restarted_scheduler_finds_its_workers_again(cluster, alone, data, at):
    processes, executor = cluster

    def restart():
        processes.scheduler.kill()
        processes.scheduler.wait()
        processes.start_scheduler()

    at("form_on", 5, restart)
    clusters.same_selection(clusters.selected(executor, *data), alone[0])


def test_a_worker_that_is_replaced_before_anybody_looks_is_not_waited_for(cluster, alone, data, at):
    """What was given to the process before is never done: the one of the same name has another address."""
    processes, executor = cluster

    def replaced():
        with distributed.Client(processes.address, set_as_default=False) as client:

            def address():
                workers = client.scheduler_info(n_workers=-1)["workers"]
                return next((at for at, worker in workers.items() if worker["name"] == "b"), None)

            before = address()
            processes.kill("b")
            processes.start_worker("b")
            for _ in range(clusters.STARTED_WITHIN * 5):
                if address() not in (None, before):
                    return
                time.sleep(0.2)
            raise TimeoutError("worker b did not come back")

    seen = at("sketched_on", 3, replaced)
    clusters.same_selection(clusters.selected(executor, *data), alone[0])
    assert len(seen) > 3, "the fit ended before the fault"


def test_random_kills_change_no_bit(cluster, alone, data, at):
    processes, executor = cluster
    rng = np.random.default_rng(int(os.environ.get("SAMEKIND_KILLS_SEED", "0")))
    for _ in range(int(os.environ.get("SAMEKIND_KILLS", "2"))):
        name = str(rng.choice(["a", "b"]))
        operation = str(rng.choice(["form_on", "values_on", "sketched_on", "cells_on"]))

        def kill(name=name):
            processes.kill(name)
            processes.start_worker(name)

        with pytest.MonkeyPatch.context() as patch:
            submit, left = running_room.Run._submit, [int(rng.integers(1, 8))]

            def submitting(run, *given, submit=submit, left=left, operation=operation, kill=kill, **options):
                submit(run, *given, **options)
                left[0] -= run.operation.__name__ == operation
                if left[0] == 0:
                    left[0] = -1
                    kill()

            patch.setattr(running_room.Run, "_submit", submitting)
            clusters.same_selection(clusters.selected(executor, *data), alone[0])
        processes.wait_for(executor, "a", "b")


def test_an_unreadable_part_of_the_store_is_named(cluster, tmp_path):
    _, executor = cluster
    X, y = clusters.planted(20, 3, 4)
    store = stores.disk_store(tmp_path / "store", np.abs(X), y, {"a": 4})
    damaged = sorted((tmp_path / "store").glob("*.npy"))[1]
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 64
    damaged.write_bytes(bytes(content))
    with pytest.raises(ClusterError, match=rf"Worker [ab] .*{damaged.name}"):
        whitened_by(executor, store, 4, None)


def test_a_worker_whose_disk_fills_up_with_copies_is_named_and_changes_no_bit(cluster, data, tmp_path):
    processes, _ = cluster
    X, y = data
    store = stores.disk_store(tmp_path / "store", X, y, {"a": 4}, shard_rows=300)
    alone = clusters.selected(clusters.serial(), X, y, store=store)
    (tmp_path / "nothing").mkdir()
    with disks.small_disk(tmp_path / "disk", tmp_path / "nothing") as change:
        change(disks.size(store.nbytes // 2))
        with (
            DaskExecutor(processes.address, 1, stripes=tmp_path / "disk", limits=LIMITS) as executor,
            pytest.warns(UserWarning, match=r"Worker [ab]: .*disk on .* takes no more copies .*No space left"),
        ):
            clusters.same_selection(clusters.selected(executor, X, y, store=store), alone)
        assert list((tmp_path / "disk").rglob("*.group"))
        assert not list((tmp_path / "disk").rglob("*.tmp"))


class NothingSite(Site):
    """Nothing but a name."""

    def __init__(self, token=None):
        super().__init__(token)
        self.objective = self

    def __reduce__(self):
        return NothingSite, (self.token,)


def on_a_full_disk(site, share):
    if "SAMEKIND_TEST_FULL" in os.environ:
        raise OSError(errno.ENOSPC, "No space left on device", "/scratch")
    return list(share)


def test_what_fails_on_one_worker_is_tried_on_another(cluster, monkeypatch):
    processes, executor = cluster
    processes.kill("b")
    monkeypatch.setenv("SAMEKIND_TEST_FULL", "1")
    processes.start_worker("b")
    monkeypatch.delenv("SAMEKIND_TEST_FULL")
    processes.wait_for(executor, "a", "b")
    done = [item for _, result in executor.over_items(NothingSite(), on_a_full_disk, range(4), 1) for item in result]
    assert sorted(done) == [0, 1, 2, 3]
    processes.kill("a")
    while "a" in executor.workers:
        time.sleep(0.2)
    with pytest.raises(ClusterError, match=r"Worker b .*No space left on device: '/scratch'"):
        list(executor.over_items(NothingSite(), on_a_full_disk, range(4), 1))
    processes.kill("b")
