"""A worker process: connects to a scheduler, works, and connects again when the scheduler comes back."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
import time
from collections.abc import Callable
from typing import Any

from samekind.threads import limit_threads

TIMEOUTS = {
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "12s",  # a peer that is cut off is noticed then
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.limit": "1h",  # a busy machine is no news
}
RETRY = 1.0  # seconds between attempts to reach a scheduler


def run_worker(
    address: str,
    *,
    name: str | None = None,
    n_threads: int | None = None,
    security: Any = None,
    give_up: float = 600.0,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Work for a scheduler until the process is ended; `give_up`: after so many seconds without one.

    What it holds of a fit stays in the process, so that after a restart of the scheduler nothing is computed again.
    """
    limit_threads(n_threads)
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    asyncio.run(_work(address, name, security, give_up, say))


async def _work(address: str, name: str, security: Any, give_up: float, say: Callable[[str], None]) -> None:
    import dask

    dask.config.set(TIMEOUTS)
    from distributed import Worker

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    lost = time.monotonic()
    while True:
        try:
            # Mapped files count as memory: with a limit, dask would restart the worker again and again.
            worker = Worker(
                address, nthreads=1, name=name, memory_limit=0, security=security, dashboard=False, nanny=None
            )
            async with worker:
                say(f"worker {name} at {worker.address} works for {address}")
                await worker.finished()  # type: ignore[no-untyped-call]
            lost = time.monotonic()
            say(f"worker {name}: the scheduler at {address} is gone; waiting for it to come back")
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            if time.monotonic() - lost > give_up:
                raise ConnectionError(
                    f"No scheduler answers at {address} for {give_up:.0f} s ({error}). Start one with `dask scheduler`."
                ) from error
        await asyncio.sleep(RETRY)


def description() -> dict[str, str]:
    """What decides the last bits of a result: processor, and the libraries that compute."""
    import numpy
    import scipy.linalg  # noqa: F401 - loads a BLAS of its own
    import threadpoolctl

    from samekind._version import __version__

    blas = sorted(
        f"{each.get('internal_api')} {each.get('version')} {each.get('architecture')}"
        for each in threadpoolctl.threadpool_info()
        if each.get("user_api") == "blas"
    )
    return {
        "samekind": __version__,
        "numpy": numpy.__version__,
        "processor": _processor(),
        "machine": platform.machine(),
        "blas": ", ".join(blas),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
