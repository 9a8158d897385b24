"""Work over pairs on the workers of a Dask cluster. dask is imported here only, and when it is needed.

The driver runs the solvers, and hands out operations on shares of leaves or groups (see `compute.site`); each worker
owns its leaves and keeps what belongs to them. Only `submit` is used: which worker does what is decided here, so that a
share goes where its state is. A worker that dies, hangs or is cut off loses its share to others, which replay it; one
that comes takes over a part. The result is the same in every bit, as sums are in a fixed order (`compute.reduction`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from samekind.compute.executor import Executor
from samekind.compute.machine import description
from samekind.compute.owners import Owners, striped
from samekind.compute.packing import SharedFolder
from samekind.compute.running import ClusterError, Run
from samekind.compute.site import Operation, Site, forget
from samekind.threads import limit_threads

__all__ = ["ClusterError", "DaskExecutor", "Limits", "run_worker", "tls"]

MOST_OWNERS = 8  # plans whose owners are remembered
INSTALL = "A cluster needs dask.distributed: pip install 'samekind[cluster]'."


TIMEOUTS = {
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "12s",  # a peer that is cut off is noticed then
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.limit": "1h",  # a busy machine is no news
}
RETRY = 1.0  # seconds between attempts to reach a scheduler


@dataclass(frozen=True)
class Limits:
    """Seconds that the driver waits."""

    connect: float = 10.0  # for one attempt to reach the scheduler
    gone: float = 60.0  # without a scheduler, or without any worker, before it gives up
    silent: float = 12.0  # without a sign of life of a worker, before its share goes to others
    operation: float = 3600.0  # for a single operation of a worker that is alive
    poll: float = 0.5  # between two looks at the workers


@dataclass
class Traffic:
    """Bytes of messages and results, of each worker."""

    sent: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)

    def note(self, of: dict[str, int], worker: str, n_bytes: int) -> None:
        of[worker] = of.get(worker, 0) + n_bytes


class _Patience:
    """Whether a limit is reached, a process that was stopped meanwhile counting as one that waited for a moment."""

    def __init__(self, limit: float, longest: float):
        self.limit, self.longest = limit, longest
        self.spent, self.last = 0.0, time.monotonic()

    def is_over(self) -> bool:
        now = time.monotonic()
        self.spent, self.last = self.spent + min(now - self.last, self.longest), now
        return self.spent > self.limit


class DaskExecutor(Executor):
    """The workers of a Dask cluster, and threads of this process for what is small; a context manager.

    Parameters
    ----------
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786".
    n_jobs : int or None
        Threads of this process.
    shared : path or None
        A folder that this process and all workers see, for arrays in memory; None: the system's temporary folder, which
        does for workers on this machine. Stores on disk must be at the same path everywhere.
    stripes : path or None
        A folder of each worker's own disk, into which it copies the groups that it reads of stores.
    security : distributed.Security or None
        TLS certificates, as `dask.distributed` has them.
    """

    is_remote = True

    def __init__(
        self,
        address: str,
        n_jobs: int | None = None,
        *,
        shared: str | os.PathLike[str] | None = None,
        stripes: str | os.PathLike[str] | None = None,
        security: Any = None,
        limits: Limits | None = None,
    ):
        super().__init__(n_jobs)
        self.address = address
        self.security = security
        self.limits = limits or Limits()
        self.traffic = Traffic()
        self.given_up: list[str] = []  # workers that died or hung, for those who want to know
        self.done: list[Any] = []  # futures whose results are here, to be released
        self._local = Executor(n_jobs)
        self._shared = SharedFolder(
            Path(shared or tempfile.gettempdir()), None if stripes is None else Path(stripes).absolute()
        )
        self._known: dict[str, dict[str, int]] = {}  # worker -> site -> entries of its log that it has
        self._ended: list[str] = []  # sites that nobody here needs any more
        self._owners: dict[str, Owners] = {}
        self._addresses: dict[str, str] = {}  # of the workers that are there, by name
        self._seen: dict[str, tuple[float, float]] = {}  # worker -> last sign of life, and seconds of silence since
        self._looked = time.monotonic()
        self._said: set[str] = set()  # of what workers had to say
        self._checked: set[str] = set()  # workers whose processor and versions were compared
        self._client: Any = None
        self._connect()
        warn_of_open_network(address, security)

    def __deepcopy__(self, memo: Any) -> DaskExecutor:
        return self  # scikit-learn copies parameters

    def __sklearn_clone__(self) -> DaskExecutor:
        return self

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        tokens = {token for known in self._known.values() for token in known}
        if self._client is not None and getattr(self._client, "status", "") == "running":
            with contextlib.suppress(Exception):
                self._look()
                gone = [
                    self._client.submit(forget, name, sorted(tokens), workers=[address], pure=False)
                    for name, address in self._addresses.items()
                ]
                for future in gone:
                    future.result(timeout=2)
        self._drop_client()
        self._shared.close()

    @property
    def local(self) -> Executor:
        return self._local

    @property
    def workers(self) -> list[str]:
        """Names of the workers that are there, in the order in which they came."""
        self._look()
        return list(self._addresses)

    def over_leaves(self, objective: Any, operation: Operation, *arguments: Any) -> Iterator[Any]:
        site: Site | None = objective.site
        if site is None:
            yield from self._local.over_leaves(objective, operation, *arguments)
            return
        if site.token not in self._owners:
            weakref.finalize(site, self._ended.append, site.token)
            self._owners = dict(list(self._owners.items())[1 - MOST_OWNERS :])
            self._owners[site.token] = Owners(objective.plan.leaf_costs)
        owners = self._owners[site.token]

        def shares(workers: Sequence[str], items: Sequence[int] | None) -> dict[str, list[int]]:
            return owners.shares(workers, items)

        for _, result in Run(self, site, operation, arguments, shares).results():
            yield result

    def over_groups(
        self, site: Site, operation: Operation, groups: Sequence[int], *arguments: Any
    ) -> Iterator[tuple[Sequence[int], Any]]:
        if len(groups):
            yield from Run(self, site, operation, arguments, partial(group_shares, groups), names=groups).results()

    def over_items(
        self, site: Site, operation: Operation, items: Sequence[int], size: int
    ) -> Iterator[tuple[Sequence[int], Any]]:
        yield from Run(self, site, operation, (), None, names=items, size=size).results()

    def release_done(self) -> None:
        """Results that were taken may go. To be said after the next operation is submitted, which else waits for that:
        the scheduler sends a worker one message in 5 ms."""
        while self.done:
            with contextlib.suppress(Exception):
                self.done.pop().release()

    # -- the workers ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """To the scheduler, until there is one or the limit is reached."""
        distributed = _distributed()
        patience, problem = _Patience(self.limits.gone, 2 * self.limits.connect), ""
        self._drop_client()
        while True:
            try:
                with _quiet():
                    self._client = distributed.Client(
                        self.address,
                        timeout=self.limits.connect,
                        set_as_default=False,
                        security=self.security,
                        name="samekind",
                    )
                at_once(self._client.scheduler_comm)
                return
            except (OSError, TimeoutError, ValueError) as error:
                if isinstance(error, ValueError):
                    raise ValueError(f"--scheduler {self.address!r} is no address of a scheduler: {error}") from error
                problem = str(error)
            if patience.is_over():
                raise ClusterError(
                    f"No scheduler answers at {self.address} for {self.limits.gone:.0f} s ({problem}). Start one with "
                    "`dask scheduler`; a fit with a checkpoint goes on where it stopped."
                )
            time.sleep(self.limits.poll)

    def _drop_client(self) -> None:
        self.release_done()
        if self._client is not None:
            with contextlib.suppress(Exception), _quiet():
                self._client.close(timeout=1)
            self._client = None

    def _look(self) -> bool:
        """Learn which workers are there and alive; False where the scheduler does not answer."""
        client = self._client
        if client is None or client.status != "running":
            return False
        try:
            info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=self.limits.connect)
        except Exception:
            return False
        # Only time in which this process looked counts: it may have been busy, or stopped together with the workers.
        now, there = time.monotonic(), {}
        waited, self._looked = min(now - self._looked, 4 * self.limits.poll), now
        for address, worker in info["workers"].items():
            name, seen = str(worker["name"]), worker["last_seen"]
            before, silent = self._seen.get(name, (None, 0.0))
            self._seen[name] = seen, 0.0 if before != seen else silent + waited
            works = worker.get("status", "running") in ("running", "paused", "undefined", "init")
            if works and self._seen[name][1] <= self.limits.silent:
                there[name] = address
        kept = {name: there[name] for name in self._addresses if name in there}
        self._addresses = kept | {name: address for name, address in there.items() if name not in kept}
        return True

    def _available(self) -> dict[str, str]:
        """Workers by name; waits for one, and for the scheduler, as long as the limit allows."""
        if self._addresses and time.monotonic() - self._looked < self.limits.poll:
            return self._addresses
        patience = _Patience(self.limits.gone, 2 * self.limits.connect)
        while True:
            if not self._look():
                self._connect()
            elif self._addresses:
                return self._addresses
            if patience.is_over():
                last = f" The last ones: {', '.join(self.given_up[-3:])}." if self.given_up else ""
                raise ClusterError(
                    f"The scheduler at {self.address} has had no worker for {self.limits.gone:.0f} s.{last} Start some "
                    f"with `samekind worker {self.address}`; a fit with a checkpoint goes on where it stopped."
                )
            time.sleep(self.limits.poll)

    def _compare(self, workers: Sequence[str]) -> None:
        """Warn of workers whose processors or libraries differ from this process's: then last bits may."""
        new = [worker for worker in workers if worker not in self._checked]
        if not new:
            return
        self._checked |= set(new)
        own = description()
        for worker in new:
            try:
                asked = self._client.submit(description, workers=[self._addresses[worker]], pure=False)
                other = asked.result(timeout=self.limits.connect)
            except Exception:
                self._checked.discard(worker)
                continue
            differing = [
                f"{name} {other.get(name)} instead of {own[name]}" for name in own if other.get(name) != own[name]
            ]
            if differing:
                warnings.warn(
                    f"Worker {worker} computes with {'; '.join(differing)}: results may depend in their last digits on "
                    "who computes what. Distances agree to about 1e-5.",
                    UserWarning,
                    stacklevel=2,
                )

    def _say(self, worker: str, remarks: Sequence[str]) -> None:
        """Warn, once, of what went wrong on a worker that could go on."""
        for remark in remarks:
            said = f"Worker {worker}: {remark}"
            if said not in self._said:
                self._said.add(said)
                warnings.warn(said, UserWarning, stacklevel=2)

    def _ended_for(self, worker: str) -> list[str]:
        """Sites that the driver is done with, and the worker may still have."""
        known = self._known.setdefault(worker, {})
        ended = [token for token in self._ended if token in known]
        for token in ended:
            known.pop(token)
        return ended

    def _is_there(self, worker: str, address: str) -> bool:
        """At this address still: a worker that was started again has another one, and nothing of what it had."""
        return self._addresses.get(worker) == address


