"""One thread or several. Results come in the order of the items, whichever thread computed them.

`over_leaves`, `over_groups` and `over_items` are where work may leave the process: an operation of `compute.site` on
shares of a plan's leaves, of feature groups or of pictures. Here one share has all of them, and the operation maps over
its parts in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from samekind.compute.site import Operation, Site
from samekind.threads import ThreadPool, single_threaded_blas

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor:
    """Maps a function over items in threads, BLAS held to one thread meanwhile."""

    is_remote = False  # whether operations may be done elsewhere

    def __init__(self, n_jobs: int | None = None):
        self._pool = ThreadPool(n_jobs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Executor, ()  # whoever unpickles it has threads of their own

    @property
    def n_threads(self) -> int:
        return self._pool.n_threads

    @property
    def local(self) -> Executor:
        """One that does everything in this process."""
        return self

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        with single_threaded_blas():
            yield from self._pool.map(function, items)

    def over_leaves(self, objective: Any, operation: Operation, *arguments: Any) -> Iterator[Any]:
        """Results of an operation on shares of the leaves of an objective's plan, all together all of them."""
        yield operation(objective, range(len(objective.plan.leaves())), *arguments)

    def over_groups(
        self, site: Site, operation: Operation, groups: Sequence[int], *arguments: Any
    ) -> Iterator[tuple[Sequence[int], Any]]:
        """Places of some of the groups, and the operation's result on these."""
        yield range(len(groups)), operation(site.objective, groups, *arguments)

    def over_items(
        self, site: Site, operation: Operation, items: Sequence[int], size: int
    ) -> Iterator[tuple[Sequence[int], Any]]:
        """Places of some of the items, and the operation's result on these: in any order, `size` of them at once."""
        runs = [range(start, min(start + size, len(items))) for start in range(0, len(items), size)]
        results = self.map(lambda run: operation(site.objective, [items[at] for at in run]), runs)
        yield from zip(runs, results, strict=True)
