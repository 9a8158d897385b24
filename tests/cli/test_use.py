"""`samekind encode`, `verify` and `info`: a model in use."""

import csv
import json
import os
import re
import shutil

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import Metric
from samekind.cli.main import app
from samekind.images.listing import list_images
from samekind.kernels.flips import flip_free_distances
from tests.picture_folders import write_pictures


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


def as_json(*arguments, status=0):
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def made_model(folder, pictures, *options):
    assert run("extract", pictures, folder / "store", "--size", "40x56", "--regions", 20, *options).exit_code == 0
    fitted = run("fit", folder / "store", folder / "model", "--max-groups", 3, "--components", 6, "--quiet")
    assert fitted.exit_code == 0, fitted.stderr
    return folder / "model"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with pictures, a store and a model."""
    folder = tmp_path_factory.mktemp("home")
    made_model(folder, write_pictures(folder / "pictures", n_labels=8, per_label=4))
    return folder


@pytest.fixture(scope="module")
def model(home):
    return home / "model"


@pytest.fixture
def pictures(tmp_path):
    return write_pictures(tmp_path / "pictures", n_labels=3, per_label=2)


@pytest.fixture(scope="module")
def blind(home):
    """A model that cannot read pictures."""
    path = home / "blind"
    Metric(np.eye(2), [0, 1], 2, threshold=1.0).save(path)
    return path


def points_csv(path, names):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        points = ["left_eye", "right_eye", "mouth"]
        writer.writerow(["image", *(f"{name}_{axis}" for name in points for axis in "xy")])
        writer.writerows([name, 13 + at % 3, 25, 30, 25 - at % 2, 21, 43] for at, name in enumerate(names))
    return path


class TestEncode:
    def test_writes_codes_and_which_row_is_which_file(self, model, pictures, tmp_path):
        result = run("encode", model, pictures, "--out", tmp_path / "codes.npy")
        assert result.exit_code == 0, result.stderr
        codes = np.load(tmp_path / "codes.npy")
        assert codes.dtype == np.float32
        assert f"6 x {codes.shape[1]}, float32" in result.stdout
        files = list_images(pictures, labelled=True)
        np.testing.assert_allclose(codes, Metric.load(model).encode([file.path for file in files]), rtol=1e-6)
        with open(tmp_path / "codes.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows == [{"row": str(at), "file": file.name, "label": file.label} for at, file in enumerate(files)]

    def test_flip_free(self, model, pictures, tmp_path):
        told = as_json("encode", model, pictures, "--out", tmp_path / "codes.npy", "--flip-free")
        codes, metric = np.load(tmp_path / "codes.npy"), Metric.load(model)
        assert codes.shape == (6, metric.n_components + 1) == (told["images"], told["length"])
        paths = [file.path for file in list_images(pictures, labelled=True)]
        np.testing.assert_allclose(codes, metric.encode(paths, flip_free=True), rtol=1e-6)

    def test_mirror_mean(self, model, pictures, tmp_path):
        told = as_json("encode", model, pictures, "--out", tmp_path / "codes.npy", "--mirror-mean")
        codes, metric = np.load(tmp_path / "codes.npy"), Metric.load(model)
        assert codes.shape == (6, metric.n_components) == (told["images"], told["length"])
        assert told["flip_free"] == "mean"
        paths = [file.path for file in list_images(pictures, labelled=True)]
        np.testing.assert_allclose(codes, metric.encode(paths, flip_free="mean"), rtol=1e-6)
        both = ["--flip-free", "--mirror-mean"]
        assert "give one of them" in refused("encode", model, pictures, "--out", tmp_path / "x.npy", *both)
        assert not (tmp_path / "x.npy").exists()

    def test_one_picture_a_flat_folder_and_csvs(self, model, pictures, tmp_path):
        folder = pictures / "person 00"
        (tmp_path / "plain.csv").write_text("file\npictures/person 00/0.png\n")
        (tmp_path / "labels.csv").write_text("file,label\npictures/person 00/0.png,Ann\n")
        for source, name, label in [
            (folder / "0.png", "0.png", ""),
            (folder, "0.png", ""),
            (tmp_path / "plain.csv", "pictures/person 00/0.png", ""),
            (tmp_path / "labels.csv", "pictures/person 00/0.png", "Ann"),
        ]:
            assert run("encode", model, source, "--out", tmp_path / "codes.npy").exit_code == 0
            assert (tmp_path / "codes.csv").read_text().splitlines()[1] == f"0,{name},{label}"

    def test_many_batches_keep_their_order(self, model, pictures, tmp_path):
        for number in range(130):
            shutil.copy(pictures / "person 00/0.png", pictures / f"person 01/{number:03d}.png")
            if number % 40 == 3:
                (pictures / f"person 01/{number:03d}.png").write_text("no picture")
        told = as_json("encode", model, pictures, "--out", tmp_path / "codes.npy", "--jobs", 2)
        assert len(told["skipped"]) == 4
        with open(tmp_path / "codes.csv", newline="") as file:
            names = [row["file"] for row in csv.DictReader(file)]
        codes = np.load(tmp_path / "codes.npy")
        assert len(names) == len(codes) == told["images"]
        assert not set(names) & set(told["skipped"])
        expected = Metric.load(model).encode([pictures / name for name in names])
        np.testing.assert_allclose(codes, expected, rtol=1e-5, atol=1e-6)

    def test_unusable_and_damaged_files_are_reported(self, model, pictures, tmp_path):
        (pictures / "person 00/[red]x.png").write_text("no picture")
        data = cv2.imencode(".jpg", cv2.imread(str(pictures / "person 00/0.png"), 0))[1].tobytes()
        (pictures / "person 00/cut.jpg").write_bytes(data[: len(data) * 3 // 4])
        result = run("encode", model, pictures, "--out", tmp_path / "codes.npy")
        assert result.exit_code == 0
        assert "person 00/[red]x.png: is not a JPEG" in result.stdout
        assert "person 00/cut.jpg: damaged" in result.stdout
        assert len(np.load(tmp_path / "codes.npy")) == 7

    def test_fail_writes_nothing(self, model, pictures, tmp_path):
        (pictures / "person 00/x.png").write_text("no picture")
        message = refused("encode", model, pictures, "--out", tmp_path / "codes.npy", "--on-error", "fail")
        assert "person 00/x.png" in message
        assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]

    def test_nothing_usable_is_status_1(self, model, tmp_path):
        (tmp_path / "x.png").write_text("no picture")
        result = run("encode", model, tmp_path / "x.png", "--out", tmp_path / "codes.npy")
        assert result.exit_code == 1
        assert not result.stdout
        assert "x.png: is not a JPEG" in result.stderr
        assert as_json("encode", model, tmp_path / "x.png", "--out", tmp_path / "c.npy", status=1)["images"] == 0
        assert [path.name for path in tmp_path.iterdir()] == ["x.png"]

    def test_targets_that_cannot_be_written(self, model, pictures, tmp_path):
        assert "must end in .npy, such as" in refused("encode", model, pictures, "--out", tmp_path / "codes.csv")
        (tmp_path / "folder.npy").mkdir()
        assert "This is a folder" in refused("encode", model, pictures, "--out", tmp_path / "folder.npy")
        assert "no such folder" in refused("encode", model, pictures, "--out", tmp_path / "no" / "codes.npy")

    def test_never_replaces_a_list_of_ones_own(self, model, pictures, tmp_path):
        for text in ("file,label\npictures/person 00/0.png,Ann\n", "row,file,label\n0,pictures/person 00/0.png,Ann\n"):
            (tmp_path / "codes.csv").write_text(text)
            message = refused("encode", model, tmp_path / "codes.csv", "--out", tmp_path / "codes.npy")
            assert "a file of yours" in message
            assert (tmp_path / "codes.csv").read_text() == text

    def test_wrong_sources_and_models(self, model, blind, pictures, tmp_path):
        out = ["--out", tmp_path / "codes.npy"]
        assert "no such folder or file" in refused("encode", model, tmp_path / "nowhere", *out)
        (tmp_path / "empty").mkdir()
        assert "is empty" in refused("encode", model, tmp_path / "empty", *out)
        assert "no such model file" in refused("encode", tmp_path / "nowhere", pictures, *out)
        assert "not a samekind metric" in refused("encode", pictures / "person 00/0.png", pictures, *out)
        assert "cannot read pictures" in refused("encode", blind, pictures, *out)
        assert run("encode", model, pictures).exit_code == 2


class TestVerify:
    def test_status_0_for_the_same(self, model, home):
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 00/1.png"
        result = run("verify", model, a, b)
        assert result.exit_code == 0, result.output
        assert "same" in result.stdout.splitlines()[0]
        codes = Metric.load(model).encode([a, b]).astype(float)
        told = as_json("verify", model, a, b)
        assert told["distance"] == pytest.approx(((codes[0] - codes[1]) ** 2).sum(), rel=1e-5)
        assert told["threshold"] == Metric.load(model).threshold
        assert told["same"] is True

    def test_status_1_for_different(self, model, home):
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        result = run("verify", model, a, b)
        assert result.exit_code == 1
        assert "different" in result.stdout.splitlines()[0]
        assert as_json("verify", model, a, b, status=1)["same"] is False

    def test_the_threshold_may_be_given(self, model, home):
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        distance = as_json("verify", model, a, b, status=1)["distance"]
        assert run("verify", model, a, b, "--threshold", repr(distance)).exit_code == 0
        assert run("verify", model, a, b, "--threshold", repr(np.nextafter(distance, 0).item())).exit_code == 1
        assert "not a number" in refused("verify", model, a, b, "--threshold", "nan")

    def test_flip_free_does_not_see_a_mirror(self, model, home, tmp_path):
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        cv2.imwrite(str(tmp_path / "mirrored.png"), cv2.imread(str(b), 0)[:, ::-1])
        plain = [as_json("verify", model, a, each, status=1)["distance"] for each in (b, tmp_path / "mirrored.png")]
        options = ["--flip-free", "--threshold", 0]
        free = [as_json("verify", model, a, x, *options, status=1)["distance"] for x in (b, tmp_path / "mirrored.png")]
        assert free[0] == pytest.approx(free[1], rel=1e-3)
        assert plain[0] != pytest.approx(plain[1], rel=1e-2)
        codes = Metric.load(model).encode([a, b], flip_free=True)
        assert free[0] == pytest.approx(float(flip_free_distances(codes[:1], codes[1:])[0]), rel=1e-5)
        options = ["--mirror-mean", "--threshold", 0]
        mean = [as_json("verify", model, a, x, *options, status=1)["distance"] for x in (b, tmp_path / "mirrored.png")]
        assert mean[0] == pytest.approx(mean[1], rel=1e-3)
        a_code, b_code = Metric.load(model).encode([a, b], flip_free="mean").astype(float)
        assert mean[0] == pytest.approx(((a_code - b_code) ** 2).sum(), rel=1e-4)

    @pytest.mark.parametrize("flip_free", [False, True])
    def test_a_normalised_model(self, model, home, tmp_path, flip_free):
        metric = Metric.load(model).with_normalise("unit").with_threshold(0)
        metric.save(tmp_path / "m")
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        pixels = [cv2.imread(str(each), 0) for each in (a, b)]
        plain = [Metric.load(model).encode([grey, grey[:, ::-1]])[: 1 + flip_free].astype(float) for grey in pixels]
        codes = [c / np.linalg.norm(c, axis=1, keepdims=True) for c in plain]
        expected = np.mean([((u - v) ** 2).sum() for u in codes[0] for v in codes[1]])
        told = as_json("verify", tmp_path / "m", a, b, *["--flip-free"] * flip_free, status=1)
        assert told["distance"] == pytest.approx(expected, rel=1e-3)

    def test_status_2_when_it_cannot_tell(self, model, blind, home, tmp_path):
        a = home / "pictures/person 00/0.png"
        assert "there is no such file" in refused("verify", model, a, tmp_path / "nowhere.png")
        (tmp_path / "x.png").write_text("no picture")
        assert "x.png: is not a JPEG" in refused("verify", model, a, tmp_path / "x.png")
        cv2.imwrite(str(tmp_path / "small.png"), np.zeros((9, 9), np.uint8))
        assert "smaller than the crop" in refused("verify", model, a, tmp_path / "small.png")
        assert "no such model file" in refused("verify", tmp_path / "nowhere", a, a)
        assert "give the model file itself" in refused("verify", home / "store", a, a)
        assert "cannot read pictures" in refused("verify", blind, a, a)
        assert run("verify", model, a).exit_code == 2

    def test_a_model_without_threshold_asks_for_one(self, model, home, tmp_path):
        Metric.load(model).with_threshold(None).save(tmp_path / "m")
        a = home / "pictures/person 00/0.png"
        assert "give --threshold" in refused("verify", tmp_path / "m", a, a)
        assert run("verify", tmp_path / "m", a, a, "--threshold", 1).exit_code == 0

    def test_damage_is_remarked(self, model, home, tmp_path):
        data = cv2.imencode(".jpg", cv2.imread(str(home / "pictures/person 00/0.png"), 0))[1].tobytes()
        (tmp_path / "cut.jpg").write_bytes(data[: len(data) * 3 // 4])
        result = run("verify", model, tmp_path / "cut.jpg", tmp_path / "cut.jpg")
        assert result.exit_code == 0
        assert "damaged" in result.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model of pictures aligned by landmarks."""
    folder = tmp_path_factory.mktemp("landmarks")
    pictures = write_pictures(folder / "pictures", n_labels=4, per_label=3)
    names = [path.relative_to(pictures).as_posix() for path in sorted(pictures.rglob("*.png"))]
    points = points_csv(folder / "points.csv", names)
    made_model(folder, pictures, "--landmarks", points)
    return folder


