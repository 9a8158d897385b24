"""Long runs: `python -m tests.fuzz --cases 100000` [--kinds models,pictures] [--first 0] [--seconds 600].

Prints a line of figures for each kind (as they grow, to stderr), and what was found with its seed; the exit status is 1
where anything was. A seed is run again by `--first SEED --cases 1`.
"""

import argparse
import os
import sys

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # threads do not survive a fork

from tests.fuzz.room import KINDS, report, run  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS), help="separated by commas")
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--seconds", type=float, default=None, help="of each kind at most")
    given = parser.parse_args()
    found = 0
    for kind in given.kinds.split(","):
        outcome = run(kind, given.first, given.cases, given.seconds, lambda so_far: report(so_far, sys.stderr))
        report(outcome)
        found += len(outcome.found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
