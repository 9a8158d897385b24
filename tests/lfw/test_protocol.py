import numpy as np
import pytest

from samekind.lfw.protocol import (
    Split,
    Subset,
    View2,
    image_rows,
    missing_images,
    named_image,
    pair_rows,
    read_pairs,
    read_people,
    read_view1,
    read_view2,
)
from samekind.lfw.protocol_files import Image, Pair, Person

ANN, BOB, CID, DOT = Person("Ann", 3), Person("Bob", 2), Person("Cid", 2), Person("Dot", 1)
VIEW_1 = {
    "peopleDevTrain.txt": "2\nAnn\t3\nBob\t2\n",
    "pairsDevTrain.txt": "1\nAnn\t1\t3\nAnn\t2\tBob\t1\n",
    "peopleDevTest.txt": "2\nCid\t2\nDot\t1\n",
    "pairsDevTest.txt": "1\nCid\t1\t2\nCid\t2\tDot\t1\n",
}
VIEW_2 = {
    "people.txt": "3\n2\nAnn\t3\nBob\t2\n2\nCid\t2\nDot\t1\n2\nEve\t2\nFay\t2\n",
    "pairs.txt": "3\t1\nAnn\t1\t3\nAnn\t2\tBob\t1\nCid\t1\t2\nCid\t2\tDot\t1\nEve\t1\t2\nEve\t2\tFay\t1\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in (VIEW_1 | VIEW_2).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def pair(first, a, second, b):
    return Pair(Image(first, a), Image(second, b))


def test_view_1_is_one_split(folder):
    view = read_view1(folder)
    assert view.train == Subset((ANN, BOB), (pair("Ann", 1, "Ann", 3), pair("Ann", 2, "Bob", 1)))
    assert view.test == Subset((CID, DOT), (pair("Cid", 1, "Cid", 2), pair("Cid", 2, "Dot", 1)))
    assert view.train.images == tuple(
        Image(*image) for image in [("Ann", 1), ("Ann", 2), ("Ann", 3), ("Bob", 1), ("Bob", 2)]
    )
    assert view.test.names == {"Cid", "Dot"}


def test_view_2_tests_each_fold_by_what_all_others_teach(folder):
    view = read_view2(folder)
    assert len(view) == 3
    split = view.split(1)
    assert split.test == view.folds[1]
    assert [person.name for person in split.train.people] == ["Ann", "Bob", "Eve", "Fay"]
    assert split.train.pairs == view.folds[0].pairs + view.folds[2].pairs
    assert list(view.splits()) == [view.split(fold) for fold in range(3)]
    assert [view.folds[fold].pairs.count(p) for fold, p in zip(view.fold_numbers, view.pairs, strict=True)] == [1] * 6
    assert view.fold_numbers.tolist() == [0, 0, 1, 1, 2, 2]


def test_files_of_other_names_and_with_a_byte_order_mark_can_be_read(tmp_path):
    (tmp_path / "mine.txt").write_text(VIEW_1["peopleDevTest.txt"], encoding="utf-8-sig")
    (tmp_path / "our.txt").write_text(VIEW_1["pairsDevTest.txt"])
    people = read_people(tmp_path / "mine.txt")
    assert people.folds == ((CID, DOT),)
    assert read_pairs(tmp_path / "our.txt", people=people)[0][0] == pair("Cid", 1, "Cid", 2)


@pytest.mark.parametrize("name", sorted(VIEW_1 | VIEW_2))
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"no such file of people or pairs.*/{name}"):
        (read_view1 if name in VIEW_1 else read_view2)(folder)


def test_a_file_that_is_no_text_is_named(folder):
    (folder / "people.txt").write_bytes(b"1\nJos\xe9\t1\n")
    with pytest.raises(ValueError, match=r"people.txt is not UTF-8"):
        read_view2(folder)


def test_somebody_in_training_and_test_of_view_1_is_named_by_both_lines(folder):
    (folder / "peopleDevTest.txt").write_text("2\nCid\t2\nBob\t2\n")
    with pytest.raises(ValueError, match=r"peopleDevTest.txt, line 3: Bob is in .*peopleDevTrain.txt, line 3, too"):
        read_view1(folder)


def test_a_test_pair_of_training_people_is_named_by_its_line(folder):
    (folder / "pairsDevTest.txt").write_text(VIEW_1["pairsDevTrain.txt"])
    with pytest.raises(ValueError, match=r"pairsDevTest.txt, line 2: Ann is not in .*peopleDevTest.txt"):
        read_view1(folder)


