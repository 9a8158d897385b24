"""`samekind retrieval`"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from samekind.cli import experiments as shared
from samekind.cli.options import LandmarksOption, LearnerOptions, MemoryOption, RunOptions
from samekind.cli.output import duration, say_facts, say_json, say_list, say_table

if TYPE_CHECKING:
    from samekind.lfw.retrieval.experiment import Findings, PartName, RetrievalExperiment


@dataclass(frozen=True)
class DataOptions:
    """What there is, and where results go."""

    images: shared.ImagesArgument
    protocol: Annotated[Path, typer.Argument(metavar="PROTOCOL", help="Folder of the four files of LFW's View 1.")]
    families: shared.FamiliesOption = "cov"
    work: shared.WorkOption = Path("samekind-retrieval")
    store: shared.StoreOption = None
    landmarks: LandmarksOption = None


@dataclass(frozen=True)
class PartOptions:
    """What is learned and compared."""

    preset: Annotated[
        Literal["quick", "standard", "paper"],
        typer.Option(
            "--preset",
            help="quick: a quarter of the people, 200 regions; standard: everybody, 2,000 regions; paper: the paper's "
            "settings, 13,260 regions.",
        ),
    ] = "quick"
    regions: shared.RegionsOption = None
    seed: shared.SeedOption = None
    parts: Annotated[
        str,
        typer.Option(
            "--parts",
            help="Some of neighbors (Table 3), lmnn (Table 4, Figures 3 and 4), dimensions (Figure 3), trace (section "
            "4.3), scale and scale-trace (times of Table 4 and of section 4.3 at --samples synthetic samples).",
        ),
    ] = "neighbors,lmnn,dimensions,trace"
    samples: Annotated[
        str, typer.Option("--samples", help="Of scale and scale-trace, such as 51000,171509: subLFWext's and LFWext's.")
    ] = "51000"
    query_images: Annotated[
        int | None, typer.Option("--query-images", min=2, help="Test people with so many images or more are queries.")
    ] = None


@dataclass(frozen=True)
class LimitOptions:
    """Of fits, each in a process of its own."""

    lmnn: Annotated[
        Path | None,
        typer.Option(
            "--lmnn",
            metavar="PYTHON",
            help="Interpreter that has metric-learn (pip install metric-learn 'scikit-learn<1.8'). Default: LMNN is "
            "not run, and the tables say so.",
        ),
    ] = None
    lmnn_minutes: Annotated[
        float | None, typer.Option("--lmnn-minutes", help="After which a fit of LMNN is cut off, and counts as it is.")
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option("--memory-limit", help="Memory of a fit, such as 16GB (the paper's): one that needs more fails."),
    ] = None


def retrieval(
    data: DataOptions,
    compared: PartOptions,
    limits: LimitOptions,
    learning: LearnerOptions,
    *,
    memory: MemoryOption = "1GB",
    running: RunOptions,
) -> None:
    """Repeat the paper's retrieval experiment on Labeled Faces in the Wild, as far as public pictures allow.

    Learns from View 1's training people; its test people with several images are queries, among each other and
    among everybody else. Prints the paper's Tables 3 and 4 and the figures behind its Figures 3 and 4, and leaves
    fits, figures, a model of 150 numbers and report.html in the --work folder.

    Everything can be interrupted, also killed: the same command goes on, and does not repeat fits that are finished.

    Example: samekind retrieval lfw-a/ protocol/

    Example: samekind retrieval lfw-a/ protocol/ --preset standard --work lfw.retrieval --lmnn lmnn/bin/python

    Example: samekind retrieval lfw-a/ protocol/ --work lfw.retrieval --parts scale,scale-trace --samples 51000
    """
    from samekind.lfw.retrieval.settings import PRESETS

    started = time.perf_counter()
    parts, samples = _parts(compared.parts), _samples(compared.samples)
    given = learning.settings()
    preset = PRESETS[compared.preset].changed(
        learning.changes or (), regions=compared.regions, seed=compared.seed, **given
    )
    settings = preset.with_query_images(compared.query_images)

    from samekind.compute.memory import parse_bytes
    from samekind.lfw.retrieval.experiment import RetrievalExperiment

    experiment = RetrievalExperiment(
        shared.experiment_on(data, settings.experiment, memory, running),
        settings,
        lmnn_python=None if limits.lmnn is None else _interpreter(limits.lmnn),
        lmnn_minutes=limits.lmnn_minutes,
        memory_limit=None if limits.memory_limit is None else parse_bytes(limits.memory_limit),
        samples=samples,
    )
    with shared.resumable(data.work) as said:
        findings = experiment.run(parts)
        result = _kept(experiment, findings)
    result |= {"warnings": said, "total_seconds": round(time.perf_counter() - started, 1)}
    shared.write_json(data.work / "results-retrieval.json", result)
    if running.json:
        say_json(result)
    else:
        _say_result(findings, result)


def _kept(experiment: "RetrievalExperiment", findings: "Findings") -> dict[str, Any]:
    """Write the report and the model, and say where they are and what was found."""
    from samekind.lfw.retrieval.report import write_retrieval_report
    from samekind.lfw.retrieval.tables import as_json

    model = None
    if findings.trace is not None and findings.trace.fit.has_metric:
        model = experiment.folder / "model.safetensors"
        experiment.model(findings.trace).save(model)
    report = write_retrieval_report(experiment.base.work / "report-retrieval.html", findings)
    return as_json(findings) | {
        "work": str(experiment.base.work),
        "report": str(report),
        "model": None if model is None else str(model),
    }


def _say_result(findings: "Findings", result: dict[str, Any]) -> None:
    from samekind.lfw.retrieval import tables

    say_table("Who takes part", tables.cast_table(findings))
    if findings.neighbors:
        say_table("Target neighbours (the paper's Table 3)", tables.table3(findings))
    if findings.cells:
        say_table("Minutes, iterations and memory (the paper's Table 4)", tables.table4(findings.cells))
        say_table("Joint learning against LMNN (the paper's Figure 4)", tables.figure4_table(findings.cells))
    if findings.curves:
        say_table("Final dimensions (the paper's Figure 3)", tables.dimensions_table(findings))
    if findings.trace is not None or any(scale.trace for scale in findings.scales):
        say_table("Section 4.3: tr A <= 6, its optimum, 150 directions", tables.trace_table(findings))
    for scale in [each for each in findings.scales if each.cells]:
        say_table(f"Times at {scale.n_samples:,} synthetic samples (Table 4)", tables.table4(scale.cells))
    facts = [("Report", result["report"]), *([("Model", result["model"])] if result["model"] else [])]
    say_facts([*facts, ("Time", duration(result["total_seconds"]))])
    say_list("Warnings", result["warnings"])


def _parts(text: str) -> "Sequence[PartName]":
    from samekind.lfw.retrieval.experiment import PARTS

    asked = [part.strip() for part in text.split(",")]
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise ValueError(f"--parts {text!r}: {unknown[0]!r} is none of {', '.join(PARTS)}.")
    return [part for part in PARTS if part in asked]


def _samples(text: str) -> list[int]:
    asked = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= FEWEST_SAMPLES for part in asked):
        raise ValueError(
            f"--samples {text!r}: give numbers of samples from {FEWEST_SAMPLES} on, separated by commas, such as 51000."
        )
    return [int(part) for part in asked]


FEWEST_SAMPLES = 1_000  # 25 classes of 40


def _interpreter(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(2, "There is no such Python interpreter for --lmnn", str(path))
    return str(path.absolute())
