"""The time left that fits on real data would have named: their stages and iterations, with times, are in `schedules/`.

Each line of a file is [seconds, what, ...]: a plan (step, part, family, work, number, total, solver of each stage), the
beginning of a stage, a count, an event, or the end. Times are of one core that nobody else used.
"""

import json
import re
from pathlib import Path

import pytest

from samekind.estimators.progress import Display
from samekind.estimators.time_left import Stage
from samekind.events import Event

SCHEDULES = sorted((Path(__file__).parent / "schedules").glob("*.json"))
WORDS = re.compile(r"(under|about) ([\d.]+) (s|min|h) left")
UNITS = {"s": 1, "min": 60, "h": 3600}
ROUNDING = {"s": 2.5, "min": 30, "h": 900}  # seconds: half of what a time left is rounded to, at the least


class Recorder(Display):
    """The time left in words whenever something is drawn."""

    def __init__(self):
        self.now = 0.0
        super().__init__(clock=lambda: self.now)
        self.named = []

    def draw(self, key, title, done, total, state, left, begins=False):
        self.named.append((self.now, left))


def replayed(path, times_slower):
    """(seconds since the plan, time left in words) of each moment, and the seconds of the whole fit."""
    display = Recorder()
    for seconds, what, *details in json.loads(path.read_text()):
        display.now = seconds * times_slower
        if what == "plan":
            display.plan([Stage(*stage) for stage in details[0]])
        elif what == "begin":
            step, part, family, number, total = details
            display.begin(Stage(step, part, family, 1.0, number, total))
        elif what == "count":
            display.count(*details)
        elif what == "event":
            step, iteration, total, left, part, family = details
            display(Event(step, iteration, total, 0.5, 1, {}, family, left, part))
    return display.named, display.now


def off(words, left):
    """By what factor a time left is wrong at the least, as it may have been rounded."""
    kind, number, unit = WORDS.fullmatch(words).groups()
    if kind == "under":
        return left / (float(number) * UNITS[unit])
    half = max(ROUNDING[unit], 150 if unit == "min" and float(number) >= 10 else 0)
    low, high = (float(number) * UNITS[unit] + sign * half for sign in (-1, 1))
    return max(left / high, low / max(left, 1e-9))


@pytest.mark.parametrize("times_slower", [1, 3])
@pytest.mark.parametrize("path", SCHEDULES, ids=lambda path: path.stem)
def test_within_a_factor_of_two_from_a_tenth_on(path, times_slower):
    named, total = replayed(path, times_slower)
    late = [(seconds, words) for seconds, words in named if seconds >= total / 10 and words]
    wrong = {seconds / total: words for seconds, words in late if off(words, total - seconds) > 2}
    assert not wrong
    assert len(late) > 0.8 * sum(seconds >= total / 10 for seconds, _ in named), "it is named nearly always"


@pytest.mark.parametrize("path", SCHEDULES, ids=lambda path: path.stem)
def test_named_from_about_a_tenth_on(path):
    named, total = replayed(path, 1)
    first = next(seconds for seconds, words in named if words)
    assert 0.07 < first / total < 0.25


def test_there_are_schedules():
    assert len(SCHEDULES) == 3
