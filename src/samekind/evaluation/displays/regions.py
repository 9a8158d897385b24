"""Chosen regions on a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from samekind.evaluation.displays.figures import (
    COLOURS,
    own_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

        self.ax_, self.figure_ = own_axes(ax)
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
        self.ax_, self.figure_ = own_axes(ax)
        drawn = self.ax_.imshow(self.counts, cmap="cividis", interpolation="nearest")
        self.figure_.colorbar(drawn, ax=self.ax_, label="chosen regions over a pixel", shrink=0.8)
        self.ax_.set_axis_off()
        return self
