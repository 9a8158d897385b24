"""The same bits from one thread, two threads, and the workers of a cluster in this process."""

import gc
import re
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from samekind.compute import site as room
from samekind.compute.executor import Executor
from samekind.compute.machine import description
from tests import clusters

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

from samekind import cluster  # noqa: E402
from samekind.compute.dask import ClusterError, DaskExecutor, Limits, warn_of_open_network  # noqa: E402


@pytest.fixture(scope="module", params=[1, 2, 4])
def executor(request):
    local = distributed.LocalCluster(
        n_workers=request.param, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with local, DaskExecutor(local.scheduler_address, 1) as made:
        yield made


@pytest.fixture(scope="module")
def data():
    return clusters.planted()


@pytest.fixture(scope="module")
def alone(data):
    """What one thread makes of each case."""
    made = {}

    def of(run, **options):
        key = run.__name__, *sorted(options.items())
        if key not in made:
            made[key] = run(clusters.serial(), *data, **options)
        return made[key]

    return of


CASES = {
    "pairwise": {"loss": "pairwise"},
    "triplet": {"loss": "triplet", "n_rounds": 2},
    "on anchors": {"loss": "pairwise", "memory": 1 << 20, "n_rounds": 2},
    "exact": {"loss": "triplet", "search": "exact", "n_rounds": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_step_1_is_the_same_in_every_bit(executor, alone, data, case):
    options = {"n_rounds": 3} | CASES[case]
    clusters.same_selection(clusters.selected(executor, *data, **options), alone(clusters.selected, **options))


@pytest.mark.parametrize("options", [{"solver": "convex"}, {"solver": "factored"}, {"anchors": 300}], ids=str)
@pytest.mark.parametrize("loss", clusters.LOSSES)
def test_step_2_is_the_same_in_every_bit(executor, alone, data, loss, options):
    options = options | {"loss": loss}
    clusters.same_joint(clusters.joined(executor, *data, **options), alone(clusters.joined, **options))


def test_two_threads_are_the_same_in_every_bit(alone, data):
    clusters.same_selection(clusters.selected(Executor(2), *data), alone(clusters.selected))
    clusters.same_joint(clusters.joined(Executor(2), *data), alone(clusters.joined))


def test_a_resume_on_another_executor_is_the_same_in_every_bit(executor, alone, data):
    whole, events, states = alone(clusters.selected)
    state = next(state for state in states if len(state.steps) == 2)
    for there in (executor, Executor(2)):
        resumed, later, _ = clusters.selected(there, *data, resume=state)
        assert later == events[2:]
        for k, block in whole.metric.blocks.items():
            np.testing.assert_array_equal(resumed.metric.blocks[k], block)
    whole, events, states = alone(clusters.joined)
    resumed, later, _ = clusters.joined(executor, *data, resume=states[2])
    np.testing.assert_array_equal(resumed.L, whole.L)
    assert later == events[-len(later) :]


def test_workers_let_go_of_a_fit_when_the_next_one_begins(executor, data):
    """At once: the present distances and weights of two fits would take twice the memory, and the first touch of fresh
    memory takes time."""
    gc.collect()
    before = {site for sites in room._sites.values() for site in sites}
    gc.disable()
    try:
        clusters.selected(executor, *data, n_rounds=1)
        first = [weakref.ref(sites[key]) for sites in room._sites.values() for key in sites.keys() - before]
        assert len(first) == len(executor.workers)
        clusters.selected(executor, *data, n_rounds=1)
        assert not [site for site in first if site() is not None]
    finally:
        gc.enable()


def test_results_that_were_taken_are_released(executor, data):
    clusters.selected(executor, *data, n_rounds=2)
    assert len(executor.done) <= len(executor.workers)  # those of the last operation wait for one that follows
    assert len(executor._client.futures) <= len(executor.workers)


def test_another_order_of_sums_is_noticed(monkeypatch, executor, data):
    """The mutation that these tests are for: the parts of a worker's leaves summed from the last to the first."""
    from samekind import objective

    def backwards(nodes, merge):
        nodes = list(nodes)
        part = nodes.pop().part
        while nodes:
            part = merge(nodes.pop().part, part)
        return [objective.Node(0, 0, part)]

    X, y = data[0].astype(np.float64), data[1]  # sums of float32 parts in float64 are mostly exact, in any order
    expected = clusters.joined(clusters.serial(), X, y)
    clusters.same_joint(clusters.joined(executor, X, y), expected)
    monkeypatch.setattr(objective, "reduced", backwards)
    monkeypatch.setattr(objective, "total_of", lambda nodes, merge: backwards(nodes, merge)[0].part)
    with pytest.raises(AssertionError):
        clusters.same_joint(clusters.joined(executor, X, y), expected)


def test_a_scheduler_that_does_not_answer_is_an_error_within_the_limit():
    address = f"tcp://127.0.0.1:{clusters.free_port()}"
    with pytest.raises(ClusterError, match="No scheduler answers"):
        DaskExecutor(address, limits=Limits(connect=0.5, gone=1.0))


def test_a_cluster_without_workers_is_an_error_within_the_limit(data):
    local = distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    with (
        local,
        DaskExecutor(local.scheduler_address, limits=Limits(gone=1.0)) as executor,
        pytest.raises(ClusterError, match="no worker"),
    ):
        clusters.selected(executor, *data)


def test_an_address_or_a_number_of_workers_is_needed():
    with pytest.raises(ValueError, match="either"), cluster():
        pass


@pytest.mark.parametrize(
    ("address", "warned"),
    [("tcp://10.0.0.1:8786", True), ("tcp://127.0.0.1:8786", False), ("tls://10.0.0.1:8786", False)],
)
def test_an_open_network_is_warned_of(address, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_open_network(address, None)
    assert bool(caught) == warned


def test_unlike_processors_are_warned_of(executor, monkeypatch):
    own = description()
    answer = SimpleNamespace(result=lambda timeout: own | {"processor": "another one"})
    with DaskExecutor(executor.address, 1) as fresh:  # which has not compared anybody yet
        monkeypatch.setattr(fresh._client, "submit", lambda *_, **__: answer)
        with pytest.warns(UserWarning, match=re.escape(f"processor another one instead of {own['processor']}")):
            fresh._compare(fresh.workers[:1])
