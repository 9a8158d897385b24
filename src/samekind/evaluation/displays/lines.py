"""Lines of points, one for each name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from samekind.evaluation.displays.figures import colour_of, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = tuple[Sequence[float], Sequence[float]]


class LinesDisplay:
    """Several lines by their names, each through its points (x, y) in the order given."""

    def __init__(
        self, lines: Mapping[str, Points], x_label: str = "", y_label: str = "", *, logarithmic: bool = False
    ) -> None:
        self.lines = dict(lines)
        self.x_label = x_label
        self.y_label = y_label
        self.logarithmic = logarithmic  # the horizontal axis

    def plot(self, ax: Axes | None = None) -> LinesDisplay:
        self.ax_, self.figure_ = own_axes(ax)
        self.lines_ = [
            self.ax_.plot(*points, color=colour_of(place), label=name, marker=".")[0]
            for place, (name, points) in enumerate(self.lines.items())
        ]
        if self.logarithmic:
            self.ax_.set_xscale("log")
        self.ax_.set(xlabel=self.x_label, ylabel=self.y_label)
        if len(self.lines) > 1:
            self.ax_.legend(frameon=False)
        return self
