"""Bodies of requests, of a bounded size each and together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from samekind.service.errors import Refusal, busy

SECONDS = 30.0  # for a body to arrive


class Bodies:
    """What all requests under way hold, in bytes: at most `together`."""

    def __init__(self, together: int) -> None:
        self.together, self.held = together, 0

    @asynccontextmanager
    async def read(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The whole body, counted as held until the block ends; also of chunked requests, which name no length."""
        declared = request.headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > most:
            raise _too_large(most)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(SECONDS):
                async for chunk in request.stream():
                    size += len(chunk)
                    self.held += len(chunk)
                    if size > most:
                        raise _too_large(most)
                    if self.held > self.together:
                        raise busy()
                    chunks.append(chunk)
            yield b"".join(chunks)
        except TimeoutError as error:
            raise Refusal(408, "too_slow", f"The body did not arrive within {SECONDS:g} seconds.") from error
        finally:
            self.held -= size


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"The body is larger than {most / 1e6:g} MB: send a smaller picture.")
