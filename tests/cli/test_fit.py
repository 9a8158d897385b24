"""`samekind fit`: from a store to a model file, and what stops it before the work."""

import json
import os
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import EnsembleMetric, Metric, extraction
from samekind.cli.main import app
from samekind.estimators.progress import ProgressLines
from samekind.evaluation import verify_codes
from samekind.solvers.events import Event
from samekind.store import DiskStore
from tests.picture_folders import write_pictures

FEW = ("--max-groups", "3", "--components", "6")


def run(*arguments, **environment):
    return CliRunner().invoke(app, [str(each) for each in arguments], env=environment)


def refused(*arguments):
    result = run("fit", *arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    pictures = write_pictures(folder / "pictures", n_labels=10, per_label=5)
    assert run("extract", pictures, folder / "store", "--size", "40x56", "--regions", 20).exit_code == 0
    return folder / "store"


@pytest.fixture(scope="module")
def fitted(store, tmp_path_factory):
    model = tmp_path_factory.mktemp("model") / "a.safetensors"
    return model, run("fit", store, model, *FEW)


def test_says_what_it_chose(fitted):
    model, result = fitted
    assert result.exit_code == 0, result.stderr
    for text in (str(model), "50 images of 10 labels", "3 regions chosen", "Code length", "14 (squared distance)"):
        assert text in result.stdout
    assert re.search(r"^Normalisation +none$", result.stdout, re.MULTILINE)


def test_the_model_is_that_of_the_estimator(fitted, store):
    model, _ = fitted
    data = DiskStore.open(store)
    learner = EnsembleMetric(max_groups=3, n_components=6, random_state=0).fit(data, data.labels)
    assert Metric.load(model) == learner.metric_


def test_options_reach_the_estimator(store, tmp_path):
    options = ["--loss", "triplet", "--beta", "100", "--neighbors", "2", "--ridge", "0.5", "--whiten", "10"]
    options += ["--memory", "64MB", "--jobs", "1", "--seed", "3", "--quiet"]
    assert run("fit", store, tmp_path / "m", *FEW, *options).exit_code == 0
    data = DiskStore.open(store)
    learner = EnsembleMetric(
        loss="triplet", beta=100, n_neighbors=2, ridge=0.5, whiten=10, max_groups=3, n_components=6, random_state=3
    ).fit(data, data.labels)
    written = Metric.load(tmp_path / "m")
    np.testing.assert_allclose(written.components, learner.metric_.components, atol=1e-5)
    assert written.attributes["ridge"] == [0.5, 0.5]


def test_pairs_are_balanced_as_asked(tmp_path):
    pictures = write_pictures(tmp_path / "pictures", n_labels=5, per_label=3)
    write_pictures(pictures, n_labels=1, per_label=8, first=5)  # in classes of one size both ways would be the same
    run("extract", pictures, tmp_path / "store", "--size", "40x56", "--regions", 5)
    data = DiskStore.open(tmp_path / "store")
    written = {}
    for balance in ("equal", "samples"):
        run("fit", tmp_path / "store", tmp_path / balance, *FEW, "--pair-balance", balance)
        learner = EnsembleMetric(pair_balance=balance, max_groups=3, n_components=6, random_state=0)
        written[balance] = Metric.load(tmp_path / balance)
        assert written[balance] == learner.fit(data, data.labels).metric_
    assert written["equal"] != written["samples"]


def test_no_whitening(store, tmp_path):
    assert run("fit", store, tmp_path / "m", *FEW, "--whiten", 0).exit_code == 0
    assert Metric.load(tmp_path / "m").mean is None


def test_normalised_groups(store, tmp_path):
    result = run("fit", store, tmp_path / "m", *FEW, "--normalise-groups", "unit", "--json")
    assert result.exit_code == 0, result.stderr
    metric, data = Metric.load(tmp_path / "m"), DiskStore.open(store)
    assert json.loads(result.stdout)["normalise_groups"] == metric.normalise_groups == "unit"
    learner = EnsembleMetric(max_groups=3, n_components=6, random_state=0, normalise_groups="unit")
    assert metric == learner.fit(data, data.labels).metric_
    assert re.search(r"^Groups normalised +unit$", run("info", tmp_path / "m").stdout, re.MULTILINE)


@pytest.mark.parametrize("more", [(), ("--whiten", 0), ("--hold-out", 0.3)])
def test_normalised_codes(store, tmp_path, more):
    result = run("fit", store, tmp_path / "m", *FEW, "--normalise", "unit", "--json", *more)
    assert result.exit_code == 0, result.stderr
    told, metric, data = json.loads(result.stdout), Metric.load(tmp_path / "m"), DiskStore.open(store)
    assert told["normalise"] == metric.normalise == "unit"
    unseen = np.random.default_rng(0).permutation(np.unique(data.labels))[: 3 if "--hold-out" in more else 0]
    learned_from = ~np.isin(data.labels, unseen)
    learner = EnsembleMetric(
        max_groups=3, n_components=6, random_state=0, normalise="unit", whiten=None if "--whiten" in more else "auto"
    ).fit(data, data.labels, rows=learned_from)
    chosen_on = ~learned_from if "--hold-out" in more else learned_from
    threshold = verify_codes(learner.transform(data, rows=chosen_on), data.labels[chosen_on]).threshold
    assert metric == learner.metric_.with_threshold(metric.threshold)
    assert told["threshold"] == metric.threshold == pytest.approx(threshold, rel=1e-6)


class TestHoldOut:
    def test_the_threshold_is_the_best_on_labels_never_seen(self, store, tmp_path):
        result = run("fit", store, tmp_path / "m", *FEW, "--hold-out", 0.3, "--json")
        assert result.exit_code == 0, result.stderr
        told = json.loads(result.stdout)
        assert (told["images"], told["labels"]) == (35, 7)
        held = told["hold_out"]
        assert (held["images"], held["labels"]) == (15, 3)
        metric, data = Metric.load(tmp_path / "m"), DiskStore.open(store)
        everything = data.panel(range(len(data.group_sizes)), np.arange(len(data)))
        unseen = np.isin(data.labels, np.random.default_rng(0).permutation(np.unique(data.labels))[:3])
        again = verify_codes(metric.transform(everything[unseen]), data.labels[unseen])
        assert told["threshold"] == metric.threshold == pytest.approx(again.threshold, rel=1e-4)
        assert held["accuracy"] == pytest.approx(again.accuracy)
        assert held["auc"] == pytest.approx(again.auc)

    def test_says_that_the_threshold_was_chosen_there(self, store, tmp_path):
        said = run("fit", store, tmp_path / "m", *FEW, "--hold-out", 0.3).stdout
        assert "chosen on the pairs below" in said
        assert "the threshold was chosen on these pairs" in said
        assert "AUC" in said
        assert "Equal error" in said

    def test_the_seed_decides_who(self, store, tmp_path):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            assert run("fit", store, tmp_path / name, *FEW, "--hold-out", 0.5, "--seed", seed).exit_code == 0
        files = {name: (tmp_path / name).read_bytes() for name in "abc"}
        assert files["a"] == files["b"]
        assert files["a"] != files["c"]

    @pytest.mark.parametrize("share", ["0", "1", "-0.5", "nan"])
    def test_not_a_share(self, store, tmp_path, share):
        assert "between 0 and 1" in refused(store, tmp_path / "m", "--hold-out", share)

    @pytest.mark.parametrize("share", ["0.1", "0.9"])
    def test_too_few_labels_on_a_side(self, store, tmp_path, share):
        assert "both parts need at least 2" in refused(store, tmp_path / "m", "--hold-out", share)

    def test_labels_with_one_picture_give_no_pair(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=6, per_label=1)
        run("extract", pictures, tmp_path / "store", "--size", "40x56", "--regions", 5)
        assert "one picture each" in refused(tmp_path / "store", tmp_path / "m", "--hold-out", 0.5)


class TestRefusals:
    def test_no_store(self, tmp_path):
        assert "There is no such store" in refused(tmp_path / "nowhere", tmp_path / "m")
        (tmp_path / "folder").mkdir()
        assert "not a samekind store" in refused(tmp_path / "folder", tmp_path / "m")

    def test_targets_that_cannot_be_written_before_any_work(self, store, tmp_path, monkeypatch):
        monkeypatch.setattr(EnsembleMetric, "fit", lambda *args, **options: pytest.fail("worked first"))
        assert "no such folder to write into" in refused(store, tmp_path / "nowhere" / "m")
        assert "This is a folder" in refused(store, tmp_path)
        assert "device or a pipe" in refused(store, os.devnull)
        assert "/proc/model" in refused(store, "/proc/model")

    def test_an_older_model_stays_when_the_work_fails(self, store, tmp_path):
        (tmp_path / "m").write_text("older")
        assert "from 1 to 20" in refused(store, tmp_path / "m", "--max-groups", 21)
        assert (tmp_path / "m").read_text() == "older"
        assert [path.name for path in tmp_path.iterdir()] == ["m"]

    def test_checkpoints_that_cannot_be_kept_before_any_work(self, store, tmp_path, monkeypatch):
        monkeypatch.setattr("samekind.estimators.EnsembleMetric", lambda **options: pytest.fail("worked first"))
        (tmp_path / "file").touch()
        for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
            assert "A checkpoint is a folder" in refused(store, tmp_path / "m", "--checkpoint", folder)
        assert "Nothing can be written here" in refused(store, tmp_path / "m", "--checkpoint", "/proc/fit/deep")
        for folder in (tmp_path / "m", tmp_path / "m" / "inside"):
            assert "name another" in refused(store, tmp_path / "m", "--checkpoint", folder)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["--search", "slow"], "'exact'"),
            (["--normalise", "cube"], "'root'"),
            (["--anchors", "some"], "auto, all, grow or a number of pictures of at least 1"),
            (["--anchors", "0"], "--anchors '0' must be"),
            (["--anchors", "2.5"], "--anchors '2.5' must be"),
            (["--beta", "5"], "--beta belongs to --loss triplet"),
            (["--neighbors", "5"], "--neighbors belongs to --loss triplet"),
            (["--loss", "triplet", "--threshold", "5"], "--threshold belongs to --loss pairwise"),
            (["--loss", "triplet", "--pair-balance", "samples"], "--pair-balance belongs to --loss pairwise"),
            (["--pair-balance", "much"], "'samples'"),
            (["--ridge", "much"], '"auto" or a number'),
            (["--ridge", "-1"], "at least 0"),
            (["--memory", "much"], "512MB"),
            (["--threshold", "-3"], "threshold=-3.0"),
            (["--components", "99999"], "n_components=99999"),
        ],
    )
    def test_wrong_options(self, store, tmp_path, given, said):
        assert said in refused(store, tmp_path / "m", *given)
        assert not (tmp_path / "m").exists()

    def test_one_label_only(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=1)
        run("extract", pictures, tmp_path / "store", "--size", "40x56", "--regions", 5)
        assert "class" in refused(tmp_path / "store", tmp_path / "m")

    @pytest.mark.parametrize("more", [(), ("--hold-out", "0.2")])
    def test_an_unfinished_store(self, tmp_path, monkeypatch, more):
        pictures = write_pictures(tmp_path / "pictures", n_labels=3)
        monkeypatch.setattr(extraction, "SHARD_BYTES", 1)
        (pictures / "person 02/3.png").write_text("no picture")
        options = ["--size", "40x56", "--regions", 5, "--on-error", "fail"]
        assert run("extract", pictures, tmp_path / "store", *options).exit_code == 2
        assert "is unfinished: 11 of 12" in refused(tmp_path / "store", tmp_path / "m", *more)