def group_shares(
    groups: Sequence[int], workers: Sequence[str], items: Sequence[int] | None = None
) -> dict[str, list[int]]:
    """Which of the groups each worker gets, by their places in `groups`: all of them, or those at `items`.

    Workers go by name: those of an earlier fit get the groups again that they may have copies of.
    """
    chosen = range(len(groups)) if items is None else items
    made = striped([groups[at] for at in chosen], sorted(workers))
    return {worker: [chosen[at] for at in places] for worker, places in made.items()}


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
    distributed = _distributed()
    import dask

    dask.config.set(TIMEOUTS)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    lost = time.monotonic()
    while True:
        try:
            # Mapped files count as memory: with a limit, dask would restart the worker again and again.
            worker = distributed.Worker(
                address, nthreads=1, name=name, memory_limit=0, security=security, dashboard=False, nanny=None
            )
            at_once(worker.batched_stream)
            async with worker:
                say(f"worker {name} at {worker.address} works for {address}")
                await worker.finished()
            lost = time.monotonic()
            say(f"worker {name}: the scheduler at {address} is gone; waiting for it to come back")
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            if time.monotonic() - lost > give_up:
                raise ConnectionError(
                    f"No scheduler answers at {address} for {give_up:.0f} s ({error}). Start one with `dask scheduler`."
                ) from error
        await asyncio.sleep(RETRY)


