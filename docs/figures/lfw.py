"""Draws docs/figures/lfw.png, the ROC curves of docs/lfw.md: `python docs/figures/lfw.py WORK PROTOCOL PUBLISHED`.

WORK is the folder of a `samekind lfw --view 2` that ran through, PROTOCOL the one of LFW's protocol files, PUBLISHED
that of published curves with its `results.csv`. Left: ours and the paper's. Right: all methods at few false matches.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from samekind.evaluation import RocCurve, RocDisplay, verify_folds
from samekind.lfw.protocol import read_view2
from samekind.lfw.published import read_published

PICTURE = Path(__file__).with_suffix(".png")


def our_curves(work: Path, protocol: Path) -> dict[str, RocCurve]:
    """After step 2, of each family and of all together, from the distances that the folds left."""
    view2, folds = read_view2(protocol), sorted(work.glob("fold-*"))
    same = np.array([pair.same for pair in view2.pairs])
    curves = {}
    for path in sorted(folds[0].glob("step2-*.distances.npy"), key=lambda path: len(path.name)):
        families = path.name.removeprefix("step2-").removesuffix(".distances.npy").split("+")
        name = " + ".join(families) if len(families) < 3 else f"{len(families)} families"
        rows = np.stack([np.load(fold / path.name) for fold in folds])
        curves[f"samekind: {name}"] = verify_folds(rows, same, view2.fold_numbers + 1).roc
    return curves


def drawn(ours: dict[str, RocCurve], published: dict[str, RocCurve]) -> Figure:
    figure = Figure(figsize=(12, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    RocDisplay(ours, {name: roc for name, roc in published.items() if "the paper" in name}).plot(left)
    RocDisplay(ours, published).plot(right, lowest=1e-4)
    for at, line in enumerate(line for line in right.lines if line.get_label() in published):
        line.set(color=colormaps["tab20"](at % 20), linestyle="-" if at < 10 else "--")
    left.legend(frameon=False, loc="lower right", fontsize=8)
    right.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work", "protocol", "published"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    published = {each.method: each.roc for each in read_published(given.published)}
    drawn(our_curves(given.work, given.protocol), published).savefig(PICTURE, dpi=90)


if __name__ == "__main__":
    main()
