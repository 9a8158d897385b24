"""Many kills over all verbs that write: `python -m tests.faults --kills 200`; status 1 where bytes differ."""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from tests.faults import harness  # noqa: E402

KILLS_OF_A_RUN = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, kills, tried, differ = random.Random(given.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        harness.prepare(home)
        undisturbed = harness.undisturbed(home)
        while kills < given.kills:
            target = rng.choice(list(harness.TARGETS.values()))
            expected, seconds = undisturbed[target.name]
            for _ in range(KILLS_OF_A_RUN):
                fault = harness.random_kill(rng, seconds)
                status, _ = harness.run(home, target.arguments, fault)
                kills += status < 0
                tried += 1
            status, said = harness.run(home, target.arguments)
            if status or target.left(home) != expected:
                differ += 1
                print(f"-- {target.name}: status {status}\n{said}")  # noqa: T201
            harness.forget(home)
    print(f"faults kills={kills} runs={tried} targets={len(harness.TARGETS)} differ={differ}")  # noqa: T201
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