def test_warnings_are_part_of_the_result(store, tmp_path):
    result = run("fit", store, tmp_path / "m", *FEW, "--ridge", 1e9, "--json")
    assert result.exit_code == 0, result.stderr
    assert any("metric is zero" in warning for warning in json.loads(result.stdout)["warnings"])
    assert "metric is zero" in run("fit", store, tmp_path / "m", *FEW, "--ridge", 1e9).stdout


class Learner:
    """Stands in for `EnsembleMetric`: notes its parameters, tells its callback of some events, and ends."""

    EVENTS = (
        *(Event("selection", i, 3, 0.5, i, family=name, left=3 - i) for name in ("cov", "slbp") for i in (1, 2)),
        Event("joint", 1, 500, 0.25, 4),
    )

    def __init__(self, end):
        self.end = end

    def __call__(self, **parameters):
        self.parameters = parameters
        return self

    def fit(self, *data, **options):
        for event in self.EVENTS if self.parameters["callback"] else ():
            self.parameters["callback"](event)
        raise self.end


@pytest.fixture
def learner(monkeypatch):
    learner = Learner(ValueError("enough seen"))
    monkeypatch.setattr("samekind.estimators.EnsembleMetric", learner)
    return learner


class TestLongFits:
    @pytest.mark.parametrize(
        ("given", "name", "value"),
        [
            ((), "normalise", "none"),
            (("--normalise", "root"), "normalise", "root"),
            ((), "normalise_groups", "none"),
            (("--normalise-groups", "unit"), "normalise_groups", "unit"),
            ((), "search", "auto"),
            (("--search", "exact"), "search", "exact"),
            (("--search", "fast"), "search", "fast"),
            ((), "anchors", "auto"),
            (("--anchors", "all"), "anchors", "all"),
            (("--anchors", "grow"), "anchors", "grow"),
            (("--anchors", "5000"), "anchors", 5000),
            ((), "checkpoint", None),
        ],
    )
    def test_options_as_the_estimator_takes_them(self, store, tmp_path, learner, given, name, value):
        assert "enough seen" in refused(store, tmp_path / "m", *given)
        assert learner.parameters[name] == value
        assert type(learner.parameters[name]) is type(value)

    def test_the_folder_of_the_checkpoint(self, store, tmp_path, learner):
        refused(store, tmp_path / "m", "--checkpoint", tmp_path / "a" / "b")
        assert learner.parameters["checkpoint"] == tmp_path / "a" / "b"
        assert not list(tmp_path.iterdir())

    def test_an_interruption_with_a_checkpoint_tells_how_to_go_on(self, store, tmp_path, learner):
        learner.end = KeyboardInterrupt()
        result = run("fit", store, tmp_path / "m", "--checkpoint", tmp_path / "kept")
        assert result.exit_code == 130
        assert "The same command goes on from the last round" in result.stderr
        assert f"{tmp_path / 'kept'}." in result.stderr
        assert not result.stdout

    def test_an_interruption_without_one_promises_nothing(self, store, tmp_path, learner):
        learner.end = KeyboardInterrupt()
        result = run("fit", store, tmp_path / "m")
        assert result.exit_code == 130
        assert "same command" not in result.stderr

    def test_what_is_kept_is_gone_on_with(self, store, tmp_path, monkeypatch):
        heard = []

        def interrupt_at_fourth(self, event):
            heard.append((event.step, event.family, event.iteration))
            if len(heard) == 4:
                raise KeyboardInterrupt

        command = ["fit", store, tmp_path / "m", *FEW, "--checkpoint", tmp_path / "kept"]
        monkeypatch.setattr(ProgressLines, "__call__", interrupt_at_fourth)
        assert run(*command).exit_code == 130
        assert not (tmp_path / "m").exists()
        assert run(*command).exit_code == 0
        again = heard[4:]
        assert ("selection", "cov", 1) not in again
        assert ("joint", None, 1) in again
        assert run("fit", store, tmp_path / "whole", *FEW).exit_code == 0
        assert Metric.load(tmp_path / "m") == Metric.load(tmp_path / "whole")

    def test_another_fit_does_not_go_on_with_it(self, store, tmp_path):
        kept = ("--checkpoint", tmp_path / "kept")
        assert run("fit", store, tmp_path / "m", *FEW, *kept).exit_code == 0
        message = refused(store, tmp_path / "m", *FEW, *kept, "--ridge", "0.5")
        assert "ridge" in message
        assert "another folder" in message


