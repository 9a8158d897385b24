"""`samekind gallery doctor`"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samekind.cli.options import GalleryArgument, RunOptions
from samekind.cli.output import MOST_SHOWN, check_writable, counting, duration, plural, say_facts, say_json, say_list

if TYPE_CHECKING:
    from samekind.evaluation.report import Picture, Section
    from samekind.gallery import Gallery, Record
    from samekind.gallery.doctor import Diagnosis

FOUND = 1  # exit status
PIXELS = 160  # of a picture's longer side in the report
MOST_PICTURES = 12  # of one group
TITLES = {
    "duplicates": "Likely duplicates",
    "same": "One kind under two labels",
    "mixed": "Several kinds under one label",
    "outliers": "Outliers",
}
MEANINGS = {
    "duplicates": "Entries whose codes are nearly equal: the same picture twice, or two of one series.",
    "same": "Labels whose entries are as near to each other as those of one label; the nearest pair is shown.",
    "mixed": "Labels whose entries fall into groups that are too far apart for one label.",
    "outliers": "Entries that are far from all others of their label, with the nearest entry of another label; or "
    "isolated ones, which are far from everything, with the nearest entry.",
}


def doctor(
    gallery: GalleryArgument,
    running: RunOptions,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="HTML", help="Write a page with pictures to this file as well.")
    ] = None,
    wrong: Annotated[float, typer.Option("--wrong", help="Share of labels that may be wrong.")] = 0.02,
    duplicate: Annotated[
        float,
        typer.Option("--duplicate", help="Codes so near, as a share of the mean squared distance, are duplicates."),
    ] = 0.05,
    most: Annotated[
        int, typer.Option("--most", min=1, help="Findings of each kind to tell, the clearest first.")
    ] = 100,
) -> None:
    """Look for mistakes among the entries: duplicates, two labels that are one, one label that is two, outliers.

    All pairs are compared, exactly. Findings are suspicions to be reviewed, the clearest first; the page of --report
    shows pictures where the files are still in their places.

    The exit status is 0 when nothing was found, 1 when something was.

    Example: samekind gallery doctor album.gallery --report album.html
    """
    from samekind.gallery import Gallery

    started = time.perf_counter()
    if report is not None:
        check_writable(report)
    with Gallery.open(gallery, read_only=True) as opened:
        with counting("Comparing pairs", shown=not running.quiet) as count:
            found = opened.doctor(wrong=wrong, duplicate=duplicate, most=most, n_jobs=running.jobs, progress=count)
        if report is not None:
            from samekind.evaluation import write_report

            write_report(report, f"samekind: {opened.name}", _sections(opened, found))
        location = opened.location
    seconds = round(time.perf_counter() - started, 3)
    if running.json:
        written = None if report is None else str(report)
        say_json({"gallery": location, **found.to_json(), "report": written, "seconds": seconds})
    else:
        _say(location, found, report, seconds)
    if not found.healthy:
        raise typer.Exit(FOUND)


def _say(gallery: str, found: "Diagnosis", report: Path | None, seconds: float) -> None:
    say_facts(
        [
            ("Gallery", f"{gallery}: {plural(found.n_records, 'record')} of {plural(found.n_labels, 'label')}"),
            *((title, f"{found.counts[kind]:,}") for kind, title in TITLES.items()),
            *([] if report is None else [("Report", report)]),
            ("Time", duration(seconds)),
        ]
    )
    for kind, lines in _lines(found).items():
        say_list(TITLES[kind], lines, MOST_SHOWN, "--report and --json show more")
    say_list("Not looked into for groups, because they are too large", list(found.not_split), MOST_SHOWN)


def _lines(found: "Diagnosis") -> dict[str, list[str]]:
    """A sentence for each finding."""
    return {
        "duplicates": [
            f"{', '.join(_named(record) for record in each.records)}: distance {each.distance:.4g}"
            for each in found.duplicates
        ],
        "same": [
            f"{each.labels[0]} ({each.sizes[0]}) and {each.labels[1]} ({each.sizes[1]}): mean distance "
            f"{each.distance:.4g}"
            for each in found.same
        ],
        "mixed": [
            f"{each.label}: groups of {', '.join(str(len(group)) for group in each.groups)}, mean distance "
            f"{each.distance:.4g}"
            for each in found.mixed
        ],
        "outliers": [
            (
                f"{_named(each.record)}: mean distance to its label {each.distance:.4g}, "
                f"nearest of another {_named(each.nearest)} ({each.nearest_distance:.4g})"
                if each.kind == "label"
                else f"{_named(each.record)}: isolated, nearest {_named(each.nearest)} ({each.nearest_distance:.4g})"
            )
            for each in found.outliers
        ],
    }


def _sections(gallery: "Gallery", found: "Diagnosis") -> "list[Section]":
    from samekind.evaluation.report import PictureRow, Section, Table

    counts = Table(("finding", "how many"), [(title, found.counts[kind]) for kind, title in TITLES.items()])
    text = (
        f"{found.n_records:,} records of {found.n_labels:,} labels. Findings are suspicions to be reviewed; each list "
        "begins with the clearest."
    )
    shown: dict[str, list[list[Record]]] = {
        "duplicates": [list(each.records) for each in found.duplicates],
        "same": [list(each.nearest) for each in found.same],
        "mixed": [[record for group in each.groups for record in group[:4]] for each in found.mixed],
        "outliers": [[each.record, *([each.nearest] if each.nearest else [])] for each in found.outliers],
    }
    sections = [Section("Findings", text, counts)]
    for kind, lines in _lines(found).items():
        rows = [
            PictureRow(line, [_picture(gallery, record) for record in records[:MOST_PICTURES]])
            for line, records in zip(lines, shown[kind], strict=True)
        ]
        if rows:
            sections.append(Section(TITLES[kind], MEANINGS[kind], rows=rows))
    return sections


def _picture(gallery: "Gallery", record: "Record") -> "Picture":
    """The stored thumbnail, the picture file, or only a name where neither is at hand."""
    from samekind.evaluation.report import Picture
    from samekind.images.load import ImageError, load_image
    from samekind.images.save import png_bytes

    content = gallery.thumbnail(record.id)
    if content is None and record.source is not None:
        try:
            content = png_bytes(load_image(record.source).grey, most=PIXELS)
        except (ImageError, ValueError):
            content = None
    return Picture(content, _named(record) + (f" ({record.label})" if record.label else ""))


def _named(record: "Record | None") -> str:
    if record is None:
        return "none"
    return f"{record.id} {record.name}" if record.name else f"{record.id}"
