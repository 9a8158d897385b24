"""`samekind index`, `search` and `gallery`: pictures in, the nearest out, and a gallery looked after."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from samekind import Metric
from samekind.cli.main import app
from samekind.gallery import Gallery
from tests.picture_folders import write_pictures

FEW = ("--max-groups", 3, "--components", 6, "--quiet", "--set", "cv=2")


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def as_json(*arguments, status=0):
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with pictures and a model."""
    folder = tmp_path_factory.mktemp("home")
    pictures = write_pictures(folder / "pictures", n_labels=10, per_label=4)
    assert run("extract", pictures, folder / "store", "--size", "40x56", "--regions", 20).exit_code == 0
    assert run("fit", folder / "store", folder / "model", *FEW).exit_code == 0
    return folder


@pytest.fixture
def gallery(home, tmp_path):
    assert as_json("index", home / "model", home / "pictures", tmp_path / "g", "--quiet")["added"] == 40
    return tmp_path / "g"


def test_index_goes_on_where_it_stopped_and_adds_what_is_new(home, gallery, tmp_path):
    shutil.copytree(home / "pictures", tmp_path / "more")
    write_pictures(tmp_path / "more", n_labels=1, per_label=2, first=20)
    (tmp_path / "more" / "person 20" / "broken.png").write_text("no picture")
    result = as_json("index", home / "model", tmp_path / "more", gallery, "--quiet")
    assert (result["added"], result["known"], result["records"]) == (2, 40, 42)
    assert list(result["skipped"]) == ["person 20/broken.png"]
    with Gallery.open(gallery, read_only=True) as opened:
        (record,) = opened.find(name="person 20/1.png")
        assert record.label == "person 20"
        assert record.source == str(tmp_path / "more" / "person 20" / "1.png")


def test_index_without_usable_pictures(home, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "1.png").write_text("no picture")
    assert as_json("index", home / "model", tmp_path / "bad", tmp_path / "g", "--quiet", status=1)["added"] == 0


def test_index_refuses_a_gallery_of_another_model_and_a_foreign_folder(home, gallery, tmp_path):
    Metric.load(home / "model").with_mirror("mean").save(tmp_path / "other")
    assert "distances between them mean nothing" in refused("index", tmp_path / "other", home / "pictures", gallery)
    assert "is not a gallery" in refused("index", home / "model", home / "pictures", home / "pictures")


def test_search_finds_the_picture_itself_first(home, gallery):
    picture = home / "pictures/person 03/1.png"
    result = as_json("search", gallery, picture, "-k", 5)
    first = result["hits"][0]
    assert (first["name"], first["same"], len(result["hits"])) == ("person 03/1.png", True, 5)
    assert first["distance"] == pytest.approx(0, abs=1e-6)
    assert result["searched"] == 40
    assert 0 < first["probability"] <= 1
    shown = run("search", gallery, picture)
    assert shown.exit_code == 0
    assert "person 03/1.png" in shown.stdout
    assert "40 entries" in shown.stdout


def test_search_says_what_a_threshold_means_for_this_many_people(home, gallery):
    calibration = Metric.load(home / "model").calibration
    result = as_json("search", gallery, home / "pictures/person 03/1.png", "--far", 0.1)
    chance = result["false_match"]
    assert chance["rate"] == pytest.approx(0.1, rel=0.05)
    assert (chance["n_people"], chance["n_entries"], result["people"]) == (10, 40, 10)
    assert chance["by_people"] == pytest.approx(1 - 0.9**10, rel=0.05)
    assert chance["by_entries"] == pytest.approx(1 - 0.9**40, rel=0.01)
    low, high = chance["interval"]
    assert low <= chance["by_people"] <= chance["by_entries"] <= high
    shown = run("search", gallery, home / "pictures/person 03/1.png", "--far", 0.1).stdout
    assert "40 entries of 10 people" in shown
    assert "among 10 people with 40 entries" in " ".join(shown.split())
    assert "supports rates from" in result["advice"]
    assert result["threshold"] == pytest.approx(calibration.threshold_at(0.1))
    assert "was asked for" in refused("search", gallery, home / "pictures/person 03/1.png", "--far", 1e-9)


