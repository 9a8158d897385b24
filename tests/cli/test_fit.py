"""`samekind fit`: from a store to a model file, and what stops it before the work."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import EnsembleMetric, Metric, extraction
from samekind.cli.main import app
from samekind.cli.progress import fit_progress
from samekind.estimators.presets import PRESETS, learner, names
from samekind.estimators.progress import ProgressLines
from samekind.estimators.use import codes_in_use
from samekind.evaluation import calibrate, evaluate_codes
from samekind.events import Event
from samekind.extraction import with_roots
from samekind.images.listing import list_images
from samekind.images.load import ImageError
from samekind.store import DiskStore
from tests.picture_folders import small_extractor, write_pictures

SHORT = ("--max-groups", "3", "--components", "6")
FEW = (*SHORT, "--set", "cv=none")  # nothing is chosen on labels left out


def run(*arguments, **environment):
    return CliRunner().invoke(app, [str(each) for each in arguments], env=environment)


def refused(*arguments):
    result = run("fit", *arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


def given(*changes):
    return [part for change in changes for part in ("--set", change)]


def learned(store, rows=None, preset="pictures", roots=True, seed=0, **changes):
    """What the estimator makes of the same settings."""
    data = DiskStore.open(store)
    settings = PRESETS[preset] | {"max_groups": 3, "n_components": 6, "cv": None} | changes
    made = learner(settings, random_state=seed)
    made.fit(with_roots(data) if roots else data, data.labels, rows=rows)
    return replace(made.metric_, attributes=dict(made.metric_.attributes) | {"preset": preset})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    pictures = write_pictures(folder / "pictures", n_labels=10, per_label=5)
    assert run("extract", pictures, folder / "store", "--size", "40x56", "--regions", 20).exit_code == 0
    return folder / "store"


@pytest.fixture(scope="module")
def fitted(store, tmp_path_factory):
    """As a newcomer does it: settings are chosen on labels left out."""
    model = tmp_path_factory.mktemp("model") / "a.safetensors"
    return model, run("fit", store, model, *SHORT)


@pytest.mark.slow
def test_says_what_it_chose_and_how_it_was_calibrated(fitted):
    model, result = fitted
    assert result.exit_code == 0, result.stderr
    for text in (str(model), "50 images of 10 labels", "3 regions chosen", "Code length", "even odds"):
        assert text in result.stdout
    for text in ("Calibrated on 50 samples of 10 labels (cross-fitting over classes)", "Tried on labels left out"):
        assert text in result.stdout
    metric = Metric.load(model)
    assert re.search(rf"^Normalisation +{metric.normalise}$", result.stdout, re.MULTILINE)
    assert re.search(r"^Mirror images +do not count$", result.stdout, re.MULTILINE)
    assert metric.calibration.source == "cross-fitting over classes"
    assert metric.threshold == metric.calibration.threshold


@pytest.mark.slow
def test_the_model_is_that_of_the_estimator(fitted, store):
    model, _ = fitted
    assert Metric.load(model) == learned(store, cv="auto")


def test_json_is_all_that_is_on_stdout(store, tmp_path):
    result = run("fit", store, tmp_path / "m", *FEW, "--json")
    assert result.exit_code == 0, result.stderr
    printed, metric = json.loads(result.stdout), Metric.load(tmp_path / "m")
    assert (printed["kind"], printed["preset"], printed["mirror"]) == ("model", "pictures", "none")
    assert printed["groups"] == {"cov": 3, "slbp": 3}
    assert printed["n_components"] == metric.n_components == 6
    assert printed["threshold"] == metric.threshold
    assert (printed["calibration"], printed["tried"], printed["hold_out"]) == (None, [], None)


class TestSettings:
    def test_options_and_settings_reach_the_estimator(self, store, tmp_path):
        steps = {f"{step}__{name}": value for step in ("selection", "joint") for name, value in [("ridge", 0.5)]}
        steps |= {"selection__beta": 100, "selection__n_neighbors": 2, "selection__whiten": 10, "weigh": 1.0}
        options = given("loss=triplet", *(f"{name}={value}" for name, value in steps.items()))
        options += ["--memory", "64MB", "--jobs", "1", "--seed", "3", "--quiet"]
        assert run("fit", store, tmp_path / "m", *FEW, *options).exit_code == 0
        written = Metric.load(tmp_path / "m")
        assert written == learned(store, seed=3, loss="triplet", **steps)
        assert written.attributes["ridge"] == [0.5, 0.5]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("normalise_groups", "none", "none"),
            ("normalise", "none", "none"),
            ("normalise", "unit", "unit"),
            ("principal", "none", None),
            ("principal", "4", 4),
            ("joint__target", "zero", "zero"),
            ("selection__whiten", "false", False),
            ("selection__pair_balance", "equal", "equal"),
            ("max_groups", "2", 2),
        ],
    )
    def test_each_is_as_the_estimator_has_it(self, store, tmp_path, name, text, value):
        short = () if name == "max_groups" else ("--max-groups", 3)
        options = [*short, "--components", 6, *given("cv=none", f"{name} = {text}")]
        assert run("fit", store, tmp_path / "m", *options).exit_code == 0
        written = Metric.load(tmp_path / "m")
        assert written == learned(store, **{name: value})

    def test_plain_histograms(self, store, tmp_path):
        assert run("fit", store, tmp_path / "m", *FEW, *given("roots=false")).exit_code == 0
        assert Metric.load(tmp_path / "m") == learned(store, roots=False)
        assert Metric.load(tmp_path / "m") != learned(store)

    @pytest.mark.slow
    @pytest.mark.parametrize("preset", ["faces", "paper"])
    def test_other_presets(self, store, tmp_path, preset):
        assert run("fit", store, tmp_path / "m", *FEW, "--preset", preset).exit_code == 0
        metric = Metric.load(tmp_path / "m")
        assert metric == learned(store, preset=preset, roots=preset == "faces")
        assert metric.mirror == {"faces": "mean", "paper": "distances"}[preset]

    @pytest.mark.slow
    def test_the_papers_preset_with_labels_left_out(self, store, tmp_path):
        result = run("fit", store, tmp_path / "m", *SHORT, "--preset", "paper", "--json")
        assert result.exit_code == 0, result.stderr
        printed, metric = json.loads(result.stdout), Metric.load(tmp_path / "m")
        assert len({trial["candidate"] for trial in printed["tried"]}) == 1
        assert (metric.basis.normalise, metric.basis.weigh, metric.normalise) == ("none", 0.0, "none")
        assert metric.calibration.source == "cross-fitting over classes"

    def test_one_thing_is_said_once(self, store, tmp_path):
        message = refused(store, tmp_path / "m", "--components", 5, *given("n_components = 6"))
        assert "--components and --set n_components say the same thing" in message

    def test_an_unknown_name_lists_the_known_ones(self, store, tmp_path):
        for change in ("nonsense=1", "n_jobs=2", "ridge=1", "max_groups"):
            message = refused(store, tmp_path / "m", *given(change))
            assert f"--set '{change}' changes no setting" in message
            assert all(name in message for name in names())

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("normalise=cube", "normalise='cube'"),
            ("normalise_groups=cube", "'scale'"),
            ("mirror=yes", "mirror='yes'"),
            ("loss=quadruplet", "'triplet'"),
            ("cv=0.7", "cv=0.7"),
            ("weigh=much", "weigh='much'"),
            ("max_groups=many", "max_groups='many'"),
            ("roots=maybe", "roots='maybe'"),
            ("selection__ridge=much", '"auto" or a number'),
            ("selection__search=slow", "'exact'"),
            ("selection__threshold=-3", "threshold=-3"),
            ("joint__pair_balance=much", "'samples'"),
            ("joint__target=there", "'identity'"),
            ("joint__anchors=some", "anchors='some'"),
        ],
    )
    def test_wrong_values_are_refused_before_any_work(self, store, tmp_path, change, said, monkeypatch):
        monkeypatch.setattr(EnsembleMetric, "fit", lambda *args, **options: pytest.fail("worked first"))
        assert said in refused(store, tmp_path / "m", *given(change))
        assert not (tmp_path / "m").exists()


@pytest.fixture(scope="module")
def held(store, tmp_path_factory):
    """A model, what was said for people, and what was said as JSON."""
    model = tmp_path_factory.mktemp("held") / "m"
    command = ["fit", store, model, *FEW, "--hold-out", 0.3]
    return model, run(*command), run(*command, "--json")


class TestHoldOut:
    def test_calibrated_and_judged_on_labels_never_seen(self, held, store):
        model, _, result = held
        assert result.exit_code == 0, result.stderr
        printed, metric, data = json.loads(result.stdout), Metric.load(model), DiskStore.open(store)
        assert (printed["images"], printed["labels"]) == (35, 7)
        assert (printed["hold_out"]["n_samples"], printed["hold_out"]["n_classes"]) == (15, 3)
        unseen = np.isin(data.labels, np.random.default_rng(0).permutation(np.unique(data.labels))[:3])
        rows = np.flatnonzero(unseen)
        codes, labels = codes_in_use(metric, with_roots(data), rows), data.labels[rows]
        calibration = calibrate(codes, labels, distance=metric.distance_function, source="held-out classes")
        assert metric == learned(store, rows=~unseen).with_calibration(calibration)
        assert printed["threshold"] == metric.threshold == calibration.threshold
        again = evaluate_codes(codes, labels, calibration=calibration, threshold=metric.threshold)
        assert printed["hold_out"] == again.to_json() | {"threshold_chosen_on_these_pairs": True}

    def test_says_that_the_threshold_was_chosen_there(self, held):
        _, result, _ = held
        assert result.exit_code == 0, result.stderr
        for text in (
            "15 images of 3 labels that were not learned from",
            "the threshold was chosen on these labels",
            "(held-out classes)",
            "AUC",
            "Equal error",
        ):
            assert text in result.stdout

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
        assert "leave" in refused(store, tmp_path / "m", *given("selection__min_per_class=6"))
        assert (tmp_path / "m").read_text() == "older"
        assert [path.name for path in tmp_path.iterdir()] == ["m"]

    def test_checkpoints_that_cannot_be_kept_before_any_work(self, store, tmp_path, monkeypatch):
        monkeypatch.setattr(EnsembleMetric, "fit", lambda *args, **options: pytest.fail("worked first"))
        (tmp_path / "file").touch()
        for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
            assert "A checkpoint is a folder" in refused(store, tmp_path / "m", "--checkpoint", folder)
        assert "Nothing can be written here" in refused(store, tmp_path / "m", "--checkpoint", "/proc/fit/deep")
        for folder in (tmp_path / "m", tmp_path / "m" / "inside"):
            assert "name another" in refused(store, tmp_path / "m", "--checkpoint", folder)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--preset", "best"], "'faces'"),
            (["--memory", "much"], "512MB"),
            (["--max-groups", "0"], "--max-groups"),
            (["--components", "0"], "--components"),
            (["--loss", "triplet"], "No such option"),
        ],
    )
    def test_wrong_options(self, store, tmp_path, options, said):
        assert said in refused(store, tmp_path / "m", *options)
        assert not (tmp_path / "m").exists()

    def test_one_label_only(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=1)
        run("extract", pictures, tmp_path / "store", "--size", "40x56", "--regions", 5)
        assert "class" in refused(tmp_path / "store", tmp_path / "m")

    @pytest.mark.parametrize("more", [(), ("--hold-out", "0.2")])
    def test_an_unfinished_store(self, tmp_path, more):
        pictures = write_pictures(tmp_path / "pictures", n_labels=3)
        (pictures / "person 02/3.png").write_text("no picture")
        files = list_images(pictures, labelled=True)
        with pytest.raises(ImageError):
            extraction.extract(files, tmp_path / "store", small_extractor(), on_error="fail", shard_bytes=1)
        assert "is unfinished: 11 of 12" in refused(tmp_path / "store", tmp_path / "m", *more)


def test_warnings_are_part_of_the_result(store, tmp_path):
    result = run("fit", store, tmp_path / "m", *FEW, *given("selection__ridge=1e9"), "--json")
    assert result.exit_code == 0, result.stderr
    assert any("metric is zero" in warning for warning in json.loads(result.stdout)["warnings"])
    assert "metric is zero" in run("fit", store, tmp_path / "m", *FEW, *given("selection__ridge=1e9")).stdout


class Learner:
    """Stands in for `EnsembleMetric.fit`: notes its parameters, tells its callback of some events, and ends."""

    EVENTS = (
        *(Event("selection", i, 3, 0.5, i, family=name, left=3 - i) for name in ("cov", "slbp") for i in (1, 2)),
        Event("joint", 1, 500, 0.25, 4),
    )

    def __init__(self, end):
        self.end = end

    def fit(self, estimator, *data, **options):
        self.parameters = estimator.get_params()
        for event in self.EVENTS if estimator.callback else ():
            estimator.callback(event)
        raise self.end


@pytest.fixture
def fake(monkeypatch):
    fake = Learner(ValueError("enough seen"))
    monkeypatch.setattr(EnsembleMetric, "fit", lambda *given, **options: fake.fit(*given, **options))
    return fake


class TestLongFits:
    def test_the_folder_of_the_checkpoint(self, store, tmp_path, fake):
        refused(store, tmp_path / "m", "--checkpoint", tmp_path / "a" / "b")
        assert fake.parameters["checkpoint"] == tmp_path / "a" / "b"
        assert not list(tmp_path.iterdir())

    def test_an_interruption_with_a_checkpoint_tells_how_to_go_on(self, store, tmp_path, fake):
        fake.end = KeyboardInterrupt()
        result = run("fit", store, tmp_path / "m", "--checkpoint", tmp_path / "kept")
        assert result.exit_code == 130
        assert "The same command goes on from the last round" in result.stderr
        assert f"{tmp_path / 'kept'}." in result.stderr
        assert not result.stdout

    def test_an_interruption_without_one_promises_nothing(self, store, tmp_path, fake):
        fake.end = KeyboardInterrupt()
        result = run("fit", store, tmp_path / "m")
        assert result.exit_code == 130
        assert "same command" not in result.stderr

    @pytest.mark.slow
    def test_what_is_kept_is_gone_on_with(self, store, tmp_path, monkeypatch):
        heard = []

        def interrupt_at_fourth(self, event):
            heard.append((event.step, event.family, event.iteration))
            if len(heard) == 4:
                raise KeyboardInterrupt

        command = ["fit", store, tmp_path / "m", *FEW, *given("joint__ridge=0.1"), "--checkpoint", tmp_path / "kept"]
        monkeypatch.setattr(ProgressLines, "__call__", interrupt_at_fourth)
        assert run(*command).exit_code == 130
        assert not (tmp_path / "m").exists()
        assert run(*command).exit_code == 0
        again = heard[4:]
        assert ("selection", "cov", 1) not in again
        assert ("joint", None, 1) in again
        assert run("fit", store, tmp_path / "whole", *FEW, *given("joint__ridge=0.1")).exit_code == 0
        assert Metric.load(tmp_path / "m") == Metric.load(tmp_path / "whole")

    def test_another_fit_does_not_go_on_with_it(self, store, tmp_path):
        kept = ("--checkpoint", tmp_path / "kept")
        assert run("fit", store, tmp_path / "m", *FEW, *kept).exit_code == 0
        message = refused(store, tmp_path / "m", *FEW, *kept, *given("selection__ridge=0.5"))
        assert "ridge" in message
        assert "another folder" in message


class TestProgress:
    @pytest.mark.slow
    def test_a_line_for_each_stage_where_there_is_no_terminal(self, fitted):
        _, result = fitted
        lines = [line.partition(", about")[0].partition(", under")[0] for line in result.stderr.splitlines()]
        whitening, choosing = "whitening descriptors", "choosing regions"
        step1 = [f"{what} ({family})" for family in ("cov", "slbp") for what in (whitening, choosing)]
        assert [line for line in lines if ": choosing settings" not in line] == [
            *(f"Fold {k} of 3: {what}" for k in (1, 2, 3) for what in step1),
            "Choosing settings on labels left out: 1 of 51",
            *(f"Final fit: {what}" for what in step1),
            "Final fit: learning the joint metric",
            "Final fit: calibrating distances",
        ]
        final = [line for line in result.stderr.splitlines() if line.startswith("Final fit")]
        assert all(" left" in line for line in final), "more than a tenth is done by then"

    def test_a_bar_per_step_on_a_terminal(self, store, tmp_path, fake):
        result = run("fit", store, tmp_path / "m", FORCE_COLOR="1", COLUMNS="120")
        for title in ("Reading descriptors", "Choosing regions (cov)", "Choosing regions (slbp)", "the joint metric"):
            assert title in result.stderr
        assert "objective 0.25" in result.stderr
        assert not result.stdout

    def test_lines_elsewhere(self, capsys):
        with fit_progress(True, every=0) as display:
            for event in Learner.EVENTS:
                display(event)
        printed = capsys.readouterr()
        assert not printed.out
        lines = printed.err.splitlines()
        assert lines[0] == "Choosing regions (cov): 1 of 3"
        assert lines[1].startswith("Choosing regions (cov): 2 of 3, ")
        assert lines[1].endswith(" left")
        assert lines[4] == "Learning the joint metric: 1 of 500"

    def test_few_lines(self, store, tmp_path, fake):
        assert refused(store, tmp_path / "m") == "samekind: enough seen\n"

    def test_quiet(self, store, tmp_path, fake):
        result = run("fit", store, tmp_path / "m", "--quiet", FORCE_COLOR="1")
        assert fake.parameters["callback"] is None
        assert "Reading" not in result.stderr
        assert "enough seen" in result.stderr
