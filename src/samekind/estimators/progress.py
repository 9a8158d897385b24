"""Who listens to a fit: the history, a progress bar, the user's callback."""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import numpy as np

from samekind.solvers.events import Event


class Listeners(AbstractContextManager["Listeners"]):
    """Records each event, draws it, hands it on; True from the callback stops the solver."""

    def __init__(self, verbose: int, callback: Callable[[Event], bool | None] | None):
        self.history: list[dict[str, Any]] = []
        self.stopped = False
        self._callback = callback
        self._bar = ProgressBar() if verbose else None

    def __enter__(self) -> "Listeners":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def of_family(self, family: Hashable | None) -> Callable[[Event], bool]:
        """A listener whose records name the family."""
        return lambda event: self(event, {} if family is None else {"family": family})

    def __call__(self, event: Event, marks: dict[str, Any] | None = None) -> bool:
        record = event.record() | (marks or {})
        self.history.append(record)
        if self._bar:
            self._bar.show(event, record.get("family"))
        answer = None if self._callback is None else self._callback(event)
        if isinstance(answer, bool | np.bool_) and answer:
            self.stopped = True
        return self.stopped


class ProgressBar:
    """One line per step: rounds or iterations, objective, rank."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("objective {task.fields[objective]:.5g}  rank {task.fields[rank]}"),
            TimeElapsedColumn(),
        )
        self._lines: dict[tuple[str, Hashable | None], Any] = {}

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        """A step that ended before its last iteration is done all the same."""
        for line in self._progress.tasks:
            self._progress.update(line.id, total=line.completed)
        self._progress.stop()

    def show(self, event: Event, family: Hashable | None) -> None:
        key = event.step, family
        if key not in self._lines:
            title = event.step if family is None else f"{event.step} ({family})"
            self._lines[key] = self._progress.add_task(title, total=event.total, objective=0.0, rank=0)
        self._progress.update(self._lines[key], completed=event.iteration, objective=event.objective, rank=event.rank)
