"""The demo's page."""

import os

import numpy as np

from samekind.demo.study import BASELINE_DIMS, LEARNER, TRAINED, UNSEEN, Study
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

DRAWN = 6  # regions drawn one by one


def write_demo_report(path: str | os.PathLike[str], study: Study) -> None:
    """One self-contained HTML file: results, chosen regions, convergence, ROC, spectrum."""
    write_report(path, "samekind: the same digit?", _sections(study))


def _sections(study: Study) -> list[Section]:
    model, chosen = study.model, study.chosen
    light = "even" if study.evenly_lit else "uneven, and there is noise"
    regions = [region for family in chosen.values() for region in family]
    counts = " and ".join(
        f"{len(mine)} of {len(study.store.families[family])} {family}" for family, mine in chosen.items()
    )
    assert model.metric_.components is not None
    eigenvalues = np.linalg.svd(model.metric_.components.astype(np.float64), compute_uv=False) ** 2
    return [
        Section(
            "Results",
            f"Trained on pictures of the digits {TRAINED.start} to {TRAINED.stop - 1}, tested on {UNSEEN.start} to "
            f"{UNSEEN.stop - 1}, which no method was trained on; the light is {light}. Each method was given the same "
            f"descriptors, whitened; LDA and NCA their {BASELINE_DIMS} leading principal components. Accuracy is that "
            "of calling pairs the same or not, half of them being the same, at a threshold from other pictures of the "
            "trained digits; EER is the error where false matches and false non-matches are equally frequent; mAP and "
            "3-NN error are those of finding a picture's own kind among all the other test pictures.",
            study.table(),
        ),
        *(
            Section(
                f"Chosen regions: {family}",
                f"The first {min(DRAWN, len(mine))} of {len(mine)} over a picture of an unseen digit.",
                figure=RegionsDisplay(study.example, mine[:DRAWN]).plot().figure_,
                caption=f"The first chosen {family} regions as rectangles over a handwritten digit.",
            )
            for family, mine in chosen.items()
        ),
        Section(
            "Where the regions lie",
            f"Chosen were {counts} groups; only these regions are computed when a picture is encoded.",
            figure=CoverageDisplay(study.example.shape, regions).plot().figure_,
            caption="How many of the chosen regions cover each pixel.",
        ),
        Section(
            "Convergence",
            "Step 1 lowers the objective by one region a round; step 2 starts from its metric on what was chosen, and "
            "may join the regions.",
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
            f"The {len(eigenvalues)} eigenvalues of the learned metric, on the features of the chosen regions.",
            figure=SpectrumDisplay(eigenvalues).plot().figure_,
            caption="Eigenvalues of the learned metric, largest first.",
        ),
        Section(
            "Settings",
            table=Table(["parameter", "value"], [[name, str(value)] for name, value in LEARNER.items()]),
        ),
    ]
