"""The demo as a newcomer runs it."""

import re
import subprocess
import sys

import numpy as np
import pytest

from samekind import Metric
from samekind.demo.study import COLUMNS
from samekind.gallery import Gallery

pytestmark = pytest.mark.slow


def samekind(*arguments, cwd):
    command = [sys.executable, "-m", "samekind", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, samekind("demo", cwd=folder)


def test_demo_ends_well_and_prints_every_method(demo):
    _, result = demo
    assert result.returncode == 0, result.stderr
    for method in ("Euclidean", "PCA", "LDA", "NCA", "samekind"):
        assert method in result.stdout
    assert all(column.split()[0] in result.stdout for column in COLUMNS)


def test_demo_leaves_a_model_that_loads_and_encodes(demo):
    folder, _ = demo
    metric = Metric.load(folder / "samekind-demo" / "model.safetensors")
    assert metric.n_columns < metric.n_features
    assert len(metric.groups) >= 2
    codes = metric.transform(np.zeros((3, metric.n_columns), np.float32))
    assert codes.shape == (3, metric.n_components)


def test_demo_report_is_one_self_contained_page(demo):
    folder, _ = demo
    page = (folder / "samekind-demo" / "report.html").read_text()
    assert page.count("<svg") == 6
    for heading in ("Results", "Chosen regions: cov", "Convergence", "ROC", "Spectrum"):
        assert heading in page
    outside = [link for link in re.findall(r"https?://[^\s\"'<)]+", page) if "w3.org" not in link]
    assert not [link for link in outside if not link.startswith(("http://purl.org", "https://matplotlib.org"))]
    assert not re.search(r"<(script|link|img)\b", page)


def test_demo_leaves_a_gallery_and_says_how_to_open_it(demo):
    folder, result = demo
    path = folder / "samekind-demo" / "digits.gallery"
    line = next(line for line in result.stdout.splitlines() if line.startswith("Open:"))
    assert line.endswith("serve samekind-demo/digits.gallery")
    metric = Metric.load(folder / "samekind-demo" / "model.safetensors")
    assert metric.threshold == metric.calibration.threshold
    with Gallery.open(path, read_only=True) as gallery:
        assert gallery.labels() == {str(digit): 60 for digit in range(10)}
        gallery.check_model(metric)
        assert gallery.thumbnail(1).startswith(b"\x89PNG")


def test_unwritable_target_is_reported_in_one_line(tmp_path):
    (tmp_path / "samekind-demo").write_text("a file, not a folder")
    result = samekind("demo", cwd=tmp_path)
    assert result.returncode == 2
    assert "samekind-demo" in result.stderr
    assert "Traceback" not in result.stderr


def test_version_and_help(tmp_path):
    assert re.fullmatch(r"samekind \d+\.\d+\.\d+\S*\n", samekind("--version", cwd=tmp_path).stdout)
    assert "never seen" in samekind("demo", "--help", cwd=tmp_path).stdout
    assert samekind("nonsense", cwd=tmp_path).returncode == 2


def test_demo_leaves_a_store_and_pictures_for_the_other_commands(demo):
    folder, result = demo
    command = re.search(r"Try: +\S*samekind (.*)", result.stdout)[1].split()
    verified = samekind(*command, "--json", cwd=folder)
    assert verified.returncode in (0, 1), verified.stderr
    printed = samekind("info", "samekind-demo/store-uneven", cwd=folder)
    assert printed.returncode == 0, printed.stderr
    assert "1,100" in printed.stdout or "1100" in printed.stdout


def test_demo_runs_again_on_what_it_left(demo):
    """The store is there already; nothing of it is made anew."""
    folder, _ = demo
    store = folder / "samekind-demo" / "store-uneven"
    before = {path.name: path.stat().st_mtime_ns for path in store.glob("*.npy")}
    assert samekind("demo", "--quiet", cwd=folder).returncode == 0
    assert {path.name: path.stat().st_mtime_ns for path in store.glob("*.npy")} == before