class TestLandmarks:
    def test_encode_and_verify_use_them(self, place, tmp_path):
        points = ["--landmarks", place / "points.csv"]
        assert run("encode", place / "model", place / "pictures", "--out", tmp_path / "all.npy", *points).exit_code == 0
        a, b = place / "pictures/person 00/0.png", place / "pictures/person 00/1.png"
        assert run("encode", place / "model", b, "--out", tmp_path / "one.npy", *points).exit_code == 0
        codes, one = np.load(tmp_path / "all.npy"), np.load(tmp_path / "one.npy")
        np.testing.assert_allclose(one[0], codes[1], rtol=1e-5, atol=1e-6)
        told = as_json("verify", place / "model", a, b, *points, "--threshold", 1e9)
        assert told["distance"] == pytest.approx(((codes[0] - codes[1]).astype(float) ** 2).sum(), rel=1e-4)

    def test_without_them_it_is_an_error(self, place, tmp_path):
        a = place / "pictures/person 00/0.png"
        assert "give --landmarks" in refused("verify", place / "model", a, a)
        message = refused("encode", place / "model", a, "--out", tmp_path / "c.npy")
        assert "give --landmarks" in message

    def test_a_picture_that_they_do_not_name(self, place, tmp_path):
        shutil.copy(place / "pictures/person 00/0.png", tmp_path / "new.png")
        message = refused(
            "verify", place / "model", tmp_path / "new.png", tmp_path / "new.png", "--landmarks", place / "points.csv"
        )
        assert "has no line for" in message
        assert "person 00/0.png" in message

    def test_another_model_takes_none(self, model, home, place):
        a = home / "pictures/person 00/0.png"
        assert "takes no landmarks" in refused("verify", model, a, a, "--landmarks", place / "points.csv")


