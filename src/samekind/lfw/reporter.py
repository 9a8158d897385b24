"""Progress of the experiment."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

from samekind.events import Observer

Count: TypeAlias = Callable[[int, int], None]  # done, total


class ProgressReporter(Protocol):
    """A stage at a time; both come with the time that the stage has left, where there is someone to see it."""

    def say(self, line: str) -> None: ...

    def learning(self, title: str) -> AbstractContextManager[Observer | None]: ...

    def counting(self, title: str) -> AbstractContextManager[Count]: ...


class NoProgress:
    def say(self, line: str) -> None:
        return None

    def learning(self, title: str) -> AbstractContextManager[Observer | None]:
        return nullcontext()

    def counting(self, title: str) -> AbstractContextManager[Count]:
        return nullcontext(lambda done, total: None)
