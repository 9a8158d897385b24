"""What was found, as the paper's tables with its figures beside ours, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samekind.evaluation import Table
from samekind.evaluation.retrieving import in_words
from samekind.lfw.retrieval import paper
from samekind.lfw.retrieval.experiment import Curve, Findings, Row, Scale
from samekind.lfw.retrieval.features import Figures
from samekind.lfw.retrieval.fits import Fit
from samekind.lfw.retrieval.people import people_in

NAMES = {"joint": "joint", "lmnn": "LMNN"}
ERROR, MAP_Q, MAP_QL = "3-NN error", "mAP_Q", "mAP_QL"


def cast_table(findings: Findings) -> Table:
    """Numbers of people and images by their role."""
    cast = findings.cast
    rows = [
        [title, people_in(images), len(images)]
        for title, images in (
            ("learned from", cast.train),
            ("queries", cast.queries),
            ("distractors", cast.distractors),
        )
    ]
    return Table(["", "people", "images"], rows)


def table3(findings: Findings) -> Table:
    """By target neighbours, as the paper's Table 3."""
    rows = []
    for row in findings.neighbors:
        known = paper.NEIGHBORS.get(row.neighbors or 0)
        papers = "–" if known is None else f"{known.error:.4f}, {known.map_q:.4f}, {known.map_ql:.4f}, {known.rank:,}"
        rows.append([_count(row.neighbors), *_texts(row.figures), _rank(row.fit), _how(row.fit), papers])
    return Table(["k", ERROR, MAP_Q, MAP_QL, "rank", "", "the paper: the same four"], rows)


def table4(cells: Mapping[str, Sequence[Row]]) -> Table:
    """Minutes (iterations) and peak memory of both learners, as the paper's Table 4, with its hours."""
    rows: list[list[Any]] = []
    for joint, lmnn in zip(cells["joint"], cells["lmnn"], strict=True):
        cell = (joint.dims, joint.neighbors or 0)
        rows.append(
            [
                joint.dims,
                joint.neighbors,
                joint.n_samples,
                *(text for row in (lmnn, joint) for text in (_minutes(row.fit), _memory(row.fit))),
                *(_hours(paper.HOURS[learner].get(cell)) for learner in ("lmnn", "joint")),
            ]
        )
    columns = ["dim", "k", "N", "LMNN", "MB", "joint", "MB", "the paper: LMNN", "the paper: joint"]
    return Table(columns, rows)


def figure4_table(cells: Mapping[str, Sequence[Row]]) -> Table:
    """Errors and mAP_Q of both learners, as the paper's Figure 4."""
    rows = []
    for joint, lmnn in zip(cells["joint"], cells["lmnn"], strict=True):
        both = [_short(row.figures, at) for at in (0, 1, 2) for row in (lmnn, joint)]
        rows.append([joint.dims, joint.neighbors, joint.n_people, *both])
    names = [f"{name}: {learner}" for name in (ERROR, MAP_Q, MAP_QL) for learner in NAMES.values()]
    in_order = [name for pair in zip(names[1::2], names[::2], strict=True) for name in pair]
    return Table(["dim", "k", "people", *in_order], rows)


def dimensions_table(findings: Findings) -> Table:
    """mAP_Q and mAP_QL by length of the codes, as the right of the paper's Figure 3."""
    rows = [
        [curve.name, length, *_texts(figures)]
        for curve in findings.curves
        for length, figures in zip(curve.lengths, curve.figures, strict=True)
    ]
    return Table(["", "numbers", ERROR, MAP_Q, MAP_QL], rows)


def trace_table(findings: Findings) -> Table:
    """Section 4.3's method, at each size that was run."""
    rows = []
    if findings.trace is not None:
        row = findings.trace
        rows.append([row.n_samples, row.dims, *_solved(row.fit), *_texts(row.figures)])
    for scale in findings.scales:
        if scale.trace is not None:
            rows.append([scale.n_samples, findings.settings.scale_dims, *_solved(scale.trace), *_texts(None)])
    return Table(["N", "D", "", "MB", "rank", "relative gap", ERROR, MAP_Q, MAP_QL], rows)


