"""Fits in processes: what they keep, what ends them, and that finished ones are not made again."""

import json

import numpy as np
import pytest

from samekind.lfw.retrieval.fits import Fit, Fits
from samekind.lfw.retrieval.worker import TimeIsUp, Trace
from tests.lfw.small import Recorder


def samples(n_classes=4):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 6)
    return (rng.standard_normal((n_classes, 5))[y] + 0.5 * rng.standard_normal((len(y), 5))).astype(np.float32), y


def never():
    raise AssertionError("a finished fit needs no samples")


class TestTrace:
    def test_without_the_path_the_last_is_kept_and_others_are_never_made(self):
        trace = Trace()
        for iteration in range(1, 5):
            trace.note(never, iteration, 9)
        trace.note(np.ones((2, 3)), 5)
        assert trace.components.shape == (1, 2, 3)
        assert trace.iterations == [5]

    def test_a_path_has_zeros_for_lower_ranks(self, monkeypatch):
        clock = iter(range(100))
        monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
        trace = Trace(whole=True)
        for iteration, rank in enumerate([1, 3, 2], 1):
            trace.note(lambda rank=rank: np.ones((rank, 4)), iteration, 9)
        assert trace.iterations[0] == 1
        assert trace.iterations[-1] == 3
        assert trace.components[0].any(axis=1).sum() == 1
        assert trace.components.shape[1:] == (3, 4)

    def test_time_is_up_at_an_iteration_never_at_the_end(self):
        trace = Trace(limit=-1.0)
        trace.note(np.ones((1, 1)), 1)
        with pytest.raises(TimeIsUp):
            trace.note(lambda: np.full((1, 1), 2.0), 2, 9)
        assert trace.components.tolist() == [[[2.0]]]

    def test_seconds_of_earlier_processes_count(self, tmp_path):
        spent = tmp_path / "one.checkpoint.seconds"
        for earlier in (0.0, 1000.0):
            if earlier:
                spent.write_text(f"{earlier}\n")
            trace = Trace(spent=str(spent))
            trace.note(np.ones((1, 1)), 1, 9)
            assert earlier <= trace.seconds[0] < earlier + 60
            assert float(spent.read_text()) == trace.seconds[0]


@pytest.fixture
def fits(tmp_path, lmnn_python):
    return Fits(tmp_path / "fits", Recorder(), lmnn_python=lmnn_python)


@pytest.mark.slow
def test_a_fit_of_ours_is_that_of_the_estimator(fits):
    from samekind import JointMetric

    options = {"loss": "triplet", "ridge": 0.1, "n_neighbors": 2}
    made = fits.fitted("one", "joint", samples, options, title="one", path=True, resumable=True)
    expected = JointMetric(**options).fit(*samples())
    assert (made.status, made.facts["converged"]) == ("finished", True)
    np.testing.assert_allclose(made.metric.T @ made.metric, expected.components_.T @ expected.components_, rtol=1e-4)
    assert made.iterations[-1] == expected.n_iter_
    assert (np.diff(made.seconds) >= 0).all()
    assert fits.reporter.counts["one"][0] == expected.n_iter_
    again = fits.fitted("one", "joint", never, options, title="again")
    np.testing.assert_array_equal(again.components, made.components)
    assert not list(fits.folder.glob("*.checkpoint*"))


@pytest.mark.slow
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_fit_that_goes_on_counts_its_earlier_seconds_one_that_begins_anew_does_not(fits, goes_on):
    fits.folder.mkdir()
    (fits.folder / "one.checkpoint.seconds").write_text("1000\n")
    if goes_on:
        (fits.folder / "one.checkpoint").mkdir()
    made = fits.fitted("one", "joint", samples, {"loss": "triplet"}, title="one", resumable=True)
    assert made.status == "finished"
    assert (made.seconds[-1] >= 1000) == goes_on


@pytest.mark.slow
def test_a_fit_that_fails_says_why_and_is_not_tried_again(fits):
    made = fits.fitted("bad", "joint", samples, {"loss": "none"}, title="bad")
    assert not made.has_metric
    assert made.status.startswith("failed: ValueError")
    assert fits.fitted("bad", "joint", never, {"loss": "none"}, title="bad").status == made.status


def test_lmnn_is_watched_on_its_way(fits):
    made = fits.fitted("lmnn", "lmnn", samples, {"n_neighbors": 2, "max_iter": 10}, title="lmnn", path=True)
    assert made.status == "finished"
    np.testing.assert_array_equal(made.metric, np.eye(5, dtype=np.float32))
    assert made.iterations[-1] == 6


def test_too_little_memory_is_a_failure_that_is_reported(fits):
    made = fits.fitted("large", "lmnn", lambda: samples(100), {"n_neighbors": 2}, title="large")
    assert "memory" in made.status
    assert not made.has_metric


def test_one_that_was_cut_off_is_made_again_with_more_time_only(fits):
    options = {"n_neighbors": 2, "max_iter": 10}
    made = fits.fitted("short", "lmnn", samples, options, title="short", minutes=0)
    assert made.status == "cut off"
    assert made.has_metric
    assert fits.fitted("short", "lmnn", never, options, title="short", minutes=0).status == "cut off"
    assert fits.fitted("short", "lmnn", samples, options, title="short", minutes=5).status == "finished"
    assert json.loads((fits.folder / "short.json").read_text())["minutes"] == 5


def test_without_an_interpreter_lmnn_is_not_run(tmp_path):
    made = Fits(tmp_path, Recorder()).fitted("lmnn", "lmnn", never, {}, title="lmnn")
    assert made.status.startswith("not run: give --lmnn")
    assert not made.has_metric
    assert isinstance(made, Fit)
