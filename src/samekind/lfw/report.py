"""The experiment's page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from samekind.evaluation import (
    CoverageDisplay,
    FoldsDisplay,
    FoldsResult,
    RegionsDisplay,
    RocDisplay,
    Section,
    Table,
    compare_folds,
    write_report,
)
from samekind.kernels.types import Array
from samekind.lfw.experiment import Findings, Outcome
from samekind.lfw.published import PublishedResult
from samekind.lfw.tables import curve_table, fold_table, published_table, table1, table2

DRAWN = 20  # regions drawn one by one

THRESHOLDS = {
    "training pairs": "View 1's training pairs, whose people the metric has learned from",
    "these pairs": "the test pairs themselves, which is slightly optimistic",
    "view 1": "View 1, as the paper's do: pairs of its test people, for a metric learned from its training people, "
    "some of whom are in the fold that is tested",
    "training folds": "the training folds: for each fold its own metric on the pairs of the other folds",
}

CHOSEN = {
    "logistic": "they are where a logistic regression on those pairs finds either answer as likely",
    "accuracy": "they are the best for those pairs",
}
DISTANCES = {
    "none": "those between the codes of pictures as they are",
    "mean": "those between codes of the means of a picture and its mirror image",
    "distances": "flip-free, as in the paper: means of the four between two pictures and their mirror images",
}


def write_lfw_report(
    path: str | os.PathLike[str],
    findings: Findings,
    faces: Mapping[str, Array],
    published: Sequence[PublishedResult] = (),
) -> Path:
    """One self-contained HTML file; `faces` are the mean pictures that families see, to draw regions on."""
    return write_report(path, f"samekind: LFW, View {findings.view}", list(_sections(findings, faces, published)))


def _sections(
    findings: Findings, faces: Mapping[str, Array], published: Sequence[PublishedResult]
) -> Iterator[Section]:
    first, *_ = findings.runs
    sources = "; and from ".join(THRESHOLDS[source] for source in findings.outcomes[0].results)
    splits = "the split" if findings.view == 1 else f"{len(findings.runs)} fold(s)"
    yield Section(
        "Ranks and errors after each step",
        f"As the paper's Table 1: mean ± standard deviation over {splits}; in brackets, where the threshold "
        f"comes from. Thresholds come from {sources}; {CHOSEN[findings.threshold_by]}. Distances are "
        f"{DISTANCES[findings.settings.mirror]}.",
        table1(findings),
    )
    yield Section(
        "Accuracy",
        "As the paper's Table 2, in percent; ± is the standard deviation over folds in the paper's rows and in ours, "
        "and probably the standard error, about a third of it, in those of others.",
        table2(findings),
    )
    yield Section(
        "At few false matches",
        "After step 2, in percent: area under the ROC curve, equal error rate, and true match rates (TMR) at false "
        "match rates of 1 in 100 and 1 in 1,000, with intervals of 95 % by a bootstrap over folds.",
        curve_table(findings),
    )
    yield Section("Split by split", "Accuracy after step 2, in percent.", fold_table(findings))
    if len(findings.runs) > 1:
        yield Section("All figures", "After each step, at each threshold.", compare_folds(_by_name(findings)))
    joint = [outcome for outcome in findings.outcomes if outcome.stage.step == 2]
    ours = {outcome.stage.title: _any_result(outcome).roc for outcome in joint}
    yield Section(
        "ROC",
        figure=RocDisplay(ours).plot().figure_,
        caption="True against false match rate of each family after step 2, and of all together.",
    )
    if published and findings.view == 2:
        yield Section(
            "Beside published results",
            "Methods of the same category (unrestricted, label-free outside data), as the paper's Figure 2: accuracy "
            "and standard error as printed, the other figures computed from the published curves.",
            published_table(findings, published),
            figure=RocDisplay(ours, {each.method: each.roc for each in published}).plot(lowest=1e-4).figure_,
            caption="True match rate against false match rate, on a logarithmic axis.",
        )
    if len(findings.runs) > 1:
        yield Section(
            "Folds",
            figure=FoldsDisplay({outcome.stage.title: _any_result(outcome) for outcome in joint}).plot().figure_,
            caption=f"Accuracy of each fold at thresholds from {next(iter(joint[0].results))}.",
        )
    yield from _regions(findings, faces, first.title)
    yield Section(
        "Settings",
        table=Table(
            ["setting", "value"],
            [
                ["regions", str(findings.settings.regions)],
                *([name, str(value)] for name, value in findings.settings.learner.items()),
            ],
        ),
    )
    yield Section("Time", "Of each stage, and of this run; what was there already took none.", _times(findings))


def _regions(findings: Findings, faces: Mapping[str, Array], title: str) -> Iterator[Section]:
    for outcome in findings.outcomes:
        if outcome.stage.step == 1:
            (family,) = outcome.stage.families
            face = faces[family]
            each = [[_rectangle(region) for region in facts["regions"][family]] for facts in outcome.facts]
            yield Section(
                f"Chosen regions: {family}",
                f"The first {min(DRAWN, len(each[0]))} of {len(each[0])} of {title}, over the mean face.",
                figure=RegionsDisplay(face, each[0][:DRAWN], negative=False).plot().figure_,
                caption=f"The first chosen {family} regions over the mean face; the first of all is the strongest.",
            )
            yield Section(
                f"Where the {family} regions lie",
                figure=CoverageDisplay(face.shape, [region for regions in each for region in regions]).plot().figure_,
                caption=f"How many of the chosen {family} regions, of all splits, cover each pixel.",
            )


def _times(findings: Findings) -> Table:
    rows: list[list[str | float | None]] = []
    for outcome in findings.outcomes:
        seconds = [float(facts["seconds"]) for facts in outcome.facts]
        rows.append([outcome.stage.title, sum(seconds) / len(seconds), findings.seconds.get(outcome.stage.title)])
    known = {outcome.stage.title for outcome in findings.outcomes}
    rows += [[what, None, seconds] for what, seconds in findings.seconds.items() if what not in known]
    return Table(["", "seconds a split", "seconds of this run"], rows)


def _by_name(findings: Findings) -> dict[str, FoldsResult]:
    return {
        f"{outcome.stage.title} ({source})": result
        for outcome in findings.outcomes
        for source, result in outcome.results.items()
    }


def _any_result(outcome: Outcome) -> FoldsResult:
    return next(iter(outcome.results.values()))


def _rectangle(region: Sequence[int]) -> tuple[int, int, int, int]:
    top, left, height, width = region
    return top, left, height, width
