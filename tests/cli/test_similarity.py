"""Models with a similarity term on the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import Metric
from samekind.cli.main import app
from samekind.estimators.use import codes_in_use
from samekind.extraction import with_roots
from samekind.store import DiskStore
from tests.picture_folders import write_pictures

FEW = ("--max-groups", 3, "--components", 4, "--quiet", "--set", "selection__whiten=8")


def run(*arguments, status=0):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == status, result.output
    return result.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_pictures(folder / "pictures", n_labels=8, per_label=4)
    run("extract", folder / "pictures", folder / "store", "--size", "40x56", "--regions", 12)
    for name, cv in (("similarity", 2), ("sum", "none")):
        changes = ("--set", f"compare_by={name}", "--set", f"cv={cv}", "--set", "similarity__shrinkage=0.3")
        printed = run("fit", folder / "store", folder / name, "--preset", "faces", *FEW, *changes, "--json")
        (folder / f"{name}.json").write_text(printed)
    return folder


def pictures(home):
    return sorted((home / "pictures/person 00").iterdir()), sorted((home / "pictures/person 01").iterdir())


@pytest.mark.parametrize("name", ["similarity", "sum"])
def test_fit_says_how_codes_are_compared(home, name):
    printed, metric = json.loads((home / f"{name}.json").read_text()), Metric.load(home / name)
    # Of four numbers a sum has two for each part, and one more.
    assert printed["similarity"] == metric.similarity.n_codes == {"similarity": 5, "sum": 3}[name]
    assert printed["n_components"] == metric.n_components == 5
    assert printed["threshold"] == metric.threshold
    assert metric.mirror == "mean"
    assert not any("fewer than" in warning for warning in printed["warnings"])
    assert (metric.calibration is None) == (name == "sum")
    if name == "similarity":
        assert all("two-covariance model, shrinkage 0.3" in trial["candidate"] for trial in printed["tried"])


def test_info_names_the_similarity_term(home):
    alone, both = run("info", home / "similarity"), run("info", home / "sum")
    assert "similarity of 5 numbers (two-covariance model; may be negative)" in " ".join(alone.split())
    assert "Normalisation" not in alone
    assert "squared distance of 2 numbers, and similarity of 3 numbers" in " ".join(both.split())
    assert "(squared distance)" not in alone + both
    assert json.loads(run("info", home / "sum", "--json"))["similarity"] == 3


@pytest.mark.parametrize("name", ["similarity", "sum"])
def test_encode_gives_the_codes_of_the_store(home, name, tmp_path):
    printed = json.loads(
        run("encode", home / name, home / "pictures", "--out", tmp_path / "c.npy", "--quiet", "--json")
    )
    metric, store = Metric.load(home / name), with_roots(DiskStore.open(home / "store"))
    assert (printed["length"], printed["similarity"]) == (metric.n_components, metric.similarity.n_codes)
    expected = codes_in_use(metric, store, np.arange(len(store)))
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), expected, rtol=1e-2, atol=1e-2)


def test_verify_answers_by_the_similarity(home):
    own, others = pictures(home)
    metric = Metric.load(home / "similarity")
    codes = metric.encode([own[0], own[1], others[0]])
    for at, b in ((1, own[1]), (2, others[0])):
        expected = float(metric.code_distance(codes[:1], codes[at : at + 1])[0])
        status = 0 if expected <= metric.threshold else 1
        printed = json.loads(run("verify", home / "similarity", own[0], b, "--json", status=status))
        assert printed["distance"] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert printed["same"] == (status == 0)
        assert printed["probability"] == pytest.approx(float(metric.calibration.probability([expected])[0]), rel=1e-3)
    said = run("verify", home / "similarity", own[0], own[0], "--threshold", 1e9)
    assert "it may be negative" in said
    assert "(squared)" not in said


def test_evaluate_counts_by_the_similarity(home, tmp_path):
    from samekind.evaluation import evaluate_codes

    write_pictures(tmp_path / "others", n_labels=4, per_label=3, first=20)
    printed = json.loads(run("evaluate", home / "sum", tmp_path / "others", "--quiet", "--json"))
    metric = Metric.load(home / "sum")
    paths = sorted((tmp_path / "others").rglob("*.png"))
    codes, labels = metric.encode(paths), [path.parent.name for path in paths]
    judged = evaluate_codes(codes, labels, distance=metric.code_distance, threshold=metric.threshold)
    for name in ("auc", "accuracy"):
        assert printed["measures"][name]["value"] == pytest.approx(judged.measures[name].value)


def test_settings_that_do_not_go_together_are_refused(home, tmp_path):
    for change, message in (
        (("compare_by=cosine",), "compare_by"),
        (("compare_by=sum", "mirror=distances"), "distances"),
        (("similarity__shrinkage=2",), "shrinkage"),
    ):
        options = [option for each in change for option in ("--set", each)]
        result = CliRunner().invoke(app, ["fit", str(home / "store"), str(tmp_path / "m"), *options])
        assert result.exit_code == 2
        assert message in result.stderr