def test_search_by_label_and_status_of_no_match(home, gallery):
    picture = home / "pictures/person 03/1.png"
    result = as_json("search", gallery, picture, "--label", "person 04", "--label", "person 05")
    assert {hit["label"] for hit in result["hits"]} == {"person 04", "person 05"}
    assert result["searched"] == 8
    assert (result["people"], result["false_match"]["n_people"]) == (2, 2)
    nobody = as_json("search", gallery, picture, "--label", "nobody", status=1)
    assert (nobody["hits"], nobody["searched"], nobody["people"], nobody["false_match"]) == ([], 0, 0, None)
    assert "no entry has a label that was asked for" in nobody["advice"]


def test_search_asks_for_more_than_there_is(home, gallery):
    picture = home / "pictures/person 03/1.png"
    assert len(as_json("search", gallery, picture, "-k", 10**12)["hits"]) == 40
    assert len(as_json("search", gallery, picture, "-k", 10**12, "--label", "person 03")["hits"]) == 4


def test_search_says_that_there_is_no_index_to_use(home, gallery):
    result = as_json("search", gallery, home / "pictures/person 03/1.png", "--approximate")
    assert result["exact"]
    assert "no index of all entries" in result["problems"][0]


def test_info_of_a_gallery_names_the_right_command(gallery):
    assert "is a gallery: `samekind gallery info" in refused("info", gallery)


def test_copy_refuses_to_copy_a_gallery_into_itself(gallery, tmp_path):
    (tmp_path / "link").symlink_to(gallery)
    for target in (gallery, tmp_path / "link"):
        assert "cannot be copied into itself" in refused("gallery", "copy", gallery, target)
    assert as_json("gallery", "info", gallery)["records"] == 40


def test_import_refuses_what_no_gallery_was_exported_to_and_adds_nothing(gallery, tmp_path):
    assert run("gallery", "export", gallery, tmp_path / "out", "--quiet").exit_code == 0
    codes = np.load(tmp_path / "out.npy")
    wrong = {
        "few": (codes[:5], "has 40 rows and"),
        "flat": (codes[0], "not rows of codes"),
        "text": (np.full(codes.shape, "x"), "not rows of codes"),
    }
    for name, (array, said) in wrong.items():
        np.save(tmp_path / f"{name}.npy", array)
        shutil.copy(tmp_path / "out.csv", tmp_path / f"{name}.csv")
        assert said in refused("gallery", "import", gallery, tmp_path / name)
    (tmp_path / "few.npy").write_text("x")
    message = refused("gallery", "import", gallery, tmp_path / "few")
    assert "is no array of numbers" in message
    assert "pickle" not in message
    (tmp_path / "x.parquet").write_text("x")
    assert "is no Parquet file" in refused("gallery", "import", gallery, tmp_path / "x.parquet")
    assert "no such file" in refused("gallery", "import", gallery, tmp_path / "y.parquet")
    assert as_json("gallery", "info", gallery)["records"] == 40


def test_remove_erases_and_says_so(gallery):
    result = run("gallery", "remove", gallery, "--label", "person 07")
    assert result.exit_code == 0
    assert "overwritten" in result.stdout
    assert "36 records are left" in result.stdout
    assert as_json("gallery", "remove", gallery, 1, 2) == {"removed": [1, 2], "journal_emptied": True, "records": 34}
    assert "no such record" in refused("gallery", "remove", gallery, "--label", "person 07")
    assert "no record 1" in refused("gallery", "remove", gallery, 1)
    assert "give ids" in refused("gallery", "remove", gallery)


def test_info_compact_and_check(gallery):
    run("gallery", "remove", gallery, 5)
    as_written = as_json("gallery", "info", gallery)
    assert (as_written["records"], as_written["labels"], as_written["erased_rows"]) == (39, 10, 1)
    assert "39 of 10 labels" in run("gallery", "info", gallery).stdout
    assert as_json("gallery", "compact", gallery)["given_up"] == 1
    assert as_json("gallery", "check", gallery)["sound"]
    (codes,) = gallery.glob("*.codes")
    damaged = bytearray(codes.read_bytes())
    damaged[5000] ^= 1
    codes.write_bytes(damaged)
    report = as_json("gallery", "check", gallery, "--no-repair", status=1)
    assert "not as it was written" in report["problems"][0]
    assert "damaged" in run("gallery", "check", gallery).stdout


