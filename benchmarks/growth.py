"""How the cost of both steps grows with N samples, K groups and D dimensions: slopes on log-log, by least squares.

Step 1 on covariance groups of LFW-a (training images of View 2, fold 1, whitened; pairwise loss, ridge 1): the mean of
the first two rounds, and what of it is search, `search="fast"` against "exact". The first round of the
fast search scores all groups, so that later rounds are cheaper than what is shown. Without `--store` a temporary one
is made of 2,000 regions (a minute or two, 2 GB).
Step 2 on features like those of LFW (`samekind.lfw.retrieval.synthetic.LikeLFW`; classes of 40, triplet loss, 20
components): a whole fit, `anchors="grow"` against "all".

NAME_factor      exact over fast (all over grow) seconds at the largest size: at least 1
NAME_slope_less  exact's slope less fast's (all's less grow's): at least 0; in N and K of the search, in N of the fit
Slopes of rounds and in D are noted.

`--write` puts docs/figures/growth.png and growth.csv there. `--quick` has fewer and smaller sizes; both ways are then
much the same work, so that it holds a factor of 0.8 and slopes within 0.2 of each other.
"""

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from harness import Report
from lfwdata import Clocks, Faces, Rows, faces, fitted, lfw_parser, people, some

from samekind.estimators import JointMetric
from samekind.lfw.retrieval.synthetic import LikeLFW
from samekind.solvers.selection.search import ExactSearch, LazySearch

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
ROUNDS, CLASS_SIZE = 2, 40
SEARCHES = {"exact": ExactSearch, "fast": LazySearch}
AXES = {"N": "samples N", "K": "groups K", "D": "dimensions D"}
Series = tuple[str, str, str]  # step, axis, way
Lines = dict[Series, tuple[list[int], list[float]]]  # sizes and seconds


@dataclass(frozen=True)
class Sizes:
    shares: Sequence[float]  # of the people: N of step 1
    n_groups: int  # while N grows
    groups: Sequence[int]
    share: float  # while K grows
    samples: Sequence[int]
    n_features: int  # while N of step 2 grows
    features: Sequence[int]
    n_samples: int  # while D grows
    n_components: int
    factor: float
    slope_less: float


