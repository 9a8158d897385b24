"""The service in a thread of this process, on a port of its own."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from samekind.service.api import create_app
from samekind.service.guard import LOOPBACK, Tokens
from samekind.service.server import listening_socket
from tests.service.conftest import TOKEN


@dataclass
class Running:
    server: uvicorn.Server
    thread: threading.Thread
    tokens: Tokens
    url: str

    @property
    def link(self):
        return f"{self.url}/?link={self.tokens.link}"

    def stop(self):
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@contextmanager
def running(engine, **options):
    tokens = Tokens(TOKEN)
    with listening_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        app = create_app(engine, tokens, LOOPBACK, cookie=f"samekind-{port}", **options)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        made = Running(server, thread, tokens, f"http://127.0.0.1:{port}")
        try:
            yield made
        finally:
            made.stop()
