"""Step 2 as in the paper's Table 4: minutes and iterations by dimensions and target neighbours, beside the paper's.

51,000 samples, 1,275 classes of 40, as in subLFWext; features like those of LFW (`lfwdata.LikeLFW` has the formula),
their 100 to 1,000 leading dimensions, 2% of the samples under another's name; k = 5, 10 and 30 target neighbours.
Triplet loss, beta = 1e6, ridge 1, no trace bound, `JointMetric(anchors="auto", memory_budget="1GB")`, the rest by
default. A like of Qry60, 60 other classes of 34, tells that the data are neither trivial nor hopeless: its
leave-one-out 3-NN error under plain distances and under the metric.

converged   share of the cells that converge: all
longest     minutes of the longest cell: at most 30
private_gb  peak of private memory (RssAnon) of the process: less than 4

`--cells 100x5,1000x30` runs these cells only (dimensions x neighbours). `--keep FILE` keeps results: run again, only
the other cells are fitted. `--quick`: 4,000 samples, 50 and 100 dimensions, k = 5; its minutes are held to 0.5.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, parser
from lfwdata import Kept, LikeLFW, PrivateMemory, nearest_error
from rich.console import Console

from samekind.estimators import JointMetric
from samekind.estimators.progress import ProgressLines

Cell = tuple[int, int]  # dimensions, target neighbours

PAPER = {  # hours, iterations
    (100, 5): (1.9, 71), (100, 10): (1.6, 60), (100, 30): (1.2, 45),
    (200, 5): (6.0, 190), (200, 10): (2.6, 80), (200, 30): (1.9, 59),
    (300, 5): (4.9, 119), (300, 10): (3.8, 99), (300, 30): (2.6, 70),
    (500, 5): (7.1, 130), (500, 10): (6.6, 119), (500, 30): (4.4, 81),
    (1000, 5): (10.3, 126), (1000, 10): (10.5, 130), (1000, 30): (7.6, 91),
}  # fmt: skip
CLASS_SIZE = 40
MISNAMED = 0.02
QUERIES = np.full(60, 34)


@dataclass(frozen=True)
class Size:
    n_classes: int
    cells: Sequence[Cell]
    minutes: float
    private_gb: float


FULL = Size(1_275, list(PAPER), minutes=30, private_gb=4)
QUICK = Size(100, [(50, 5), (100, 5)], minutes=0.5, private_gb=4)


def fitted(n_classes: int, cell: Cell) -> dict[str, Any]:
    """What one cell took and gave."""
    n_features, k = cell
    features = LikeLFW(n_features)
    X, y = features.samples(np.full(n_classes, CLASS_SIZE), MISNAMED)
    queries, names = features.samples(QUERIES)
    with PrivateMemory() as memory, ProgressLines(Console()) as lines:
        start = time.perf_counter()
        learner = JointMetric(
            loss="triplet",
            beta=1e6,
            ridge=1.0,
            n_neighbors=k,
            anchors="auto",
            memory_budget="1GB",
            random_state=0,
            callback=lines,
        ).fit(X, y)
        minutes = (time.perf_counter() - start) / 60
    on_all = sum(record["n_anchors"] == len(X) for record in learner.history_)
    return {
        "minutes": minutes,
        "iterations": learner.n_iter_,
        "on_all": on_all,
        "converged": bool(learner.converged_),
        "objective": float(learner.objective_),
        "gap": float(learner.certificate_.relative_gap),
        "rank": len(learner.metric_.components),
        "solver": learner.solver_,
        "error_before": nearest_error(queries, names),
        "error": nearest_error(learner.transform(queries), names),
        "private_gb": memory.peak,
    }


def show(cell: Cell, found: dict[str, Any]) -> None:
    hours, iterations = PAPER.get(cell, (float("nan"), 0))
    ours = f"{found['minutes']:7.2f} min ({found['iterations']:3} iterations, {found['on_all']:3} on all)"
    print(f"{cell[0]:4} x {cell[1]:2} {ours}   paper {hours:5.1f} h ({iterations:3})", end="   ")
    print("converged" if found["converged"] else "NOT converged", end=f" {found['solver']}, ")
    print(f"f {found['objective']:.5f}, gap {found['gap']:.1e}, rank {found['rank']}, 3-NN error", end=" ")
    print(f"{found['error_before']:.3f} -> {found['error']:.3f}, {found['private_gb']:.2f} GB", flush=True)


def show_table(found: dict[Cell, dict[str, Any]]) -> None:
    """As the paper has it: minutes (iterations), and the paper's hours (iterations)."""
    neighbors = sorted({k for _, k in found})
    print("dim   " + "".join(f"k = {k:<27}" for k in neighbors))
    for n_features in sorted({n for n, _ in found}):
        entries = []
        for k in neighbors:
            made, (hours, iterations) = found.get((n_features, k)), PAPER.get((n_features, k), (float("nan"), 0))
            ours = f"{made['minutes']:.2f} min ({made['iterations']})" if made else "-"
            entries.append(f"{ours:15}{hours:5} h ({iterations})".ljust(31))
        print(f"{n_features:<6}" + "".join(entries))


def run(size: Size, cells: Sequence[Cell], keep: Path | None, report: Report) -> None:
    print(f"{size.n_classes * CLASS_SIZE:,} samples, {size.n_classes:,} classes of {CLASS_SIZE}", flush=True)
    kept = Kept(keep, {"n_classes": size.n_classes})
    found = {}
    for cell in cells:
        found[cell] = kept.find(cell=list(cell)) or kept.add(cell=list(cell), **fitted(size.n_classes, cell))
        show(cell, found[cell])
    show_table(found)
    results = found.values()
    report.hold("converged", float(np.mean([one["converged"] for one in results])), at_least=1)
    report.hold("longest", max(one["minutes"] for one in results), at_most=size.minutes)
    report.hold("private_gb", max(one["private_gb"] for one in results), at_most=size.private_gb)
    hours = [PAPER[cell][0] / (one["minutes"] / 60) for cell, one in found.items() if cell in PAPER]
    if hours and size is FULL:
        report.note("faster_than_paper", float(np.exp(np.mean(np.log(hours)))))
    report.note("cells", len(found))
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--cells", help="such as 100x5,1000x30; all by default")
    options.add_argument("--keep", type=Path, metavar="FILE", help="JSON lines, to go on from when interrupted")
    given = options.parse_args()
    size = QUICK if given.quick else FULL
    cells = [tuple(map(int, cell.split("x"))) for cell in given.cells.split(",")] if given.cells else size.cells
    run(size, cells, given.keep, Report("table4"))


if __name__ == "__main__":
    main()
