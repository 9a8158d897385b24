"""What listeners hear of a fit, and how they show it."""

import io

import numpy as np
import pytest
from rich.console import Console

from samekind import EnsembleMetric, JointMetric
from samekind.estimators.progress import Listeners, ProgressBars, ProgressLines
from samekind.estimators.time_left import Pace, words_for
from samekind.events import Event
from tests.clocks import Clock


def selection(iteration, total=100, family=None, left=None):
    return Event("selection", iteration, total, 0.5, iteration, {"group": 7}, family, left)


class TestEvents:
    def test_a_record_names_the_family_where_there_is_one(self):
        plain = {"step": "selection", "iteration": 3, "objective": 0.5, "rank": 3, "group": 7}
        assert selection(3, left=97).record() == plain
        assert selection(3, family="cov").record() == plain | {"family": "cov"}

    @pytest.mark.parametrize("family", [0, "", ("a", 1), False])
    def test_any_label_but_none_is_a_family(self, family):
        assert selection(3, family=family).record()["family"] == family


class TestListeners:
    def test_the_callback_hears_the_family_too(self):
        heard = []
        with Listeners(0, heard.append) as listeners:
            listeners.observer("cov")(selection(1))
            listeners.observer(None)(selection(2))
            listeners(Event("joint", 1, 5, 0.1, 2))
        assert [event.family for event in heard] == ["cov", None, None]
        assert [record.get("family", "none") for record in listeners.history] == ["cov", "none", "none"]

    @pytest.mark.parametrize(("answer", "stops"), [(True, True), (np.True_, True), (None, False), (1, False)])
    def test_true_stops_whatever_the_family(self, answer, stops):
        listeners = Listeners(0, lambda event: answer)
        assert listeners.observer("cov")(selection(1)) is stops
        assert listeners.stopped is stops

    def test_a_fit_tells_its_callback_the_families(self):
        rng = np.random.default_rng(0)
        y = np.arange(40) % 4
        X = rng.normal(size=(40, 6)) + y[:, None]
        heard = []
        learner = EnsembleMetric(2, families=["a", "b", "b"], max_groups=1, cv=None, callback=heard.append)
        learner.set_params(joint__ridge=0.1).fit(X, y)
        assert [event.family for event in heard if event.step == "selection"] == ["a", "b"]
        assert {event.family for event in heard if event.step == "joint"} == {None}


class TestPace:
    def test_unknown_until_the_second_event(self):
        clock = Clock()
        pace = Pace(clock)
        assert pace.seconds_left(selection(1, left=99)) is None
        assert Pace(clock.after(3)).seconds_left(selection(2, left=98)) is None
        assert pace.seconds_left(selection(2, left=98)) == 3 * 98

    @pytest.mark.parametrize("left", [None, np.inf, np.nan])
    def test_unknown_where_the_work_is(self, left):
        clock = Clock()
        pace = Pace(clock)
        pace.seconds_left(selection(1, left=99))
        clock.after(1)
        assert pace.seconds_left(selection(2, left=left)) is None

    @pytest.mark.parametrize("left", [0, -2])
    def test_nothing_is_left_at_the_end(self, left):
        clock = Clock()
        pace = Pace(clock)
        pace.seconds_left(selection(1))
        clock.after(1)
        assert pace.seconds_left(selection(2, left=left)) == 0

    def test_dear_iterations_that_come_again_count(self):
        """Every fifth takes 50 seconds, the others one: about 10.8 each, whatever the moment."""
        clock, total, guesses = Clock(), 200, {}
        pace = Pace(clock)
        for iteration in range(1, total):
            clock.after(50 if iteration % 5 == 0 else 1)
            guesses[iteration] = pace.seconds_left(selection(iteration, left=total - iteration))
        for iteration, guess in guesses.items():
            if iteration > 20:
                assert guess == pytest.approx(10.8 * (total - iteration))

    def test_what_was_long_ago_does_not(self):
        clock = Clock()
        pace = Pace(clock)
        for iteration in range(1, 51):
            left = pace.seconds_left(selection(iteration, left=10))
            clock.after(100 if iteration < 29 else 2)
        assert left == 20


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, ""),
        (0.3, "under 5 s left"),
        (6, "about 5 s left"),
        (43, "about 45 s left"),
        (57.4, "about 55 s left"),
        (58, "about 1 min left"),
        (170, "about 3 min left"),
        (9.6 * 60, "about 10 min left"),
        (42 * 60, "about 40 min left"),
        (89 * 60, "about 90 min left"),
        (100 * 60, "about 1.5 h left"),
        (3 * 3600 + 600, "about 3 h left"),
        (7.4 * 3600, "about 7 h left"),
        (50 * 3600, "about 50 h left"),
    ],
)
def test_time_left_in_words(seconds, words):
    assert words_for(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "spent", "words"),
    [
        (3, 60, "under 5 s left"),
        (20, 680, "under 35 s left"),
        (34.1, 680, "about 35 s left"),
        (50, 1130, "under 1 min left"),
        (100, 7200, "under 6 min left"),
        (400, 7200, "about 7 min left"),
    ],
)
def test_less_than_a_twentieth_of_the_time_spent_is_not_known_any_finer(seconds, spent, words):
    assert words_for(seconds, spent) == words


