"""The estimators on a cluster: compute=, the cluster around, whitening and neighbours there."""

import numpy as np
import pytest
from sklearn.base import clone

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric, cluster
from samekind.compute.cluster import current_executor
from samekind.compute.executor import Executor
from samekind.estimators.on_store import StorePanels, whitened_by, with_neighbors_by
from samekind.relation import Relation
from samekind.store import Whitening
from tests import clusters, stores
from tests.cases import with_sizes

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as local:
        yield local.scheduler_address


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    X, y = clusters.planted(40, 6, 12)
    return stores.disk_store(tmp_path_factory.mktemp("cluster") / "store", np.abs(X), y, {"a": 4, "b": 6}, 50), y


def sent(learner):
    """One that lets small data leave the process."""
    return with_sizes(learner, few_samples=10)


def comparable(history):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


@pytest.mark.parametrize(
    "learner",
    [
        sent(SparseBlockMetric(max_groups=3, random_state=0, loss="triplet", n_neighbors=2)),
        sent(JointMetric(4, max_iter=5, random_state=0)),
        sent(EnsembleMetric(max_groups=2, n_components=3, cv=None, random_state=0)),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_learn_the_same_on_a_cluster(address, case, learner):
    alone = clone(learner).set_params(n_jobs=1).fit(*case)
    with cluster(address, n_jobs=1) as compute:
        around = clone(learner).fit(*case)
        assert sum(compute.traffic.received.values()) > 20_000  # the pairs too, not only what is small
    with cluster(address, n_jobs=1) as compute:
        given = clone(learner).set_params(compute=compute).fit(*case)
    for made in (around, given):
        np.testing.assert_array_equal(made.transform(case[0]), alone.transform(case[0]))
        assert comparable(made.history_) == comparable(alone.history_)


def test_whitening_on_a_cluster_is_the_same(address, case):
    store, _ = case
    with cluster(address) as compute:
        there = whitened_by(compute, store, 3, None)
    here = Whitening.learned(store, np.arange(len(store)), dims=3)
    for one, other in zip(here.means + here.maps, there.means + there.maps, strict=True):
        np.testing.assert_array_equal(one, other)


def test_neighbours_on_a_cluster_are_the_same(address, case):
    store, y = case
    relation = Relation.from_labels(y)
    panels = StorePanels(store, range(len(store.group_sizes)), relation.order)
    with cluster(address) as compute:
        there = with_neighbors_by(compute, panels, relation, 2, 1 << 20)
    np.testing.assert_array_equal(there.neighbors, relation.with_neighbors(panels, 2, 1 << 20).neighbors)


def test_what_is_no_executor_is_refused(case):
    with pytest.raises(ValueError, match=r"samekind\.cluster"):
        SparseBlockMetric(compute="tcp://127.0.0.1:1").fit(*case)


def test_a_checkpoint_of_threads_goes_on_on_a_cluster(address, case, tmp_path):
    learner = sent(SparseBlockMetric(max_groups=4, random_state=0, n_jobs=1))
    whole = clone(learner).fit(*case)
    stopped = clone(learner).set_params(checkpoint=tmp_path / "fit", callback=lambda event: event.iteration == 2)
    stopped.fit(*case)
    with cluster(address):
        resumed = clone(learner).set_params(checkpoint=tmp_path / "fit").fit(*case)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    assert comparable(resumed.history_) == comparable(whole.history_)


def test_threads_are_taken_where_there_is_no_cluster():
    assert type(current_executor(2)) is Executor
