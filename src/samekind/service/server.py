"""Runs the service until it is stopped."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType

from samekind.service.engine import Engine
from samekind.threads import single_threaded_blas

GRACE_SECONDS = 20  # for requests under way, after SIGTERM
BACKLOG = 1024


def check_installed() -> None:
    """An `ImportError` that says what to install, where the web packages are missing."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ImportError(f'The service needs {" and ".join(missing)}: pip install "samekind[serve]".')


def listening_socket(host: str, port: int) -> socket.socket:
    """Bound at once, so that a port that is taken is an error before anything is loaded; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP: asyncio sends small answers at once (TCP_NODELAY) on such sockets only; others wait 40 ms for each.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)  # whoever opens the link at once waits, and is not refused
    except OSError as error:
        bound.close()
        raise OSError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): give another --port; 0 is any."
        ) from error
    return bound


def serve(
    engine: Engine,
    bound: socket.socket,
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
    ready: Callable[[str, str], None] = lambda link, token: None,
) -> None:
    """Answer until SIGTERM or SIGINT; requests under way are then answered, new ones are not taken.

    `ready` is called with the link to open and the token for programs.
    """
    import uvicorn

    from samekind.service.api import create_app
    from samekind.service.guard import LOOPBACK, Tokens

    host, port = bound.getsockname()[:2]
    tokens = Tokens() if token is None else Tokens(token)
    app = create_app(engine, tokens, [*LOOPBACK, host, *allowed_hosts], cookie=f"samekind-{port}")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=10,
        h11_max_incomplete_event_size=32_768,
        backlog=BACKLOG,
        ws="none",
    )
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
    ready(f"http://{shown}:{port}/?link={tokens.link}", tokens.api)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            engine.ending = True  # what takes long ends early
            super().handle_exit(sig, frame)

    with single_threaded_blas(), _signals_end_quietly():
        Server(config).run(sockets=[bound])


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """uvicorn sends itself the signal that ended it once more, when all is done: then it is to have no effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
