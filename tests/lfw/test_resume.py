"""An experiment that is killed goes on where it was, and ends as one that was not."""

import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from samekind.lfw.experiment import Experiment
from tests.lfw import small

STUDY = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from samekind.lfw.experiment import Experiment
from tests.lfw import small

images, protocol, work, title, at = sys.argv[1:]

class Deadly(small.Recorder):
    @contextmanager
    def learning(self, name):
        yield lambda event: self.die(name, event.iteration)

    @contextmanager
    def counting(self, name):
        yield lambda done, total: self.die(name, done)

    def die(self, name, done):
        if name == title and done == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

Experiment(Path(images), Path(protocol), Path(work), small.SETTINGS, reporter=Deadly()).view1()
"""

KILLED = [
    ("describing pictures", 20),
    ("View 1: cov, step 1", 3),
    ("View 1: slbp, step 2", 4),
    ("View 1: comparing pictures", 30),
]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(lfw, tmp_path):
    root = Path(__file__).parents[2]
    work = tmp_path / "work"
    for title, at in KILLED:
        command = [sys.executable, "-c", STUDY, lfw.images, lfw.protocol, work, title, at]
        killed = subprocess.run(
            [str(each) for each in command], cwd=root, capture_output=True, timeout=120, check=False
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    reporter = small.Recorder()
    findings = Experiment(lfw.images, lfw.protocol, work, small.SETTINGS, reporter=reporter).view1()
    assert not reporter.iterations, "all stages were learned before the last kill"
    assert list(reporter.counts) == ["View 1: comparing pictures"]
    assert small.kept(work) == {
        name: content for name, content in small.kept(lfw.work).items() if name.startswith("view1")
    }
    assert not list(work.rglob("*.checkpoint"))
    assert [each.facts[0]["rank"] for each in findings.outcomes] == [
        each.facts[0]["rank"] for each in lfw.view1.outcomes
    ]


class Stop(Exception):
    pass


class Stopping(small.Recorder):
    """Ends the experiment in the third round of one stage."""

    @contextmanager
    def learning(self, title):
        def stop(event):
            if (title, event.iteration) == ("View 1: slbp, step 1", 3):
                raise Stop

        yield stop


def test_a_running_stage_goes_on_from_its_checkpoint(lfw, tmp_path):
    experiment = replace(lfw.experiment, work=tmp_path, store=lfw.store, reporter=Stopping())
    with pytest.raises(Stop):
        experiment.view1()
    reporter = small.Recorder()
    replace(experiment, reporter=reporter).view1()
    assert list(reporter.iterations) == [
        f"View 1: {title}" for title in ("slbp, step 1", "slbp, step 2", "cov + slbp, step 2")
    ]
    assert reporter.iterations["View 1: slbp, step 1"] == [3]
