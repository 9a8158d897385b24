"""The page of the retrieval experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from samekind.evaluation import LinesDisplay, Section, Table, write_report
from samekind.lfw.retrieval.experiment import Findings
from samekind.lfw.retrieval.tables import (
    ERROR,
    MAP_Q,
    MAP_QL,
    NAMES,
    cast_table,
    dimensions_table,
    figure4_table,
    table3,
    table4,
    trace_table,
)


def write_retrieval_report(path: str | os.PathLike[str], findings: Findings) -> Path:
    """One self-contained HTML file."""
    return write_report(path, "samekind: retrieval on LFW", list(_sections(findings)))


def _sections(findings: Findings) -> Iterator[Section]:
    least, most = findings.settings.query_images
    described = "" if findings.n_features is None else f" Pictures are {findings.n_features:,} features after step 1."
    yield Section(
        "Queries and distractors",
        "The paper's own pictures for retrieval are not public. Here metrics are learned from View 1's training "
        f"people; its test people with {least} images or more are the queries, with their first {most} images; "
        f"everybody else is mixed in. {ERROR}: leave-one-out, among the queries. {MAP_Q} and {MAP_QL}: mean average "
        "precision of the queries among each other, and with everybody else mixed in. In brackets, 95 % "
        f"intervals by a bootstrap over people.{described}",
        cast_table(findings),
    )
    if findings.neighbors:
        yield Section(
            "Target neighbours",
            "As the paper's Table 3. People in LFW have few images: most have fewer than k others, and then all count.",
            table3(findings),
        )
    if findings.cells:
        yield from _lmnn(findings)
    if findings.curves:
        yield from _dimensions(findings)
    if findings.trace is not None or any(scale.trace for scale in findings.scales):
        yield Section(
            "Section 4.3's method",
            "tr A <= 6, ridge 1, solved to its optimum; then the leading 150 directions. The paper, at 171,509 x "
            "2,513: 27 hours on 8 servers, rank 800. The gap bounds how far the objective is from its optimum, in "
            "proportion. Sizes beyond LFW's are synthetic features.",
            trace_table(findings),
        )
    for scale in [each for each in findings.scales if each.cells]:
        yield Section(
            f"Times at {scale.n_samples:,} samples",
            "Table 4 again, on synthetic features with the spectrum of LFW's, classes of 40, 2 % of the samples "
            "misnamed, as many as in subLFWext.",
            table4(scale.cells),
        )
    settings = findings.settings.to_json()
    plain = {name: value for name, value in settings.items() if name != "learner"} | settings["learner"]
    yield Section("Settings", table=Table(["setting", "value"], [[name, str(value)] for name, value in plain.items()]))


def _lmnn(findings: Findings) -> Iterator[Section]:
    yield Section(
        "Joint learning against LMNN: time and memory",
        "As the paper's Table 4: minutes (iterations) of a fit, peak memory over that at its start, each fit in a "
        "process of its own. Both learn from people with more than k images, on the leading principal features. LMNN "
        "is metric-learn's with its defaults, 1,000 iterations at most; one that was cut off counts with what it had.",
        table4(findings.cells),
    )
    lines = {}
    for learner, rows in findings.cells.items():
        for k in dict.fromkeys(row.neighbors for row in rows):
            shown = [(row.dims, row.figures) for row in rows if row.neighbors == k and row.figures is not None]
            if shown:
                lines[f"{NAMES[learner]}, k = {k}"] = shown
    for at, name in ((0, ERROR), (1, MAP_Q)):
        drawn = {
            label: ([dims for dims, _ in shown], [figures[at].value for _, figures in shown])
            for label, shown in lines.items()
        }
        yield Section(
            f"Joint learning against LMNN: {name}",
            "As the paper's Figure 4." if drawn else "No metric was learned.",
            figure4_table(findings.cells) if at == 0 else None,
            figure=LinesDisplay(drawn, "dimensions", name).plot().figure_ if drawn else None,
            caption=f"{name} of both learners by the number of principal features, for each k.",
        )
    if findings.steps:
        steps = {NAMES[learner]: (own.iterations, own.errors) for learner, own in findings.steps.items()}
        yield Section(
            "Error against iterations",
            "As the left of the paper's Figure 3: the first cell of the table above.",
            figure=LinesDisplay(steps, "iterations", ERROR, logarithmic=True).plot().figure_,
            caption=f"{ERROR} of the metric of each iteration.",
        )


def _dimensions(findings: Findings) -> Iterator[Section]:
    several = [curve for curve in findings.curves if len(curve.lengths) > 1]
    drawn = {curve.name: (curve.lengths, [figures.map_ql.value for figures in curve.figures]) for curve in several}
    yield Section(
        "Final dimensions",
        "As the right of the paper's Figure 3: codes of several lengths, the leading directions of one solution each. "
        "All learn on the same features of step 1; LDA is given several numbers of principal features. The paper keeps "
        "the eigenvectors of a joint metric with the largest eigenvalues (by eigenvalue); otherwise the directions are "
        "kept along which codes of training images vary most. Euclidean: the features of step 1 themselves, those that "
        "vary most.",
        dimensions_table(findings),
        figure=LinesDisplay(drawn, "numbers in a code", MAP_QL).plot().figure_ if drawn else None,
        caption=f"{MAP_QL} by the length of codes.",
    )
