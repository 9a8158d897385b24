"""Folders and CSVs list the same images in the same order; a wrong one says how it should look."""

import os

import pytest

from samekind.images.listing import ImageFile, list_images
from samekind.images.load import ImageError, load_image


def _touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def _csv(folder, text, encoding="utf-8"):
    path = folder / "list.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_folder_per_label(tmp_path):
    _touch(tmp_path, "Bob/2.PNG", "Bob/1.jpg", "Ann/deep/er/x.pgm", "Ann/a.Jpeg", "Ann/b.ppm")
    images = list_images(tmp_path, labelled=True)
    names = ["Ann/a.Jpeg", "Ann/b.ppm", "Ann/deep/er/x.pgm", "Bob/1.jpg", "Bob/2.PNG"]
    assert [image.name for image in images] == names
    assert [image.label for image in images] == ["Ann", "Ann", "Ann", "Bob", "Bob"]
    assert images[2] == ImageFile("Ann/deep/er/x.pgm", tmp_path / "Ann/deep/er/x.pgm", "Ann")


def test_hidden_and_other_files_are_passed_over(tmp_path):
    _touch(tmp_path, "Ann/1.jpg", "Ann/._1.jpg", ".trash/2.jpg", "Ann/notes.txt", "readme.md", "Ann/.jpg")
    assert [image.name for image in list_images(str(tmp_path), labelled=True)] == ["Ann/1.jpg"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    _touch(tmp_path, "elsewhere/1.jpg", "set/Ann/2.jpg")
    os.symlink(tmp_path / "elsewhere", tmp_path / "set" / "Bob")
    os.symlink(tmp_path / "set", tmp_path / "set" / "Ann" / "round")
    names = [image.name for image in list_images(tmp_path / "set", labelled=True)]
    assert names == ["Ann/2.jpg", "Bob/1.jpg"]


def test_a_dangling_link_is_listed_so_that_loading_reports_it(tmp_path):
    _touch(tmp_path, "Ann/1.jpg")
    os.symlink(tmp_path / "gone.jpg", tmp_path / "Ann" / "2.jpg")
    assert len(list_images(tmp_path, labelled=True)) == 2


def test_without_labels_any_folder_or_a_single_image_will_do(tmp_path):
    _touch(tmp_path, "1.jpg", "Ann/2.jpg")
    images = list_images(tmp_path, labelled=False)
    assert [(image.name, image.label) for image in images] == [("1.jpg", None), ("Ann/2.jpg", None)]
    single = tmp_path / "1.jpg"
    assert list_images(single, labelled=False) == [ImageFile("1.jpg", single, None)]


@pytest.mark.parametrize("column", ["file", "image", "path", "File"])
def test_csv(tmp_path, column):
    path = _csv(tmp_path, f'other,{column},label\r\n1,b/é.jpg,Bob\r\n\r\n2,"a, 1.jpg",Ann\r\n', "utf-8-sig")
    assert list_images(path, labelled=True) == [
        ImageFile("a, 1.jpg", tmp_path / "a, 1.jpg", "Ann"),
        ImageFile("b/é.jpg", tmp_path / "b/é.jpg", "Bob"),
    ]


def test_csv_with_absolute_paths(tmp_path):
    path = _csv(tmp_path, "file,label\n/data/1.jpg,Ann\n")
    assert os.fspath(list_images(path, labelled=True)[0].path) == "/data/1.jpg"


def test_csv_without_labels(tmp_path):
    assert [image.label for image in list_images(_csv(tmp_path, "file\n1.jpg\n2.jpg\n"), labelled=False)] == [None] * 2
    assert list_images(_csv(tmp_path, "file,label\n1.jpg,Ann\n"), labelled=False)[0].label == "Ann"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("file,label\n", "no rows"),
        ("name,label\n1.jpg,Ann\n", "no column file .*name, label"),
        ("file;label\n1.jpg;Ann\n", "separated by commas"),
        ("file,person\n1.jpg,Ann\n", "no column label.*file, person"),
        ("file,label\n1.jpg,Ann\n2.jpg,\n", "line 3: the label of 2.jpg is empty"),
        ("file,label\n,Ann\n", "line 2: the file name is empty"),
        ("file,label\n1.jpg,Ann\n2.jpg,Bob\n1.jpg,Bob\n", "1.jpg stands in lines 2 and 4"),
        ("file,label\n1.jpg,Ann\n./1.jpg,Bob\n", "lines 2 and 3"),
        ("file,label\na,1.jpg,Ann\n", "line 2: 3 fields, but the header has 2"),
    ],
)
def test_a_wrong_csv_says_what_is_wrong(tmp_path, text, problem):
    with pytest.raises(ValueError, match=problem):
        list_images(_csv(tmp_path, text), labelled=True)


