"""A report on one page: a single HTML file that needs nothing else, neither files nor a network."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samekind.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """Rows under columns; a column of numbers is set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row of {len(row)} cells in a table of {len(self.columns)} columns: {row!r}.")

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers, with perhaps some missing."""
        return [
            any(map(_is_number, cells)) and all(cell is None or _is_number(cell) for cell in cells)
            for cells in ([row[place] for row in self.rows] for place in range(len(self.columns)))
        ]

    @property
    def texts(self) -> list[list[str]]:
        return [[_cell_text(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A picture as the bytes of a PNG or JPEG file, or None where there is none to show; and what it shows."""

    content: bytes | None
    caption: str

    @property
    def address(self) -> str:
        """A link that holds the picture itself."""
        kind = "jpeg" if self.content and self.content.startswith(b"\xff\xd8") else "png"
        return f"data:image/{kind};base64,{base64.b64encode(self.content or b'').decode()}"


@dataclass(frozen=True)
class PictureRow:
    """Pictures side by side under a line of text."""

    text: str
    pictures: Sequence[Picture]


@dataclass(frozen=True, eq=False)
class Section:
    """Text (blank lines part paragraphs), a table, rows of pictures, and a figure with its `caption` in words."""

    heading: str
    text: str = ""
    table: Table | None = None
    figure: Figure | None = None
    caption: str = ""
    rows: Sequence[PictureRow] = ()

    def __post_init__(self) -> None:
        if self.figure is not None and not self.caption.strip():
            raise ValueError(f"The figure under {self.heading!r} has no caption. Say in words what it shows.")

    @property
    def paragraphs(self) -> list[str]:
        return [part.strip() for part in re.split(r"\n\s*\n", self.text) if part.strip()]


def write_report(path: str | os.PathLike[str], title: str, sections: Iterable[Section]) -> Path:
    """Write the report whole or not at all; its folder is made if need be. Gives back the path."""
    path = Path(path)
    html = _render(title, list(sections))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, html)
    except OSError as error:
        raise OSError(
            f"The report cannot be written to {str(path)!r}: {error}. Give a name in a folder open to you."
        ) from error
    return path


def _render(title: str, sections: Sequence[Section]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = files("samekind.evaluation").joinpath("templates/report.html.j2").read_text(encoding="utf-8")
    # Only matplotlib's own drawing is taken as markup; its texts come escaped already.
    drawings = [
        None if section.figure is None else Markup(_inline_svg(section.figure, place))
        for place, section in enumerate(sections)
    ]
    return environment.from_string(source).render(title=title, parts=list(zip(sections, drawings, strict=True)))


def _inline_svg(figure: Figure, place: int) -> str:
    """The figure's SVG with ids of its own: matplotlib gives every figure the same ones."""
    from samekind.evaluation.displays import figure_svg

    mark = f"figure{place}-"

    def marked(tag: re.Match[str]) -> str:
        return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{mark}", tag.group())

    return re.sub(r"<[^>]+>", marked, figure_svg(figure))


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Real) and not isinstance(cell, bool)


def _cell_text(cell: Any) -> str:
    if cell is None:
        return "–"
    if _is_number(cell) and not isinstance(cell, Integral):
        return f"{float(cell):.4g}"
    return str(cell)
