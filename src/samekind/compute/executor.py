"""Who does the work: one thread or several. Results come in the order of the items, whoever made them."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

import threadpoolctl

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor:
    """Maps a function over items in threads, BLAS held to one thread meanwhile.

    At most two results per thread are under way at once, so that memory stays bounded.
    """

    def __init__(self, n_jobs: int | None = None):
        self.n_threads = effective_threads(n_jobs)
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        with single_threaded_blas():
            if self._pool is None:
                yield from map(function, items)
            else:
                yield from _in_order(self._pool, function, items, 2 * self.n_threads)


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
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs=0 means no work at all. Give a number of threads, or None for every core.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def single_threaded_blas() -> AbstractContextManager[Any]:
    """Small or already shared work: two BLAS threads would only wait for each other."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()
