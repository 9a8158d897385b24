"""`samekind VERB ...`"""

import sys
from typing import Annotated

import typer
from rich.console import Console

from samekind._version import __version__
from samekind.cli.demo import demo

app = typer.Typer(
    name="samekind",
    help="Learn, from labelled examples, when two things are of the same kind.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"samekind {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run a command; what a user can mend is told in a line, not in a traceback."""
    try:
        app()
    except (OSError, ValueError) as error:
        Console(stderr=True).print(f"[bold red]samekind:[/] {error}", markup=True, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("samekind: interrupted; files already written are whole.")
        sys.exit(130)
