"""`samekind landmarks`: points of all pictures, those that were there kept, and what has no face said."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind.cli.main import app
from samekind.images import detect
from samekind.images.landmarks import read_landmarks
from tests.picture_folders import write_pictures


class Detector:
    """Finds a face in every picture that is not dark."""

    def detect_faces(self, picture):
        if picture.mean() < 5:
            return []
        points = {"left_eye": (10, 12), "right_eye": (29, 12), "mouth_left": (12, 40), "mouth_right": (27, 40)}
        return [{"box": [5, 5, 30, 40], "confidence": 0.99, "keypoints": points}]


@pytest.fixture(autouse=True)
def detector(monkeypatch):
    monkeypatch.setattr(detect._own, "detector", Detector(), raising=False)


@pytest.fixture
def pictures(tmp_path):
    return write_pictures(tmp_path / "pictures", n_labels=2, per_label=2)


def run(*arguments):
    """In this thread, which has the detector."""
    return CliRunner().invoke(app, ["landmarks", *map(str, arguments), "--jobs", "1"])


def test_points_of_all_pictures_are_written(pictures, tmp_path):
    result = run(pictures, tmp_path / "points.csv", "--json")
    assert result.exit_code == 0, result.stderr
    said, found = json.loads(result.stdout), read_landmarks(tmp_path / "points.csv")
    assert (said["images"], said["new"], said["assumed"], said["skipped"]) == (4, 4, 0, {})
    assert len(found) == 4
    assert all("/" in name for name in found)


def test_what_is_there_already_is_kept(pictures, tmp_path):
    out = tmp_path / "points.csv"
    run(pictures, out)
    first = next(iter(read_landmarks(out)))
    lines = out.read_text().splitlines()
    corrected = [line if not line.startswith(first) else f"{first},1,2,31,2,16,40" for line in lines]
    out.write_text("\n".join(corrected[:-1]) + "\n")
    said = json.loads(run(pictures, out, "--json").stdout)
    assert (said["images"], said["new"]) == (4, 1)
    np.testing.assert_array_equal(read_landmarks(out)[first], [[1, 2], [31, 2], [16, 40]])


def test_an_interrupted_run_keeps_what_it_found(pictures, tmp_path, monkeypatch):
    calls = []

    class Interrupted(Detector):
        def detect_faces(self, picture):
            calls.append(1)
            if len(calls) > 4:  # each picture is searched twice
                raise KeyboardInterrupt
            return super().detect_faces(picture)

    monkeypatch.setattr(detect._own, "detector", Interrupted(), raising=False)
    result = run(pictures, tmp_path / "points.csv")
    assert result.exit_code == 130
    assert "the same command" in result.stderr
    assert len(read_landmarks(tmp_path / "points.csv")) == 2


def test_pictures_without_a_face_are_said(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(Detector, "detect_faces", lambda self, picture: [])
    result = run(pictures, tmp_path / "points.csv")
    assert result.exit_code == 1
    assert "None of the 4 files can be used" in result.stderr
    assert "no face found" in result.stderr
    assert not (tmp_path / "points.csv").exists()


def test_a_missing_folder_is_an_error(tmp_path):
    result = run(tmp_path / "nowhere", tmp_path / "points.csv")
    assert result.exit_code == 2
    assert "no such folder" in result.stderr


def test_a_csv_with_other_columns_is_refused_and_stays_as_it_is(pictures, tmp_path):
    out, text = tmp_path / "points.csv", "image,left_eye_x,left_eye_y,right_eye_x,right_eye_y,mouth_x,mouth_y,who\n"
    out.write_text(text + "a.jpg,1,2,31,2,16,40,Ann\n")
    result = run(pictures, out)
    assert result.exit_code == 2
    assert "others would be lost" in result.stderr
    assert out.read_text().endswith("Ann\n")


def test_a_csv_that_has_all_pictures_is_not_written_again(pictures, tmp_path):
    out = tmp_path / "points.csv"
    run(pictures, out)
    out.write_text(out.read_text().replace(".0", ".00"))
    content = out.read_text()
    assert run(pictures, out).exit_code == 0
    assert out.read_text() == content
