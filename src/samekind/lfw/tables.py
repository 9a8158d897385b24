"""What was found, as the paper's tables with our figures beside its own, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samekind.evaluation import FoldsResult, Table
from samekind.images.extractor import FAMILIES
from samekind.lfw import paper
from samekind.lfw.paper import Figure
from samekind.lfw.stages import Stage, stages_of
from samekind.lfw.study import Findings, Outcome

PAPERS_NAMES = {"cov": "CMD", "slbp": "SLBP"}
NOTHING = "–"


def table1(findings: Findings) -> Table:
    """D, rank and error after each step, family by family, as in the paper's Table 1."""
    sources = list(findings.outcomes[0].results)
    labels = ["D"]
    for step in (1, 2):
        labels += [f"step {step}: rank", *(f"step {step}: error ({source})" for source in sources)]
    columns = {"": labels}
    for stage in stages_of(findings.families):
        if stage.step == 2:
            columns[" + ".join(stage.families)] = _our_column(findings, stage.families)
            columns[_papers_name(stage.families)] = _papers_column(stage.families, len(sources))
    return Table(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def table2(findings: Findings) -> Table:
    """Accuracy in percent, the paper's rows (View 2) and ours after step 2, as in its Table 2."""
    rows = [[name, "view 1" if name.startswith("the paper") else None, *figure] for name, figure in _papers_rows()]
    for outcome in findings.outcomes:
        if outcome.stage.step == 2:
            name = f"samekind: {' + '.join(outcome.stage.families)}"
            rows += [[name, source, *_accuracy(result)] for source, result in outcome.results.items()]
    return Table(["", "threshold from", "accuracy (%)", "± (%)"], [list(map(_rounded, row)) for row in rows])


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
                "accuracies": result.accuracies.tolist(),
                "thresholds": result.thresholds.tolist(),
                "auc": result.auc,
                "eer": result.eer,
            }
            for source, result in outcome.results.items()
        ],
    }


def _our_column(findings: Findings, families: tuple[str, ...]) -> list[str]:
    outcomes = {outcome.stage: outcome for outcome in findings.outcomes}
    column = [_dimensions(findings, families)]
    for step in (1, 2):
        outcome = outcomes.get(Stage(step, families))
        n_sources = len(findings.outcomes[0].results)
        if outcome is None:
            column += [NOTHING] * (1 + n_sources)
        else:
            column.append(_text(_figure([facts["rank"] for facts in outcome.facts]), 0))
            column += [_text(_figure(1 - result.accuracies), 3) for result in outcome.results.values()]
    return column


def _papers_column(families: tuple[str, ...], n_sources: int) -> list[str]:
    """Its thresholds are from View 1, and stand beside our first."""
    column = [f"{paper.DIMENSIONS[families]:,}" if families in paper.DIMENSIONS else NOTHING]
    for step in (1, 2):
        column.append(_text(paper.RANKS[step].get(families), 0))
        column.append(_text(paper.ERRORS[step].get(families), 3))
        column += [NOTHING] * (n_sources - 1)
    return column


def _dimensions(findings: Findings, families: tuple[str, ...]) -> str:
    if len(families) > 1:
        return NOTHING
    size = FAMILIES[families[0]]().size
    return f"{findings.settings.regions * min(findings.settings.whiten, size):,}"


def _papers_name(families: tuple[str, ...]) -> str:
    return f"the paper's {'+'.join(PAPERS_NAMES.get(family, family) for family in families)}"


def _papers_rows() -> list[tuple[str, Figure]]:
    return list(paper.ACCURACIES.items())


def _accuracy(result: FoldsResult) -> Figure:
    return _figure(100 * result.accuracies)


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
