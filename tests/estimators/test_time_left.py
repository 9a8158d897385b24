"""The time left of a whole fit, from stages that are known beforehand."""

import io

import numpy as np
import pytest
from rich.console import Console

from samekind import EnsembleMetric
from samekind.estimators.progress import Display, ProgressBars, ProgressLines, Stage, TimeLeft
from samekind.solvers.events import Event
from tests.clocks import Clock


def selection(iteration, total=10, part=""):
    return Event("selection", iteration, total, 0.5, iteration, left=total - iteration, part=part)


class TestTimeLeft:
    def test_unknown_until_something_is_done(self):
        clock = Clock()
        left = TimeLeft([Stage("a"), Stage("b")], clock)
        assert left.seconds() is None
        left.begin(Stage("a"))
        clock.after(5)
        assert left.seconds() is None

    def test_a_step_at_its_own_pace_and_a_new_one_at_that_of_all(self):
        clock = Clock()
        left = TimeLeft([Stage("a", "1", work=2), Stage("b", "1", work=3), Stage("a", "2", work=4), Stage("c")], clock)
        left.begin(Stage("a", "1"))
        clock.after(20)  # 10 a unit
        left.begin(Stage("b", "1"))
        assert left.seconds() == pytest.approx(10 * (3 + 4 + 1))
        clock.after(3)  # 1 a unit
        left.begin(Stage("a", "2"))
        assert left.seconds() == pytest.approx(10 * 4 + 23 / 5)
        clock.after(10)
        assert left.seconds(0.5) == pytest.approx((30 / 4) * 2 + 33 / 7)

    def test_stages_that_are_left_out_do_not_count(self):
        clock = Clock()
        left = TimeLeft([Stage("a"), Stage("b", work=100), Stage("c")], clock)
        left.begin(Stage("a"))
        clock.after(7)
        left.begin(Stage("c"))
        assert left.seconds() == pytest.approx(7)

    def test_a_stage_that_nobody_planned_is_taken_as_it_comes(self):
        clock = Clock()
        left = TimeLeft([Stage("a"), Stage("c")], clock)
        left.begin(Stage("a"))
        clock.after(7)
        left.begin(Stage("x"))
        assert left.seconds() == pytest.approx(14)

    def test_what_a_checkpoint_had_took_no_time_here(self):
        clock = Clock()
        left = TimeLeft([Stage("selection", "1"), Stage("selection", "2"), Stage("selection", "3")], clock)
        left.begin(Stage("selection", "1"))
        clock.after(0.1)
        left.begin(Stage("selection", "2"))  # the first was silent
        clock.after(3)
        assert left.heard(selection(9)) == pytest.approx(3 + 30)  # three seconds for the ninth of ten rounds


class Recorder(Display):
    """All that a display is told."""

    def __init__(self):
        super().__init__()
        self.planned, self.begun = [], []

    def plan(self, stages):
        super().plan(stages)
        self.planned = [stage.place for stage in stages]

    def begin(self, stage):
        super().begin(stage)
        self.begun.append(stage.place)

    def draw(self, *told, **more):
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
            "Fold 1 of 2: whitening (cov): 6 of 10, about 15 min left",
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
