"""Why two pictures are the same or not: the regions that speak for it and against it, on both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from samekind.evaluation.displays.figures import OTHER_COLOUR, SAME_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from samekind.model.explanation import Explanation

Kind = Literal["for", "against"]
COLOUR_OF: dict[Kind, str] = {"for": SAME_COLOUR, "against": OTHER_COLOUR}


class ExplanationDisplay:
    """Two aligned pictures in two rows, with the regions for "same" in blue and those against it in orange.

    The strongest are numbered, and drawn with the widest lines; a third column shows what each adds. `margin` (x, y)
    is what the pictures show beyond the crop that regions are measured in.
    """

    def __init__(
        self,
        pictures: tuple[ArrayLike, ArrayLike],
        explanation: Explanation,
        *,
        n_regions: int = 5,
        margin: tuple[int, int] = (0, 0),
    ) -> None:
        self.pictures = [np.asarray(picture) for picture in pictures]
        self.explanation = explanation
        self.n_regions = n_regions
        self.margin = margin

    def plot(self) -> ExplanationDisplay:
        from matplotlib.figure import Figure

        self.figure_ = Figure(figsize=(9.0, 6.4), layout="constrained")
        panels = self.figure_.subplots(2, 3, width_ratios=(1, 1, 1.5))
        made = self.explanation
        for row, kind in zip(panels, COLOUR_OF, strict=True):
            chosen = self._chosen(kind)
            for ax, picture in zip(row, self.pictures, strict=False):
                ax.imshow(picture, cmap="gray", vmin=0, vmax=max(1.0, float(picture.max())), interpolation="nearest")
                self._draw(ax, chosen, COLOUR_OF[kind])
                ax.set_axis_off()
            self._bars(row[2], chosen, kind)
        panels[0][0].set_title("A", fontsize=10)
        panels[0][1].set_title("B", fontsize=10)
        distance = f"distance {made.distance:.4g}"
        limit = "" if made.threshold is None else f", threshold {made.threshold:.4g}"
        self.figure_.suptitle(f"{made.describe()}\n{distance}{limit}", fontsize=11)
        return self

    def _chosen(self, kind: Kind) -> list[int]:
        """Places of the strongest regions that speak for "same", or against it."""
        evidence = self.explanation.evidence
        wanted = [k for k in self.explanation.strongest.tolist() if (evidence[k] > 0) == (kind == "for")]
        return [k for k in wanted if evidence[k]][: self.n_regions]

    def _draw(self, ax: Axes, chosen: list[int], colour: str) -> None:
        from matplotlib.patches import Rectangle

        evidence = np.abs(self.explanation.evidence)
        for number, k in reversed(list(enumerate(chosen, start=1))):
            rectangle = self.explanation.rectangles[k]
            if rectangle is None:
                continue
            top, left, height, width = rectangle
            x, y = left + self.margin[0] - 0.5, top + self.margin[1] - 0.5
            strength = 0.8 + 2.2 * evidence[k] / evidence[chosen[0]]
            ax.add_patch(Rectangle((x, y), width, height, fill=False, linewidth=strength, edgecolor=colour))
            box = {"boxstyle": "round,pad=0.15", "facecolor": colour, "edgecolor": "none"}
            ax.text(x, y, str(number), fontsize=7, color="white", va="top", ha="left", bbox=box)

    def _bars(self, ax: Axes, chosen: list[int], kind: Kind) -> None:
        made = self.explanation
        ax.barh(range(len(chosen)), np.abs(made.evidence[chosen]), color=COLOUR_OF[kind], height=0.6)
        names = [f"{number}  {made.groups[k]}" for number, k in enumerate(chosen, start=1)]
        ax.set_yticks(range(len(chosen)), names, fontsize=8)
        ax.tick_params(axis="x", labelsize=8)
        ax.set_ylim(self.n_regions - 0.5, -0.5)
        # One scale for both rows, so that their bars can be compared.
        ax.set_xlim(0, 1.05 * float(np.abs(made.evidence).max(initial=1e-12)))
        all_of_kind = made.evidence[made.evidence > 0] if kind == "for" else -made.evidence[made.evidence < 0]
        ax.set_title(f'{kind} "same": {len(all_of_kind)} regions, {all_of_kind.sum():.4g} in all', fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
