"""What all displays share: axes, colours, and a figure as text."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable with every common form of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
SAME_COLOUR, OTHER_COLOUR, QUIET = COLOURS[0], COLOURS[1], "#6e6e6e"


def figure_svg(figure: Figure) -> str:
    """The figure as one `<svg>` element, the same text each time: no date, no chance in its ids."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.hashsalt": "samekind", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def own_axes(ax: Axes | None) -> tuple[Axes, Figure]:
    axes, figure = panel_axes(ax, 1)
    return axes[0], figure


def panel_axes(ax: Axes | Sequence[Axes] | None, n_panels: int) -> tuple[list[Axes], Figure]:
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


def colour_of(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def count_in_whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
