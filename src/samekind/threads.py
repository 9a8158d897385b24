"""How many threads, and whose: ours or those of BLAS. All threads of the package are started here."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

import threadpoolctl

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2  # results per thread that are under way at once


_limit: list[int | None] = [None]


def limit_threads(n_threads: int | None) -> None:
    """Count at most so many cores in this process: others on the machine have theirs."""
    _limit[0] = n_threads


class ThreadPool:
    """Calls functions in `n_jobs` threads, in the caller's own where that is one; a context manager.

    Threads start when there is work for them, and end with the `with` block or with the pool itself.
    """

    def __init__(self, n_jobs: int | None = None):
        self.n_threads = effective_threads(n_jobs)
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=error is not None)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results in the order of the items, few of them under way at once, so that memory stays bounded.

        A single item is done in the caller's thread: handing it over can take longer than the work.
        """
        if self._pool is None:
            return map(function, items)
        items = iter(items)
        first = list(islice(items, 2))
        if len(first) < 2:
            return map(function, first)
        return _in_order(self._pool, function, chain(first, items), AHEAD * self.n_threads)

    def run(self, function: Callable[[Item], None], items: Iterable[Item]) -> None:
        """Call a function with each item, and wait until all are done."""
        for _ in map(function, items) if self._pool is None else self._pool.map(function, items):
            pass


class Workers:
    """`n_threads` threads that do what is submitted, until `close`."""

    def __init__(self, n_threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=name)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        return self._pool.submit(function, *arguments)

    def close(self) -> None:
        """Wait for what is under way; what has not begun is cancelled."""
        self._pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def effective_threads(n_jobs: int | None) -> int:
    """None and -1 mean every core that this process may use, -2 all but one, and so on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(cores, _limit[0] or cores)
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs=0 means no work at all. Give a number of threads, or None for every core.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class _BlasLimit:
    """Holds BLAS to one thread while at least one caller is inside: the first sets the limit, the last lifts it.

    The limit is the process's own, so nothing is left to do for those in between; asking BLAS takes 0.1 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            if not self._n_inside:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                self._limit.restore_original_limits()


_BLAS_LIMIT = _BlasLimit()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Small or already shared work: two BLAS threads would only wait for each other."""
    _BLAS_LIMIT.enter()
    try:
        yield
    finally:
        _BLAS_LIMIT.leave()


@lru_cache(maxsize=1)
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()
