"""`samekind lfw`"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from samekind.cli import experiments as shared
from samekind.cli.options import FitClusterOptions, LandmarksOption, LearnerOptions, MemoryOption, RunOptions
from samekind.cli.output import duration, say_facts, say_json, say_list, say_table

if TYPE_CHECKING:
    from samekind.lfw.experiment import Experiment, Findings
    from samekind.lfw.published import PublishedResult


@dataclass(frozen=True)
class DataOptions:
    """What there is, and where results go."""

    images: shared.ImagesArgument
    protocol: Annotated[
        Path, typer.Argument(metavar="PROTOCOL", help="Folder of people.txt, pairs.txt and the four files of View 1.")
    ]
    families: shared.FamiliesOption = "cov,slbp"
    work: shared.WorkOption = Path("samekind-lfw")
    store: shared.StoreOption = None
    landmarks: LandmarksOption = None


@dataclass(frozen=True)
class ViewOptions:
    """What is learned and judged."""

    view: Annotated[
        Literal["1", "2"],
        typer.Option("--view", help="1: one split, for choosing settings; 2: ten folds, for reporting."),
    ] = "1"
    folds: Annotated[str | None, typer.Option("--folds", help="Of View 2, counted from 1: 1,2,5. Default: all.")] = None
    with_view1: Annotated[
        bool,
        typer.Option("--with-view1/--without-view1", help="Of View 2: also learn View 1, for the paper's threshold."),
    ] = True
    threshold_by: Annotated[
        Literal["logistic", "accuracy"],
        typer.Option(
            "--threshold-by", help="Pairs choose a threshold by a regression on them, or as is best for them."
        ),
    ] = "logistic"
    published: Annotated[
        Path | None,
        typer.Option(
            "--published",
            metavar="DIR",
            help="Of View 2: curves of other methods for the report, with a results.csv that names them.",
        ),
    ] = None


@dataclass(frozen=True)
class ExperimentOptions:
    """How large it is."""

    preset: Annotated[
        Literal["quick", "standard", "full", "pictures", "faces", "paper"],
        typer.Option(
            "--preset",
            help="quick, standard, full: settings chosen on View 1, from 1,000, 4,000 or 13,260 regions a family; "
            "pictures, faces, paper: as in `samekind fit`.",
        ),
    ] = "quick"
    regions: shared.RegionsOption = None
    seed: shared.SeedOption = None


def lfw(
    data: DataOptions,
    judging: ViewOptions,
    sized: ExperimentOptions,
    learning: LearnerOptions,
    *,
    memory: MemoryOption = "2GB",
    computing: FitClusterOptions,
    running: RunOptions,
) -> None:
    """Repeat the paper's experiment on Labeled Faces in the Wild, or on pictures with a protocol like its.

    For each split: step 1 chooses regions of each family of descriptors, step 2 learns a short code on them, for each
    family and for all together; pairs of pictures of other people are judged by their distances. Prints the
    paper's Tables 1 and 2 with the rows found here, and leaves models, figures and report.html in the --work folder.

    Everything can be interrupted, also killed: the same command goes on, and does not repeat what is finished. View 2
    also learns View 1, once, for its threshold.

    Example: samekind lfw lfw-a/ protocol/ --view 1

    Example: samekind lfw lfw-a/ protocol/ --view 1 --landmarks lfw-a.csv

    Example: samekind lfw lfw-a/ protocol/ --view 2 --preset full --store lfw.store --work lfw.full --folds 1
    """
    from samekind.lfw.presets import PRESETS
    from samekind.lfw.published import read_published

    started = time.perf_counter()
    chosen = _checked_folds(judging.folds, judging.view)
    published = [] if judging.published is None else read_published(judging.published)
    given = learning.settings()
    settings = PRESETS[sized.preset].changed(learning.changes or (), regions=sized.regions, seed=sized.seed, **given)

    experiment = shared.experiment_on(data, settings, memory, running, threshold_by=judging.threshold_by)
    with shared.resumable(data.work) as said, computing.around(running.jobs):
        one_split = judging.view == "1"
        findings = experiment.view1() if one_split else experiment.view2(chosen, with_view1=judging.with_view1)
    result = _kept(experiment, findings, published) | {
        "warnings": said,
        "total_seconds": round(time.perf_counter() - started, 1),
    }
    shared.write_json(data.work / f"results-view{judging.view}.json", result)
    if running.json:
        say_json(result)
    else:
        _say_result(findings, result)


def _kept(experiment: "Experiment", findings: "Findings", published: Sequence["PublishedResult"]) -> dict[str, Any]:
    """Write the report, and say where it is and what was found."""
    from samekind.lfw.report import write_lfw_report
    from samekind.lfw.tables import as_json

    path = experiment.work / f"report-view{findings.view}.html"
    report = write_lfw_report(path, findings, experiment.mean_faces(), published)
    return as_json(findings) | {"work": str(experiment.work), "report": str(report)}


def _say_result(findings: "Findings", result: dict[str, Any]) -> None:
    from samekind.lfw.tables import curve_table, table1, table2

    say_table("Ranks and errors after each step (the paper's Table 1)", table1(findings))
    say_table("Accuracy (the paper's Table 2)", table2(findings))
    say_table("At few false matches (%)", curve_table(findings))
    say_facts([("Report", result["report"]), ("Time", duration(result["total_seconds"]))])
    say_list("Warnings", result["warnings"])


def _checked_folds(text: str | None, view: str) -> list[int] | None:
    if text is None:
        return None
    if view == "1":
        raise ValueError("--folds belongs to --view 2: View 1 is one split. Leave it out, or give --view 2.")
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--folds {text!r}: give numbers of folds separated by commas, such as 1,2,5.")
    return [int(part) for part in parts]
