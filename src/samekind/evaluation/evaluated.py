"""`Evaluation`: figures of a model on labelled samples of classes that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.evaluation._reliability import Tenth
from samekind.evaluation.verification import RocCurve

if TYPE_CHECKING:
    from samekind.evaluation.report import Section, Table

TITLES = {
    "accuracy": "Accuracy at the model's threshold",
    "best_accuracy": "Accuracy at the best threshold",
    "auc": "Area under the ROC curve",
    "eer": "Equal error rate",
    "true_match_rate_at_0.01": "True match rate at false match rate 0.01",
    "true_match_rate_at_0.001": "True match rate at false match rate 0.001",
    "mean_average_precision": "Mean average precision",
    "knn_error": "3-NN error",
    "recall_at_1": "Recall at 1",
    "r_precision": "R-precision",
}


class Measure(NamedTuple):
    """A figure with its 95 % interval by bootstrap over classes."""

    value: float
    low: float
    high: float


class RealisedRate(NamedTuple):
    """The false match rate that a threshold of the calibration has on these pairs, with its 95 % interval."""

    false_match_rate: float
    threshold: float
    realised: Measure


@dataclass(frozen=True)
class Evaluation:
    """Verification, retrieval and calibration of codes.

    `measures` has those of `TITLES` that are defined: no accuracy without a threshold, and no true match rate at a
    false match rate that the pairs cannot support. In accuracies both kinds of pairs weigh one half. In `tenths` pairs
    of large classes weigh less (`BothKinds.same_weights`), as when a calibration is fitted; elsewhere all count alike.
    """

    measures: Mapping[str, Measure]
    threshold: float | None
    best_threshold: float
    tenths: tuple[Tenth, ...]
    false_match_rates: tuple[RealisedRate, ...]
    n_classes: int
    n_samples: int
    n_same: int
    n_other: int
    n_queries: int
    roc: RocCurve = field(repr=False, compare=False)
    distances: NDArray[np.float64] = field(repr=False, compare=False)
    same: NDArray[np.bool_] = field(repr=False, compare=False)

    def __getitem__(self, name: str) -> Measure:
        if name not in self.measures:
            raise KeyError(f"{name!r} is not among {list(self.measures)}.")
        return self.measures[name]

    def to_json(self) -> dict[str, Any]:
        """Everything but the curve and the distances, in plain lists, numbers and texts."""
        return {
            "measures": {name: measure._asdict() for name, measure in self.measures.items()},
            "threshold": self.threshold,
            "best_threshold": self.best_threshold,
            "tenths": [tenth._asdict() for tenth in self.tenths],
            "false_match_rates": [
                {**rate._asdict(), "realised": rate.realised._asdict()} for rate in self.false_match_rates
            ],
            **self.counts,
        }

    @property
    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("n_classes", "n_samples", "n_same", "n_other", "n_queries")}

    def table(self) -> Table:
        """One row per measure."""
        from samekind.evaluation.report import Table

        rows = [[TITLES[name], *measure] for name, measure in self.measures.items()]
        return Table(["measure", "value", "from", "to"], rows)

    def sections(self) -> list[Section]:
        """For `write_report`: the table, the ROC curve, the distances, and whether probabilities are observed."""
        from samekind.evaluation.displays import DistanceHistogramDisplay, RocDisplay
        from samekind.evaluation.report import Section

        threshold = self.best_threshold if self.threshold is None else self.threshold
        histogram = DistanceHistogramDisplay(self.distances, self.same, threshold).plot().figure_
        whose = "best" if self.threshold is None else "model's"
        sections = [
            Section("Evaluation", text=self._text(), table=self.table()),
            Section(
                "Verification",
                figure=RocDisplay(self.roc).plot().figure_,
                caption="True match rate against false match rate at every threshold.",
            ),
            Section(
                "Distances",
                figure=histogram,
                caption=f"Squared distances of same-class and other-class pairs, and the {whose} threshold.",
            ),
        ]
        return sections + ([self._calibration_section()] if self.tenths else [])

    def _text(self) -> str:
        return (
            f"{self.n_samples:,} samples of {self.n_classes:,} classes that the model has not learned from: "
            f"{self.n_same:,} same-class and {self.n_other:,} other-class pairs, {self.n_queries:,} queries with "
            "something to find. Intervals hold 95 % of a bootstrap over classes."
        )

    def _calibration_section(self) -> Section:
        from samekind.evaluation.displays import CalibrationDisplay
        from samekind.evaluation.report import Section, Table

        rows = [[rate.false_match_rate, rate.threshold, *rate.realised] for rate in self.false_match_rates]
        return Section(
            "Calibration",
            text="False match rates that the model's thresholds are meant for, and those that they have here.",
            table=Table(["false match rate", "threshold", "here", "from", "to"], rows) if rows else None,
            figure=CalibrationDisplay(self.tenths).plot().figure_,
            caption="Observed share of same-class pairs against the predicted probability; on the diagonal they agree.",
        )