def at_once(stream: Any) -> None:
    """Send messages when they are there. Dask waits for more, 10 ms in a driver: operations are few, one by one."""
    if hasattr(stream, "interval"):
        stream.interval = 0.0


def warn_of_open_network(address: str, security: Any) -> None:
    """Whoever reaches a scheduler without TLS can run code on its workers."""
    host = address.partition("://")[2].rpartition(":")[0]
    near = host.startswith("127.") or host in ("localhost", "::1", "[::1]") or address.startswith(("inproc", "ucx+ib"))
    if not near and not address.startswith("tls") and security is None:
        warnings.warn(
            f"The cluster at {address} has no TLS: whoever reaches that port can run code on its workers and read what "
            "is sent. Use tls:// with certificates (docs/scaling.md), or a network of its own.",
            UserWarning,
            stacklevel=3,
        )


def tls(ca: str | None, certificate: str | None, key: str | None) -> Any:
    """TLS files as dask wants them; None where none are given."""
    if not (ca or certificate or key):
        return None
    if not (ca and certificate and key):
        raise ValueError("TLS needs three files: --tls-ca-file, --tls-cert and --tls-key.")
    names = ("client", "worker", "scheduler")
    own = {f"tls_{name}_cert": certificate for name in names} | {f"tls_{name}_key": key for name in names}
    return _distributed().Security(tls_ca_file=ca, require_encryption=True, **own)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return distributed


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's own reports of connections that come and go: what matters is raised as an error."""
    loggers = [logging.getLogger(name) for name in ("distributed.client", "distributed.core", "distributed.comm")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
