"""`samekind serve`"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samekind.cli.output import plural, say, say_facts, waiting

if TYPE_CHECKING:
    from samekind.service.engine import Engine

TOKEN = "SAMEKIND_TOKEN"  # variable of the environment
EVERYWHERE = ("0.0.0.0", "::")


def serve(
    gallery: Annotated[
        str | None,
        typer.Argument(
            metavar="[GALLERY]",
            help="Folder that `samekind index` wrote, or postgresql://user@host/database?gallery=name, to search and "
            "change.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="File that `samekind fit` wrote. Default: the gallery's own.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than this machine's are open.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any that is free.")] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="Name under which browsers may reach the service; may be repeated."),
    ] = None,
    memory: Annotated[str, typer.Option("--memory", help="For crops and codes of pictures that were sent.")] = "64MB",
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve the digits of `samekind demo`, which is run first where need be.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder of the demo.")] = Path("samekind-demo"),
) -> None:
    """Open a page in the browser: are two pictures the same, why, and what is nearest in a gallery?

    Prints a link that works once, and a token with which programs call the same as JSON (/api/openapi.json describes
    it). The token is new at each start, or what SAMEKIND_TOKEN holds. The service listens on this machine only; on
    another --host, whoever has the token may use it, and what is sent is not encrypted: put a proxy with TLS before it,
    and name it with --allow-host. SIGTERM and Ctrl+C end it after the requests under way.

    Example: samekind serve album.gallery

    Example: samekind serve "postgresql://me@host/pictures?gallery=album"

    Example: samekind serve --model faces.safetensors --port 9000

    Example: samekind serve --demo
    """
    from samekind.compute.memory import parse_bytes
    from samekind.service.server import check_installed, listening_socket
    from samekind.service.server import serve as run

    check_installed()
    if demo and (gallery is not None or model is not None):
        raise ValueError("--demo brings its own gallery and model: leave out the others.")
    if gallery is None and model is None and not demo:
        raise ValueError("Give a gallery (samekind index), a model with --model (samekind fit), or --demo.")
    if host in EVERYWHERE and not allow_host:
        raise ValueError(
            f"--host {host} listens on all addresses: name those under which browsers may come, such as --allow-host "
            "192.168.1.5, or choose one address."
        )
    with listening_socket(host, port) as bound:
        engine = _engine(str(_demo_gallery(out)) if demo else gallery, model, parse_bytes(memory))
        run(engine, bound, os.environ.get(TOKEN), allow_host or (), lambda link, token: _say_ready(engine, link, token))
    say("Ended.")


def _engine(gallery: str | None, model: Path | None, picture_bytes: int) -> "Engine":
    from samekind.gallery import Gallery
    from samekind.model.metric import Metric
    from samekind.service.engine import Engine

    opened = None if gallery is None else Gallery.open(gallery)
    try:
        metric = Metric.load(model) if model is not None else None if opened is None else opened.model
        if metric is None:
            where = "" if opened is None else opened.location
            raise ValueError(f"{where} has plain codes of no model, so that pictures cannot be encoded for it.")
        if opened is not None:
            opened.check_model(metric)
        with waiting("Loading", shown=True):
            return Engine(metric, opened, picture_bytes=picture_bytes)
    except BaseException:
        if opened is not None:
            opened.close()
        raise


def _demo_gallery(out: Path) -> Path:
    from samekind.cli.demo import demo as make_demo
    from samekind.demo.gallery import NAME

    if not (out / NAME).exists():
        say("The demo is made first: about a minute.")
        make_demo(out)
    return out / NAME


def _say_ready(engine: "Engine", link: str, token: str) -> None:
    gallery = engine.gallery
    served = "no gallery: pictures can be compared, not searched"
    if gallery is not None:
        served = f"{gallery.location}, {len(gallery):,} {'entry' if len(gallery) == 1 else 'entries'}"
    shown = "the one of SAMEKIND_TOKEN" if os.environ.get(TOKEN) else token
    say_facts(
        [
            ("Model", f"codes of {engine.metric.n_components} numbers, {plural(len(engine.metric.groups), 'region')}"),
            ("Gallery", served),
            ("Open", f"{link}  (works once)"),
            ("Token", f"{shown}  (for programs, and for another browser)"),
        ]
    )