def test_a_csv_in_another_encoding(tmp_path):
    with pytest.raises(ValueError, match="Save the CSV as UTF-8"):
        list_images(_csv(tmp_path, "file,label\né.jpg,Ann\n", "latin-1"), labelled=True)


def test_a_wrong_folder_says_how_it_should_look(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder or file"):
        list_images(tmp_path / "absent", labelled=True)
    with pytest.raises(ValueError, match=r"is empty.*one sub-folder of images per label"):
        list_images(tmp_path, labelled=True)
    _touch(tmp_path, "Ann/notes.txt")
    with pytest.raises(ValueError, match=r"holds no images \(\.jpg"):
        list_images(tmp_path, labelled=False)
    _touch(tmp_path, "Ann/1.jpg", "stray.jpg")
    with pytest.raises(ValueError, match=r"1 of the 2 images stand directly in .*stray\.jpg.*or a CSV"):
        list_images(tmp_path, labelled=True)


def test_other_files_are_no_source(tmp_path):
    _touch(tmp_path, "a.jpg", "a.txt")
    with pytest.raises(ValueError, match="single image, which has no label"):
        list_images(tmp_path / "a.jpg", labelled=True)
    with pytest.raises(ValueError, match="neither a folder nor a CSV"):
        list_images(tmp_path / "a.txt", labelled=False)


@pytest.mark.skipif(os.name != "posix", reason="only there can names be arbitrary bytes")
def test_a_name_that_is_not_utf8(tmp_path):
    try:
        open(os.fsencode(tmp_path) + b"/\xff.jpg", "wb").close()
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    _touch(tmp_path, "1.jpg", "\\xff.jpg")
    images = list_images(tmp_path, labelled=False)
    assert [image.name for image in images] == ["1.jpg", "\\xff.jpg", "\\xff.jpg\\"]
    assert os.fsencode(images[2].path).endswith(b"/\xff.jpg")
    assert all(image.path.exists() for image in images)


def test_a_link_to_itself_is_listed_so_that_loading_reports_it(tmp_path):
    _touch(tmp_path, "Ann/1.jpg")
    os.symlink("2.jpg", tmp_path / "Ann" / "2.jpg")
    os.symlink("round", tmp_path / "Ann" / "round")
    images = list_images(tmp_path, labelled=True)
    assert [image.name for image in images] == ["Ann/1.jpg", "Ann/2.jpg"]
    with pytest.raises(ImageError, match="cannot be read"):
        load_image(images[1].path)


def test_folders_that_link_to_each_other_are_listed_once(tmp_path):
    """By every path there would be more of them than the age of the universe has seconds."""
    folders = [tmp_path / f"{number:02d}" for number in range(25)]
    for folder in folders:
        _touch(folder, "1.jpg")
    for folder in folders:
        for other in folders:
            os.symlink(other, folder / f"to {other.name}")
    images = list_images(tmp_path, labelled=True)
    assert [image.name for image in images] == [f"{number:02d}/1.jpg" for number in range(25)]


@pytest.mark.parametrize("name", ["list.csv", "pipe"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises((OSError, ValueError), match=r"no plain file|neither a folder nor a CSV"):
        list_images(tmp_path / name, labelled=True)


def test_a_nul_in_a_csv_costs_one_picture(tmp_path):
    images = list_images(_csv(tmp_path, "file,label\n1.jpg,Ann\na\0b.jpg,Bob\n"), labelled=True)
    assert [image.label for image in images] == ["Ann", "Bob"]
    with pytest.raises(ImageError, match="a name that no file can have"):
        load_image(images[1].path)
    with pytest.raises(ValueError, match=r"line 3: the label of 2\.jpg has a NUL"):
        list_images(_csv(tmp_path, "file,label\n1.jpg,Ann\n2.jpg,A\0b\n"), labelled=True)


def test_what_is_no_csv_is_reported_with_its_line(tmp_path):
    long = "x" * 200_000
    with pytest.raises(ValueError, match="after line 2: this is not a CSV"):
        list_images(_csv(tmp_path, f"file,label\n1.jpg,Ann\n{long},Bob\n"), labelled=True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_listed_so_that_loading_reports_it(tmp_path):
    _touch(tmp_path, "Ann/1.jpg", "Bob/2.jpg")
    (tmp_path / "Bob").chmod(0)
    images = list_images(tmp_path, labelled=True)
    assert [image.name for image in images] == ["Ann/1.jpg", "Bob/"]
    with pytest.raises(ImageError, match="a folder that cannot be read"):
        load_image(images[1].path)
