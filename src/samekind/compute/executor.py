"""One thread or several. Results come in the order of the items, whichever thread computed them."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from samekind.threads import ThreadPool, single_threaded_blas

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor:
    """Maps a function over items in threads, BLAS held to one thread meanwhile."""

    def __init__(self, n_jobs: int | None = None):
        self._pool = ThreadPool(n_jobs)

    @property
    def n_threads(self) -> int:
        return self._pool.n_threads

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        with single_threaded_blas():
            yield from self._pool.map(function, items)
