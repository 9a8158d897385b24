"""Plots of computed values, in the manner of scikit-learn's Displays.

`plot` draws on the axes given, or on a new figure that belongs to no window and no global state. It is kept
as `figure_`, to be shown by a notebook or saved with `figure_.savefig`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from samekind.evaluation._checks import check_pairs
from samekind.evaluation.folds import FoldsResult, verify_folds
from samekind.evaluation.verification import RocCurve, roc_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# Okabe and Ito's palette, told apart by every common form of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SAME_COLOUR, OTHER_COLOUR, QUIET = COLOURS[0], COLOURS[1], "#6e6e6e"


class _PairMetric(Protocol):
    def pair_distance(self, pairs: Any) -> ArrayLike: ...


class _WithComponents(Protocol):
    @property
    def components_(self) -> ArrayLike: ...


class _WithHistory(Protocol):
    history_: list[dict[str, Any]]


class RocDisplay:
    """True against false match rate, of one curve or of several by name."""

    def __init__(self, roc: RocCurve | Mapping[str, RocCurve]) -> None:
        self.roc = roc

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

    def plot(self, ax: Axes | None = None, name: str | None = None) -> RocDisplay:
        """`name` labels a single curve; several have theirs already."""
        self.ax_, self.figure_ = _axes(ax)
        self.lines_: list[Line2D] = []
        self.ax_.plot([0, 1], [0, 1], color=QUIET, linestyle=":", linewidth=1, zorder=0)
        curves = self.roc if isinstance(self.roc, Mapping) else {name or "": self.roc}
        for place, (label, roc) in enumerate(curves.items()):
            label = f"{label} (AUC {roc.auc:.3f})".strip() if label else f"AUC {roc.auc:.3f}"
            self.lines_ += self.ax_.plot(roc.false_match_rate, roc.true_match_rate, color=_colour(place), label=label)
        self.ax_.set(xlabel="False match rate", ylabel="True match rate", xlim=(-0.01, 1), ylim=(0, 1.01))
        self.ax_.set_aspect("equal")
        self.ax_.legend(frameon=False, loc="lower right")
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
        self.ax_, self.figure_ = _axes(ax)
        self.lines_: list[Line2D] = []
        results = self.result if isinstance(self.result, Mapping) else {name or "": self.result}
        for place, (label, result) in enumerate(results.items()):
            mean, error = 100 * result.accuracy, 100 * result.standard_error
            self.ax_.axhspan(mean - error, mean + error, color=_colour(place), alpha=0.15, linewidth=0)
            self.ax_.axhline(mean, color=_colour(place), linewidth=1)
            folds, text = [str(fold) for fold in result.folds], f"{label} {result}".strip()
            self.lines_ += self.ax_.plot(folds, 100 * result.accuracies, "o", color=_colour(place), label=text)
        self.ax_.set(xlabel="Fold", ylabel="Accuracy (%)")
        self.ax_.legend(frameon=False, loc="best")
        return self


class SpectrumDisplay:
    """Eigenvalues of a metric, largest first; a logarithmic scale leaves out those that are not positive."""

    def __init__(self, eigenvalues: ArrayLike) -> None:
        self.eigenvalues = eigenvalues

    @classmethod
    def from_estimator(
        cls, estimator: _WithComponents, *, ax: Axes | None = None, name: str | None = None
    ) -> SpectrumDisplay:
        """The nonzero eigenvalues of `components_.T @ components_`, under the estimator's name unless one is given."""
        shown = type(estimator).__name__ if name is None else name
        singular = np.linalg.svd(np.asarray(estimator.components_, dtype=np.float64), compute_uv=False)
        return cls(np.square(singular)).plot(ax=ax, name=shown)

    def plot(self, ax: Axes | None = None, name: str | None = None) -> SpectrumDisplay:
        values = np.sort(np.asarray(self.eigenvalues, dtype=np.float64))[::-1]
        self.ax_, self.figure_ = _axes(ax)
        (self.line_,) = self.ax_.plot(
            np.arange(1, len(values) + 1), values, marker="o", markersize=3, color=COLOURS[0], label=name
        )
        if (values > 0).any():
            self.ax_.set_yscale("log", nonpositive="mask")
        self.ax_.set(xlabel="Component", ylabel="Eigenvalue")
        _count_in_whole_numbers(self.ax_)
        if name is not None:
            self.ax_.legend(frameon=False)
        return self


