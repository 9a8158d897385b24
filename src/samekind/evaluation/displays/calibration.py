"""Whether predicted probabilities are observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from samekind.evaluation._reliability import Tenth, reliability
from samekind.evaluation.displays.figures import COLOURS, QUIET, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from samekind.model.calibration import Calibration


class CalibrationDisplay:
    """Observed share of same-class pairs against predicted probability, by tenths; on the diagonal they agree."""

    def __init__(self, tenths: Sequence[Tenth]) -> None:
        self.tenths = list(tenths)

    @classmethod
    def from_distances(
        cls,
        distances: ArrayLike,
        same: ArrayLike,
        calibration: Calibration,
        *,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> CalibrationDisplay:
        """Of what the calibration predicts for these squared distances."""
        return cls(reliability(calibration.probability(distances), same)).plot(ax=ax, name=name)

    def plot(self, ax: Axes | None = None, name: str | None = None) -> CalibrationDisplay:
        """Larger points stand for more pairs."""
        if not self.tenths:
            raise ValueError("There are no pairs to draw. Give the tenths of samekind.evaluation.reliability.")
        predicted, observed, n_pairs, _ = np.array(self.tenths).T
        self.ax_, self.figure_ = own_axes(ax)
        self.ax_.plot([0, 1], [0, 1], color=QUIET, linestyle=":", linewidth=1, zorder=0)
        (self.line_,) = self.ax_.plot(predicted, observed, color=COLOURS[0], linewidth=1, label=name)
        self.points_ = self.ax_.scatter(
            predicted, observed, s=15 + 85 * n_pairs / n_pairs.max(), color=COLOURS[0], zorder=2
        )
        self.ax_.set(
            xlabel="Predicted probability of same class",
            ylabel="Observed share of same class",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
        self.ax_.set_aspect("equal")
        if name is not None:
            self.ax_.legend(frameon=False, loc="upper left")
        return self
