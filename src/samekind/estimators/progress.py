"""Who listens to a fit: the history, a progress display, the user's callback."""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from samekind.solvers.events import Event

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn, TaskID

RECENT = 20  # iterations whose mean is the pace
SECONDS_PER_LINE = 60.0

Clock = Callable[[], float]


class Listeners(AbstractContextManager["Listeners"]):
    """Records each event, draws it, hands it on; True from the callback stops the solver."""

    def __init__(self, verbose: int, callback: Callable[[Event], bool | None] | None):
        self.history: list[dict[str, Any]] = []
        self.stopped = False
        self._callback = callback
        self._display = ProgressBars() if verbose else None

    def __enter__(self) -> "Listeners":
        if self._display:
            self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display:
            self._display.__exit__(kind, error, trace)

    def of(self, family: Hashable | None, part: str = "") -> Callable[[Event], bool]:
        """A listener to the solver of one family in one part of the fit: everyone else hears whose event it is."""
        return lambda event: self(replace(event, family=family, part=part))

    def __call__(self, event: Event) -> bool:
        self.history.append(event.record())
        if self._display:
            self._display(event)
        answer = None if self._callback is None else self._callback(event)
        if isinstance(answer, bool | np.bool_) and answer:
            self.stopped = True
        return self.stopped


class Pace:
    """How long a step will take, judged by its last iterations.

    By their mean: every so often an iteration takes much longer than the others, which a median would not see.
    """

    def __init__(self, clock: Clock = time.monotonic):
        self._clock = clock
        self._times: deque[float] = deque(maxlen=RECENT + 1)

    def seconds_left(self, event: Event) -> float | None:
        """To be asked once per event, when it comes; None while nothing is known."""
        self._times.append(self._clock())
        if event.left is None or not math.isfinite(event.left) or len(self._times) < 2:
            return None
        return max(event.left, 0.0) * (self._times[-1] - self._times[0]) / (len(self._times) - 1)


def words_for(seconds: float | None) -> str:
    """Time left as one would say it, no finer than it is known; nothing where it is not known, or over."""
    if not seconds:
        return ""
    if seconds < 5:
        return "under 5 s left"
    if seconds < 57.5:
        return f"about {_rounded(seconds, 5)} s left"
    minutes, hours = seconds / 60, seconds / 3600
    if hours < 1.5:
        return f"about {_rounded(minutes, 1 if minutes < 9.5 else 5)} min left"
    return f"about {_rounded(hours, 0.5 if hours < 5 else 1)} h left"


def _rounded(number: float, step: float) -> str:
    return f"{step * round(number / step):g}"


class Display(AbstractContextManager["Display"], ABC):
    """Shows a fit's events; steps go by their `titles`, where they have one, and by their names elsewhere."""

    def __init__(self, titles: Mapping[str, str] | None = None, clock: Clock = time.monotonic):
        self._titles = titles or {}
        self._clock = clock
        self._paces: dict[Hashable, Pace] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event) -> None:
        title = self._titles.get(event.step, event.step)
        if event.family is not None:
            title = f"{title} ({event.family})"
        left = self._paces.setdefault((event.step, event.family), Pace(self._clock)).seconds_left(event)
        self.draw(title, event, words_for(left))

    @abstractmethod
    def draw(self, title: str, event: Event, left: str) -> None:
        """One event of the step so titled, and the time it has left, in words."""


class ProgressBars(Display):
    """A bar per step, on a console (stdout unless told), and `first` one for what is done before the first event."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self._progress.stop()

    def draw(self, title: str, event: Event, left: str) -> None:
        key = event.step, event.family
        if key not in self._bars:
            self._finish()
            self._bars[key] = self._add(title, event.total)
        state = f"objective {event.objective:.5g}  rank {event.rank}"
        self._progress.update(self._bars[key], completed=event.iteration, total=event.total, state=state, left=left)

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
    """Now and then a line, for a log."""

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

    def draw(self, title: str, event: Event, left: str) -> None:
        if self._clock() - self._last < self._every:
            return
        self._last = self._clock()
        line = f"{title}: {event.iteration:,} of {event.total:,}" + f", {left}" * bool(left)
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
