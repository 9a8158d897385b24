"""Observers of a fit: the history, a progress display, the user's callback.

A fit informs its displays of the stages to come (`plan`) and of each that begins (`begin`); solvers report each
iteration (`Event`) to all. A callback that is a `Display` gets all three.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from samekind.estimators.time_left import Clock, Pace, Stage, TimeLeft, words_for
from samekind.events import Event

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn, TaskID

SECONDS_PER_LINE = 60.0


class Listeners(AbstractContextManager["Listeners"]):
    """Records each event, draws it, hands it on; True from the callback stops the solver."""

    def __init__(self, verbose: int, callback: Callable[[Event], bool | None] | None):
        self.history: list[dict[str, Any]] = []
        self.stopped = False
        self._callback = callback
        self._display = ProgressBars() if verbose else None
        self._displays = [each for each in (self._display, callback) if isinstance(each, Display)]

    def __enter__(self) -> "Listeners":
        if self._display:
            self._display.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._display:
            self._display.__exit__(kind, error, trace)

    def plan(self, stages: Sequence[Stage]) -> None:
        """All that is to come, in order; what is known by then may replace an earlier plan."""
        for display in self._displays:
            display.plan(stages)

    def begin(self, stage: Stage) -> None:
        for display in self._displays:
            display.begin(stage)

    def count(self, done: int, total: int) -> None:
        """How far the present stage is, where no solver reports it."""
        for display in self._displays:
            display.count(done, total)

    def observer(self, family: Hashable | None, part: str = "") -> Callable[[Event], bool]:
        """An observer of the solver of one family in one part of the fit, which adds both to its events."""
        return lambda event: self(replace(event, family=family, part=part))

    def __call__(self, event: Event) -> bool:
        self.history.append(event.record())
        if self._display:
            self._display(event)
        answer = None if self._callback is None else self._callback(event)
        if isinstance(answer, bool | np.bool_) and answer:
            self.stopped = True
        return self.stopped


class Display(AbstractContextManager["Display"], ABC):
    """Shows a fit's events; steps go by their `titles`, where they have one, and by their names elsewhere."""

    def __init__(self, titles: Mapping[str, str] | None = None, clock: Clock = time.monotonic):
        self._titles = titles or {}
        self._clock = clock
        self._began = clock()
        self._paces: dict[Hashable, Pace] = {}
        self._whole: TimeLeft | None = None
        self._stage: Stage | None = None
        self._n_parts = 0

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None

    def plan(self, stages: Sequence[Stage]) -> None:
        """All stages to come, in order: from now on the time left is that of all of them."""
        if self._whole is None:
            self._whole = TimeLeft(self._clock)
        self._whole.plan(stages)
        self._n_parts = max(self._n_parts, len({stage.part for stage in stages if stage.part}))

    def begin(self, stage: Stage) -> None:
        self._stage = stage
        if self._whole is not None:
            self._whole.begin(stage)
        left = self._words_for(None if self._whole is None else self._whole.seconds())
        if stage.total > 1:
            self.draw(self._key(stage), self._title(stage), stage.number, stage.total, "", left, stage.number == 1)
        else:
            self.draw(self._key(stage), self._title(stage), 0, None, "", left, True)

    def count(self, done: int, total: int) -> None:
        """How far the present stage is."""
        if self._stage is not None and self._stage.total == 1:
            left = self._words_for(None if self._whole is None else self._whole.after(done / max(total, 1)))
            self.draw(self._key(self._stage), self._title(self._stage), done, total, "", left)

    def __call__(self, event: Event) -> None:
        stage = Stage(event.step, event.part, event.family)
        left = self._paces.setdefault(stage.place, Pace(self._clock)).seconds_left(event)
        if self._whole is not None:
            left = self._whole.after_event(event)
        present = self._stage
        if present is not None and present.total > 1:  # a solver at work on one of several that are shown as one
            numbers = present.number, present.total
            self.draw(self._key(present), self._title(present), *numbers, "", self._words_for(left))
            return
        state = f"objective {event.objective:.5g}  rank {event.rank}"
        self.draw(self._key(stage), self._title(stage), event.iteration, event.total, state, self._words_for(left))

    def _words_for(self, seconds: float | None) -> str:
        return words_for(seconds, self._clock() - self._began)

    def _key(self, stage: Stage) -> Hashable:
        return (stage.step, stage.part, stage.family) if stage.total == 1 else stage.step

    def _title(self, stage: Stage) -> str:
        title = self._titles.get(stage.step, stage.step)
        if stage.family is not None:
            title = f"{title} ({stage.family})"
        if stage.total > 1 or not (stage.part or self._n_parts):
            return title
        of = f" of {self._n_parts}" if self._n_parts else ""
        return f"{f'{stage.part.capitalize()}{of}' if stage.part else 'Final fit'}: {title[:1].lower()}{title[1:]}"

    @abstractmethod
    def draw(
        self, key: Hashable, title: str, done: int, total: int | None, state: str, left: str, begins: bool = False
    ) -> None:
        """How far the stage so titled is, what its solver has reached, and the time left, in words."""


class ProgressBars(Display):
    """A bar per step, on a console (stdout by default), and `first` one for the work before the first event."""

    def __init__(
        self,
        console: "Console | None" = None,
        titles: Mapping[str, str] | None = None,
        first: str | None = None,
        clock: Clock = time.monotonic,
    ):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.table import Column

        super().__init__(titles, clock)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[state]}"),
            _time_column(),
            console=console,
        )
        self._first = first
        self._bars: dict[Hashable, TaskID] = {}

    def __enter__(self) -> "ProgressBars":
        self._progress.start()
        if self._first is not None:
            self._add(self._first, None)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._finish()
        self._progress.stop()

    def draw(
        self, key: Hashable, title: str, done: int, total: int | None, state: str, left: str, begins: bool = False
    ) -> None:
        if key not in self._bars:
            self._finish()
            self._bars[key] = self._add(title, total)
        self._progress.update(self._bars[key], completed=done, total=total, state=state, left=left)

    def _add(self, title: str, total: int | None) -> "TaskID":
        return self._progress.add_task(title, total=total, state="", left="")

    def _finish(self) -> None:
        """A step that ended before its last iteration is done all the same."""
        for bar in self._progress.tasks:
            done = bar.completed or 1
            self._progress.update(bar.id, completed=done, total=done, left="")


def _time_column() -> "ProgressColumn":
    """Time left where it is known, time passed elsewhere: both are too much for a narrow terminal."""
    from rich.progress import Task, TimeElapsedColumn
    from rich.table import Column
    from rich.text import Text

    class TimeColumn(TimeElapsedColumn):
        def render(self, task: Task) -> Text:
            left = task.fields["left"]
            return Text(left) if left else super().render(task)

    return TimeColumn(table_column=Column(no_wrap=True))


class ProgressLines(Display):
    """Progress for a log: a line when a stage begins, and one from time to time."""

    def __init__(
        self,
        console: "Console",
        titles: Mapping[str, str] | None = None,
        every: float = SECONDS_PER_LINE,
        clock: Clock = time.monotonic,
    ):
        super().__init__(titles, clock)
        self._console = console
        self._every = every
        self._last = clock()

    def draw(
        self, key: Hashable, title: str, done: int, total: int | None, state: str, left: str, begins: bool = False
    ) -> None:
        if not begins and self._clock() - self._last < self._every:
            return
        self._last = self._clock()
        line = title + (f": {done:,} of {total:,}" if total else "") + f", {left}" * bool(left)
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