class TestProgress:
    def test_a_bar_per_step_on_a_terminal(self, store, tmp_path, learner):
        result = run("fit", store, tmp_path / "m", FORCE_COLOR="1", COLUMNS="120")
        for title in ("Reading descriptors", "Choosing regions (cov)", "Choosing regions (slbp)", "the joint metric"):
            assert title in result.stderr
        assert "objective 0.25" in result.stderr
        assert not result.stdout

    def test_lines_elsewhere(self, store, tmp_path, learner, monkeypatch):
        monkeypatch.setattr("samekind.cli.fit.SECONDS_PER_LINE", 0)
        lines = refused(store, tmp_path / "m").splitlines()
        assert lines[0] == "Choosing regions (cov): 1 of 3"
        assert lines[1].startswith("Choosing regions (cov): 2 of 3, ")
        assert lines[1].endswith(" left")
        assert lines[4] == "Learning the joint metric: 1 of 500"

    def test_few_lines(self, store, tmp_path, learner):
        assert refused(store, tmp_path / "m") == "samekind: enough seen\n"

    def test_quiet(self, store, tmp_path, learner):
        result = run("fit", store, tmp_path / "m", "--quiet", FORCE_COLOR="1")
        assert learner.parameters["callback"] is None
        assert "Reading" not in result.stderr
        assert "enough seen" in result.stderr
