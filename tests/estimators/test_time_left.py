"""The time left of a whole fit, from stages that are known beforehand."""

import io

import numpy as np
import pytest
from rich.console import Console

from samekind import EnsembleMetric
from samekind.estimators.progress import Display, ProgressBars, ProgressLines
from samekind.estimators.time_left import Stage, TimeLeft
from samekind.events import Event
from tests.clocks import Clock


def selection(iteration, total=10, part=""):
    return Event("selection", iteration, total, 0.5, iteration, left=total - iteration, part=part)


def planned(clock, *stages):
    left = TimeLeft(clock)
    left.plan(stages)
    return left


class TestTimeLeft:
    def test_unknown_until_something_is_done(self):
        clock = Clock()
        left = planned(clock, Stage("a"), Stage("b"))
        assert left.seconds() is None
        left.begin(Stage("a"))
        clock.after(5)
        assert left.seconds() is None

    def test_unnamed_before_a_tenth_of_the_whole(self):
        clock = Clock()
        left = planned(clock, *(Stage("a", str(k)) for k in range(11)))
        left.begin(Stage("a", "0"))
        clock.after(5)
        left.begin(Stage("a", "1"))
        assert left.seconds() is None
        clock.after(1)
        assert left.seconds() == pytest.approx(5 * 10 - 1)

    def test_a_step_at_its_own_pace_and_a_new_one_at_that_of_all(self):
        clock = Clock()
        left = planned(
            clock,
            *(Stage("a", "1", work=2), Stage("b", "1", work=3), Stage("a", "2", work=4), Stage("c"), Stage("d")),
        )
        left.begin(Stage("a", "1"))
        clock.after(20)  # 10 a unit
        left.begin(Stage("b", "1"))
        assert left.seconds() == pytest.approx(10 * (3 + 4 + 1 + 1))
        clock.after(3)  # 1 a unit
        left.begin(Stage("a", "2"))
        assert left.seconds() == pytest.approx(10 * 4 + 1 + 1)
        clock.after(12)  # 3 a unit: the first stage of a kind compiles, and counts while there is no other
        left.begin(Stage("c"))
        assert left.seconds() == pytest.approx((3 + 12) / (3 + 4) * 2)

    def test_families_and_solvers_have_a_pace_of_their_own(self):
        clock = Clock()
        first = [Stage("selection", "1", "x"), Stage("selection", "1", "y")]
        then = [Stage("selection", "2", "y"), Stage("choice", solver="p"), Stage("joint", solver="p")]
        left = planned(clock, *first, *then)
        left.begin(first[0])
        left.after_event(selection(1))
        clock.after(10)
        left.begin(first[1])
        left.after_event(selection(1))
        clock.after(2)
        left.begin(then[0])
        left.after_event(selection(1))
        assert left.seconds() == pytest.approx(2 + 2 * 2)  # new solvers at the pace of all but the first
        clock.after(2)
        left.begin(then[1])
        clock.after(30)
        left.begin(then[2])
        assert left.seconds() == pytest.approx(30)

    def test_the_present_stage_counts_the_more_the_further_it_is(self):
        clock = Clock()
        left = planned(clock, Stage("selection", "1"), Stage("selection", "2"))
        left.begin(Stage("selection", "1"))
        left.after_event(selection(1))
        clock.after(10)
        left.begin(Stage("selection", "2"))
        guesses = []
        for iteration in range(1, 10):  # 40 seconds, by itself
            clock.after(4)
            guesses.append(left.after_event(selection(iteration)) / (1 - iteration / 10))
        assert guesses[0] == pytest.approx(10)
        assert guesses == sorted(guesses)
        assert 30 < guesses[-1] <= 40

    def test_compiling_and_reading_is_not_extrapolated(self):
        clock = Clock()
        left = planned(clock, Stage("selection"))
        left.begin(Stage("selection"))
        clock.after(100)
        assert left.after_event(selection(1)) is None
        clock.after(1)
        assert left.after_event(selection(2)) == pytest.approx((100 + 9) * 0.8)  # the time until now counts once

    def test_an_iteration_that_does_not_know_what_is_left(self):
        clock = Clock()
        left = planned(clock, Stage("joint", "1"), Stage("joint", "2"))
        left.begin(Stage("joint", "1"))
        assert left.after_event(Event("joint", 1, 500, 0.1, 2)) is None
        clock.after(8)
        left.begin(Stage("joint", "2"))
        clock.after(6)
        assert left.after_event(Event("joint", 1, 500, 0.1, 2)) == pytest.approx(2)
        clock.after(10)
        assert left.after_event(Event("joint", 2, 500, 0.1, 2)) == pytest.approx(4)

    def test_stages_that_are_left_out_do_not_count(self):
        clock = Clock()
        left = planned(clock, Stage("a"), Stage("b", work=100), Stage("c"))
        left.begin(Stage("a"))
        clock.after(7)
        left.begin(Stage("c"))
        assert left.seconds() == pytest.approx(7)

    def test_a_new_plan_replaces_what_is_to_come(self):
        clock = Clock()
        left = planned(clock, Stage("a"), Stage("b", work=100))
        left.begin(Stage("a"))
        clock.after(7)
        left.plan([Stage("b"), Stage("c")])
        left.begin(Stage("b"))
        assert left.seconds() == pytest.approx(14)

    def test_a_stage_that_nobody_planned_is_taken_as_it_comes(self):
        clock = Clock()
        left = planned(clock, Stage("a"), Stage("c"))
        left.begin(Stage("a"))
        clock.after(7)
        left.begin(Stage("x"))
        assert left.seconds() == pytest.approx(14)

    def test_what_a_checkpoint_had_took_no_time_here(self):
        clock = Clock()
        left = planned(clock, Stage("selection", "1"), Stage("selection", "2"), Stage("selection", "3"))
        left.begin(Stage("selection", "1"))
        clock.after(0.1)
        left.begin(Stage("selection", "2"))  # the first was silent
        clock.after(3)
        left.after_event(selection(9))
        clock.after(3)
        left.after_event(selection(10))
        left.begin(Stage("selection", "3"))
        assert left.seconds() == pytest.approx(30)  # six seconds for the last two of ten rounds