class ConvergenceDisplay:
    """Objective against iteration, from records with "step", "iteration", "objective" and, if any, "family".

    One step gives one panel, with a line per family; several give a panel for each step and family, and then
    `ax` and `ax_` are lists of axes, one per panel.
    """

    def __init__(self, history: Iterable[Mapping[str, Any]]) -> None:
        self.history = list(history)

    @classmethod
    def from_estimator(cls, estimator: _WithHistory, *, ax: Axes | Sequence[Axes] | None = None) -> ConvergenceDisplay:
        """The history of a fitted estimator."""
        return cls(estimator.history_).plot(ax=ax)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> ConvergenceDisplay:
        runs = _runs(self.history)
        panels = _panels(runs)
        axes, self.figure_ = _panel_axes(ax, len(panels))
        self.lines_: list[Line2D] = []
        for panel, (title, keys) in zip(axes, panels, strict=True):
            for place, key in enumerate(keys):
                self.lines_ += panel.plot(*runs[key], color=_colour(place), label=key[1], marker=".")
            panel.set(xlabel="Iteration", ylabel="Objective", title=title)
            _count_in_whole_numbers(panel)
            if len(keys) > 1:
                panel.legend(frameon=False)
        self.ax_ = axes if len(panels) > 1 else axes[0]
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
        self.ax_, self.figure_ = _axes(ax)
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


class RegionsDisplay:
    """Rectangles (top, left, height, width), in pixels, over a grey image; the first is drawn the strongest.

    `negative` shows bright pixels dark, as ink; a photograph wants False.
    """

    def __init__(
        self, image: ArrayLike, rectangles: Sequence[tuple[int, int, int, int]], *, negative: bool = True
    ) -> None:
        self.image = np.asarray(image)
        self.rectangles = list(rectangles)
        self.negative = negative

    def plot(self, ax: Axes | None = None) -> RegionsDisplay:
        from matplotlib.patches import Rectangle

        self.ax_, self.figure_ = _axes(ax)
        self.ax_.imshow(self.image, cmap="gray_r" if self.negative else "gray", interpolation="nearest")
        for place, (top, left, height, width) in enumerate(self.rectangles):
            # A pixel's centre is its coordinate, so that its edges lie half a pixel away.
            corner = left - 0.5, top - 0.5
            strength = 1 - 0.8 * place / max(1, len(self.rectangles) - 1)
            outline = Rectangle(corner, width, height, fill=False, linewidth=1.8, edgecolor=COLOURS[1], alpha=strength)
            self.ax_.add_patch(outline)
        self.ax_.set_axis_off()
        return self


class CoverageDisplay:
    """How often each pixel of a grey image lies in one of the rectangles (top, left, height, width)."""

    def __init__(self, shape: tuple[int, int], rectangles: Sequence[tuple[int, int, int, int]]) -> None:
        self.counts = np.zeros(shape)
        for top, left, height, width in rectangles:
            self.counts[top : top + height, left : left + width] += 1

    def plot(self, ax: Axes | None = None) -> CoverageDisplay:
        self.ax_, self.figure_ = _axes(ax)
        drawn = self.ax_.imshow(self.counts, cmap="cividis", interpolation="nearest")
        self.figure_.colorbar(drawn, ax=self.ax_, label="chosen regions over a pixel", shrink=0.8)
        self.ax_.set_axis_off()
        return self


def figure_svg(figure: Figure) -> str:
    """The figure as one `<svg>` element, the same text each time: no date, no chance in its ids."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.hashsalt": "samekind", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _axes(ax: Axes | None) -> tuple[Axes, Figure]:
    axes, figure = _panel_axes(ax, 1)
    return axes[0], figure


def _panel_axes(ax: Axes | Sequence[Axes] | None, n_panels: int) -> tuple[list[Axes], Figure]:
    """The axes given, or as many as needed side by side on a new figure."""
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.0 if n_panels == 1 else 4.2 * n_panels, 4.0), layout="constrained")
        axes = list(figure.subplots(1, n_panels, squeeze=False)[0])
    else:
        axes = list(ax) if isinstance(ax, Iterable) else [ax]
    if len(axes) != n_panels:
        raise ValueError(f"This plot has {n_panels} panel(s); got {len(axes)} axes. Give one per panel, or ax=None.")
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return axes, axes[0].figure


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _count_in_whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


_Run = tuple[str, str | None]


def _runs(history: Sequence[Mapping[str, Any]]) -> dict[_Run, tuple[list[Any], list[Any]]]:
    """Iterations and objectives of each (step, family), in the order of their first record."""
    if not history:
        raise ValueError("The history is empty: fit the estimator before its convergence is drawn.")
    runs: dict[_Run, tuple[list[Any], list[Any]]] = {}
    for record in history:
        missing = {"step", "iteration", "objective"} - set(record)
        if missing:
            raise ValueError(f"A record of the history lacks {sorted(missing)}; it has {sorted(record)}.")
        iterations, objectives = runs.setdefault((record["step"], record.get("family")), ([], []))
        iterations.append(record["iteration"])
        objectives.append(record["objective"])
    return runs


def _panels(runs: Iterable[_Run]) -> list[tuple[str, list[_Run]]]:
    """Title and runs of each panel."""
    keys = list(runs)
    if len({step for step, _ in keys}) == 1:
        return [(str(keys[0][0]), keys)]
    return [(str(step) if family is None else f"{step}, {family}", [(step, family)]) for step, family in keys]
