"""The paper's retrieval experiment on LFW-a: is joint learning ahead of LDA, PCA and plain features?

`samekind retrieval --preset standard`, its parts dimensions and trace: metrics learned from View 1's training people,
codes of 50, 100, 150 and 200 numbers cut from one solution, all on the same features of step 1. LDA gets more than
ours: of several numbers of principal features the best counts, at each length, chosen by the very queries.

ahead_q_N, ahead_ql_N              mAP_Q and mAP_QL of joint learning less those of the best of LDA, PCA and plain
                                   features (those that vary most), all of N numbers: at least 0
ahead_whole_q_N, ahead_whole_ql_N  the same less those of plain features with all their numbers: at least 0

`--scale 51000` runs all cells of Table 4 instead, on synthetic features (failed: none; converged: all; longest: at most
30 minutes; cell_gb: at most 4), `--trace 51000` section 4.3's own way at 2,513 dimensions (failed: no; trace_minutes:
at most 90; trace_gb: at most 8, without the data; its gap is noted). At other sizes both note the same, and hold
nothing.

`--store` is a store of LFW-a with covariance groups, `--work` keeps what is finished. `--quick` has a twelfth of the
people and few regions: too few for a comparison, so it holds only that every method ran.
"""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from harness import Report, parser
from lfwdata import DATA

from samekind.lfw.experiment import Experiment
from samekind.lfw.presets import ExperimentSettings
from samekind.lfw.retrieval.experiment import Findings, RetrievalExperiment, Scale
from samekind.lfw.retrieval.fits import Fit
from samekind.lfw.retrieval.settings import FACES, PRESETS, RetrievalSettings
from samekind.lfw.retrieval.tables import cast_table, dimensions_table, table4, trace_table

LENGTHS = (50, 100, 150, 200)
PAPERS_SAMPLES = 51_000
QUICK = replace(
    PRESETS["quick"],
    experiment=ExperimentSettings(60, FACES | {"max_groups": 6, "principal": 50}),
    share=1 / 12,
    final_dims=(20, 50),
    lda_dims=(50,),
)


def best(findings: Findings, length: int, figure: str) -> dict[str, float]:
    """Of joint learning and of the best other at a length, and of whole plain features; a metric of lower rank has its
    own."""
    found = {"joint": float("nan"), "other": float("-inf"), "whole": float("nan")}
    for curve in findings.curves:
        if curve.name.startswith("joint,"):
            continue
        values = dict(zip(curve.lengths, (getattr(own, figure).value for own in curve.figures), strict=True))
        if curve.name == "joint":
            found["joint"] = values[min(length, max(values))]
            continue
        found["other"] = max(values.get(length, float("-inf")), found["other"])
        if curve.name == "Euclidean":
            found["whole"] = values[max(values)]
    return found


def show(table) -> None:
    for row in [list(table.columns), *table.texts]:
        print(" | ".join(row))
    print(flush=True)


def compare(findings: Findings, quick: bool, report: Report) -> None:
    show(cast_table(findings))
    show(dimensions_table(findings))
    show(trace_table(findings))
    if quick:
        report.hold("curves", len(findings.curves), at_least=5)
        return
    for length in LENGTHS:
        for name, figure in (("q", "map_q"), ("ql", "map_ql")):
            found = best(findings, length, figure)
            report.note(f"joint_{name}_{length}", found["joint"])
            report.hold(f"ahead_{name}_{length}", found["joint"] - found["other"], at_least=0)
            report.hold(f"ahead_whole_{name}_{length}", found["joint"] - found["whole"], at_least=0)


def held_cells(scale: Scale, report: Report) -> None:
    show(table4(scale.cells))
    ours = [row.fit for row in scale.cells["joint"]]
    if any_failed(ours, report):
        return
    hold = report.hold if scale.n_samples == PAPERS_SAMPLES else noted(report)
    hold("converged", min(float(fit.facts.get("converged", False)) for fit in ours), at_least=1)
    hold("longest", max(fit.seconds[-1] / 60 for fit in ours), at_most=30)
    hold("cell_gb", max(fit.peak_mb / 1e3 for fit in ours), at_most=4)


def held_trace(scale: Scale, report: Report) -> None:
    if any_failed([scale.trace], report):
        return
    hold = report.hold if scale.n_samples == PAPERS_SAMPLES else noted(report)
    hold("trace_minutes", scale.trace.seconds[-1] / 60, at_most=90)
    hold("trace_gb", scale.trace.peak_mb / 1e3, at_most=8)
    report.note("trace_gap", scale.trace.facts["relative_gap"])
    report.note("trace_rank", len(scale.trace.metric))


def any_failed(fits: Sequence[Fit], report: Report) -> bool:
    """Whether some have no metric; says why."""
    failed = [fit.status for fit in fits if not fit.has_metric]
    for status in failed:
        print(status)
    report.hold("failed", len(failed), at_most=0)
    return bool(failed)


def noted(report: Report) -> Callable[..., None]:
    """In place of `report.hold`."""
    return lambda name, value, **target: report.note(name, value)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--store", type=Path, help="ready descriptors of LFW-a (else they are computed)")
    options.add_argument("--work", type=Path, help="to go on from when interrupted (else temporary)")
    options.add_argument("--scale", type=int, metavar="N", help="Table 4 at so many synthetic samples instead")
    options.add_argument("--trace", type=int, metavar="N", help="section 4.3 at so many synthetic samples instead")
    given = options.parse_args()
    settings: RetrievalSettings = QUICK if given.quick else PRESETS["standard"]
    report = Report("retrieval")
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = Experiment(
            DATA / "images", DATA / "protocol", work, settings.experiment, families=["cov"], store=given.store
        )
        experiment = RetrievalExperiment(base, settings)
        if given.scale:
            held_cells(experiment.scaled(given.scale, ["scale"]), report)
        if given.trace:
            held_trace(experiment.scaled(given.trace, ["scale-trace"]), report)
        if not (given.scale or given.trace):
            compare(experiment.run(("dimensions", "trace")), given.quick, report)
    report.end()


if __name__ == "__main__":
    main()
