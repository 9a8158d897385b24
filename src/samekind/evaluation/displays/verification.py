"""How well distances tell pairs apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from samekind.evaluation._checks import check_pairs
from samekind.evaluation.displays.figures import OTHER_COLOUR, QUIET, SAME_COLOUR, colour_of, own_axes
from samekind.evaluation.folds import FoldsResult, verify_folds
from samekind.evaluation.verification import RocCurve, roc_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class _PairMetric(Protocol):
    def pair_distance(self, pairs: Any) -> ArrayLike: ...


class RocDisplay:
    """True against false match rate, of one curve or of several by name; and of others' to stand behind them, thin."""

    def __init__(self, roc: RocCurve | Mapping[str, RocCurve], others: Mapping[str, RocCurve] | None = None) -> None:
        self.roc = roc
        self.others = others or {}

    @classmethod
    def from_distances(
        cls, distances: ArrayLike, same: ArrayLike, *, ax: Axes | None = None, name: str | None = None
    ) -> RocDisplay:
        return cls(roc_curve(distances, same)).plot(ax=ax, name=name)

    @classmethod
    def from_estimator(
        cls,
        estimator: _PairMetric,
        pairs: Any,
        same: ArrayLike,
        *,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> RocDisplay:
        """The curve of `estimator.pair_distance(pairs)`, under the estimator's name unless one is given."""
        shown = type(estimator).__name__ if name is None else name
        return cls.from_distances(estimator.pair_distance(pairs), same, ax=ax, name=shown)

    def plot(self, ax: Axes | None = None, name: str | None = None, *, lowest: float | None = None) -> RocDisplay:
        """`name` labels a single curve; several have theirs already. `lowest`: a logarithmic axis from this rate on."""
        self.ax_, self.figure_ = own_axes(ax)
        self.lines_: list[Line2D] = []
        for label, roc in self.others.items():
            self.lines_ += self.ax_.plot(roc.false_match_rate, roc.true_match_rate, linewidth=0.8, label=label)
        self.ax_.plot([0, 1], [0, 1], color=QUIET, linestyle=":", linewidth=1, zorder=0)
        curves = self.roc if isinstance(self.roc, Mapping) else {name or "": self.roc}
        for place, (label, roc) in enumerate(curves.items()):
            label = f"{label} (AUC {roc.auc:.3f})".strip() if label else f"AUC {roc.auc:.3f}"
            self.lines_ += self.ax_.plot(roc.false_match_rate, roc.true_match_rate, color=colour_of(place), label=label)
        self.ax_.set(xlabel="False match rate", ylabel="True match rate", xlim=(-0.01, 1), ylim=(0, 1.01))
        if lowest is None:
            self.ax_.set_aspect("equal")
        else:
            self.ax_.set(xscale="log", xlim=(lowest, 1))
        beside = {"bbox_to_anchor": (1.02, 0.5), "fontsize": "x-small"} if self.others else {}
        self.ax_.legend(frameon=False, loc="center left" if self.others else "lower right", **beside)
        return self


class FoldsDisplay:
    """Accuracy of every fold, with its mean and standard error, of one result or of several by name."""

    def __init__(self, result: FoldsResult | Mapping[str, FoldsResult]) -> None:
        self.result = result

    @classmethod
    def from_distances(
        cls,
        distances: ArrayLike,
        same: ArrayLike,
        folds: ArrayLike,
        *,
        threshold: float | None = None,
        view1: tuple[ArrayLike, ArrayLike] | None = None,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> FoldsDisplay:
        """What `verify_folds` makes of these."""
        return cls(verify_folds(distances, same, folds, threshold=threshold, view1=view1)).plot(ax=ax, name=name)

    @classmethod
    def from_estimator(
        cls,
        estimator: _PairMetric,
        pairs: Any,
        same: ArrayLike,
        folds: ArrayLike,
        *,
        threshold: float | None = None,
        view1: tuple[ArrayLike, ArrayLike] | None = None,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> FoldsDisplay:
        """Of `estimator.pair_distance(pairs)`, under the estimator's name unless one is given."""
        shown = type(estimator).__name__ if name is None else name
        distances = estimator.pair_distance(pairs)
        return cls.from_distances(distances, same, folds, threshold=threshold, view1=view1, ax=ax, name=shown)

    def plot(self, ax: Axes | None = None, name: str | None = None) -> FoldsDisplay:
        """`name` labels a single result; several have theirs already."""
        self.ax_, self.figure_ = own_axes(ax)
        self.lines_: list[Line2D] = []
        results = self.result if isinstance(self.result, Mapping) else {name or "": self.result}
        for place, (label, result) in enumerate(results.items()):
            mean, error = 100 * result.accuracy, 100 * result.standard_error
            self.ax_.axhspan(mean - error, mean + error, color=colour_of(place), alpha=0.15, linewidth=0)
            self.ax_.axhline(mean, color=colour_of(place), linewidth=1)
            folds, text = [str(fold) for fold in result.folds], f"{label} {result}".strip()
            self.lines_ += self.ax_.plot(folds, 100 * result.accuracies, "o", color=colour_of(place), label=text)
        self.ax_.set(xlabel="Fold", ylabel="Accuracy (%)")
        self.ax_.legend(frameon=False, loc="best")
        return self


class DistanceHistogramDisplay:
    """Spread of the squared distances of same-class and of other-class pairs, each kind with area one."""

    def __init__(self, distances: ArrayLike, same: ArrayLike, threshold: float | None = None) -> None:
        self.distances = distances
        self.same = same
        self.threshold = threshold

    @classmethod
    def from_distances(
        cls,
        distances: ArrayLike,
        same: ArrayLike,
        *,
        threshold: float | None = None,
        ax: Axes | None = None,
        bins: int = 50,
    ) -> DistanceHistogramDisplay:
        return cls(distances, same, threshold).plot(ax=ax, bins=bins)

    @classmethod
    def from_estimator(
        cls,
        estimator: _PairMetric,
        pairs: Any,
        same: ArrayLike,
        *,
        threshold: float | None = None,
        ax: Axes | None = None,
        bins: int = 50,
    ) -> DistanceHistogramDisplay:
        """Of `estimator.pair_distance(pairs)`, with the estimator's `threshold_`, if any, unless one is given."""
        shown = getattr(estimator, "threshold_", None) if threshold is None else threshold
        return cls.from_distances(estimator.pair_distance(pairs), same, threshold=shown, ax=ax, bins=bins)

    def plot(self, ax: Axes | None = None, bins: int = 50) -> DistanceHistogramDisplay:
        distances, same = check_pairs(self.distances, self.same)
        edges = np.histogram_bin_edges(distances.astype(np.float64), bins=bins)
        self.ax_, self.figure_ = own_axes(ax)
        kinds = (("same class", SAME_COLOUR, same), ("other class", OTHER_COLOUR, ~same))
        for label, colour, chosen in kinds:
            density, _ = np.histogram(distances[chosen], bins=edges, density=True)
            self.ax_.stairs(density, edges, color=colour, alpha=0.35, fill=True, label=label)
            self.ax_.stairs(density, edges, color=colour, linewidth=1.2)
        if self.threshold is not None:
            self.ax_.axvline(self.threshold, color=QUIET, linestyle="--", linewidth=1, label="threshold")
        self.ax_.set(xlabel="Squared distance", ylabel="Density")
        self.ax_.legend(frameon=False)
        return self
