"""mAP_QL by counting ranks: 2,000 queries of 60 people among 173,000 codes of 150 numbers, float32.

The sizes of the paper's retrieval experiment (section 4.2): Qry60 injected into LFWext. Peak memory is over what the
codes take. The sum for a few queries is compared with a sort of all their distances in float64.
"""

import numpy as np
from harness import PeakMemory, Report, parser, seconds_of

from samekind.evaluation import count_ranks

N_QUERIES, N_PEOPLE, LENGTH = 2000, 60, 150
TARGETS = {"seconds": 20, "mb": 500}


def made(n: int, n_people: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    people = np.arange(n) % n_people
    centres = rng.standard_normal((n_people, LENGTH), np.float32)
    return centres[people] + np.float32(1.5) * rng.standard_normal((n, LENGTH), np.float32), people


def by_sorting(codes: np.ndarray, people: np.ndarray, others: np.ndarray, query: int) -> float:
    """Average precision of one query."""
    every = np.concatenate([codes, others]).astype(np.float64)
    relevant = np.append(people == people[query], np.zeros(len(others), bool))
    distances = ((every - every[query]) ** 2).sum(axis=1)
    kept = np.arange(len(every)) != query
    ordered = relevant[kept][np.argsort(distances[kept], kind="stable")]
    ranks = 1 + np.flatnonzero(ordered)
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks))


def main() -> None:
    given = parser(__doc__).parse_args()
    n = 20_000 if given.quick else 171_000
    codes, people = made(N_QUERIES, N_PEOPLE, 0)
    others, _ = made(n, n // 36, 1)
    count_ranks(codes[:100], people[:100], distractors=others[:100])  # compiles
    found = []
    with PeakMemory() as peak:
        seconds = seconds_of(lambda: found.append(count_ranks(codes, people, distractors=others)))
    figures = found[0].figures()
    print(f"mAP_QL {figures.means()['average_precision']:.4f} in {seconds:.2f} s, {peak.extra:.0f} MB ({peak.how})")
    report = Report("ranks")
    checked = range(0, N_QUERIES, N_QUERIES // 10)
    wrong = max(abs(figures.average_precision[i] - by_sorting(codes, people, others, i)) for i in checked)
    report.hold("seconds", seconds, at_most=TARGETS["seconds"])
    report.hold("memory_mb", peak.extra, at_most=TARGETS["mb"])
    report.hold("largest_difference", wrong, at_most=1e-9)
    report.end()


if __name__ == "__main__":
    main()
