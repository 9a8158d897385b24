"""What the verbs print: results on stdout, progress and errors on stderr, names as they are."""

import errno
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import typer
from rich.console import Console as RichConsole
from rich.text import Text

MOST_SHOWN = 20  # entries of a list, unless all are asked for
KEPT_WHOLE = 24  # letters of a word in a table, or of a name in its first column, that stay on one line
SECONDS_PER_LINE = 60  # of progress, where there is no terminal

Count = Callable[[int, int], None]


class Console(RichConsole):
    """The one that all verbs print to: where nobody reads it, that is an error, which `status` gives its own status."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "Nobody reads this any more")


def printable(text: object) -> str:
    """Control characters and bytes that are no text are escaped: a file's name must not speak to the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in str(text))


def on_one_line(text: object) -> str:
    return printable(text).replace("\n", "\\n")


def say(*parts: str | tuple[str, str], stderr: bool = False) -> None:
    """A line of texts and (text, style); what looks like markup stays as it is."""
    Console(stderr=stderr, highlight=False).print(Text.assemble(*parts), soft_wrap=True)


def say_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values, in two columns."""
    facts = list(facts)
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        say((f"{name:<{width}}", "bold"), "  ", on_one_line(value))


def say_list(
    title: str, entries: list[str], most: int | None = None, where_all: str = "", *, stderr: bool = False
) -> None:
    """A titled list, of which `most` entries are shown; nothing where it is empty."""
    if not entries:
        return
    shown = [on_one_line(entry) for entry in entries[:most]]
    if len(shown) < len(entries):
        shown.append(on_one_line(f"and {len(entries) - len(shown):,} more; {where_all}"))
    say(stderr=stderr)
    say((f"{on_one_line(title)} ({len(entries):,})", "bold"), stderr=stderr)
    for line in shown:
        say("  ", line, stderr=stderr)


def say_table(title: str, table: Any) -> None:
    """A `samekind.evaluation.Table`."""
    say_rows(table.columns, table.texts, title)


def say_rows(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, left: Collection[str] = ()
) -> None:
    """A table; its first column and those named `left` are set to the left.

    Nothing is cut: what is longer than `KEPT_WHOLE` may go on in the next line, and where the rest does not fit, the
    table is wider than the terminal.
    """
    from rich.table import Table

    shown = Table(title=title)
    for place, column in enumerate(columns):
        texts = [column, *(row[place] for row in rows)]
        pieces = texts if place == 0 else [word for text in texts for word in text.split()]
        longest = min(KEPT_WHOLE, max(map(len, pieces), default=0))
        justify: Literal["left", "right"] = "left" if place == 0 or column in left else "right"
        shown.add_column(column, justify=justify, overflow="fold", min_width=longest)
    for row in rows:
        shown.add_row(*map(Text, row))
    Console().print(shown, crop=False)


def say_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, allow_nan=False))


def say_error(error: Exception | str) -> None:
    say(("samekind: ", "bold red"), printable(_message(error)), stderr=True)


def _message(error: Exception | str) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, MemoryError):
        return f"Not enough memory. {error}".strip()
    return str(error)


def check_writable(path: Path) -> None:
    """Refuse before the work what could not be written after it."""
    from samekind.files import whole_file

    class Enough(Exception): ...

    try:
        with whole_file(path):
            raise Enough
    except Enough:
        pass
    except OSError as error:
        # Such as /proc, where a folder is there and takes no files.
        if error.errno == errno.ENOENT and path.parent.is_dir():
            error.strerror = "Nothing can be written here; choose another place"
        raise


@contextmanager
def counting(what: str, shown: bool) -> Iterator[Count]:
    """A bar on stderr with the time left, called with (done, total); without a terminal, a line now and then."""
    console = Console(stderr=True)
    if not shown:
        yield lambda done, total: None
    elif not console.is_terminal:
        yield Lines(what)
    else:
        from rich import progress as rich

        columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn())
        times = (rich.TimeElapsedColumn(), rich.TextColumn("left"), rich.TimeRemainingColumn())
        with rich.Progress(*columns, *times, console=console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


class Lines:
    """Progress for a log."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.last >= SECONDS_PER_LINE:
            self.last = time.monotonic()
            say(f"{self.what}: {done:,} of {total:,}", stderr=True)


@contextmanager
def waiting(what: str, shown: bool) -> Iterator[None]:
    """A sign of activity while the time left is unknown."""
    if shown:
        with Console(stderr=True).status(what):
            yield
    else:
        yield


def amount(n_bytes: int) -> str:
    """Bytes as people write them."""
    from rich.filesize import decimal

    return decimal(n_bytes)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def none_can(n: int, one: str) -> str:
    return f"The only {one} cannot" if n == 1 else f"None of the {n:,} {one}s can"


def plural(n: int, one: str, several: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else several or one + 's'}"
