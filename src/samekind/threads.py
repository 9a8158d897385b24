"""How many threads, and whose: ours or those of BLAS."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

import threadpoolctl

Item = TypeVar("Item")


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


def in_threads(function: Callable[[Item], None], items: Iterable[Item], n_threads: int) -> None:
    """Call a function with each item."""
    if n_threads == 1:
        for item in items:
            function(item)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(function, items))
