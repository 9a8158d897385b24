"""`samekind lfw`, as it is called, on a dozen people; on a few dozen of LFW-a where it lies beside the repository."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from samekind.cli.main import app
from samekind.estimators.presets import PRESETS
from samekind.lfw.protocol_files import Person, pairs_text, people_text
from tests.lfw import small

pytestmark = pytest.mark.slow

IMAGES = Path(__file__).parents[3] / "shared" / "data" / "lfw-a" / "images"


def run(*arguments):
    return CliRunner().invoke(app, ["lfw", *map(str, arguments)])


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lfw")
    small.write_images(folder / "images")
    small.write_protocol(folder / "protocol")
    return folder


@pytest.fixture(scope="module")
def called(home):
    """View 2, then the same again for two folds as JSON."""
    given = home / "images", home / "protocol", "--work", home / "work", *small.OPTIONS, "--view", 2
    return run(*given), run(*given, "--folds", "2,1", "--json", "--quiet")


def test_prints_both_tables_and_where_the_page_is(called, home):
    result, _ = called
    assert result.exit_code == 0, result.output
    for text in ("cov + slbp, step 2", "2,302", "92.58", "samekind: cov + slbp", "training folds", "report-view2.html"):
        assert text in result.stdout
    assert "Fold 3 is learned: 4 of 4" in result.stderr
    assert "Chosen regions: slbp" in (home / "work" / "report-view2.html").read_text()


def test_json_is_all_that_is_on_stdout_and_in_the_folder(called, home):
    _, result = called
    assert result.exit_code == 0, result.output
    assert not result.stderr
    printed = json.loads(result.stdout)
    assert printed["splits"] == ["Fold 1", "Fold 2"]
    assert "cov, step 1" not in printed["seconds"], "nothing is learned twice"
    assert printed == json.loads((home / "work" / "results-view2.json").read_text())


def test_models_are_left_that_the_other_commands_use(called, home):
    model = home / "work" / "fold-01" / "step2-cov+slbp.safetensors"
    printed = CliRunner().invoke(app, ["info", str(model), "--json"])
    assert printed.exit_code == 0, printed.output
    assert json.loads(printed.stdout)["kind"] == "model"


def test_what_cannot_be_done_is_reported(called, home):
    given = home / "images", home / "protocol", "--work", home / "work"
    assert "--folds belongs to --view 2" in refused(*given, "--folds", "1")
    assert "separated by commas" in refused(*given, "--view", 2, "--folds", "1;2")
    assert "folds 1 to 3" in refused(*given, "--view", 2, "--folds", "4")
    assert "settings.learner.max_groups = 3" in refused(*given, *small.OPTIONS, "--set", "max_groups=4")
    assert "has 24 regions of the family cov, but 1,000 are needed" in refused(*given)
    assert "--set 'ridge=1' changes no setting" in refused(*given, "--set", "ridge=1")
    assert '"auto" or a number' in refused(*given, "--set", "joint__ridge=much")
    assert "--max-groups" in refused(*given, "--max-groups", 0)
    assert "give one of them" in refused(*given, "--max-groups", 3, "--set", "max_groups=3")
    assert "no such store" in refused(*given, "--store", home / "nowhere")
    assert "no such file of people or pairs" in refused(home / "images", home, "--work", home / "work")


def test_options_and_settings_change_what_a_preset_says(home, called, tmp_path):
    given = home / "images", home / "protocol", "--store", home / "work" / "store", "--families", "cov", *small.OPTIONS
    more = [
        "--set",
        "selection__max_per_class=2",
        "--set",
        "mirror=distances",
        "--set",
        "compare_by=distance",
        "--seed",
        3,
    ]
    result = run(*given, "--work", tmp_path, *more, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)["settings"]
    assert (printed["regions"], printed["seed"]) == (24, 3)
    expected = {"selection__max_per_class": 2, "mirror": "distances", "max_groups": 3, "n_components": 5}
    assert expected.items() <= printed["learner"].items()
    assert "flip-free, as in the paper" in (tmp_path / "report-view1.html").read_text()


@pytest.mark.parametrize("preset", ["faces", "pictures", "paper"])
def test_presets_of_the_learner(home, called, tmp_path, preset):
    given = home / "images", home / "protocol", "--store", home / "work" / "store", "--families", "cov"
    few = ["--regions", 24, "--max-groups", 3, "--components", 5, "--preset", preset]
    result = run(*given, "--work", tmp_path, *few, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    nothing_left_out = {"cv": None} if preset == "paper" else {}
    assert printed["settings"]["learner"] == PRESETS[preset] | {"max_groups": 3, "n_components": 5} | nothing_left_out
    assert printed["stages"][-1]["results"][0]["auc"] > 0.6
    info = CliRunner().invoke(app, ["info", str(tmp_path / "view1" / "step2-cov.safetensors"), "--json"])
    assert json.loads(info.stdout)["mirror"] == {"faces": "mean", "pictures": "none", "paper": "distances"}[preset]


@pytest.mark.slow
@pytest.mark.skipif(not IMAGES.is_dir(), reason="no ../shared/data/lfw-a beside the repository")
def test_on_some_people_of_lfw(tmp_path):
    """Better than chance on people it has not seen."""
    names = [folder.name for folder in sorted(IMAGES.iterdir()) if len(list(folder.iterdir())) in range(3, 8)]
    chosen = names[:: len(names) // 45][:45]
    protocol = tmp_path / "protocol"
    protocol.mkdir()
    for name, folds in (
        ("DevTrain", [chosen[:30]]),
        ("DevTest", [chosen[30:]]),
    ):
        people = [[Person(each, len(list((IMAGES / each).iterdir()))) for each in fold] for fold in folds]
        (protocol / f"people{name}.txt").write_text(people_text(people))
        (protocol / f"pairs{name}.txt").write_text(pairs_text([small.pairs_of(fold) for fold in folds]))
    options = ["--regions", 80, "--max-groups", 6, "--components", 20, "--view", 1, "--json", "--quiet"]
    result = run(IMAGES, protocol, "--work", tmp_path / "work", *options)
    assert result.exit_code == 0, result.output
    *_, both = json.loads(result.stdout)["stages"]
    assert both["families"] == ["cov", "slbp"]
    assert both["results"][0]["auc"] > 0.65
