"""The commands as a new user calls them, in processes of their own."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind.cli.main import app
from samekind.cli.output import duration, printable
from tests.picture_folders import write_pictures

VERBS = ("extract", "fit", "encode", "verify", "index", "search", "gallery", "evaluate", "info", "lfw")
GALLERY_VERBS = [f"gallery {verb}" for verb in ("info", "remove", "export", "import", "compact", "check", "copy")]


def samekind(*arguments, cwd, **more):
    command = [sys.executable, "-m", "samekind", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, timeout=120, check=False, **more)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_pictures(folder / "faces", n_labels=10, per_label=5)
    return folder


@pytest.mark.slow
def test_the_whole_way(home):
    """extract, fit, encode, verify, evaluate, info: each in a process, each with JSON and nothing else on stdout."""

    def ends_well(*arguments):
        result = samekind(*arguments, "--json", cwd=home, text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    plain = ("--set", "cv=none")
    assert ends_well("extract", "faces", "store", "--size", "40x56", "--regions", "40")["images"] == 50
    made = ends_well("fit", "store", "model", "--max-groups", "6", "--components", "10", "--hold-out", "0.3", *plain)
    assert made["groups"] == {"cov": 6, "slbp": 6}
    assert made["hold_out"]["measures"]["auc"]["value"] > 0.6
    codes = ends_well("encode", "model", "faces", "--out", "codes.npy")
    assert np.load(home / "codes.npy").shape == (codes["images"], codes["length"]) == (50, 10)
    assert ends_well("verify", "model", "faces/person 00/0.png", "faces/person 00/0.png")["distance"] == 0
    assert ends_well("evaluate", "model", "faces", "--report", "page.html")["images"] == 50
    assert ends_well("info", "store", "--check")["kind"] == "store"
    assert ends_well("info", "model")["kind"] == "model"


def test_an_error_is_one_line_without_markup_on_stderr(tmp_path):
    result = samekind("info", "[bold]no[red]", cwd=tmp_path, text=True)
    assert result.returncode == 2
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert "[bold]no[red]" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_text(home, tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff\x1b[31m.png"
    with open(odd, "wb") as file:
        file.write(b"no picture")
    for arguments in ([b"info", odd], [b"info", odd, b"--json"], [b"extract", odd, b"store"]):
        result = samekind(*arguments, cwd=tmp_path)
        assert result.returncode == 2
        assert b"Traceback" not in result.stderr
        assert b"\x1b[31m" not in result.stderr
        assert b"\\udcff\\x1b[31m.png" in result.stderr


def test_a_terminal_without_the_letters(tmp_path):
    write_pictures(tmp_path / "faces", n_labels=2, per_label=1)
    (tmp_path / "faces/person 00/Zoë.png").write_text("no picture")
    narrow = os.environ | {"PYTHONIOENCODING": "ascii"}
    options = ["--size", "40x56", "--regions", "5"]
    result = samekind("extract", "faces", "store", *options, cwd=tmp_path, env=narrow)
    assert result.returncode == 0, result.stderr
    assert b"Zo\\xeb.png: is not a JPEG" in result.stdout


def test_a_reader_that_goes_away_is_no_error(home):
    program = (
        "import errno, importlib\n"
        "info, main = (importlib.import_module(f'samekind.cli.{name}') for name in ('info', 'main'))\n"
        "def gone(*facts): raise BrokenPipeError(errno.EPIPE, 'gone')\n"
        "info._model, info.say_json = lambda path: {}, gone\n"
        "main.main()"
    )
    command = [sys.executable, "-c", program, "info", "model", "--json"]
    result = subprocess.run(command, cwd=home, capture_output=True, check=False)
    assert result.returncode == 1
    assert not result.stderr


SINGLE = [verb for verb in VERBS if verb not in ("gallery", "evaluate")]


@pytest.mark.parametrize("verb", [*SINGLE, *GALLERY_VERBS, "evaluate retrieval"])
def test_help_teaches(verb):
    result = CliRunner().invoke(app, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert f"Example: samekind {verb}" in result.stdout
    assert "--json" in result.stdout


def test_evaluate_is_of_pictures_unless_it_says_otherwise():
    both = CliRunner().invoke(app, ["evaluate", "--help"]).stdout
    assert "Example: samekind evaluate faces.safetensors" in both
    assert "retrieval" in both
    assert "--report" in CliRunner().invoke(app, ["evaluate", "pictures", "--help"]).stdout
    asked = [CliRunner().invoke(app, ["evaluate", *more, "no", "nowhere"]) for more in ([], ["pictures"], ["--json"])]
    assert {each.stderr for each in asked} == {asked[0].stderr}
    assert all(each.exit_code == 2 for each in asked)


def test_help_lists_every_verb_and_imports_nothing_heavy(tmp_path):
    program = (
        "import sys; from samekind.cli import main\n"
        "try: main()\n"
        "finally: print([name for name in ('numpy', 'numba', 'cv2', 'sklearn', 'PIL') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert all(verb in result.stdout for verb in (*VERBS, "demo"))
    assert result.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize("arguments", [["nonsense"], ["verify"], ["extract", "a", "b", "--align", "sideways"]])
def test_wrong_usage_is_status_2(arguments):
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_bug_of_ours_keeps_its_traceback(monkeypatch, tmp_path):
    def broken(path):
        raise ModuleNotFoundError("No module named 'samekind.nothing'")

    monkeypatch.setattr("samekind.model.metric.Metric.load", broken)
    (tmp_path / "m").touch()
    result = CliRunner().invoke(app, ["info", str(tmp_path / "m")])
    assert isinstance(result.exception, ModuleNotFoundError)


def test_printable_leaves_letters_and_escapes_the_rest():
    assert printable("Zoë [bold] 日本") == "Zoë [bold] 日本"
    assert printable("a\x1b[2J\udcffb\r") == "a\\x1b[2J\\udcffb\\r"


def test_durations_as_people_say_them():
    assert [duration(s) for s in (0.04, 59.94, 61, 3725)] == ["0.0 s", "59.9 s", "1 min 1 s", "1 h 2 min"]
