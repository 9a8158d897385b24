"""`samekind VERB ...`"""

import inspect
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from samekind._version import __version__
from samekind.cli.compact import compact
from samekind.cli.demo import demo
from samekind.cli.encode import encode
from samekind.cli.evaluate import evaluate
from samekind.cli.evaluate_retrieval import evaluate_retrieval
from samekind.cli.extract import extract
from samekind.cli.fit import fit
from samekind.cli.gallery import VERBS as GALLERY_VERBS
from samekind.cli.index import index
from samekind.cli.info import info
from samekind.cli.landmarks import landmarks
from samekind.cli.lfw import lfw
from samekind.cli.options import with_groups
from samekind.cli.retrieval import retrieval
from samekind.cli.search import search
from samekind.cli.serve import serve
from samekind.cli.status import errors_as_statuses, run
from samekind.cli.verify import verify
from samekind.cli.worker import worker


class Verbs(TyperGroup):
    """Whatever happens ends with its own exit status."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        with errors_as_statuses():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        with errors_as_statuses():
            return super().invoke(ctx)


class PicturesOrRetrieval(TyperGroup):
    """`evaluate MODEL IMAGES` means `evaluate pictures MODEL IMAGES`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if known else ["pictures", *args])


app = typer.Typer(
    cls=Verbs,
    name="samekind",
    help="Learn, from labelled examples, when two things are of the same kind.",
    epilog="From pictures to an answer: extract, fit, then verify, encode or evaluate, or index, search and serve. "
    "`samekind VERB --help` explains each.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _help(verb: Callable[..., None]) -> str:
    """The docstring with its paragraphs unbroken: the terminal breaks them where it is wide."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(verb.__doc__ or "").split("\n\n"))


for verb in (
    extract,
    fit,
    verify,
    encode,
    index,
    search,
    serve,
    info,
    landmarks,
    compact,
    demo,
    lfw,
    retrieval,
    worker,
):
    app.command(help=_help(verb))(with_groups(verb))

judge = typer.Typer(
    cls=PicturesOrRetrieval,
    name="evaluate",
    help="Judge a model on pictures of labels that it has not learned from.\n\n`samekind evaluate MODEL IMAGES` is "
    "`samekind evaluate pictures MODEL IMAGES`.\n\nExample: samekind evaluate faces.safetensors others/",
    no_args_is_help=True,
)
judge.command("pictures", help=_help(evaluate))(with_groups(evaluate))
judge.command("retrieval", help=_help(evaluate_retrieval))(with_groups(evaluate_retrieval))
app.add_typer(judge)

gallery = typer.Typer(
    name="gallery",
    help="Look after a gallery: see, erase, move, check.\n\nExample: samekind gallery info album.gallery",
    no_args_is_help=True,
)
for name, gallery_verb in GALLERY_VERBS.items():
    gallery.command(name, help=_help(gallery_verb))(with_groups(gallery_verb))
app.add_typer(gallery)


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
    """Run a command."""
    run(_main)


def _main() -> None:
    # What Pillow has to say about odd pictures is for programmers; ours is in the reasons and remarks.
    warnings.filterwarnings("ignore", module=r"PIL\b")
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter gets its number
    app(prog_name="samekind")
