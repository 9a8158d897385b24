"""`samekind evaluate retrieval`"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from samekind.cli.options import ModelArgument, RunOptions
from samekind.cli.output import check_writable, duration, plural, say_facts, say_json, say_table, waiting

if TYPE_CHECKING:
    from samekind.kernels.types import Array, IntArray
    from samekind.model.metric import Metric
    from samekind.store import DiskStore


def evaluate_retrieval(
    model: ModelArgument,
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="Labelled pictures, as `samekind extract` wrote them.")
    ],
    *,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Text with a label per line: only their pictures are queries, all others in STORE are distractors.",
        ),
    ] = None,
    distractors: Annotated[
        list[Path] | None,
        typer.Option("--distractors", metavar="STORE", help="Store of more pictures to be mixed in; may be repeated."),
    ] = None,
    neighbors: Annotated[int, typer.Option("--neighbors", min=1, help="Of the leave-one-out k-NN error.")] = 3,
    at: Annotated[
        str, typer.Option("--at", help="Numbers of nearest for recall, CMC and average precision.")
    ] = "1,5,10",
    ties: Annotated[
        Literal["threshold", "best", "worst"],
        typer.Option(
            "--ties",
            help="Pictures at equal distances: all at the last of their places, or the relevant ones first or last.",
        ),
    ] = "threshold",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="HTML", help="Write the figures to this file as well.")
    ] = None,
    running: RunOptions,
) -> None:
    """Judge a model by what it finds: do pictures find the others of their label, among each other and among many more?

    Every picture of the store is a query; the others of its label are relevant. Distractors are compared with every
    query, and are never queries and never relevant, whatever their labels. A store may have been made with more regions
    than the model reads, not with others. How pictures are compared is the model's own; intervals (95 %) are over
    labels.

    Example: samekind evaluate retrieval faces.safetensors others.store

    Example: samekind evaluate retrieval faces.safetensors all.store --labels queries.txt --distractors crowd.store
    """
    from samekind.evaluation import evaluate_retrieval, write_report
    from samekind.model.metric import Metric

    started = time.perf_counter()
    if report is not None:
        check_writable(report)
    looked_at = _numbers(at)
    metric = Metric.load(model)
    with waiting("Reading descriptors", shown=not running.quiet):
        opened = _opened(store, running)
        queries, others = _split(opened, labels)
        codes = _codes(metric, opened, queries)
        mixed_in = [_codes(metric, opened, others)] if len(others) else []
        mixed_in += [_codes(metric, _opened(path, running)) for path in distractors or ()]
        judged = evaluate_retrieval(
            codes,
            opened.labels[queries],
            distractors=_joined(mixed_in),
            distance=metric.distance_function,
            n_neighbors=neighbors,
            at=looked_at,
            ties=ties,
            n_jobs=running.jobs,
        )
    if report is not None:
        write_report(report, f"samekind: {model.name} on {store.name}", judged.sections())
    result: dict[str, Any] = judged.to_json() | {
        "model": str(model),
        "store": str(store),
        "report": None if report is None else str(report),
        "seconds": round(time.perf_counter() - started, 3),
    }
    if running.json:
        say_json(result)
        return
    counts = judged.counts
    say_facts(
        [
            ("Model", model),
            ("Queries", f"{plural(counts['n_samples'], 'picture')} of {plural(counts['n_classes'], 'label')}"),
            ("Something to find", f"{counts['n_queries']:,} of them"),
            ("Distractors", f"{counts['n_distractors']:,}"),
            *([] if report is None else [("Report", report)]),
            ("Time", duration(result["seconds"])),
        ]
    )
    say_table("What queries find, with 95 % intervals over labels", judged.table())


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"--at {text!r}: give numbers of nearest pictures separated by commas, such as 1,5,10.")
    return [int(part) for part in parts]


def _opened(path: Path, running: RunOptions) -> DiskStore:
    from samekind.store import DiskStore

    store = DiskStore.open(path, n_jobs=running.jobs)
    if not store.complete:
        raise ValueError(
            f"The store {path} is unfinished: {len(store):,} of {store.planned:,} pictures are in it. Run the same "
            "`samekind extract` again to finish it."
        )
    return store


def _split(store: DiskStore, labels: Path | None) -> tuple[IntArray, IntArray]:
    """Rows of the queries, and of all others."""
    import numpy as np

    if labels is None:
        return np.arange(len(store)), np.arange(0)
    listed = [line.strip() for line in labels.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    unknown = sorted(set(listed) - set(store.labels.tolist()))
    if unknown or not listed:
        found = f"{unknown[0]!r} of {labels} is no label of {store.path}" if unknown else f"{labels} names no label"
        raise ValueError(f"{found}: give a label of the store on each line.")
    chosen = np.isin(store.labels, listed)
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


def _codes(metric: Metric, store: DiskStore, rows: IntArray | None = None) -> Array:
    import numpy as np

    from samekind.estimators.use import codes_in_use, reading

    moved, view = reading(metric, store)
    return codes_in_use(moved, view, np.arange(len(store)) if rows is None else rows)


def _joined(parts: list[Array]) -> Array | None:
    import numpy as np

    return np.concatenate(parts) if parts else None
