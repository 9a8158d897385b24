"""What was found, as the paper's tables with our figures beside its own, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samekind.evaluation import FoldsResult, RocCurve, Table
from samekind.evaluation.verification import RATES
from samekind.images.extractor import FAMILIES
from samekind.images.levels import FamilyName
from samekind.lfw import paper
from samekind.lfw.experiment import Findings, Outcome
from samekind.lfw.paper import Figure
from samekind.lfw.published import PublishedResult
from samekind.lfw.stages import Stage

NOTHING = "–"
CURVE_COLUMNS = ["AUC (%)", "EER (%)", *(f"true match rate at {far:g} (%)" for far in RATES)]


def table1(findings: Findings) -> Table:
    """D, rank and error after each step, as in the paper's Table 1; its thresholds are from View 1."""
    sources = list(findings.outcomes[0].results)
    rows = []
    for outcome in findings.outcomes:
        stage = outcome.stage
        if stage.step == 1:
            empty = [NOTHING] * len(sources)
            ours, papers = _dimensions(findings, *stage.families), paper.DIMENSIONS.get(stage.families)
            rows.append([f"{stage.families[0]}, D", ours, *empty, f"{papers:,}" if papers else NOTHING, NOTHING])
        rows.append([stage.title, *_our_figures(outcome), *_papers_figures(stage)])
    return Table(["", "rank", *(f"error ({source})" for source in sources), "paper's rank", "paper's error"], rows)


def table2(findings: Findings) -> Table:
    """Accuracy in percent, the paper's rows (View 2) and ours after step 2, as in its Table 2."""
    rows: list[list[Any]] = [
        [name, "view 1" if name.startswith("the paper") else None, *figure] for name, figure in paper.ACCURACIES.items()
    ]
    for outcome in findings.outcomes:
        if outcome.stage.step == 2:
            figures = {source: _figure(100 * result.accuracies) for source, result in outcome.results.items()}
            rows += [[_our_name(outcome), source, *figure] for source, figure in figures.items()]
    return Table(["", "threshold from", "accuracy (%)", "± (%)"], [list(map(_rounded, row)) for row in rows])


def curve_table(findings: Findings) -> Table:
    """What the curves after step 2 say, in percent: area, equal error rate, true match rates at low false match rates.

    In brackets, intervals of 95 % by a bootstrap over folds.
    """
    rows = []
    for outcome in findings.outcomes:
        if outcome.stage.step == 2:
            result = next(iter(outcome.results.values()))  # curves do not depend on thresholds
            auc, eer, *rates = _on_curve(result.roc)
            shown = [f"{rate:.1f}{_bracket(result, far)}" for far, rate in zip(RATES, rates, strict=True)]
            rows.append([_our_name(outcome), f"{auc:.2f}", f"{eer:.2f}", *shown])
    return Table(["", "AUC", "EER", *(f"TMR at {far:g}" for far in RATES)], rows)


def _bracket(result: FoldsResult, far: float) -> str:
    interval = _interval(result, far)
    return "" if interval is None else f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"


def published_table(findings: Findings, published: Sequence[PublishedResult]) -> Table:
    """All methods, the weakest first: accuracy as printed, its standard error, and figures computed from the curves."""
    rows: list[list[Any]] = [
        [each.method, each.accuracy, each.standard_error, *_on_curve(each.roc)] for each in published
    ]
    for outcome in findings.outcomes:
        if outcome.stage.step == 2:
            result = next(iter(outcome.results.values()))
            rows.append(
                [_our_name(outcome), 100 * result.accuracy, 100 * result.standard_error, *_on_curve(result.roc)]
            )
    in_order = sorted(rows, key=lambda row: row[1])
    return Table(["", "accuracy (%)", "standard error", *CURVE_COLUMNS], [list(map(_rounded, row)) for row in in_order])


def _our_name(outcome: Outcome) -> str:
    return f"samekind: {' + '.join(outcome.stage.families)}"


def _on_curve(roc: RocCurve) -> list[float]:
    return [100 * roc.auc, 100 * roc.eer, *(100 * roc.true_match_rate_at(far) for far in RATES)]


def fold_table(findings: Findings) -> Table:
    """Accuracy in percent after step 2, split by split."""
    judged = [
        (f"{' + '.join(outcome.stage.families)}, threshold from {source}", 100 * result.accuracies)
        for outcome in findings.outcomes
        if outcome.stage.step == 2
        for source, result in outcome.results.items()
    ]
    rows = [[run.title, *(float(values[at]) for _, values in judged)] for at, run in enumerate(findings.runs)]
    return Table(["", *(name for name, _ in judged)], rows)


def as_json(findings: Findings) -> dict[str, Any]:
    return {
        "view": findings.view,
        "settings": findings.settings.to_json(),
        "threshold_by": findings.threshold_by,
        "splits": [run.title for run in findings.runs],
        "stages": [_stage_json(outcome) for outcome in findings.outcomes],
        "seconds": {what: round(seconds, 1) for what, seconds in findings.seconds.items()},
    }


def _stage_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "step": outcome.stage.step,
        "families": list(outcome.stage.families),
        "images": [facts["images"] for facts in outcome.facts],
        "ranks": [facts["rank"] for facts in outcome.facts],
        "seconds": [facts["seconds"] for facts in outcome.facts],
        "results": [
            {
                "threshold_from": source,
                "accuracy": result.accuracy,
                "standard_deviation": None if len(result.folds) < 2 else result.standard_deviation,
                "standard_error": None if len(result.folds) < 2 else result.standard_error,
                "accuracies": result.accuracies.tolist(),
                "thresholds": result.thresholds.tolist(),
                "auc": result.auc,
                "eer": result.eer,
                "true_match_rates": [
                    {"at": far, "is": result.roc.true_match_rate_at(far), "interval": _interval(result, far)}
                    for far in RATES
                ],
            }
            for source, result in outcome.results.items()
        ],
    }


def _interval(result: FoldsResult, far: float) -> list[float] | None:
    return list(result.true_match_interval(far)) if len(result.folds) > 1 else None


def _our_figures(outcome: Outcome) -> list[str]:
    errors = [_text(_figure(1 - result.accuracies), 3) for result in outcome.results.values()]
    return [_text(_figure([facts["rank"] for facts in outcome.facts]), 0), *errors]


def _papers_figures(stage: Stage) -> list[str]:
    return [
        _text(paper.RANKS[stage.step].get(stage.families), 0),
        _text(paper.ERRORS[stage.step].get(stage.families), 3),
    ]


def _dimensions(findings: Findings, family: str) -> str:
    whiten = findings.settings.learner.get("selection__whiten", "auto")
    size = FAMILIES[FamilyName.parse(family).kind].size
    return f"{findings.candidates[family] * (min(whiten, size) if isinstance(whiten, int) else size):,}"


def _figure(values: Sequence[float] | np.ndarray[Any, np.dtype[Any]]) -> Figure:
    """Mean and standard deviation, none of a single one."""
    return Figure(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


def _text(figure: Figure | None, places: int) -> str:
    if figure is None:
        return NOTHING
    spread = "" if figure.spread is None else f" ± {figure.spread:,.{places}f}"
    return f"{figure.mean:,.{places}f}{spread}"


def _rounded(cell: Any) -> Any:
    return round(cell, 2) if isinstance(cell, float) else cell
