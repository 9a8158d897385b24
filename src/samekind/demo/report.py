"""The demo's page."""

import os

import numpy as np

from samekind.demo.study import COLUMNS, LEARNER, TRAINED, UNSEEN, Study
from samekind.evaluation import (
    ConvergenceDisplay,
    CoverageDisplay,
    RegionsDisplay,
    RocDisplay,
    Section,
    SpectrumDisplay,
    Table,
    write_report,
)

DRAWN = 8  # patches drawn one by one


def write_demo_report(path: str | os.PathLike[str], study: Study) -> None:
    """One self-contained HTML file: results, chosen patches, convergence, ROC, spectrum."""
    write_report(path, "samekind: the same digit?", _sections(study))


def _sections(study: Study) -> list[Section]:
    model = study.model
    light = "even" if study.evenly_lit else "uneven, and there is noise"
    by_name = {rectangle.name: rectangle for rectangle in study.features.rectangles}
    chosen = [by_name[name] for name in model.selected_group_names_]
    eigenvalues = (model.components_.astype(np.float64) ** 2).sum(axis=1)
    return [
        Section(
            "Results",
            f"Trained on the digits {TRAINED.start} to {TRAINED.stop - 1}, tested on {UNSEEN.start} to "
            f"{UNSEEN.stop - 1}, of which no method saw an image; the light is {light}. Each method was "
            "given the same features. Accuracy is that of calling pairs the same or not, half of them being the same, "
            "at a threshold from other images of the trained digits; EER is the error where false matches and false "
            "non-matches are equally frequent; mAP and 3-NN error are those of finding an image's own kind among all "
            "the other test images.",
            Table(COLUMNS, [outcome.values() for outcome in study.outcomes]),
        ),
        Section(
            "Chosen patches",
            f"Of {len(study.features.rectangles)} patches, {len(chosen)} were chosen; only these need to be looked at "
            f"when it counts. Here are the first {min(DRAWN, len(chosen))} over an unseen digit, the first strongest.",
            figure=RegionsDisplay(study.example, chosen[:DRAWN]).plot().figure_,
            caption="The first chosen patches as rectangles over a handwritten digit.",
        ),
        Section(
            "Where the patches lie",
            figure=CoverageDisplay(study.example.shape, chosen).plot().figure_,
            caption="How many of the chosen patches cover each pixel.",
        ),
        Section(
            "Convergence",
            "Step 1 lowers the objective by one patch a round; step 2 starts again from zero on what was chosen, and "
            "goes lower because it may join the patches.",
            figure=ConvergenceDisplay(model.history_).plot().figure_,
            caption="Objective against rounds of step 1 and iterations of step 2.",
        ),
        Section(
            "ROC on unseen digits",
            figure=RocDisplay({o.method: o.verification.roc for o in reversed(study.outcomes)}).plot().figure_,
            caption="True against false match rate of every method.",
        ),
        Section(
            "Spectrum",
            f"The {len(eigenvalues)} eigenvalues of the learned metric: how much each number of the code counts.",
            figure=SpectrumDisplay(eigenvalues).plot().figure_,
            caption="Eigenvalues of the learned metric, largest first.",
        ),
        Section(
            "Settings",
            table=Table(["parameter", "value"], [[name, str(value)] for name, value in LEARNER.items()]),
        ),
    ]
