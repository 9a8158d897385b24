"""One operation on all its shares: handed out, waited for, and handed out again when workers are lost."""

from __future__ import annotations

import contextlib
import logging
import queue
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samekind.compute.packing import Packed, packed
from samekind.compute.site import Done, Message, Missing, Operation, Site, perform

if TYPE_CHECKING:
    from samekind.compute.dask import DaskExecutor

MOST_FAILING = 3  # workers that fail at an operation, before it is given up
IN_FLIGHT = 2  # shares of a worker that takes them one by one
SMALL = 1 << 24  # bytes of a result that may stay on its worker until the next operation is under way

Bytes = NDArray[np.uint8]  # which travel through dask as they are; `bytes` would be copied for each message


class ClusterError(RuntimeError):
    """The cluster could not go on; what was finished is in the checkpoint, where there is one."""


@dataclass
class Task:
    future: Any
    worker: str
    address: str  # of the worker's process that it was given to
    share: list[int]
    began: float


class Run:
    """One operation on all shares, whatever happens to the workers meanwhile."""

    def __init__(
        self,
        executor: DaskExecutor,
        site: Site,
        operation: Operation,
        arguments: tuple[Any, ...],
        shares: Callable[[Sequence[str], Sequence[int] | None], dict[str, list[int]]] | None,
        names: Sequence[int] | None = None,
        size: int = 1,
    ):
        self.executor = executor
        self.site = site
        self.operation = operation
        self.arguments = as_array(packed(arguments))
        self.shares = shares  # of workers, of some items or all; None: whoever is free gets the next
        self.names = names  # what items of a share are called; themselves where None
        self.size = size  # of the shares of those who are free
        self.waiting: deque[list[int]] = deque()
        self.looked = time.monotonic()
        self.tasks: dict[str, Task] = {}
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.recipe: Packed | None = None
        self.failing: set[str] = set()  # workers that could not do their work, for a reason of their machine maybe

    def results(self) -> Iterator[tuple[list[int], Any]]:
        try:
            self._hand_out(None)
            while self.tasks:
                key = None
                with contextlib.suppress(queue.Empty):
                    key = self.ended.get(timeout=self.executor.limits.poll)
                if key in self.tasks:
                    yield from self._take(key)
                if time.monotonic() - self.looked > self.executor.limits.poll:
                    self._check_workers()
                self._top_up()
        finally:
            self._cancel(list(self.tasks))

    def _hand_out(self, items: Sequence[int] | None) -> None:
        workers = list(self.executor._available())
        self.executor._compare(workers)
        if self.shares is None:
            assert self.names is not None
            places = list(range(len(self.names)) if items is None else items)
            self.waiting.extend(places[at : at + self.size] for at in range(0, len(places), self.size))
            self._top_up()
            return
        for worker, share in self.shares(workers, items).items():
            self._submit(worker, share)
        self.executor.release_done()

    def _top_up(self) -> None:
        """Those who have little to do get more."""
        if not self.waiting:
            return
        for worker in [name for name in self.executor._addresses if name not in self.failing]:
            busy = sum(task.worker == worker for task in self.tasks.values())
            while self.waiting and busy < IN_FLIGHT:
                self._submit(worker, self.waiting.popleft())
                busy += 1
        self.executor.release_done()

    def _submit(self, worker: str, share: list[int], *, everything: bool = False, has: int | None = None) -> None:
        executor, site = self.executor, self.site
        known = executor._known.setdefault(worker, {})
        if everything:
            known.pop(site.token, None)
        elif has is not None:
            known[site.token] = has
        since = known.get(site.token)
        if since is None and self.recipe is None:
            self.recipe = executor._shared.packed(site)
        message = packed(
            Message(
                worker,
                executor._ended_for(worker),
                site.token,
                self.recipe if since is None else None,
                since or 0,
                site.log[since or 0 :],
                self.operation,
                share if self.names is None else [self.names[at] for at in share],
                None,
            )
        )
        executor.traffic.note(executor.traffic.sent, worker, len(message.data) + len(self.arguments))
        key = f"samekind-{getattr(self.operation, '__name__', 'operation')}-{uuid.uuid4().hex}"
        try:
            address = executor._addresses[worker]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of large graphs: these are few, and meant
                future = executor._client.submit(
                    perform_packed,
                    as_array(message),
                    self.arguments,
                    key=key,
                    workers=[address],
                    allow_other_workers=False,
                    pure=False,
                )
        except Exception:
            self._lost(worker)
            self._hand_out(share)
            return
        self.tasks[key] = Task(future, worker, address, share, time.monotonic())
        future.add_done_callback(lambda _, key=key: self.ended.put(key))

    def _take(self, key: str) -> Iterator[tuple[list[int], Any]]:
        """What became of a task: a result, or a share to hand out again."""
        task = self.tasks.pop(key)
        self.executor.done.append(task.future)
        error: BaseException | None = None
        try:
            if task.future.status == "error":
                error = task.future.exception(timeout=self.executor.limits.connect)
            else:
                data = task.future.result(timeout=self.executor.limits.connect)
        except Exception:  # the worker or the connection went, rather than the work
            self._lost(task.worker)
            self._hand_out(task.share)
            return
        if error is not None:
            self._failed(task, error)
            return
        if len(data) > SMALL:
            self.executor.release_done()
        self.executor.traffic.note(self.executor.traffic.received, task.worker, len(data))
        answer: Done | Missing = Packed(data.data).load()
        if isinstance(answer, Missing):
            self._submit(task.worker, task.share, everything=answer.site, has=None if answer.site else answer.entries)
            return
        self.executor._known[task.worker][self.site.token] = len(self.site.log)
        self.executor._say(task.worker, answer.remarks)
        yield task.share, answer.result

    def _failed(self, task: Task, error: BaseException) -> None:
        """Dask's word for a worker that died: others do it. An error of the work: tried elsewhere, then raised."""
        if type(error).__name__ == "KilledWorker":
            self._lost(task.worker)
            self._hand_out(task.share)
            return
        executor = self.executor
        self.failing.add(task.worker)
        others = [name for name in executor._available() if name not in self.failing]
        if len(self.failing) < MOST_FAILING and others:
            self._submit(others[0], task.share)
            return
        raise naming_worker(error, task.worker, executor._addresses.get(task.worker, "gone"))

    def _check_workers(self) -> None:
        """Shares of workers that are gone, silent, or beyond the limit go to others."""
        executor, now = self.executor, time.monotonic()
        self.looked = now
        if not executor._look():
            executor._connect()
            lost = list(self.tasks)
        else:
            lost = [key for key, task in self.tasks.items() if not executor._is_there(task.worker, task.address)]
            for task in self.tasks.values():
                if now - task.began > executor.limits.operation:
                    raise ClusterError(
                        f"Worker {task.worker} has worked for more than {executor.limits.operation:.0f} s on one "
                        "operation, and still gives signs of life. See what keeps it; a fit with a checkpoint goes on "
                        "where it stopped."
                    )
        share = [item for key in lost for item in self.tasks[key].share]
        for worker in {self.tasks[key].worker for key in lost}:
            self._lost(worker)
        self._cancel(lost)
        if share:
            self._hand_out(share)

    def _lost(self, worker: str) -> None:
        executor = self.executor
        executor.given_up.append(worker)
        executor._known.pop(worker, None)
        address = executor._addresses.pop(worker, None)
        logging.getLogger("samekind.cluster").info("worker %s at %s is given up", worker, address)

    def _cancel(self, keys: list[str]) -> None:
        for key in keys:
            task = self.tasks.pop(key)
            with contextlib.suppress(Exception):
                task.future.release()  # which nobody else wants


def as_array(message: Packed) -> Bytes:
    return np.frombuffer(message.data, np.uint8)


def perform_packed(message: Bytes, arguments: Bytes) -> Bytes:
    """The task that is submitted: bytes in, bytes out, so that the scheduler need not know what they are."""
    asked: Message = Packed(message.data).load()
    return as_array(packed(perform(replace(asked, arguments=Packed(arguments.data)))))


def naming_worker(error: BaseException, worker: str, address: str) -> BaseException:
    """An error of the work, with the worker's name: files are those of its machine."""
    if isinstance(error, OSError | MemoryError) or type(error).__name__ == "StoreError":
        made = ClusterError(f"Worker {worker} ({address}): {error}")
        made.__cause__ = error
        return made
    error.add_note(f"on worker {worker} ({address})")
    return error
