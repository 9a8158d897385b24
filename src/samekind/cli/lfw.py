"""`samekind lfw`"""

import json as json_text
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table as RichTable

from samekind.cli.options import JobsOption, JsonOption, QuietOption, parse_anchors, parse_families, parse_ridge
from samekind.cli.output import (
    SECONDS_PER_LINE,
    Count,
    counting,
    duration,
    say,
    say_error,
    say_facts,
    say_json,
    say_list,
)

if TYPE_CHECKING:
    from samekind.evaluation import Table
    from samekind.solvers.events import Observer

INTERRUPTED = 130  # exit status, as that of every verb


def lfw(
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", help="Aligned pictures, such as IMAGES/Ann_Lee/Ann_Lee_0001.jpg.")
    ],
    protocol: Annotated[
        Path, typer.Argument(metavar="PROTOCOL", help="Folder of people.txt, pairs.txt and the four files of View 1.")
    ],
    view: Annotated[
        Literal["1", "2"],
        typer.Option("--view", help="1: one split, for choosing settings; 2: ten folds, for reporting."),
    ] = "1",
    preset: Annotated[
        Literal["quick", "standard", "full"],
        typer.Option("--preset", help="From 1,000, 4,000 or the paper's 13,260 regions a family."),
    ] = "quick",
    families: Annotated[str, typer.Option("--families", help="Kinds of descriptors: cov, slbp, or both.")] = "cov,slbp",
    work: Annotated[
        Path, typer.Option("--work", metavar="DIR", help="Folder of all results; the same command goes on with it.")
    ] = Path("samekind-lfw"),
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="DIR", help="Ready descriptors of `samekind extract`. Default: WORK/store."),
    ] = None,
    folds: Annotated[
        str | None, typer.Option("--folds", help="Of View 2, counted from 1: 1,2,5. Default: all.")
    ] = None,
    with_view1: Annotated[
        bool,
        typer.Option("--with-view1/--without-view1", help="Of View 2: also learn View 1, for the paper's threshold."),
    ] = True,
    regions: Annotated[
        int | None, typer.Option("--regions", min=1, help="Of each family, instead of the preset's.")
    ] = None,
    max_groups: Annotated[
        int | None, typer.Option("--max-groups", min=1, help="Regions chosen of each, instead of the preset's.")
    ] = None,
    roots: Annotated[
        bool | None, typer.Option("--roots/--no-roots", help="Learn from the square roots of slbp's histograms.")
    ] = None,
    min_images: Annotated[
        int | None, typer.Option("--min-images", min=1, help="Step 1 leaves people with fewer pictures out.")
    ] = None,
    max_images: Annotated[
        int | None, typer.Option("--max-images", min=0, help="Of a person, that step 1 learns from; 0: all.")
    ] = None,
    joint_min_images: Annotated[
        int | None, typer.Option("--joint-min-images", min=1, help="Step 2 leaves people with fewer pictures out.")
    ] = None,
    whiten: Annotated[
        int | None, typer.Option("--whiten", min=1, help="Dimensions kept of a region. Default: 45.")
    ] = None,
    pair_balance: Annotated[
        Literal["equal", "samples", "literal"] | None,
        typer.Option("--pair-balance", help="How pairs of one person weigh in the loss; samples: big classes less."),
    ] = None,
    threshold: Annotated[float | None, typer.Option("--threshold", help="Of the loss. Default: 14.")] = None,
    ridge: Annotated[str | None, typer.Option("--ridge", help="Of step 1: auto or a number.")] = None,
    joint_ridge: Annotated[str | None, typer.Option("--joint-ridge", help="Of step 2: auto or a number.")] = None,
    mirrored: Annotated[
        bool | None, typer.Option("--mirrored/--no-mirrored", help="Step 2 learns from mirror images as well.")
    ] = None,
    normalise_groups: Annotated[
        Literal["none", "root", "unit"] | None,
        typer.Option(
            "--normalise-groups", help="Features of each region divided by (the root of) their length before step 2."
        ),
    ] = None,
    weigh: Annotated[
        float | None,
        typer.Option(
            "--weigh", min=0, help="Power of step 1's weights that features keep in step 2. 0: none. Default: 0.5."
        ),
    ] = None,
    principal: Annotated[
        int | None,
        typer.Option("--principal", min=0, help="Principal features that step 2 learns from; 0: all. Default: 600."),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option("--components", min=0, help="Length of the final codes; 0: what the data ask for."),
    ] = None,
    anchors: Annotated[
        str | None, typer.Option("--anchors", help="Of step 2, as in `samekind fit`: auto, all, grow or a number.")
    ] = None,
    normalise: Annotated[
        Literal["none", "root", "unit"] | None,
        typer.Option("--normalise", help="Codes divided by (the square root of) their lengths."),
    ] = None,
    mirror_mean: Annotated[
        bool | None,
        typer.Option(
            "--mirror-mean/--flip-free",
            help="Compare codes of the mean of a picture and its mirror image, or by the paper's four distances.",
        ),
    ] = None,
    threshold_by: Annotated[
        Literal["logistic", "accuracy"],
        typer.Option(
            "--threshold-by", help="Pairs choose a threshold by a regression on them, or as is best for them."
        ),
    ] = "logistic",
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of all that is drawn at random.")] = None,
    memory: Annotated[str, typer.Option("--memory", help="Memory for pairs of pictures, such as 2GB.")] = "2GB",
    jobs: JobsOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Repeat the paper's experiment on Labeled Faces in the Wild, or on pictures with a protocol like its.

    For each split: step 1 chooses regions of each family of descriptors, step 2 learns a short code on them, for each
    family and for all together; pairs of pictures of other people are judged by their distances. Prints the
    paper's Tables 1 and 2 with the rows found here, and leaves models, figures and report.html in the --work folder.

    Everything can be interrupted, also killed: the same command goes on, and does not repeat what is finished. View 2
    also learns View 1, once, for its threshold.

    Example: samekind lfw lfw-a/ protocol/ --view 1

    Example: samekind lfw lfw-a/ protocol/ --view 2 --preset full --store lfw.store --work lfw.full --folds 1
    """
    from samekind.lfw.presets import PRESETS

    started = time.perf_counter()
    chosen = _checked_folds(folds, view)
    settings = PRESETS[preset].with_limits(n_components=components, principal=principal, max_images=max_images)
    settings = settings.changed(
        regions=regions,
        max_groups=max_groups,
        roots=roots,
        min_images=min_images,
        joint_min_images=joint_min_images,
        whiten=whiten,
        pair_balance=pair_balance,
        threshold=threshold,
        ridge=None if ridge is None else parse_ridge(ridge),
        mirrored=mirrored,
        normalise_groups=normalise_groups,
        weigh=weigh,
        joint_ridge=None if joint_ridge is None else parse_ridge(joint_ridge),
        anchors=None if anchors is None else parse_anchors(anchors),
        normalise=normalise,
        mirror_mean=mirror_mean,
        seed=seed,
    )

    from samekind.lfw.report import write_lfw_report
    from samekind.lfw.study import Study
    from samekind.lfw.tables import as_json, table1, table2

    study = Study(
        images,
        protocol,
        work,
        settings,
        families=parse_families(families),
        store=store,
        memory=memory,
        n_jobs=jobs,
        watch=_Shown(not quiet),
        threshold_by=threshold_by,
    )
    with warnings.catch_warnings(record=True) as caught, _interruptible(work):
        warnings.simplefilter("always", UserWarning)
        findings = study.view1() if view == "1" else study.view2(chosen, with_view1=with_view1)
    report = write_lfw_report(work / f"report-view{view}.html", findings, study.mean_face())
    result = as_json(findings) | {
        "work": str(work),
        "report": str(report),
        "warnings": list(dict.fromkeys(str(each.message) for each in caught)),
        "total_seconds": round(time.perf_counter() - started, 1),
    }
    _write_json(work / f"results-view{view}.json", result)
    if json:
        say_json(result)
        return
    _print_table("Ranks and errors after each step (the paper's Table 1)", table1(findings))
    _print_table("Accuracy (the paper's Table 2)", table2(findings))
    say_facts([("Report", report), ("Time", duration(result["total_seconds"]))])
    say_list("Warnings", result["warnings"])


class _Shown:
    """Progress on stderr: a bar with the time left, or, where no one watches, a line now and then."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown

    def say(self, line: str) -> None:
        if self.shown:
            say(line, stderr=True)

    @contextmanager
    def learning(self, title: str) -> Iterator["Observer | None"]:
        if not self.shown:
            yield None
            return
        from samekind.estimators.progress import ProgressBars, ProgressLines

        console, titles = Console(stderr=True), {"selection": title, "joint": title}
        with (
            ProgressBars(console, titles, first=f"{title}: reading descriptors")
            if console.is_terminal
            else ProgressLines(console, titles, SECONDS_PER_LINE)
        ) as display:
            yield display

    @contextmanager
    def counting(self, title: str) -> Iterator[Count]:
        with counting(title, self.shown) as count:
            yield count


def _checked_folds(text: str | None, view: str) -> list[int] | None:
    if text is None:
        return None
    if view == "1":
        raise ValueError("--folds belongs to --view 2: View 1 is one split. Leave it out, or give --view 2.")
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--folds {text!r}: give numbers of folds separated by commas, such as 1,2,5.")
    return [int(part) for part in parts]


def _print_table(title: str, table: "Table") -> None:
    shown = RichTable(title=title)
    for place, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if place else "left", no_wrap=not place)
    for row in table.texts:
        shown.add_row(*row)
    Console().print(shown)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    from samekind.files import write_whole

    write_whole(path, json_text.dumps(content, indent=1, allow_nan=False) + "\n")


@contextmanager
def _interruptible(work: Path) -> Iterator[None]:
    """Say after Ctrl-C what became of the work."""
    try:
        yield
    except KeyboardInterrupt as error:
        say_error(f"interrupted. The same command goes on with what is kept in {work}.")
        raise typer.Exit(INTERRUPTED) from error
