"""A fit whose only worker is cut off in the middle, for longer than all limits: run in the driver's namespace.

python -m tests.faults.partitioned ADDRESS NAMESPACE CABLE SECONDS
"""

import sys
import threading
import time

from samekind.compute import running
from samekind.compute.dask import DaskExecutor, Limits
from tests import clusters
from tests.faults.namespaces import Machine

LIMITS = Limits(connect=3, gone=100, silent=4)
CUT_AT = 5  # submissions of form_on


def main(address, namespace, cable, seconds):
    here = Machine(namespace, cable, address)
    data = clusters.planted()
    alone = clusters.selected(clusters.serial(), *data)
    submit, seen, healed = running.Run._submit, [], []

    def heal():
        here.plug("up")
        healed.append(time.monotonic())

    def submitting(run, *given, **options):
        submit(run, *given, **options)
        if run.operation.__name__ == "form_on":
            seen.append(time.monotonic())
            if len(seen) == CUT_AT:
                here.plug("down")
                threading.Timer(float(seconds), heal).start()

    with DaskExecutor(address, 1, limits=LIMITS) as executor:
        while not executor.workers:
            time.sleep(0.2)
        running.Run._submit = submitting
        found = clusters.selected(executor, *data)
        clusters.same_selection(found, alone)
        assert healed, "the fit ended before the cable was back"
        assert len(seen) > CUT_AT, "the fit ended before it was cut off"
        assert executor.given_up, "nobody noticed"
    print(f"given up: {executor.given_up}; on after {seen[CUT_AT] - healed[0]:.1f} s")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
