"""`samekind retrieval`, as it is called, on a dozen people."""

import json

import pytest
from typer.testing import CliRunner

from samekind.cli.main import app
from tests.lfw import small

FEW = ["--preset=standard", "--regions=24", "--query-images=3", "--jobs=1"]
LEARNER = [f"--set={name}={value}" for name, value in small.LEARNER.items()]


def run(*arguments):
    return CliRunner().invoke(app, ["retrieval", *map(str, arguments)])


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("retrieval")
    small.write_images(folder / "images")
    small.write_protocol(folder / "protocol")
    return folder


@pytest.mark.slow
def test_prints_tables_and_leaves_page_results_and_a_model(home):
    given = home / "images", home / "protocol", "--work", home / "work", *FEW, *LEARNER
    shown = run(*given, "--parts", "trace, dimensions")
    assert shown.exit_code == 0, shown.output
    for text in ("Who takes part", "Final dimensions", "Section 4.3", "report-retrieval.html", "Euclidean"):
        assert text in shown.stdout
    assert "Final dimensions" in (home / "work" / "report-retrieval.html").read_text()
    again = run(*given, "--parts", "dimensions,trace", "--json", "--quiet")
    printed = json.loads(again.stdout)
    assert not again.stderr
    assert printed == json.loads((home / "work" / "results-retrieval.json").read_text())
    assert printed["people"]["queries"] == [6, 18]
    assert printed["trace"]["relative_gap"] < 0.01
    info = CliRunner().invoke(app, ["info", printed["model"], "--json"])
    assert json.loads(info.stdout)["n_components"] == printed["trace"]["rank"]


def test_what_cannot_be_done_is_reported(home):
    given = home / "images", home / "protocol", "--work", home / "other"
    assert "'tables' is none of neighbors, lmnn" in refused(*given, "--parts", "tables")
    assert "separated by commas" in refused(*given, "--samples", "many")
    assert "no such Python interpreter" in refused(*given, "--lmnn", home / "python")
    assert "changes no setting" in refused(*given, "--set", "ridge=1")
    assert "weigh=auto: this experiment" in refused(*given, *FEW, *LEARNER, "--set", "weigh=auto")
    assert "nobody to look for" in refused(*given, "--preset", "standard", "--query-images", "30")
    assert "no such file of people or pairs" in refused(home / "images", home, "--work", home / "other")


def test_pictures_are_aligned_by_landmarks(home, tmp_path):
    """Those of one picture only: the first other one is named."""
    points = tmp_path / "points.csv"
    points.write_text("image,left_eye_x,left_eye_y,right_eye_x,right_eye_y,mouth_x,mouth_y\nnobody.jpg,1,1,9,1,5,9\n")
    given = home / "images", home / "protocol", "--work", tmp_path / "work", *FEW, *LEARNER
    assert "has no landmarks" in refused(*given, "--landmarks", points)