class TestInfo:
    def test_store(self, home):
        result = run("info", home / "store")
        assert result.exit_code == 0, result.stderr
        for text in ("32 of 8 labels, 4 each", "20 regions x 45", "fuzziness 0.02", "40 x 56", "none", "samekind 0."):
            assert text in result.stdout
        assert "Checksums" not in result.stdout
        told = as_json("info", home / "store")
        assert (told["kind"], told["images"], told["complete"]) == ("store", 32, True)

    def test_check_reads_every_byte(self, home, tmp_path):
        store = shutil.copytree(home / "store", tmp_path / "store")
        assert "right" in run("info", store, "--check").stdout
        with open(store / "cov-00000.npy", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x55")
        assert run("info", store).exit_code == 0
        assert "was altered" in refused("info", store, "--check")

    def test_model(self, model):
        result = run("info", model)
        assert result.exit_code == 0, result.stderr
        metric = Metric.load(model)
        for text in ("3 regions x 45", "3 regions x 59", "14 (squared distance)", "pairwise", "EnsembleMetric"):
            assert text in result.stdout
        assert metric.groups[0] in result.stdout
        told = as_json("info", model)
        assert told["groups"] == list(metric.groups)
        assert told["n_components"] == metric.n_components
        assert told["attributes"] == dict(metric.attributes)

    @pytest.mark.parametrize("normalise", ["none", "root", "unit"])
    def test_normalisation_of_a_model(self, model, tmp_path, normalise):
        Metric.load(model).with_normalise(normalise).save(tmp_path / "m")
        assert re.search(rf"^Normalisation +{normalise}$", run("info", tmp_path / "m").stdout, re.MULTILINE)
        assert as_json("info", tmp_path / "m")["normalise"] == normalise

    def test_a_model_of_plain_features(self, blind):
        assert "cannot read pictures" in run("info", blind).stdout
        assert as_json("info", blind)["families"] == []

    def test_something_else(self, home, tmp_path):
        assert "not a samekind store" in refused("info", home / "pictures")
        assert "not a samekind metric" in refused("info", home / "pictures/person 00/0.png")
        assert "Give a store (a folder) or a model (a file)" in refused("info", tmp_path / "nowhere")
