"""`samekind encode`, `verify`, `evaluate` and `info`: a model in use."""

import csv
import json
import os
import re
import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import Metric
from samekind.cli.main import app
from samekind.estimators.use import reading
from samekind.evaluation import evaluate_codes, evaluate_retrieval
from samekind.images.listing import list_images
from samekind.kernels.flips import flip_free_distances
from samekind.store import DiskStore
from tests.model import files
from tests.picture_folders import write_pictures

FEW = ("--max-groups", 3, "--components", 6, "--quiet", "--set", "cv=none", "--set", "compare_by=distance")
LINEAR = ("--set", "normalise=none", "--set", "normalise_groups=none")


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


def made_model(folder, pictures, *options, more=()):
    assert run("extract", pictures, folder / "store", "--size", "40x56", "--regions", 20, *options).exit_code == 0
    fitted = run("fit", folder / "store", folder / "model", *FEW, *more)
    assert fitted.exit_code == 0, fitted.stderr
    return folder / "model"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with pictures, a store and a model."""
    folder = tmp_path_factory.mktemp("home")
    pictures = write_pictures(folder / "pictures", n_labels=10, per_label=4)
    made_model(folder, pictures, more=("--set", "cv=2"))
    return folder


@pytest.fixture(scope="module")
def model(home):
    return home / "model"


@pytest.fixture(scope="module")
def alike(home, model):
    """The two pictures of one label that the model finds most alike."""
    paths = sorted((home / "pictures/person 00").iterdir())
    metric = Metric.load(model)
    codes = metric.encode(paths)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    i, j = min(pairs, key=lambda pair: metric.code_distance(codes[pair[0]], codes[pair[1]])[0])
    return paths[i], paths[j]


@pytest.fixture
def pictures(tmp_path):
    return write_pictures(tmp_path / "pictures", n_labels=3, per_label=2)


@pytest.fixture(scope="module")
def blind(home):
    """A model that cannot read pictures."""
    path = home / "blind"
    Metric.linear(np.eye(2), [0, 1], 2, threshold=1.0).save(path)
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

    @pytest.mark.parametrize(("mirror", "more"), [("mean", 0), ("distances", 1)])
    def test_mirror_images_count_as_the_model_says(self, model, pictures, tmp_path, mirror, more):
        metric = Metric.load(model).with_mirror(mirror)
        metric.save(tmp_path / "m")
        printed = as_json("encode", tmp_path / "m", pictures, "--out", tmp_path / "codes.npy")
        codes = np.load(tmp_path / "codes.npy")
        assert codes.shape == (6, metric.n_components + more) == (printed["images"], printed["length"])
        assert printed["mirror"] == mirror
        paths = [file.path for file in list_images(pictures, labelled=True)]
        np.testing.assert_allclose(codes, metric.encode(paths), rtol=1e-6)

    def test_there_is_nothing_to_choose(self, model, pictures, tmp_path):
        for option in ("--flip-free", "--mirror-mean"):
            message = refused("encode", model, pictures, "--out", tmp_path / "x.npy", option)
            assert "No such option" in message
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
        printed = as_json("encode", model, pictures, "--out", tmp_path / "codes.npy", "--jobs", 2)
        assert len(printed["skipped"]) == 4
        with open(tmp_path / "codes.csv", newline="") as file:
            names = [row["file"] for row in csv.DictReader(file)]
        codes = np.load(tmp_path / "codes.npy")
        assert len(names) == len(codes) == printed["images"]
        assert not set(names) & set(printed["skipped"])
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
    def test_status_0_for_the_same(self, model, alike):
        a, b = alike
        result = run("verify", model, a, b)
        assert result.exit_code == 0, result.output
        assert "same" in result.stdout.splitlines()[0]
        codes = Metric.load(model).encode([a, b]).astype(float)
        printed = as_json("verify", model, a, b)
        assert printed["distance"] == pytest.approx(((codes[0] - codes[1]) ** 2).sum(), rel=1e-5)
        assert printed["threshold"] == Metric.load(model).threshold
        assert printed["same"] is True

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

    def test_says_the_probability_and_what_the_threshold_means(self, model, alike):
        a, b = alike
        calibration = Metric.load(model).calibration
        printed = as_json("verify", model, a, b)
        assert printed["probability"] == pytest.approx(float(calibration.probability([printed["distance"]])[0]))
        assert printed["false_match_rate"] == pytest.approx(float(calibration.false_match_rate(printed["threshold"])))
        said = run("verify", model, a, b).stdout
        assert f"{printed['probability']:.1%} that they are the same, if 50% of such pairs are" in said
        assert f"about {printed['false_match_rate']:.2g} of different pairs are at most so far apart" in said
        assert calibration.describe()[0] in said
        assert "Only 10 labels were left out" in said

    def test_the_probability_depends_on_how_many_are_the_same(self, model, alike):
        a, b = alike
        even, rare = (as_json("verify", model, a, b, "--prior", prior)["probability"] for prior in (0.5, 0.01))
        odds = even / (1 - even) / 99
        assert rare == pytest.approx(odds / (1 + odds))
        assert rare < even
        assert "prior" in refused("verify", model, a, b, "--prior", 1.5)

    def test_a_false_match_rate_may_be_asked_for(self, model, home):
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        printed = as_json("verify", model, a, b, "--far", 0.1, status=1)
        assert printed["threshold"] == Metric.load(model).calibration.threshold_at(0.1)
        assert printed["false_match_rate"] == pytest.approx(0.1, abs=0.005)  # some distances are equal
        assert "give one of them" in refused("verify", model, a, b, "--far", 0.1, "--threshold", 1)

    def test_a_rate_that_the_calibration_cannot_support_is_refused(self, model, home):
        a = home / "pictures/person 00/0.png"
        smallest = Metric.load(model).calibration.smallest_rate
        message = refused("verify", model, a, a, "--far", 1e-4)
        assert f"{smallest:.2g}"[:3] in message
        assert "leave out more" in message.lower()

    def test_a_model_without_calibration_answers_all_the_same(self, model, home, tmp_path):
        a = home / "pictures/person 00/0.png"
        replace(Metric.load(model), calibration=None, threshold=1.0).save(tmp_path / "m")
        result = run("verify", tmp_path / "m", a, a)
        assert result.exit_code == 0, result.output
        assert "Probability" not in result.stdout
        printed = as_json("verify", tmp_path / "m", a, a)
        assert (printed["probability"], printed["false_match_rate"], printed["threshold"]) == (None, None, 1.0)
        assert "is not calibrated" in refused("verify", tmp_path / "m", a, a, "--far", 0.1)

    @pytest.mark.parametrize("mirror", ["mean", "distances"])
    def test_a_mirror_image_is_as_good_where_the_model_says_so(self, model, home, tmp_path, mirror):
        metric = Metric.load(model).with_mirror(mirror).with_threshold(0)
        metric.save(tmp_path / "m")
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        cv2.imwrite(str(tmp_path / "mirrored.png"), cv2.imread(str(b), 0)[:, ::-1])
        both = b, tmp_path / "mirrored.png"
        plain = [as_json("verify", model, a, each, status=1)["distance"] for each in both]
        free = [as_json("verify", tmp_path / "m", a, each, status=1)["distance"] for each in both]
        assert free[0] == pytest.approx(free[1], rel=1e-3)
        assert plain[0] != pytest.approx(plain[1], rel=1e-2)
        codes = metric.encode([a, b])
        distances = flip_free_distances if mirror == "distances" else lambda u, v: ((u - v) ** 2).sum(axis=1)
        assert free[0] == pytest.approx(float(distances(codes[:1], codes[1:])[0]), rel=1e-4)

    @pytest.mark.parametrize("mirror", ["none", "distances"])
    def test_a_normalised_model(self, model, home, tmp_path, mirror):
        plain = Metric.load(model).with_normalise("none").with_mirror("none")
        plain.with_normalise("unit").with_mirror(mirror).with_threshold(0).save(tmp_path / "m")
        a, b = home / "pictures/person 00/0.png", home / "pictures/person 05/1.png"
        pixels = [cv2.imread(str(each), 0) for each in (a, b)]
        versions = 1 if mirror == "none" else 2
        plain = [plain.encode([grey, grey[:, ::-1]])[:versions].astype(float) for grey in pixels]
        codes = [c / np.linalg.norm(c, axis=1, keepdims=True) for c in plain]
        expected = np.mean([((u - v) ** 2).sum() for u in codes[0] for v in codes[1]])
        printed = as_json("verify", tmp_path / "m", a, b, status=1)
        assert printed["distance"] == pytest.approx(expected, rel=1e-3)

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
        replace(Metric.load(model), calibration=None, threshold=None).save(tmp_path / "m")
        a = home / "pictures/person 00/0.png"
        assert "give --threshold" in refused("verify", tmp_path / "m", a, a)
        assert run("verify", tmp_path / "m", a, a, "--threshold", 1).exit_code == 0

    def test_damage_is_remarked(self, model, home, tmp_path):
        data = cv2.imencode(".jpg", cv2.imread(str(home / "pictures/person 00/0.png"), 0))[1].tobytes()
        (tmp_path / "cut.jpg").write_bytes(data[: len(data) * 3 // 4])
        result = run("verify", model, tmp_path / "cut.jpg", tmp_path / "cut.jpg")
        assert result.exit_code == 0
        assert "damaged" in result.stdout


class TestEarlierModels:
    """Written before models said how mirror images count, or were calibrated."""

    @pytest.fixture(params=[2, 3, 4], ids=lambda version: f"format {version}")
    def earlier(self, request, home, tmp_path):
        fitted = run("fit", home / "store", tmp_path / "new", *FEW, *LINEAR)
        assert fitted.exit_code == 0, fitted.stderr
        metric = Metric.load(tmp_path / "new")
        parts = files.earlier_parts(
            request.param,
            metric.basis.over_columns(metric.components),
            metric.columns,
            metric.n_features,
            threshold=metric.threshold,
            groups=metric.groups,
            mean=metric.basis.mean,
            extractor=dict(metric.extractor),
        )
        (tmp_path / "old").write_bytes(files.sealed(*parts))
        return tmp_path / "new", tmp_path / "old"

    def test_they_work_as_they_did(self, earlier, alike, pictures, tmp_path):
        new, old = (as_json("verify", model, *alike) for model in earlier)
        assert (old["probability"], old["mirror"], old["same"]) == (None, "none", True)
        assert old["distance"] == pytest.approx(new["distance"], rel=1e-3)
        for model, name in zip(earlier, ("new.npy", "old.npy"), strict=True):
            assert run("encode", model, pictures, "--out", tmp_path / name).exit_code == 0
        np.testing.assert_allclose(
            np.load(tmp_path / "old.npy"), np.load(tmp_path / "new.npy"), atol=0.01
        )  # a store keeps halves
        assert as_json("evaluate", earlier[1], pictures)["images"] == 6
        printed = as_json("info", earlier[1])
        assert (printed["mirror"], printed["calibration"], printed["normalise"]) == ("none", None, "none")
        assert "Calibration" not in run("info", earlier[1]).stdout


class TestEvaluate:
    @pytest.fixture
    def others(self, tmp_path):
        """Pictures of labels that were not learned from."""
        return write_pictures(tmp_path / "others", n_labels=5, per_label=4, first=20)

    def test_figures_are_those_of_the_models_codes(self, model, others):
        printed, metric = as_json("evaluate", model, others), Metric.load(model)
        files = list_images(others, labelled=True)
        judged = evaluate_codes(
            metric.encode([file.path for file in files]),
            [file.label for file in files],
            calibration=metric.calibration,
            threshold=metric.threshold,
        )
        expected = judged.to_json()
        assert {name: printed[name] for name in ("n_same", "n_other", "threshold")} == {
            name: expected[name] for name in ("n_same", "n_other", "threshold")
        }
        for name, measure in expected["measures"].items():
            assert printed["measures"][name]["value"] == pytest.approx(measure["value"], rel=1e-5)
        assert (printed["images"], printed["labels"], printed["report"], printed["skipped"]) == (20, 5, None, {})
        assert printed["tenths"]
        assert printed["false_match_rates"]

    def test_a_table_for_people(self, model, others):
        result = run("evaluate", model, others)
        assert result.exit_code == 0, result.stderr
        for text in ("20 images of 5 labels", "Accuracy", "Equal error rate", "Mean average precision", "3-NN error"):
            assert text in result.stdout

    def test_the_report_is_one_page_written_whole(self, model, others, tmp_path):
        result = run("evaluate", model, others, "--report", tmp_path / "page.html")
        assert result.exit_code == 0, result.stderr
        page = (tmp_path / "page.html").read_text()
        assert "Mean average precision" in page
        assert page.count("<svg") == 3
        assert page.rstrip().endswith("</html>")
        assert "page.html" in result.stdout
        assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "page.html"]
        assert "no such folder" in refused("evaluate", model, others, "--report", tmp_path / "no" / "page.html")

    def test_mirror_images_count_as_the_model_says(self, model, others, tmp_path):
        replace(Metric.load(model), calibration=None, mirror="distances", threshold=1).save(tmp_path / "m")
        printed = as_json("evaluate", tmp_path / "m", others)
        assert printed["measures"]["auc"]["value"] != as_json("evaluate", model, others)["measures"]["auc"]["value"]
        assert printed["tenths"] == printed["false_match_rates"] == []

    def test_a_model_without_threshold_has_no_accuracy_of_its_own(self, model, others, tmp_path):
        replace(Metric.load(model), calibration=None, threshold=None).save(tmp_path / "m")
        assert {"accuracy", "best_accuracy"} & set(as_json("evaluate", tmp_path / "m", others)["measures"]) == {
            "best_accuracy"
        }

    def test_what_cannot_be_used_is_left_out_and_said(self, model, others):
        (others / "person 20/x.png").write_text("no picture")
        printed = as_json("evaluate", model, others)
        assert printed["images"] == 20
        assert list(printed["skipped"]) == ["person 20/x.png"]
        assert "person 20/x.png: is not a JPEG" in run("evaluate", model, others).stdout
        assert "person 20/x.png" in refused("evaluate", model, others, "--on-error", "fail")

    def test_a_list_with_labels(self, model, others, tmp_path):
        files = list_images(others, labelled=True)
        lines = [f"others/{file.name},{file.label}" for file in files]
        (tmp_path / "list.csv").write_text("\n".join(["file,label", *lines]) + "\n")
        assert (
            as_json("evaluate", model, tmp_path / "list.csv")["measures"]
            == as_json("evaluate", model, others)["measures"]
        )

    def test_nothing_to_judge_by(self, model, blind, others, tmp_path):
        one = write_pictures(tmp_path / "one", n_labels=1)
        assert "All 4 pictures are of one label" in refused("evaluate", model, one)
        single = write_pictures(tmp_path / "single", n_labels=3, per_label=1)
        assert "one picture each, so there is no pair of the same label" in refused("evaluate", model, single)
        (single / "person 00/1.png").write_bytes((single / "person 00/0.png").read_bytes())
        shutil.rmtree(single / "person 02")
        assert "3 pictures are too few" in refused("evaluate", model, single)
        (tmp_path / "bad" / "a").mkdir(parents=True)
        (tmp_path / "bad" / "a" / "x.png").write_text("no picture")
        assert "The only file cannot be used" in refused("evaluate", model, tmp_path / "bad")
        assert "cannot read pictures" in refused("evaluate", blind, others)
        assert "no such model file" in refused("evaluate", tmp_path / "nowhere", others)
        assert "label" in refused("evaluate", model, others / "person 20")


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
        printed = as_json("verify", place / "model", a, b, *points, "--threshold", 1e9)
        assert printed["distance"] == pytest.approx(((codes[0] - codes[1]).astype(float) ** 2).sum(), rel=1e-4)

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
        for text in ("40 of 10 labels, 4 each", "20 regions x 45", "fuzziness 0.02", "40 x 56", "none", "samekind 0."):
            assert text in result.stdout
        assert "Checksums" not in result.stdout
        printed = as_json("info", home / "store")
        assert (printed["kind"], printed["images"], printed["complete"]) == ("store", 40, True)

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
        for text in (
            "3 regions x 45",
            "3 regions x 59",
            f"{metric.threshold:.6g} (squared distance)",
            "EnsembleMetric",
        ):
            assert text in result.stdout
        assert metric.groups[0] in result.stdout
        printed = as_json("info", model)
        assert printed["groups"] == list(metric.groups)
        assert printed["n_components"] == metric.n_components
        assert printed["attributes"] == dict(metric.attributes)

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


class TestEvaluateRetrieval:
    def test_figures_are_those_of_the_codes_of_the_pictures(self, home, model):
        printed, metric = as_json("evaluate", "retrieval", model, home / "store"), Metric.load(model)
        listed = list_images(home / "pictures", labelled=True)
        codes, labels = metric.encode([file.path for file in listed]), [file.label for file in listed]
        expected = evaluate_retrieval(codes, labels, distance=metric.distance_function).measures()["inside"]
        for name, measure in expected.items():
            assert printed["inside"][name]["value"] == pytest.approx(measure.value, abs=1e-9), name
        assert (printed["n_samples"], printed["n_classes"], printed["n_distractors"]) == (40, 10, 0)

    @pytest.mark.parametrize("mirror", ["mean", "distances"])
    def test_mirror_images_count_as_the_model_says(self, home, tmp_path, mirror):
        options = ("--set", f"mirror={mirror}", "--preset", "faces")
        fitted = run("fit", home / "store", tmp_path / "model", *FEW, *options)
        assert fitted.exit_code == 0, fitted.stderr
        metric, listed = Metric.load(tmp_path / "model"), list_images(home / "pictures", labelled=True)
        codes, labels = metric.encode([file.path for file in listed]), [file.label for file in listed]
        judged = evaluate_retrieval(codes, labels, distance=metric.distance_function)
        printed = as_json("evaluate", "retrieval", tmp_path / "model", home / "store")
        assert printed["inside"]["average_precision"]["value"] == pytest.approx(
            judged.measures()["inside"]["average_precision"].value, abs=1e-6
        )

    def test_other_labels_and_other_stores_are_distractors(self, home, model, tmp_path):
        write_pictures(tmp_path / "more", n_labels=2, per_label=3, first=40)
        # All regions that there are, so that those which the model reads are in other places.
        options = ("--size", "40x56", "--quiet")
        assert run("extract", tmp_path / "more", tmp_path / "store", *options).exit_code == 0
        paths = [file.path for file in list_images(tmp_path / "more", labelled=True)]
        moved, view = reading(Metric.load(model), DiskStore.open(tmp_path / "store"))
        np.testing.assert_allclose(
            moved.transform(view), Metric.load(model).encode(paths), atol=0.01
        )  # a store keeps halves
        (tmp_path / "labels.txt").write_text("person 01\n\nperson 03\n")
        given = (
            home / "store",
            "--labels",
            tmp_path / "labels.txt",
            "--distractors",
            tmp_path / "store",
            "--at",
            "2, 4",
            "--report",
            tmp_path / "page.html",
        )
        printed = as_json("evaluate", "retrieval", model, *given)
        assert (printed["n_samples"], printed["n_classes"], printed["n_distractors"]) == (8, 2, 38)
        assert {"recall_at_4", "cmc_at_2"} <= printed["injected"].keys()
        assert "38 distractors" in (tmp_path / "page.html").read_text()
        shown = run("evaluate", "retrieval", model, *given)
        assert "with distractors" in shown.stdout

    def test_what_cannot_be_judged_is_refused(self, home, model, tmp_path):
        given = "evaluate", "retrieval", model, home / "store"
        assert "no label of" in refused(*given, "--labels", points_csv(tmp_path / "x", ["a"]))
        (tmp_path / "none").write_text("\n")
        assert "names no label" in refused(*given, "--labels", tmp_path / "none")
        assert "--at '0'" in refused(*given, "--at", "0")
        assert "no such model file" in refused("evaluate", "retrieval", tmp_path / "no", home / "store")
        assert "no such store" in refused("evaluate", "retrieval", model, tmp_path / "no")
        write_pictures(tmp_path / "more", n_labels=2, per_label=2)
        assert run("extract", tmp_path / "more", tmp_path / "s1", "--size", "40x56", "--regions", 5).exit_code == 0
        assert "lacks" in refused("evaluate", "retrieval", model, tmp_path / "s1")
        assert run("extract", tmp_path / "more", tmp_path / "s2", "--size", "38x56", "--regions", 20).exit_code == 0
        assert "in another way" in refused("evaluate", "retrieval", model, tmp_path / "s2")


def test_verify_explains_its_answer(home, model, alike, tmp_path):
    result = as_json("verify", model, *alike, "--explain", tmp_path / "why.png", "--threshold", 1e9)
    explained = result["explanation"]
    assert sum(each["term"] for each in explained["regions"]) == pytest.approx(result["distance"], rel=1e-3)
    assert explained["threshold"] == 1e9
    assert [each["group"] for each in explained["regions"]] != []
    assert cv2.imread(str(tmp_path / "why.png")).shape[0] > 300
    said = run("verify", model, *alike, "--explain", tmp_path / "again.png", "--threshold", 1e9)
    assert "Same, even without the" in said.stdout.replace("\n", " ")
    assert "ends in .png" in refused("verify", model, *alike, "--explain", tmp_path / "why.txt")
    assert "no such folder" in refused("verify", model, *alike, "--explain", tmp_path / "none/why.png")
