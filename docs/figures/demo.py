"""Draws docs/figures/demo.png, the picture of the README: `python docs/figures/demo.py`, one to two minutes.

Runs the experiment of `samekind demo`. Left: the first regions that step 1 chose, over a picture of an unseen digit.
Right: ROC curves of all methods on pairs of unseen digits.
"""

import argparse
import tempfile
from pathlib import Path

from matplotlib.figure import Figure

from samekind.demo.report import DRAWN
from samekind.demo.study import Study, run_study
from samekind.evaluation import RegionsDisplay, RocDisplay

PICTURE = Path(__file__).with_suffix(".png")


def drawn(study: Study) -> Figure:
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    *panels, roc = figure.subplots(1, len(study.chosen) + 1, width_ratios=[1] * len(study.chosen) + [1.25])
    for ax, (family, regions) in zip(panels, study.chosen.items(), strict=True):
        RegionsDisplay(study.example, regions[:DRAWN]).plot(ax)
        ax.set_title(f"first {min(DRAWN, len(regions))} chosen {family} regions", fontsize=10)
    curves = {outcome.method: outcome.verification.roc for outcome in reversed(study.outcomes)}
    lines = RocDisplay(curves).plot(roc).lines_
    names = [f"{method} (AUC {curve.auc:.2f})" for method, curve in curves.items()]
    roc.legend(lines, names, frameon=False, loc="lower right", fontsize=8)
    roc.set_title("pairs of digits not in the training set", fontsize=10)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, help="threads; all cores by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        drawn(run_study(Path(folder), arguments.jobs, say=print)).savefig(PICTURE, dpi=100)


if __name__ == "__main__":
    main()
