"""Who does the work: one thread or several. Results come in the order of the items, whoever made them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from samekind.threads import effective_threads, single_threaded_blas

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
