"""What a fit has learned, and how it converged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from samekind.evaluation.displays.figures import COLOURS, colour_of, count_in_whole_numbers, own_axes, panel_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class _WithComponents(Protocol):
    @property
    def components_(self) -> ArrayLike: ...


class _WithHistory(Protocol):
    history_: list[dict[str, Any]]


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
        self.ax_, self.figure_ = own_axes(ax)
        (self.line_,) = self.ax_.plot(
            np.arange(1, len(values) + 1), values, marker="o", markersize=3, color=COLOURS[0], label=name
        )
        if (values > 0).any():
            self.ax_.set_yscale("log", nonpositive="mask")
        self.ax_.set(xlabel="Component", ylabel="Eigenvalue")
        count_in_whole_numbers(self.ax_)
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
        axes, self.figure_ = panel_axes(ax, len(panels))
        self.lines_: list[Line2D] = []
        for panel, (title, keys) in zip(axes, panels, strict=True):
            for place, key in enumerate(keys):
                self.lines_ += panel.plot(*runs[key], color=colour_of(place), label=key[1], marker=".")
            panel.set(xlabel="Iteration", ylabel="Objective", title=title)
            count_in_whole_numbers(panel)
            if len(keys) > 1:
                panel.legend(frameon=False)
        self.ax_ = axes if len(panels) > 1 else axes[0]
        return self


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
