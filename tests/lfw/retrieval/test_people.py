"""Nobody is both learned from and looked for, and distractors show nobody who is looked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.lfw.protocol import Split, Subset
from samekind.lfw.protocol_files import Image, Person
from samekind.lfw.retrieval.people import Cast, people_in


@st.composite
def splits(draw):
    sizes = draw(st.lists(st.integers(1, 9), min_size=2, max_size=12))
    people = [Person(f"P{at}", n) for at, n in enumerate(sizes)]
    cut = draw(st.integers(1, len(people) - 1))
    return Split(Subset(tuple(people[:cut]), ()), Subset(tuple(people[cut:]), ()))


@given(splits(), st.integers(2, 6), st.integers(1, 6))
def test_sets_are_apart(split, least, most):
    if not any(person.n_images >= least for person in split.test.people):
        with pytest.raises(ValueError, match="--query-images"):
            Cast.from_split(split, least, most)
        return
    cast = Cast.from_split(split, least, most)
    asked = {image.person for image in cast.queries}
    assert asked == {person.name for person in split.test.people if person.n_images >= least}
    assert not asked & {image.person for image in cast.train + cast.distractors}
    assert set(cast.train) <= set(cast.distractors)
    assert len(set(cast.images)) == len(cast.images)
    everybody = {person.name for person in split.train.people + split.test.people}
    assert {image.person for image in cast.images} == everybody


def test_images_beyond_the_most_are_nowhere():
    split = Split(Subset((Person("A", 2),), ()), Subset((Person("B", 7), Person("C", 1)), ()))
    cast = Cast.from_split(split, 5, 5)
    assert cast.queries == tuple(Image("B", number) for number in range(1, 6))
    assert cast.distractors == (Image("A", 1), Image("A", 2), Image("C", 1))
    assert people_in(cast.queries) == 1
