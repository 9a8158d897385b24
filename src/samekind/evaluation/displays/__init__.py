"""Plots of computed values, in the manner of scikit-learn's Displays.

`plot` draws on the axes given, or on a new figure that belongs to no window and no global state. It is kept
as `figure_`, to be shown by a notebook or saved with `figure_.savefig`.
"""

from samekind.evaluation.displays.calibration import CalibrationDisplay
from samekind.evaluation.displays.explanation import ExplanationDisplay
from samekind.evaluation.displays.figures import figure_svg
from samekind.evaluation.displays.learning import ConvergenceDisplay, SpectrumDisplay
from samekind.evaluation.displays.lines import LinesDisplay
from samekind.evaluation.displays.regions import CoverageDisplay, RegionsDisplay
from samekind.evaluation.displays.verification import DistanceHistogramDisplay, FoldsDisplay, RocDisplay

__all__ = [
    "CalibrationDisplay",
    "ConvergenceDisplay",
    "CoverageDisplay",
    "DistanceHistogramDisplay",
    "ExplanationDisplay",
    "FoldsDisplay",
    "LinesDisplay",
    "RegionsDisplay",
    "RocDisplay",
    "SpectrumDisplay",
    "figure_svg",
]
