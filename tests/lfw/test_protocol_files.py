import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.lfw.protocol_files import Image, Pair, Person, pairs_text, parse_pairs, parse_people, people_text

PEOPLE = "2\n2\nAnn\t3\nBob\t2\n2\nCid\t2\nDot\t1\n"
PAIRS = "2\t1\nAnn\t1\t3\nAnn\t2\tBob\t1\nCid\t1\t2\nCid\t2\tDot\t1\n"

names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=8)


@st.composite
def folds_of_people(draw):
    """One to four folds, everybody in one of them."""
    everybody = draw(st.lists(names, min_size=1, max_size=12, unique=True))
    ends = sorted(draw(st.sets(st.integers(1, len(everybody)), max_size=3)) | {len(everybody)})
    people = [Person(name, draw(st.integers(1, 99))) for name in everybody]
    return tuple(tuple(people[start:end]) for start, end in zip([0, *ends], ends, strict=False))


@st.composite
def folds_of_pairs(draw):
    """One to three folds of as many pairs of each kind, the same ones first."""
    persons = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    numbers = st.lists(st.integers(1, 10_000), min_size=2, max_size=2, unique=True)

    def pair(same):
        first, second = draw(st.permutations(persons))[:2]
        a, b = draw(numbers)
        return Pair(Image(first, a), Image(first if same else second, b))

    n_folds, n_each = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return tuple(tuple(pair(same) for same in [True] * n_each + [False] * n_each) for _ in range(n_folds))


@given(folds_of_people())
def test_people_written_are_read_back(folds):
    assert parse_people(people_text(folds)).folds == folds


@given(folds_of_pairs())
def test_pairs_written_are_read_back(folds):
    assert parse_pairs(pairs_text(folds)) == folds


@given(folds_of_pairs())
def test_pairs_are_written_with_the_same_pairs_first(folds):
    half = len(folds[0]) // 2
    assert pairs_text([fold[half:] + fold[:half] for fold in folds]) == pairs_text(folds)


def test_people_of_one_fold_and_of_several():
    assert parse_people("1\nAnn\t3\n").folds == ((Person("Ann", 3),),)
    several = parse_people(PEOPLE, "people.txt")
    assert several.folds == ((Person("Ann", 3), Person("Bob", 2)), (Person("Cid", 2), Person("Dot", 1)))
    assert several.place("Cid") == "people.txt, line 6"


def test_pairs_of_three_and_of_four_columns():
    first, second = parse_pairs(PAIRS, people=parse_people(PEOPLE))
    assert first == (Pair(Image("Ann", 1), Image("Ann", 3)), Pair(Image("Ann", 2), Image("Bob", 1)))
    assert [pair.same for pair in second] == [True, False]
    assert parse_pairs("1\nAnn\t1\t3\nAnn\t2\tBob\t1\n") == (first,)


def test_blank_lines_spaces_and_line_ends_do_not_matter():
    loose = "\r\n2 1\r\nAnn  1 3\r\n\r\nAnn 2 Bob 1\r\nCid\t 1\t2 \r\nCid 2 Dot 1\r\n\r\n"
    assert parse_pairs(loose) == parse_pairs(PAIRS)


def test_names_with_spaces_stand_between_tabs():
    assert parse_people("1\nAnn Lee\t3\n").folds == ((Person("Ann Lee", 3),),)


def test_an_image_has_its_file_name():
    assert Image("Ann_Lee", 7).file_name() == "Ann_Lee/Ann_Lee_0007.jpg"
    assert Image("Ann_Lee", 12345).file_name(".png") == "Ann_Lee/Ann_Lee_12345.png"
    assert Person("Ann", 2).images == (Image("Ann", 1), Image("Ann", 2))


BAD_PEOPLE = {
    "empty": ("", "f is empty, where the number of people of fold 1 is needed"),
    "one column": ("2\nAnn\t1\nBob\n", "f, line 3: 1 column.*'Bob', where person 2 of the 2 that line 1 announces"),
    "three columns": ("1\nAnn\t1\t2\n", "f, line 2: 3 column.*2 column"),
    "count too high": ("2\n2\nAnn\t1\n1\nBob\t1\n", "f, line 4: 1 column.*'1', where person 2 of the 2 that line 2"),
    "count too low": ("2\n1\nAnn\t1\nBob\t1\n1\nCid\t1\n", "f, line 4: 2 column.*'Bob 1'.*number of people of fold 2"),
    "count too low at the end": ("1\nAnn\t1\nBob\t1\n", "f, line 3: 'Bob 1' stands after all that the counts"),
    "cut short": ("2\nAnn\t1\n", "f ends after line 2, where person 2 of the 2 that line 1 announces.*cut short"),
    "a fold is lacking": ("2\n1\nAnn\t1\n", "f ends after line 3, where the number of people of fold 2"),
    "count is a word": ("many\nAnn\t1\n", "f, line 1: 'many' where the number of people of fold 1.*whole number"),
    "number is a fraction": ("1\nAnn\t1.5\n", "f, line 2: '1.5' where the number of images is needed, a whole number"),
    "no images": ("1\nAnn\t0\n", "f, line 2: 0 where the number of images is needed, which is 1 or more"),
    "no folds": ("-1\n1\nAnn\t1\n", "f, line 1: -1 where the number of folds"),
    "in two folds": ("2\n1\nAnn\t1\n1\nAnn\t1\n", "f, line 5: Ann is in line 3 already"),
}