def as_json(findings: Findings) -> dict[str, Any]:
    cast = findings.cast
    return {
        "settings": findings.settings.to_json(),
        "people": {
            name: [people_in(images), len(images)]
            for name, images in (("train", cast.train), ("queries", cast.queries), ("distractors", cast.distractors))
        },
        "features": findings.n_features,
        "neighbors": [_row_json(row) for row in findings.neighbors],
        "cells": {learner: [_row_json(row) for row in rows] for learner, rows in findings.cells.items()},
        "steps": {
            learner: {"iterations": own.iterations, "seconds": own.seconds, "errors": own.errors}
            for learner, own in findings.steps.items()
        },
        "dimensions": [_curve_json(curve) for curve in findings.curves],
        "trace": None if findings.trace is None else _row_json(findings.trace),
        "scale": [_scale_json(scale) for scale in findings.scales],
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "neighbors": row.neighbors,
        "dims": row.dims,
        "samples": row.n_samples,
        "people": row.n_people or None,
        **_fit_json(row.fit),
        **_figures_json(row.figures),
    }


def _fit_json(fit: Fit) -> dict[str, Any]:
    if not fit.has_metric:
        return {"status": fit.status}
    return {
        "status": fit.status,
        "seconds": round(float(fit.seconds[-1]), 2),
        "iterations": int(fit.iterations[-1]),
        "rank": len(fit.metric),
        "peak_mb": round(fit.peak_mb, 1),
        **fit.facts,
    }


def _figures_json(figures: Figures | None) -> dict[str, Any]:
    return {} if figures is None else {name: measure._asdict() for name, measure in figures._asdict().items()}


def _curve_json(curve: Curve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "lengths": list(curve.lengths),
        "figures": [_figures_json(figures) for figures in curve.figures],
    }


def _scale_json(scale: Scale) -> dict[str, Any]:
    return {
        "samples": scale.n_samples,
        "cells": {learner: [_row_json(row) for row in rows] for learner, rows in scale.cells.items()},
        "trace": None if scale.trace is None else _fit_json(scale.trace),
    }


def _texts(figures: Figures | None) -> list[str | None]:
    return [None] * 3 if figures is None else [in_words(measure) for measure in figures]


def _short(figures: Figures | None, at: int) -> str | None:
    return None if figures is None else f"{figures[at].value:.4f}"


def _count(k: int | None) -> str:
    return "all" if k is None else str(k)


def _rank(fit: Fit) -> int | None:
    return len(fit.metric) if fit.has_metric else None


def _how(fit: Fit) -> str:
    """Time and iterations, and how the fit ended if not by itself."""
    if not fit.has_metric:
        return fit.status
    ended = "" if fit.status == "finished" and fit.facts.get("converged", True) else f", {_ending(fit)}"
    return f"{fit.seconds[-1]:.1f} s ({fit.iterations[-1]}){ended}"


def _ending(fit: Fit) -> str:
    return "not converged" if fit.status == "finished" else fit.status


def _minutes(fit: Fit) -> str:
    if not fit.has_metric:
        return fit.status
    ended = "" if fit.status == "finished" and fit.facts.get("converged", True) else f", {_ending(fit)}"
    return f"{fit.seconds[-1] / 60:.2f} min ({fit.iterations[-1]}){ended}"


def _memory(fit: Fit) -> int | None:
    return round(fit.peak_mb) if fit.has_metric else None


def _solved(fit: Fit) -> list[Any]:
    if not fit.has_metric:
        return [fit.status, None, None, None]
    return [_minutes(fit), _memory(fit), _rank(fit), f"{fit.facts['relative_gap']:.1e}"]


def _hours(cell: paper.Hours | None) -> str:
    if cell is None:
        return "–"
    return "out of memory" if cell.hours is None else f"{cell.hours} h ({cell.iterations})"
