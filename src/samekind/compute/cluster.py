"""Fits and extractions on a cluster: `with samekind.cluster("tcp://...")`, or on worker processes of this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from samekind.compute.executor import Executor
from samekind.threads import effective_threads

STARTED_WITHIN = 60.0  # seconds, for a scheduler of our own
ENDED_WITHIN = 5.0

_current: ContextVar[Executor | None] = ContextVar("samekind_cluster", default=None)


def current_executor(n_jobs: int | None, compute: Executor | None = None) -> Executor:
    """The one that was given, or else that of the `cluster` around, or threads."""
    if compute is not None and not isinstance(compute, Executor):
        raise ValueError(f"compute={compute!r} must be None or what `samekind.cluster` gives.")
    return compute or _current.get() or Executor(n_jobs)


@contextlib.contextmanager
def cluster(
    address: str | None = None,
    *,
    workers: int | None = None,
    n_jobs: int | None = None,
    shared: str | os.PathLike[str] | None = None,
    stripes: str | os.PathLike[str] | None = None,
    security: Any = None,
    limits: Any = None,
) -> Iterator[Executor]:
    """Within this block, fits and extractions are done by the workers of a Dask cluster, with the same result.

    Parameters
    ----------
    address : str or None
        Of a scheduler that runs (`dask scheduler`), such as "tcp://10.0.0.1:8786", with workers started by
        `samekind worker ADDRESS`. They need the same version of samekind, and stores and pictures at the same paths.
    workers : int or None
        Instead of an address: so many worker processes on this machine, for as long as the block lasts.
    n_jobs : int or None
        Threads of this process.
    shared : path or None
        A folder that all machines see, for arrays that are learned from and are in no store. Default: the system's
        temporary folder, which does for workers on this machine.
    stripes : path or None
        A folder of each worker's own disk: a worker copies the feature groups that it reads of a store there, once,
        and reads the copies afterwards, also in later fits of the same store. None: the store is read at each use.
    security : distributed.Security or None
        TLS certificates and keys.
    limits : samekind.compute.dask.Limits or None
        Seconds that are waited for a scheduler, a worker and an operation.

    Yields
    ------
    executor : DaskExecutor
        To be given as `compute=` to estimators that are to use it where the block is not around them.
    """
    from samekind.compute.dask import DaskExecutor

    if (address is None) == (workers is None):
        raise ValueError("cluster() takes either the address of a scheduler or a number of workers.")
    with contextlib.ExitStack() as stack:
        if address is None:
            assert workers is not None
            address = stack.enter_context(local_cluster(workers))
        executor = stack.enter_context(
            DaskExecutor(address, n_jobs, shared=shared, stripes=stripes, security=security, limits=limits)
        )
        token = _current.set(executor)
        try:
            yield executor
        finally:
            _current.reset(token)


@contextlib.contextmanager
def local_cluster(n_workers: int) -> Iterator[str]:
    """A scheduler and worker processes on this machine, which share its cores; its address."""
    if n_workers < 1:
        raise ValueError(f"workers={n_workers}: at least one is needed.")
    threads = max(1, effective_threads(None) // n_workers)
    with tempfile.TemporaryDirectory(prefix="samekind-") as folder, contextlib.ExitStack() as stack:
        file = Path(folder) / "scheduler.json"
        stack.enter_context(process(scheduler_command(file), Path(folder) / "scheduler.log"))
        address = scheduler_address(file, Path(folder) / "scheduler.log")
        for number in range(n_workers):
            command = [sys.executable, "-m", "samekind", "worker", address, "--jobs", str(threads)]
            stack.enter_context(process([*command, "--name", f"local-{number}"], Path(folder) / f"{number}.log"))
        yield address


def scheduler_command(file: Path, port: int = 0, host: str = "127.0.0.1") -> list[str]:
    """`dask scheduler`, which writes its address into a file."""
    own = ["--host", host, "--port", str(port), "--no-dashboard", "--scheduler-file", str(file)]
    return [sys.executable, "-m", "distributed.cli.dask_scheduler", *own]


def scheduler_address(file: Path, log: Path) -> str:
    import json

    until = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.1)
    raise RuntimeError(f"dask's scheduler did not start within {STARTED_WITHIN:.0f} s: {log.read_text()[-400:]}")


@contextlib.contextmanager
def process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with open(log, "ab") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