@pytest.mark.parametrize("case", BAD_PEOPLE)
def test_bad_people_are_named_by_file_and_line(case):
    text, message = BAD_PEOPLE[case]
    with pytest.raises(ValueError, match=message):
        parse_people(text, "f")


def test_people_of_a_file_apart_from_another_are_not_in_it():
    train = parse_people("1\nAnn\t1\n", "train.txt")
    assert parse_people("1\nBob\t1\n", apart_from=train).folds == ((Person("Bob", 1),),)
    with pytest.raises(ValueError, match=r"test.txt, line 3: Ann is in train.txt, line 2, too"):
        parse_people("2\nBob\t1\nAnn\t1\n", "test.txt", apart_from=train)


BAD_PAIRS = {
    "empty": ("\n", "f is empty, where the number of pairs of a kind"),
    "three counts": ("1\t2\t3\n", "f, line 1: 3 column.*1 or 2 column"),
    "two columns": (
        "1\nAnn\t1\n",
        "f, line 2: 2 column.*'Ann 1', where same pair 1 of the 1 of fold 1 is needed, 3 col",
    ),
    "five columns": ("1\nAnn\t1\t2\nAnn\t1\tBob\t1\t1\n", "f, line 3: 5 column.*where different pair 1.*4 column"),
    "same pairs lacking": (
        "2\nAnn\t1\t2\nAnn\t1\tBob\t1\n",
        "f, line 3: 4 column.*where same pair 2 of the 2 of fold 1",
    ),
    "too many same pairs": ("1\nAnn\t1\t2\nAnn\t1\t3\n", "f, line 3: 3 column.*where different pair 1"),
    "too many pairs": (PAIRS + "Ann\t1\t2\n", "f, line 6: 'Ann 1 2' stands after all"),
    "cut short": (PAIRS[: PAIRS.rindex("Cid")], "f ends after line 4, where different pair 1 of the 1 of fold 2.*cut"),
    "cut within a line": (PAIRS[:-3], "f, line 5: 3 column.*where different pair"),
    "count is a word": ("2\tmany\n", "f, line 1: 'many' where the number of pairs of a kind"),
    "no pairs": ("2\t0\n", "f, line 1: 0 where the number of pairs of a kind is needed, which is 1 or more"),
    "no folds": ("0\t2\n", "f, line 1: 0 where the number of folds"),
    "image is a word": ("1\nAnn\t1\tx\n", "f, line 2: 'x' where the number of an image is needed, a whole number"),
    "image 0": ("1\nAnn\t1\t0\n", "f, line 2: 0 where the number of an image is needed, which is 1 or more"),
    "one person as two": ("1\nAnn\t1\t2\nAnn\t1\tAnn\t2\n", "f, line 3: Ann twice where two different people"),
    "one image as two": ("1\nAnn\t1\t1\n", "f, line 2: Ann_0001 is paired with itself"),
    "no name": ("1\nAnn\t1\t2\nAnn\t1\t\t2\n", "f, line 3: a name is empty"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_bad_pairs_are_named_by_file_and_line(case):
    text, message = BAD_PAIRS[case]
    with pytest.raises(ValueError, match=message):
        parse_pairs(text, "f")


STRANGE_PAIRS = {
    "of another fold": (PAIRS.replace("Cid\t1\t2", "Ann\t1\t2"), "f, line 4: Ann is not of fold 2.*people, line 3"),
    "second of another fold": (PAIRS.replace("Bob", "Dot"), "f, line 3: Dot is not of fold 1.*people, line 7"),
    "of nobody": (PAIRS.replace("Bob", "Eve"), "f, line 3: Eve is not in people"),
    "of no image": (
        PAIRS.replace("Ann\t1\t3", "Ann\t1\t4"),
        "f, line 2: Ann_0004 does not exist: people, line 3.* 3 im",
    ),
    "of other folds": (PAIRS.replace("2\t1\n", "3\t1\n", 1), r"f, line 1: 3 fold\(s\) of pairs, but people has 2"),
}


@pytest.mark.parametrize("case", STRANGE_PAIRS)
def test_pairs_that_do_not_fit_the_people_are_named_by_file_and_line(case):
    text, message = STRANGE_PAIRS[case]
    with pytest.raises(ValueError, match=message):
        parse_pairs(text, "f", people=parse_people(PEOPLE))


@pytest.mark.parametrize("folds", [[], [()], [(Pair(Image("Ann", 1), Image("Ann", 2)),)]])
def test_pairs_that_the_format_cannot_hold_are_not_written(folds):
    with pytest.raises(ValueError, match="same number of pairs of one person"):
        pairs_text(folds)
