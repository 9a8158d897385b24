"""Curves of other methods, as their authors published them."""

import numpy as np
import pytest

from samekind.lfw.published import read_curve, read_published
from samekind.lfw.report import write_lfw_report
from samekind.lfw.tables import published_table

CURVE = "0.0 0.0\n0.6 0.001\n0.8 0.01\n0.9 0.1\n1.0 1.0\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one.txt").write_text(CURVE)
    (tmp_path / "results.csv").write_text('method,accuracy,standard_error,roc_file\n"One, aligned",90.5,0.4,one.txt\n')
    return tmp_path


def test_figures_are_those_of_the_curve(folder):
    (one,) = read_published(folder)
    assert (one.method, one.accuracy, one.standard_error) == ("One, aligned", 90.5, 0.4)
    assert (one.roc.true_match_rate_at(1e-2), one.roc.true_match_rate_at(1e-3)) == (0.8, 0.6)
    assert one.roc.eer == pytest.approx(0.1)


@pytest.mark.parametrize("change", ["falling", "other way round", "tabs"])
def test_points_may_be_in_any_order(folder, change):
    points = np.loadtxt(folder / "one.txt")
    changed = {"falling": points[::-1], "other way round": points[:, ::-1], "tabs": points}[change]
    np.savetxt(folder / "other.txt", changed, delimiter="\t" if change == "tabs" else " ")
    expected, found = read_curve(folder / "one.txt"), read_curve(folder / "other.txt")
    np.testing.assert_allclose(found.true_match_rate, expected.true_match_rate)
    np.testing.assert_allclose(found.false_match_rate, expected.false_match_rate)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ("method,accuracy\nOne,90\n", "line 2.*needs the columns method, accuracy, standard_error, roc_file"),
        ("method,accuracy,standard_error,roc_file\nOne,high,0.4,one.txt\n", "line 2.*high"),
        ("method,accuracy,standard_error,roc_file\nOne,90,0.4,wide.txt\n", "line 2: wide.txt must have two rates"),
    ],
)
def test_what_cannot_be_read_is_named(folder, results, message):
    (folder / "results.csv").write_text(results)
    (folder / "wide.txt").write_text("0.1 0.2 0.3\n")
    with pytest.raises(ValueError, match=message):
        read_published(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"results\.csv"):
        read_published(tmp_path / "nowhere")


@pytest.mark.slow
def test_ours_stand_among_them_in_order_of_accuracy(lfw, folder, tmp_path):
    published = read_published(folder)
    table = published_table(lfw.view2, published)
    accuracies = [row[1] for row in table.rows]
    assert accuracies == sorted(accuracies)
    assert len(table.rows) == 1 + 3
    faces = lfw.experiment.mean_faces()
    page = write_lfw_report(tmp_path / "with.html", lfw.view2, faces, published).read_text()
    assert "One, aligned" in page
    assert "Beside published results" not in write_lfw_report(tmp_path / "without.html", lfw.view2, faces).read_text()
