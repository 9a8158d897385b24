"""Progress of a fit on stderr, as stdout is for results: bars, or where no one watches a line now and then."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from samekind.cli.output import SECONDS_PER_LINE, Console, say_error
from samekind.cli.status import INTERRUPTED

if TYPE_CHECKING:
    from samekind.events import Observer

TITLES = {
    "whitening": "Whitening descriptors",
    "selection": "Choosing regions",
    "choice": "Choosing settings on labels left out",
    "joint": "Learning the joint metric",
    "calibration": "Calibrating distances",
}


@contextmanager
def fit_progress(
    shown: bool,
    titles: dict[str, str] = TITLES,
    first: str = "Reading descriptors",
    *,
    every: float = SECONDS_PER_LINE,
) -> Iterator["Observer | None"]:
    """A callback for a learner, which shows each of its steps by its title."""
    if not shown:
        yield None
        return
    from samekind.estimators.progress import ProgressBars, ProgressLines

    console = Console(stderr=True)
    with (
        ProgressBars(console, titles, first=first) if console.is_terminal else ProgressLines(console, titles, every)
    ) as display:
        yield display


def titles_under(title: str) -> dict[str, str]:
    """Of the steps of a fit that is one of several; a step that is all of it needs no title of its own."""
    named = {step: f"{title}: {own[:1].lower()}{own[1:]}" for step, own in TITLES.items()}
    return named | {"selection": title, "joint": title}


@contextmanager
def interruptible(kept: str) -> Iterator[None]:
    """Say after Ctrl-C what became of the work, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        say_error(f"interrupted. {kept}")
        raise typer.Exit(INTERRUPTED) from error
