"""Two runs of `samekind index` on one gallery at once: nothing is lost, and nothing is added twice."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind.cli.main import app
from samekind.gallery import Gallery
from tests.picture_folders import write_pictures

ROOT = Path(__file__).parents[2]
FEW = ("--max-groups", "3", "--components", "6", "--quiet", "--set", "cv=2")

# Both find the gallery as it was, and encode the first pictures, before either adds any.
RUN = """
import sys, time
from pathlib import Path
from samekind.__main__ import main
from samekind.cli import index
from samekind.gallery import Gallery
from samekind.model.encoder import Encoder
meeting, name = Path(sys.argv.pop(1)), sys.argv.pop(1)

def met(step):
    (meeting / f"{step} {name}").touch()
    for _ in range(6000):
        if len(list(meeting.glob(f"{step} *"))) == 2:
            return
        time.sleep(0.01)
    sys.exit("the other run did not come")

index.AT_ONCE = 5
steps = {"exists": Gallery.exists, "encode": Encoder.encode_each}
def exists(path):
    found = steps["exists"](path)
    met("looked")
    return found
def encode_each(*given, **named):
    found = steps["encode"](*given, **named)
    met("encoded")
    return found
Gallery.exists, Encoder.encode_each = staticmethod(exists), encode_each
main()
"""


def run(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_pictures(folder / "pictures", n_labels=8, per_label=4)
    run("extract", folder / "pictures", folder / "store", "--size", "40x56", "--regions", 20)
    run("fit", folder / "store", folder / "model", *FEW)
    return folder


def at_once(folder, model, gallery, *sources):
    """Results of a run for each source, all of them started before any adds."""
    meeting = folder / "meeting"
    meeting.mkdir()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, meeting, str(at), "index", model, source, gallery, "--quiet", "--json"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for at, source in enumerate(sources)
    ]
    ended = [(process, *process.communicate(timeout=200)) for process in started]
    assert [(process.returncode, errors) for process, _, errors in ended] == [(0, "")] * len(sources)
    return [json.loads(printed) for _, printed, _ in ended]


@pytest.mark.slow
@pytest.mark.parametrize("new", [True, False], ids=["new gallery", "gallery that is there"])
def test_two_runs_add_each_picture_once(home, place, tmp_path, new):
    gallery = place("g")
    if not new:
        run("index", home / "model", home / "pictures/person 00", gallery, "--quiet")
        with Gallery.open(gallery) as opened:
            opened.remove([record.id for record in opened.find()][1:])
    kept = 0 if new else 1
    results = at_once(tmp_path, home / "model", gallery, home / "pictures", home / "pictures")
    assert sum(result["added"] for result in results) == 32
    assert all(result["added"] + result["added_by_others"] == 32 for result in results)
    with Gallery.open(gallery, read_only=True) as opened:
        records = opened.find()
        names = sorted(record.name for record in records)
        assert len(records) == 32 + kept
        assert len(set(names)) == len(names)
        codes = opened.codes([record.id for record in records])
        expected = opened.model.encode([record.source for record in records])
        np.testing.assert_allclose(codes, expected, rtol=1e-4, atol=1e-5)
        assert opened.check().sound


@pytest.mark.slow
def test_runs_of_folders_that_overlap_add_all_of_both(home, place, tmp_path):
    lists = []
    for at, persons in enumerate((range(5), range(3, 8))):
        lines = [f"pictures/person {person:02d}/{n}.png,p{person}" for person in persons for n in range(4)]
        lists.append(home / f"list {at}.csv")
        lists[-1].write_text("file,label\n" + "\n".join(lines))
    gallery = place("g")
    results = at_once(tmp_path, home / "model", gallery, *lists)
    assert sum(result["added"] for result in results) == 32
    with Gallery.open(gallery, read_only=True) as opened:
        assert opened.labels() == {f"p{person}": 4 for person in range(8)}
