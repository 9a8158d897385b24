"""How long a fit will go on, judged by what it has done so far.

Stage      what a fit does for a while, with a guess of the seconds that it takes
TimeLeft   the guesses of a plan, corrected by how long stages of the same kind have taken
Pace       of a single step that nobody planned, by its last iterations
words_for  the time left in words
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from samekind.events import Event

RECENT = 20  # iterations whose mean is the pace
EARLY = 0.1  # share of the whole before which no time left is named
FINEST = 0.05  # share of the time spent, below which the time left is not known any finer
SOLVED = ("selection", "joint")  # steps that report nothing only if a checkpoint had all of them
SEEN, GUESSED = 1.0, 0.05  # what stages of the same kind, and a guess, count for beside the present stage itself

Clock = Callable[[], float]
Kind = tuple[Hashable, ...]


@dataclass(frozen=True)
class Stage:
    """What a fit does for a while."""

    step: str  # "whitening", "selection", "choice", "joint" or "calibration"
    part: str = ""  # of the fit: a fold of classes left out, or "" for the final fit on all
    family: Hashable | None = None
    work: float = 1.0  # seconds, as a guess: for stages of one kind in proportion to what they take
    number: int = 1  # of `total` stages that are shown as one, such as the settings tried
    total: int = 1
    solver: str = ""  # what it runs, where stages of a step run different things

    @property
    def place(self) -> tuple[str, str, Hashable | None, int]:
        """What distinguishes it from the other stages of a plan."""
        return self.step, self.part, self.family, self.number

    @property
    def kinds(self) -> list[Kind]:
        """From narrow to wide: stages of one kind take time in proportion to their work."""
        same_solver: list[Kind] = [(self.solver,)] if self.solver else []
        return [(self.step, self.solver, self.family), (self.step, self.solver), *same_solver, ()]


class Pace:
    """How long a step will take, judged by its last iterations.

    By their mean: every so often an iteration takes much longer than the others, which a median would ignore.
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


class Records:
    """Seconds and work of the stages of one kind that are done."""

    def __init__(self) -> None:
        self._done: list[tuple[float, float]] = []

    def add(self, seconds: float, work: float) -> None:
        self._done.append((seconds, work))

    @property
    def pace(self) -> float:
        """Seconds for a unit of work. The first stage also compiles and reads: it counts while there is no other."""
        later = self._done[1:] or self._done
        return sum(seconds for seconds, _ in later) / sum(work for _, work in later)


class TimeLeft:
    """Time left of a fit whose stages are planned.

    A stage takes its guessed seconds, times how much longer than guessed the stages before it took: those of its own
    kind, or else of the narrowest kind of which there were any. The present stage is judged by itself as well, the more
    the further it is. Nothing is said before a tenth of the whole is done.
    """

    def __init__(self, clock: Clock = time.monotonic):
        self._clock = clock
        self._began = clock()
        self._pending: list[Stage] = []
        self._records: dict[Kind, Records] = {}
        self._stage: Stage | None = None
        self._since = clock()
        self._first: tuple[float, float] | None = None  # of the present stage: when first heard of, its share by then
        self._restored = 0.0  # share of the present stage that a checkpoint had

    def plan(self, stages: Sequence[Stage]) -> None:
        """What is to come, instead of what was planned before."""
        self._pending = list(stages)

    def begin(self, stage: Stage) -> None:
        """The one before is over; others before it in the plan will not be."""
        self._end()
        places = [pending.place for pending in self._pending]
        if stage.place in places:
            at = places.index(stage.place)
            stage, self._pending = self._pending[at], self._pending[at + 1 :]
        self._stage, self._since, self._first, self._restored = stage, self._clock(), None, 0.0

    def after_event(self, event: Event) -> float | None:
        """Seconds left after an iteration; a checkpoint may have had those before the first that is heard of."""
        known = event.left is not None and math.isfinite(event.left)
        share = event.iteration / max(event.iteration + max(event.left or 0.0, 0.0), 1) if known else 0.0
        if self._first is None:
            self._restored = share * (event.iteration - 1) / event.iteration
        return self.after(share)

    def after(self, share: float) -> float | None:
        """Seconds left when a solver tells that a share of the present stage is done; 0 where it does not know."""
        if self._first is None:
            self._first = self._clock(), share
        return self.seconds(share)

    def seconds(self, share: float = 0.0) -> float | None:
        """With a share of the present stage done; None while too little is known."""
        stage = self._stage
        if stage is None:
            return None
        total = self._total(stage, share)
        if total is None:
            return None
        now = self._clock()
        own = total * (1 - share) if share else max(total - (now - self._since), (now - self._since) / 4)
        left = own + sum(self._expected(pending, total) or 0.0 for pending in self._pending)
        return left if now - self._began >= EARLY * (now - self._began + left) else None

    def _total(self, stage: Stage, share: float) -> float | None:
        """Seconds of the present stage: by its own pace, and by what was expected of it; the mean is of logarithms.

        What came before it was first heard of, such as compiling and reading, is not extrapolated.
        """
        expected = self._expected(stage)
        if self._first is None or share <= self._first[1]:
            return expected
        at, before = self._first
        own = (at - self._since) + (self._clock() - at) / (share - before) * (1 - before)
        if not own or not expected:
            return own or expected
        seen = any(kind in self._records for kind in stage.kinds[:-1])
        weight, trust = share / max(1 - share, 1e-9), SEEN if seen else GUESSED
        return math.exp((weight * math.log(own) + trust * math.log(expected)) / (weight + trust))

    def _expected(self, stage: Stage, present: float | None = None) -> float | None:
        """Seconds of a stage by those of its kind; `present`: those of the present stage, should that be the nearest.

        None where nothing was done yet.
        """
        for kind in stage.kinds:
            if kind in self._records:
                return self._records[kind].pace * stage.work
            if present is not None and self._stage is not None and kind in self._stage.kinds:
                return present / self._stage.work * stage.work
        return None

    def _end(self) -> None:
        """Note how long the present stage took, unless a checkpoint had all of it."""
        stage = self._stage
        if stage is None or (stage.step in SOLVED and self._first is None):
            return
        for kind in stage.kinds:
            self._records.setdefault(kind, Records()).add(
                self._clock() - self._since, stage.work * (1 - self._restored)
            )


def words_for(seconds: float | None, spent: float = 0.0) -> str:
    """Time left as one would say it, no finer than it is known; nothing where it is not known, or over.

    Less than a twentieth of the seconds spent so far is not known any finer.
    """
    if not seconds:
        return ""
    least = max(5.0, FINEST * spent)
    if seconds < least:
        return f"under {_duration(least, math.ceil)} left"
    return f"about {_duration(seconds, round)} left"


def _duration(seconds: float, whole: Callable[[float], int]) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 57.5 and 5 * whole(seconds / 5) < 60:
        return f"{5 * whole(seconds / 5)} s"
    if hours < 1.5:
        step = 1 if minutes < 9.5 else 5
        return f"{step * whole(minutes / step)} min"
    half_hours = 0.5 if hours < 5 else 1.0
    return f"{half_hours * whole(hours / half_hours):g} h"
