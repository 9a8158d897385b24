"""What the rank after step 1 depends on: directions per chosen group, on LFW's View 1, covariance descriptors.

The paper has 1,627 directions in 400 groups, four per group; `--preset paper` here has 19. Training people of View 1
with two images or more, at most four of each; 50 regions spread over the store's, 8 rounds. The base is the paper's
setting: 45 whitened dimensions, threshold 14, ridge 1, pairs of both kinds balanced. One setting is changed at a time.

base, threshold_3, ...  directions per group of each case. Nothing is held.

`--regions 1000 --rounds 400 --only base,threshold_3` shows how ranks fall over as many rounds as in the paper.
`--quick` has a quarter of the people, 20 regions and 3 rounds.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from harness import Report
from lfwdata import Clocks, Faces, Rows, faces, fitted, lfw_parser, people, some

CASES: dict[str, dict[str, Any]] = {
    "base": {},
    "threshold_1": {"threshold": 1.0},
    "threshold_3": {"threshold": 3.0},
    "threshold_100": {"threshold": 100.0},
    "ridge_0.1": {"ridge": 0.1},
    "ridge_0.01": {"ridge": 0.01},
    "whitened_20": {"whiten": 20},
    "not_whitened": {"whiten": None},
    "by_samples": {"pair_balance": "samples"},
    "not_balanced": {"pair_balance": "literal"},
}
MOST = 4  # images of a person


@dataclass(frozen=True)
class Size:
    share: float  # of the training people
    n_groups: int
    n_rounds: int


FULL, QUICK = Size(1.0, 50, 8), Size(0.25, 20, 3)


def rows_of(found: Faces, names: set[str]) -> Rows:
    """Of people with two images or more, the first few of each."""
    rows, sizes = found.of(names), Counter(found.labels.tolist())
    seen: Counter[str] = Counter()
    kept = []
    for row in rows.tolist():
        name = str(found.labels[row])
        seen[name] += 1
        if sizes[name] > 1 and seen[name] <= MOST:
            kept.append(row)
    return np.array(kept)


def by_rounds(ranks: list[int]) -> str:
    """Mean ranks of the groups of an eighth of the rounds, and so on."""
    return ", ".join(f"{np.mean(part):.1f}" for part in np.array_split(ranks, min(8, len(ranks))))


def main() -> None:
    arguments = lfw_parser(__doc__)
    arguments.add_argument("--regions", type=int, help="spread over those of the store")
    arguments.add_argument("--rounds", type=int)
    arguments.add_argument("--only", help=f"some cases: {', '.join(CASES)}")
    given = arguments.parse_args()
    size, report = QUICK if given.quick else FULL, Report("lfw_rank")
    size = replace(size, n_groups=given.regions or size.n_groups, n_rounds=given.rounds or size.n_rounds)
    cases = given.only.split(",") if given.only else list(CASES)
    names = some(people("peopleDevTrain")[0], size.share)
    with faces(given.store, size.n_groups, names) as found:
        rows = rows_of(found, names)
        print(f"{len(rows):,} images")
        for case in cases:
            settings = {"whiten": 45, "pair_balance": "equal", "max_groups": size.n_rounds} | CASES[case]
            learner, _ = fitted(found, rows, Clocks(), **settings)
            basis = learner.metric_.basis
            ranks = np.diff([*basis.starts, basis.n_codes]).tolist()
            rank = float(np.mean(ranks))
            print(
                f"{case}: {rank:.1f} directions in each of {len(ranks)} groups, f {learner.objective_:.4f}", flush=True
            )
            print(f"  in eighths of the groups, in order of selection: {by_rounds(ranks)}", flush=True)
            report.note(case, rank)
    report.end()


if __name__ == "__main__":
    main()