def test_export_import_and_copy(home, gallery, tmp_path):
    assert as_json("gallery", "export", gallery, tmp_path / "out")["exported"] == 40
    assert np.load(tmp_path / "out.npy").shape == (40, 6)
    assert as_json("gallery", "copy", gallery, tmp_path / "other")["copied"] == 40
    assert as_json("gallery", "import", tmp_path / "other", tmp_path / "out")["imported"] == 40
    assert as_json("gallery", "info", tmp_path / "other")["records"] == 80
    assert as_json("search", tmp_path / "other", home / "pictures/person 01/0.png")["searched"] == 80


def test_a_folder_that_is_no_gallery(tmp_path):
    for verb in ("info", "compact", "check"):
        assert "is not a gallery" in refused("gallery", verb, tmp_path)


def test_index_keeps_thumbnails_where_asked_to(home, tmp_path):
    as_json("index", home / "model", home / "pictures" / "person 00", tmp_path / "g", "--quiet", "--thumbnails")
    with Gallery.open(tmp_path / "g", read_only=True) as opened:
        assert all(opened.thumbnail(record.id).startswith(b"\x89PNG") for record in opened.find())


def test_doctor_finds_a_copy_and_a_wrong_label_and_shows_pictures(home, tmp_path):
    shutil.copytree(home / "pictures", tmp_path / "album")
    shutil.copy(tmp_path / "album/person 03/1.png", tmp_path / "album/person 03/copy.png")
    run("index", home / "model", tmp_path / "album", tmp_path / "g", "--quiet")
    found = as_json("gallery", "doctor", tmp_path / "g", "--report", tmp_path / "page.html", "--quiet", status=1)
    assert [record["name"] for record in found["duplicates"][0]["records"]] == ["person 03/1.png", "person 03/copy.png"]
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") >= 2
    assert "person 03/copy.png" in page
    shutil.rmtree(tmp_path / "album")
    result = run("gallery", "doctor", tmp_path / "g", "--report", tmp_path / "page.html", "--quiet")
    assert result.exit_code == 1
    assert "Likely duplicates (" in result.stdout
    assert "data:image" not in (tmp_path / "page.html").read_text()


def test_doctor_of_a_gallery_without_findings_and_with_wrong_options(gallery):
    run("gallery", "remove", gallery, *range(4, 41))
    found = as_json("gallery", "doctor", gallery, "--wrong", 1e-6, "--duplicate", 1e-9, "--quiet")
    assert not any(found["counts"].values())
    assert "share of labels" in refused("gallery", "doctor", gallery, "--wrong", 0.7)


def test_an_index_is_of_no_use_for_few_entries_and_searches_are_exact_without_it(home, gallery):
    assert "needs no index" in refused("gallery", "build-index", gallery)
    assert as_json("search", gallery, home / "pictures/person 03/1.png", "--approximate")["exact"]
    assert as_json("gallery", "build-index", gallery, "--drop") == {"dropped": True}


def test_a_gallery_on_a_server(home, server, gallery, tmp_path):
    address = f"{server}&gallery=cli_{tmp_path.name[-12:].lower().replace('-', '_')}"
    assert as_json("gallery", "copy", gallery, address)["copied"] == 40
    assert as_json("index", home / "model", home / "pictures", address, "--quiet")["known"] == 40
    picture = home / "pictures/person 03/1.png"
    found, expected = (as_json("search", where, picture) for where in (address, gallery))
    assert [hit["distance"] for hit in found["hits"]] == [hit["distance"] for hit in expected["hits"]]
    built = as_json("gallery", "build-index", address, "--quiet")
    assert built["measured"]["recall"] >= 0.95
    result = run("search", address, picture, "--approximate", "-k", 3)
    assert "by an index" in result.stdout
    assert as_json("gallery", "remove", address, "--label", "person 07")["records"] == 36
    assert as_json("gallery", "compact", address, "--quiet")["given_up"] == 4
    assert as_json("gallery", "check", address)["sound"]
    assert as_json("gallery", "info", address)["records"] == 36
    assert "exists" not in run("gallery", "info", address).stdout
