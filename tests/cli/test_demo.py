"""The demo as a newcomer runs it."""

import re
import subprocess
import sys

import numpy as np
import pytest

from samekind import Metric
from samekind.demo.patches import PatchFeatures, all_rectangles
from samekind.demo.study import COLUMNS


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
    assert page.count("<svg") == 5
    for heading in ("Results", "Chosen patches", "Convergence", "ROC", "Spectrum"):
        assert heading in page
    outside = [link for link in re.findall(r"https?://[^\s\"'<)]+", page) if "w3.org" not in link]
    assert not [link for link in outside if not link.startswith(("http://purl.org", "https://matplotlib.org"))]
    assert not re.search(r"<(script|link|img)\b", page)


def test_unwritable_target_is_told_in_one_line(tmp_path):
    (tmp_path / "samekind-demo").write_text("a file, not a folder")
    result = samekind("demo", cwd=tmp_path)
    assert result.returncode == 1
    assert "samekind-demo" in result.stderr
    assert "Traceback" not in result.stderr


def test_version_and_help(tmp_path):
    assert re.fullmatch(r"samekind \d+\.\d+\.\d+\S*\n", samekind("--version", cwd=tmp_path).stdout)
    assert "never seen" in samekind("demo", "--help", cwd=tmp_path).stdout
    assert samekind("nonsense", cwd=tmp_path).returncode == 2


def test_patches_are_all_there_and_whitened():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((200, 4, 5))
    rectangles = all_rectangles((4, 5), range(2, 4))
    assert len(rectangles) == (3 + 2) * (4 + 3)
    assert len(set(rectangles)) == len(rectangles)
    features = PatchFeatures.learned(images, rectangles, damping=0.0, least=1e-9)
    X = features.of(images)
    for name, columns in features.groups.items():
        covariance = np.cov(X[:, columns].T, bias=True)
        np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=1e-4, err_msg=name)


def test_dead_pixels_are_dropped_not_blown_up():
    images = np.random.default_rng(0).standard_normal((50, 4, 4))
    images[:, :2, :2] = 0.25
    features = PatchFeatures.learned(images, all_rectangles((4, 4), range(2, 3)), damping=0.0, least=1e-6)
    assert "2x2 at 0,0" not in features.groups
    assert np.abs(features.of(images)).max() < 10
