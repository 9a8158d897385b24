"""Work in threads of a bounded number, with a bounded queue: more is refused at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from samekind.service.errors import busy, ending
from samekind.threads import Workers

Result = TypeVar("Result")


class Lane:
    """`n_threads` threads, and at most `n_waiting` calls that wait for one."""

    def __init__(self, name: str, n_threads: int, n_waiting: int) -> None:
        self._workers = Workers(n_threads, f"samekind-{name}")
        self._places = threading.Semaphore(n_threads + n_waiting)

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function in one of the threads; a `Refusal` of status 429 when too many calls wait already."""
        if not self._places.acquire(blocking=False):
            raise busy()
        try:
            future = self._workers.submit(function, *arguments)
        except BaseException:
            self._places.release()
            raise
        # Given back when the work ends, not when a client that waited for it goes away.
        future.add_done_callback(lambda _: self._places.release())
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:  # the service ends, and has waited long enough
            raise ending() from error

    def close(self) -> None:
        """Wait for the work under way."""
        self._workers.close()