FULL = Sizes(
    (0.08, 0.2, 0.5, 1.0), 250, (125, 250, 500, 1_000, 2_000), 0.25,
    (2_000, 4_000, 8_000, 16_000, 32_000), 100, (50, 100, 200, 400, 800), 5_000, 20, factor=1, slope_less=0,
)  # fmt: skip
QUICK = Sizes(
    (0.05, 0.1, 0.2), 64, (32, 64, 128), 0.1, (1_000, 2_000, 4_200), 40, (20, 40), 1_000, 5, 0.8, -0.2
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    step: str
    axis: str
    way: str
    size: int
    seconds: float
    fixed: str  # what else there is to know

    @property
    def series(self) -> Series:
        return self.step, self.axis, self.way


def rounds(found: Faces, rows: Rows, axis: str, groups: list[int]) -> Iterator[Point]:
    """The mean of the first rounds, as a whole and search only."""
    size, fixed = len(rows), f"K = {len(groups):,}"
    if axis == "K":
        size, fixed = len(groups), f"N = {len(rows):,}"
    for way, search in SEARCHES.items():
        clocks = Clocks()
        with clocks.on("search", search, "best"):
            fitted(found, rows, clocks, groups, search=way, max_groups=ROUNDS)
        yield Point("round", axis, way, size, clocks.seconds["rounds"] / ROUNDS, fixed)
        yield Point("search", axis, way, size, clocks.seconds["search"] / ROUNDS, fixed)


def step1(sizes: Sizes, store: Path | None) -> Iterator[Point]:
    _, *training = people()
    names = some(set().union(*training), max(sizes.shares))
    most = max(sizes.n_groups, *sizes.groups)
    with faces(store, most, names) as found:

        def of(share: float) -> Rows:
            return found.of(some(names, share / max(sizes.shares)))

        list(rounds(found, of(0.03), "N", list(range(4))))  # compiles
        for share in sizes.shares:
            yield from rounds(found, of(share), "N", spread(most, sizes.n_groups))
        for n_groups in sizes.groups:
            yield from rounds(found, of(sizes.share), "K", spread(most, n_groups))


def spread(n: int, k: int) -> list[int]:
    return (np.arange(k) * n // k).tolist()


def fits(axis: str, n_samples: int, n_features: int, n_components: int) -> Iterator[Point]:
    size, fixed = (n_samples, f"D = {n_features:,}") if axis == "N" else (n_features, f"N = {n_samples:,}")
    X, y = LikeLFW(n_features).samples(np.full(n_samples // CLASS_SIZE, CLASS_SIZE))
    for way in ["all", "grow"]:
        learner = JointMetric(n_components, loss="triplet", anchors=way, memory_budget="1GB", random_state=0)
        start = time.perf_counter()
        learner.fit(X, y)
        yield Point("fit", axis, way, size, time.perf_counter() - start, f"{fixed}, rank {n_components}")


def step2(sizes: Sizes) -> Iterator[Point]:
    list(fits("N", 400, 40, sizes.n_components))  # compiles
    for n_samples in sizes.samples:
        yield from fits("N", n_samples, sizes.n_features, sizes.n_components)
    for n_features in sizes.features:
        yield from fits("D", sizes.n_samples, n_features, sizes.n_components)


def measured(points: Iterator[Point]) -> list[Point]:
    made = []
    for point in points:
        made.append(point)
        size = f"{point.axis} = {point.size:6,} ({point.fixed})"
        print(f"{point.step:6} {size:36} {point.way:5} {point.seconds:9.3f} s", flush=True)
    return made


def by_series(points: Sequence[Point]) -> Lines:
    ordered = sorted(points, key=lambda point: (point.series, point.size))
    listed = {series: list(some) for series, some in groupby(ordered, key=lambda point: point.series)}
    return {series: ([p.size for p in some], [p.seconds for p in some]) for series, some in listed.items()}


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def hold(points: Sequence[Point], sizes: Sizes, report: Report) -> None:
    series = by_series(points)
    for (step, axis, way), (at, seconds) in series.items():
        report.note(f"{step}_{axis}_{way}_slope", slope(at, seconds))
    for step, axis, slow, fast in [
        ("search", "N", "exact", "fast"),
        ("search", "K", "exact", "fast"),
        ("round", "N", "exact", "fast"),
        ("fit", "N", "all", "grow"),
    ]:
        dear, cheap = series[step, axis, slow], series[step, axis, fast]
        report.hold(f"{step}_{axis}_factor", dear[1][-1] / cheap[1][-1], at_least=sizes.factor)
        if step != "round":
            report.hold(f"{step}_{axis}_slope_less", slope(*dear) - slope(*cheap), at_least=sizes.slope_less)


def write(points: Sequence[Point]) -> None:
    FIGURES.mkdir(exist_ok=True)
    with (FIGURES / "growth.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", "axis", "size", "way", "seconds", "fixed"])
        rows.writerows((p.step, p.axis, p.size, p.way, f"{p.seconds:.5g}", p.fixed) for p in points)
    draw(by_series(points), {(p.step, p.axis): p.fixed for p in points}, FIGURES / "growth.png")
    print(f"written: {FIGURES / 'growth.png'} and growth.csv")


def draw(series: Lines, fixed: dict[tuple[str, str], str], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    colours = {"exact": "tab:red", "all": "tab:red", "fast": "tab:blue", "grow": "tab:blue"}
    titles = {"round": "Step 1, a round", "fit": "Step 2, a fit"}
    figure, panels = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    drawn = [("round", "N"), ("round", "K"), ("fit", "N"), ("fit", "D")]
    for panel, (step, axis) in zip(panels.flat, drawn, strict=True):
        for (kind, along, way), (at, seconds) in series.items():
            if along == axis and kind in ({"round", "search"} if step == "round" else {step}):
                label = f"{way}{', search only' if kind == 'search' else ''}: slope {slope(at, seconds):.2f}"
                line = ":" if kind == "search" else "-"
                panel.plot(at, seconds, line, marker="o", markersize=4, color=colours[way], label=label)
                ticks = at
        panel.set(xscale="log", yscale="log", xlabel=AXES[axis], ylabel="seconds")
        panel.set_title(f"{titles[step]}: {fixed[step, axis]}")
        panel.xaxis.set_major_locator(FixedLocator(ticks))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def run(sizes: Sizes, store: Path | None, writes: bool, report: Report) -> None:
    points = measured(step1(sizes, store)) + measured(step2(sizes))
    if writes:
        write(points)
    hold(points, sizes, report)
    report.end()


def main() -> None:
    options = lfw_parser(__doc__)
    options.add_argument("--write", action="store_true", help=f"the figure and its numbers, to {FIGURES}")
    given = options.parse_args()
    run(QUICK if given.quick else FULL, given.store, given.write, Report("growth"))


if __name__ == "__main__":
    main()