def test_folds_are_not_for_view_1(folder):
    for name, text in VIEW_2.items():
        (folder / name.replace(".txt", "DevTrain.txt")).write_text(text.replace("Cid", "Gus").replace("Dot", "Hal"))
    with pytest.raises(ValueError, match=r"peopleDevTrain.txt has 3 folds, where 1 is needed"):
        read_view1(folder)


def test_no_split_shares_a_person():
    ann, bob = Subset((ANN,), ()), Subset((BOB,), ())
    with pytest.raises(ValueError, match="Ann is in training and in test"):
        Split(ann, Subset((BOB, ANN), ()))
    with pytest.raises(ValueError, match="Ann is in training and in test"):
        Split(ann, Subset((BOB,), (pair("Bob", 1, "Ann", 1),)))
    with pytest.raises(ValueError, match="Ann, Bob are in several folds"):
        View2((Subset((ANN, BOB), ()), ann, bob))


def test_view_2_needs_two_folds_and_has_no_others():
    with pytest.raises(ValueError, match=r"two folds at least.*got 1"):
        View2((Subset((ANN,), ()),))
    with pytest.raises(ValueError, match="fold must be from 0 to 1; got 2"):
        View2((Subset((ANN,), ()), Subset((BOB,), ()))).split(2)


NAMES = {
    "Ann_Lee/Ann_Lee_0012.jpg": Image("Ann_Lee", 12),
    "Ann_Lee_0012.jpg": Image("Ann_Lee", 12),
    "/data/lfw/Ann_Lee/Ann_Lee_0012.png": Image("Ann_Lee", 12),
    "lfw\\Ann_Lee\\Ann_Lee_0012.PGM": Image("Ann_Lee", 12),
    "Ann_Lee_0012": Image("Ann_Lee", 12),
    "J._Doe_12345": Image("J._Doe", 12345),
    "Ann/holiday.jpg": None,
    "Ann_0001/": None,
    "_0001.jpg": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_tell_images(name):
    assert named_image(name) == NAMES[name]


def test_every_file_name_tells_its_image():
    for image in (Image("Ann", 1), Image("Ann_Lee", 10_000), Image("A.B", 3)):
        assert named_image(image.file_name()) == named_image(str(image)) == image


def test_rows_are_places_among_the_names():
    names = np.array(["Bob/Bob_0001.jpg", "readme.png", "Ann_0002.jpg", "Ann/Ann_0001.jpg"])
    rows = image_rows([Image("Ann", 1), Image("Bob", 1), Image("Ann", 1)], names, ["Bob", "", "Ann", "Ann"])
    assert rows.tolist() == [3, 0, 3]
    pairs, same = pair_rows([pair("Ann", 1, "Ann", 2), pair("Ann", 2, "Bob", 1)], names)
    assert pairs.tolist() == [[3, 2], [2, 0]]
    assert same.tolist() == [True, False]


def test_rows_of_nothing():
    pairs, same = pair_rows([], ["Ann_0001.jpg"])
    assert (pairs.shape, same.shape, pairs.dtype.kind, same.dtype) == ((0, 2), (0,), "i", bool)


def test_missing_images_are_reported():
    wanted = [Image("Ann", 2), Image("Ann", 1), Image("Ann", 2), Image("Bob", 1)]
    assert missing_images(wanted, ["Ann_0001.jpg"]) == [Image("Ann", 2), Image("Bob", 1)]
    with pytest.raises(ValueError, match=r"Ann/Ann_0002.jpg, Bob/Bob_0001.jpg are missing among the 1 images"):
        image_rows(wanted, ["Ann_0001.jpg"])
    with pytest.raises(ValueError, match=r"Ann/Ann_0005.jpg and 1,995 more \(2,000 in all\) are missing"):
        image_rows(Person("Ann", 2000).images, [])


def test_an_image_under_two_names_is_refused_only_if_asked_for():
    names = ["a/Ann_0001.jpg", "Bob_0001.jpg", "b/Ann_1.jpg"]
    assert image_rows([Image("Bob", 1)], names).tolist() == [1]
    with pytest.raises(ValueError, match=r"Ann_0001 is there as a/Ann_0001.jpg and as b/Ann_1.jpg"):
        image_rows([Image("Ann", 1)], names)


def test_labels_must_be_the_names_of_the_people():
    names = ["Ann_0001.jpg", "Bob_0001.jpg"]
    with pytest.raises(ValueError, match=r"Bob_0001.jpg has the label 'Rob', but the protocol says 'Bob'"):
        image_rows([Image("Ann", 1), Image("Bob", 1)], names, ["Ann", "Rob"])
    with pytest.raises(ValueError, match="labels and names must have the same length; got 1 and 2"):
        image_rows([Image("Ann", 1)], names, ["Ann"])
