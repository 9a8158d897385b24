"""`samekind landmarks`"""

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from samekind.cli.described import reasons
from samekind.cli.options import RunOptions, SeveralOption
from samekind.cli.output import (
    MOST_SHOWN,
    check_writable,
    counting,
    duration,
    none_can,
    say_error,
    say_facts,
    say_json,
    say_list,
)
from samekind.cli.progress import interruptible

WRITTEN_EVERY = 30  # seconds
UNUSABLE = 1  # exit status


def landmarks(
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", help="A picture, a folder of pictures or of folders, or a CSV of file.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="CSV for the points, new or to be added to.")],
    running: RunOptions,
    *,
    several: SeveralOption = "error",
    no_face: Annotated[
        Literal["skip", "aligned"],
        typer.Option(
            "--no-face",
            help="A picture without a face is left out, or gets the points that an aligned picture has.",
        ),
    ] = "skip",
) -> None:
    """Find eyes and mouth of each picture, and write them as a CSV for --landmarks.

    The detector is that of `samekind extract --align detect` (pip install "samekind[faces]"), so that both align alike.
    A CSV can be corrected by hand, and a picture that is used many times is searched once.

    Pictures that the CSV has already are left out: the same command, run again, goes on where it was interrupted, and
    keeps what was corrected.

    Example: samekind landmarks lfw-a/ lfw-a.csv --several central --no-face aligned
    """
    from samekind.images.detect import find_landmarks
    from samekind.images.landmarks import read_written, write_landmarks
    from samekind.images.listing import list_images

    started = time.perf_counter()
    check_writable(out)
    files = list_images(images, labelled=False)
    points: dict[str, Any] = read_written(out) if out.exists() else {}
    new = [file for file in files if file.name not in points]
    skipped: dict[str, str] = {}
    before, assumed, written = len(points), 0, time.monotonic()
    with (
        interruptible(f"{out} has what was found; the same command, run again, goes on with it."),
        counting("Finding eyes and mouths", shown=not running.quiet) as count,
    ):
        try:
            for name, found in find_landmarks(
                new, several=several, no_face=no_face, n_jobs=running.jobs, progress=count
            ):
                if isinstance(found, str):
                    skipped[name] = found
                    continue
                points[name], assumed = found.points, assumed + found.assumed
                if time.monotonic() - written > WRITTEN_EVERY:
                    write_landmarks(out, points)
                    written = time.monotonic()
        finally:
            if len(points) > before:
                write_landmarks(out, points)
    result: dict[str, Any] = {
        "landmarks": str(out) if points else None,
        "images": len(points),
        "new": len(new) - len(skipped),
        "assumed": assumed,
        "skipped": skipped,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if running.json:
        say_json(result)
    elif points:
        say_facts(
            [
                ("Landmarks", f"{out}: {len(points):,} pictures, {result['new']:,} of them new"),
                ("Assumed", f"{assumed:,}, in which no face was found"),
                ("Time", duration(result["seconds"])),
            ]
        )
        say_list("Skipped", reasons(skipped), MOST_SHOWN, "--json shows all")
    if not points:
        say_error(f"{none_can(len(files), 'file')} be used, so nothing was written.")
        say_list("Skipped", reasons(skipped), MOST_SHOWN, "--json shows all", stderr=True)
        raise typer.Exit(UNUSABLE)