def shown_by(display, console):
    """The text that a display has put on its console so far."""
    display._progress.refresh()
    return console.file.getvalue()


class TestBars:
    @pytest.fixture
    def console(self):
        return Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)

    def test_titles_families_and_time_left(self, console):
        clock = Clock()
        with ProgressBars(console, {"selection": "Choosing"}, clock=clock) as bars:
            bars(selection(1, family="[red]a", left=99))
            before = shown_by(bars, console)
            clock.after(60)
            bars(selection(2, family="[red]a", left=98))
            assert "about 1.5 h left" in shown_by(bars, console)
            bars(Event("joint", 1, 7, 0.25, 3))
        drawn = console.file.getvalue()
        assert "left" not in before
        for text in ("Choosing ([red]a)", "joint", "1/100", "2/100", "objective 0.5", "objective 0.25", "rank 3"):
            assert text in drawn

    def test_each_family_has_a_bar_and_a_pace_of_its_own(self, console):
        clock = Clock()
        with ProgressBars(console, clock=clock) as bars:
            for family in (1, "1"):
                bars(selection(1, family=family, left=99))
                assert not bars._progress.tasks[-1].fields["left"]
                clock.after(10)
                bars(selection(2, family=family, left=98))
                assert bars._progress.tasks[-1].fields["left"] == "about 15 min left"
        assert len(bars._progress.tasks) == 2

    def test_a_step_that_ends_early_is_done(self, console):
        with ProgressBars(console, first="Reading") as bars:
            reading = bars._progress.tasks[0]
            assert (reading.description, reading.total, reading.finished) == ("Reading", None, False)
            bars(selection(3))
            assert reading.finished
            choosing = bars._progress.tasks[1]
            assert not choosing.finished
            bars(Event("joint", 1, 7, 0.25, 3))
            assert (choosing.finished, choosing.completed) == (True, 3)
        assert all(bar.finished and not bar.fields["left"] for bar in bars._progress.tasks)

    def test_a_fit_that_fails_does_not_look_done(self, console):
        bars = ProgressBars(console)

        def interrupted():
            with bars:
                bars(selection(3))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert not bars._progress.tasks[0].finished
        assert not bars._progress.live.is_started

    def test_what_matters_fits_a_narrow_terminal(self):
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
        clock = Clock()
        with ProgressBars(console, {"joint": "Learning the joint metric"}, clock=clock) as bars:
            for iteration in (399, 400):
                clock.after(600)
                bars(Event("joint", iteration, 500, 0.123456, 1234, left=100))
            drawn = shown_by(bars, console)
        for text in ("Learning the joint metric", "400/500", "objective 0.12346", "rank 1234", "about 17 h left"):
            assert text in drawn

    def test_verbose_draws_on_stdout(self, capsys):
        with Listeners(1, None) as listeners:
            listeners.observer("cov")(selection(3))
        drawn = capsys.readouterr()
        assert "selection (cov)" in drawn.out
        assert not drawn.err


class TestLines:
    def test_one_now_and_then_with_the_time_left(self):
        console, clock = Console(file=io.StringIO(), width=20), Clock()
        with ProgressLines(console, {"selection": "Choosing regions"}, every=60, clock=clock) as lines:
            for iteration in range(1, 11):
                clock.after(25)
                lines(selection(iteration, total=2000, family="[b]cov", left=2000 - iteration))
        assert console.file.getvalue().splitlines() == [
            "Choosing regions ([b]cov): 3 of 2,000, about 14 h left",
            "Choosing regions ([b]cov): 6 of 2,000, about 14 h left",
            "Choosing regions ([b]cov): 9 of 2,000, about 14 h left",
        ]

    def test_without_the_time_left_where_it_is_unknown(self):
        console, clock = Console(file=io.StringIO()), Clock()
        lines = ProgressLines(console, every=60, clock=clock)
        clock.after(100)
        lines(Event("joint", 1, 500, 0.1, 2))
        assert console.file.getvalue() == "joint: 1 of 500\n"

    def test_a_long_silence_does_not_make_up_for_lines(self):
        console, clock = Console(file=io.StringIO()), Clock()
        lines = ProgressLines(console, every=60, clock=clock)
        clock.after(10_000)
        for iteration in (1, 2, 3):
            lines(selection(iteration))
        assert len(console.file.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_components": 4},
        {"solver": "factored"},
        {"loss": "triplet", "n_neighbors": 3, "trace_bound": 2.0, "solver": "convex"},
        {"target": "identity", "n_components": 4},
    ],
)
def test_a_callback_gets_at_the_metric_of_an_iteration(settings):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 6)
    X = rng.standard_normal((8, 10))[y] + rng.standard_normal((48, 10))
    events, metrics = [], []

    def hear(event):
        events.append(event)
        metrics.append(event.components())

    made = JointMetric(**settings, callback=hear).fit(X, y)
    last = metrics[-1]
    assert np.allclose(last.T @ last, made.components_.T @ made.components_, rtol=1e-9)
    assert not np.allclose(metrics[0].T @ metrics[0], last.T @ last)
    assert "components" not in events[-1].record()
