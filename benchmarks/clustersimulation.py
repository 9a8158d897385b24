"""The driver against many workers that sleep: what it costs to hand out work and to add up what comes back.

Each of W workers, all in this process, sleeps for the time that the cost model (clustermodel.py) gives its share of one
evaluation of step 2, and answers with as many bytes as its sums would have. The driver does what it does in a fit:
hands out shares, waits, unpacks, adds up in the fixed order.

efficiency_W   modelled seconds of the work alone over seconds of the evaluation, with W workers. At 32: at least 0.7

`--quick`: fewer samples.
"""

import time
from typing import Any

import numpy as np
from clustermodel import Rates
from distributed import LocalCluster
from harness import Report, parser

from samekind.compute.dask import DaskExecutor
from samekind.compute.reduction import Node, reduced, total_of
from samekind.compute.site import Site
from samekind.compute.tiles import TilePlan


class SleepingSite(Site):
    """As much of a site as the driver needs to know."""

    def __init__(self, n: int, rank: int, token: str | None = None):
        super().__init__(token)
        self.n, self.rank = n, rank
        self.plan = TilePlan(n, 640)
        self.site = self
        self.objective = self

    def __reduce__(self) -> tuple[Any, ...]:
        return SleepingSite, (self.n, self.rank, self.token)


def added(first: Any, second: Any) -> Any:
    first += second
    return first


def sleep_on(site: SleepingSite, leaves: Any, seconds: float) -> list[Node]:
    """`seconds`: of all leaves."""
    costs = site.plan.leaf_costs
    time.sleep(seconds * sum(costs[leaf] for leaf in leaves) / sum(costs))
    return reduced((Node(0, leaf, np.ones((site.n, site.rank))) for leaf in leaves), added)


def main() -> None:
    given = parser(__doc__).parse_args()
    n, rank = (5_000, 50) if given.quick else (20_000, 50)
    report, rates = Report("clustersimulation"), Rates(5e10, 2e-9, 1e9, 0.01)
    work = 8 * (3 * n * n * rank / rates.flop + n * n / 2 * rates.pair)  # of 8 times as many dimensions
    for workers in (4, 16, 32):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
            DaskExecutor(cluster.scheduler_address, 1) as executor,
        ):
            site = SleepingSite(n, rank)
            seconds = []
            for _ in range(3):
                began = time.perf_counter()
                total_of([node for nodes in executor.over_leaves(site, sleep_on, work) for node in nodes], added)
                seconds.append(time.perf_counter() - began)
        costs = site.plan.leaf_costs
        alone = work / min(workers, len(costs))
        print(f"{workers} workers: {min(seconds):.2f} s, of which {alone:.2f} s are the work", flush=True)
        report.note(f"efficiency_{workers}", alone / min(seconds))
    report.hold("efficiency_32", report.numbers["efficiency_32"], at_least=0.0 if given.quick else 0.7)
    report.end()


if __name__ == "__main__":
    main()
