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

VERBS = (
    "extract",
    "fit",
    "encode",
    "verify",
    "index",
    "search",
    "gallery",
    "evaluate",
    "info",
    "lfw",
    "retrieval",
    "compact",
)
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
    assert result.returncode == 141
    assert not result.stderr


SINGLE = [verb for verb in VERBS if verb not in ("gallery", "evaluate")]


@pytest.mark.parametrize("verb", [*SINGLE, *GALLERY_VERBS, "evaluate retrieval"])
def test_help_teaches(verb):
    result = CliRunner().invoke(app, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert f"Example: samekind {verb}" in result.stdout
    assert "--json" in result.stdout


@pytest.mark.parametrize("verb", ["demo", "serve", "worker"])
def test_verbs_without_results_have_examples_too(verb):
    result = CliRunner().invoke(app, [verb, "--help"])
    assert result.exit_code == 0
    assert f"Example: samekind {verb}" in result.stdout


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
    assert all(verb in result.stdout for verb in (*VERBS, "demo", "serve", "worker"))
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


class TestStatus:
    """0 and 1 are answers: all else ends otherwise."""

    def ended(self, body, *, verb="verify", **streams):
        """A process in which a verb's work is replaced."""
        program = (
            "import os, sys, signal, importlib\n"
            "module, main = (importlib.import_module(f'samekind.cli.{name}') for name in (sys.argv[1], 'main'))\n"
            f"def work(*given, **named):\n    {body}\n"
            "import samekind.model.metric as metric\n"
            "metric.Metric.load = work\n"
            "main.main()"
        )
        given = {"verify": ["verify", "m", "a", "b"], "encode": ["encode", "m", ".", "--out", "c.npy"]}[verb]
        command = [sys.executable, "-c", program.replace("sys.argv[1]", repr(verb)), *given]
        return subprocess.run(
            command, check=False, **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams)
        )

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ("raise RuntimeError('a bug')", 70),
            ("raise ZeroDivisionError", 70),
            ("raise RecursionError", 70),
            ("raise EOFError('ends')", 2),
            ("raise MemoryError", 2),
            ("raise ValueError('odd')", 2),
            ("raise KeyboardInterrupt", 130),
            ("raise BrokenPipeError(32, 'gone')", 141),
        ],
    )
    def test_of_verify_when_it_does_not_decide(self, tmp_path, body, status):
        result = self.ended(body, cwd=tmp_path)
        assert result.returncode == status
        assert (b"Traceback" in result.stderr) == (status == 70)
        assert b"extract" not in result.stderr or status == 70

    @pytest.mark.parametrize("said", ["print('same')", "module.say_facts([('Answer', 'same')])"])
    def test_when_nobody_reads_what_it_prints(self, tmp_path, said):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            result = self.ended(f"{said}; raise module.typer.Exit(1)", cwd=tmp_path, stdout=pipe)
        assert result.returncode == 141
        assert not result.stderr

    def test_when_nobody_reads_its_errors(self, tmp_path):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            assert self.ended("raise ValueError('odd')", cwd=tmp_path, stderr=pipe).returncode not in (0, 1)
            assert self.ended("raise RuntimeError('bug')", cwd=tmp_path, stderr=pipe).returncode not in (0, 1)

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
    def test_when_what_it_prints_cannot_be_written(self, tmp_path):
        with open("/dev/full", "wb") as full:
            result = self.ended("print('same'); raise module.typer.Exit(0)", cwd=tmp_path, stdout=full)
        assert result.returncode == 2
        assert b"No space left" in result.stderr

    def test_when_a_package_is_missing(self):
        program = "import sys; sys.modules['typer'] = None; sys.argv = ['samekind', 'verify', 'm', 'a', 'b']\n"
        program += "import runpy; runpy.run_module('samekind', run_name='__main__')"
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
        assert result.returncode == 70


def test_printable_leaves_letters_and_escapes_the_rest():
    assert printable("Zoë [bold] 日本") == "Zoë [bold] 日本"
    assert printable("a\x1b[2J\udcffb\r") == "a\\x1b[2J\\udcffb\\r"


def test_durations_as_people_say_them():
    assert [duration(s) for s in (0.04, 59.94, 61, 3725)] == ["0.0 s", "59.9 s", "1 min 1 s", "1 h 2 min"]