class Recorder(Display):
    """The stages that a display is given."""

    def __init__(self):
        super().__init__()
        self.planned, self.begun = [], []

    def plan(self, stages):
        super().plan(stages)
        over = [place for place in self.planned if place in self.begun]
        self.planned = over + [stage.place for stage in stages]

    def begin(self, stage):
        super().begin(stage)
        self.begun.append(stage.place)

    def draw(self, *arguments, **more):
        pass


@pytest.mark.parametrize("settings", [{}, {"cv": None}, {"families": ["a", "b", "b"]}, {"whiten": True}])
def test_a_fit_goes_through_the_stages_that_it_planned(settings):
    """In order; one candidate or two may be tried beyond them."""
    rng = np.random.default_rng(0)
    y = np.arange(48) % 8
    X = rng.normal(size=(48, 6)) + rng.normal(size=(8, 6))[y]
    whiten = settings.pop("whiten", None)
    recorder = Recorder()
    learner = EnsembleMetric(2, max_groups=2, callback=recorder, random_state=0, **settings)
    learner.set_params(selection__whiten=whiten).fit(X, y)
    unplanned = [place for place in recorder.begun if place not in recorder.planned]
    assert {place[0] for place in unplanned} <= {"choice"}
    assert [place for place in recorder.begun if place in recorder.planned] == recorder.planned


class TestShown:
    STAGES = (
        *(Stage(step, f"fold {k}", "cov") for k in (1, 2) for step in ("whitening", "selection")),
        *(Stage("choice", f"fold {1 + k % 2}", None, 1.0, k + 1, 4) for k in range(4)),
        Stage("selection", "", "cov"),
        Stage("joint"),
    )

    def test_a_line_when_a_stage_begins_and_every_minute(self):
        console, clock = Console(file=io.StringIO(), width=20), Clock()
        titles = {"selection": "Choosing [b]", "choice": "Choosing settings"}
        with ProgressLines(console, titles, every=60, clock=clock) as lines:
            lines.plan(self.STAGES)
            for stage in self.STAGES:
                lines.begin(stage)
                for iteration in range(1, 11):
                    clock.after(10)
                    if stage.step == "selection":
                        lines(Event("selection", iteration, 10, 0.5, 1, {}, "cov", 10 - iteration, stage.part))
                    elif stage.step == "whitening":
                        lines.count(iteration, 10)
        assert console.file.getvalue().splitlines() == [
            "Fold 1 of 2: whitening (cov)",
            "Fold 1 of 2: whitening (cov): 6 of 10",
            "Fold 1 of 2: choosing [b] (cov), about 15 min left",
            "Fold 1 of 2: choosing [b] (cov): 6 of 10, about 15 min left",
            "Fold 2 of 2: whitening (cov), about 15 min left",
            "Fold 2 of 2: whitening (cov): 6 of 10, about 10 min left",
            "Fold 2 of 2: choosing [b] (cov), about 10 min left",
            "Fold 2 of 2: choosing [b] (cov): 6 of 10, about 10 min left",
            "Choosing settings: 1 of 4, about 10 min left",
            "Choosing settings: 2 of 4, about 8 min left",
            "Choosing settings: 3 of 4, about 7 min left",
            "Choosing settings: 4 of 4, about 5 min left",
            "Final fit: choosing [b] (cov), about 3 min left",
            "Final fit: choosing [b] (cov): 6 of 10, about 2 min left",
            "Final fit: joint, about 2 min left",
        ]

    def test_a_bar_for_each_stage_and_one_for_all_that_is_tried(self):
        console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
        with ProgressBars(console, first="Reading") as bars:
            bars.plan(self.STAGES)
            for stage in self.STAGES:
                bars.begin(stage)
                bars(
                    Event(
                        "selection" if stage.step == "selection" else "joint",
                        1,
                        9,
                        0.5,
                        2,
                        {},
                        stage.family,
                        8,
                        stage.part,
                    )
                )
        titles = [task.description for task in bars._progress.tasks]
        assert titles[-3:] == ["choice", "Final fit: selection (cov)", "Final fit: joint"]
        assert titles.count("choice") == 1
