"""`samekind evaluate`"""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from samekind.cli.options import LabelledImagesArgument, ModelArgument, PictureOptions, RunOptions
from samekind.cli.output import (
    check_writable,
    duration,
    none_can,
    plural,
    say_facts,
    say_json,
    say_table,
)
from samekind.cli.pictures import encode_files, say_skipped

FEWEST = 4  # pictures that can be judged: each has three others as its nearest


def evaluate(
    model: ModelArgument,
    images: LabelledImagesArgument,
    *,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="HTML", help="Write figures and plots to this file as well.")
    ] = None,
    reading: PictureOptions,
    running: RunOptions,
) -> None:
    """Judge a model on labelled pictures, best of people (or kinds) that it has not learned from.

    Verification: are pairs judged right at the model's threshold, and how well could they be (AUC, equal error rate,
    true match rate at few false matches)? Retrieval: do a picture's nearest belong to its label? Calibration: is "90 %
    that they are the same" true nine times in ten, and does a threshold have its stated false match rate?
    Intervals (95 %) are over labels. How pictures are compared is the model's own.

    Example: samekind evaluate faces.safetensors others/ --report others.html
    """
    from samekind.evaluation import evaluate_codes, write_report
    from samekind.images.listing import list_images
    from samekind.model.metric import Metric

    started = time.perf_counter()
    if report is not None:
        check_writable(report)
    metric = Metric.load(model)
    files = list_images(images, labelled=True)
    encoded = encode_files(metric, files, reading.landmarks, reading, running)
    labels = [str(file.label) for file in files if file.name not in encoded.skipped]
    _check_labels(labels, len(files))
    judged = evaluate_codes(
        encoded.codes,
        labels,
        distance=metric.distance_function,
        calibration=metric.calibration,
        threshold=metric.threshold,
    )
    if report is not None:
        write_report(report, f"samekind: {model.name} on {images.name}", judged.sections())
    result: dict[str, Any] = judged.to_json() | {
        "model": str(model),
        "images": len(labels),
        "labels": len(set(labels)),
        "report": None if report is None else str(report),
        "skipped": encoded.skipped,
        "notes": encoded.notes,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if running.json:
        say_json(result)
        return
    say_facts(
        [
            ("Model", model),
            ("Judged on", f"{plural(result['images'], 'image')} of {plural(result['labels'], 'label')}"),
            *([] if report is None else [("Report", report)]),
            ("Time", duration(result["seconds"])),
        ]
    )
    say_table("How well it does, with 95 % intervals over labels", judged.table())
    say_skipped(result)


def _check_labels(labels: list[str], n_files: int) -> None:
    """Pairs of both kinds, and three neighbours of each picture, are needed."""
    n, n_labels = len(labels), len(set(labels))
    if not n:
        raise ValueError(f"{none_can(n_files, 'file')} be used, so there is nothing to judge.")
    if n_labels == 1:
        raise ValueError(f"All {plural(n, 'picture')} are of one label: give pictures of two labels at least.")
    if n_labels == n:
        raise ValueError(
            f"There are {n} labels with one picture each, so there is no pair of the same label: give several pictures "
            "of some labels."
        )
    if n < FEWEST:
        raise ValueError(f"{n} pictures are too few to judge a model by: give {FEWEST} at least.")
