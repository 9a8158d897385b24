"""What a threshold means for a gallery: chances by people and by entries, and how both are counted."""

import numpy as np
import pytest

from samekind.evaluation import calibrate
from samekind.gallery import Gallery, Size
from samekind.gallery.chances import false_match_chance, rate_for_chance

LENGTH = 4


@pytest.fixture
def gallery(place):
    with Gallery.create(place("g"), length=LENGTH) as made:
        yield made


@pytest.fixture(scope="module")
def calibration():
    """Of classes that overlap a little."""
    draws = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 5)
    return calibrate(3 * draws.standard_normal((60, LENGTH))[labels] + draws.standard_normal((300, LENGTH)), labels)


def add(gallery, *labels):
    return gallery.add(np.zeros((len(labels), LENGTH)), label=list(labels))


def test_size_counts_labels_as_people_and_entries_without_one_as_a_person_each(gallery):
    assert gallery.size() == Size(0, 0)
    add(gallery, "Anna", "Anna", "Bob", None, None, "")
    assert gallery.size() == Size(6, 5)
    assert gallery.size("Anna") == Size(2, 1)
    assert gallery.size(["Bob", "Anna", "Anna", "nobody"]) == Size(3, 2)
    assert gallery.size("nobody") == gallery.size([]) == Size(0, 0)


def test_size_follows_what_this_and_other_processes_change(gallery, place):
    ids = add(gallery, "Anna", "Anna", "Bob")
    assert gallery.size() == Size(3, 2)
    with Gallery.open(gallery.location if "postgresql" in gallery.location else gallery.path) as other:
        other.replace(ids[0], label="Clara")
        assert gallery.size() == Size(3, 3)
        other.remove(ids[1:])
        assert gallery.size() == Size(1, 1)
        add(other, None)
    assert gallery.size() == Size(2, 2)


def test_a_search_goes_through_as_many_entries_as_size_says(gallery):
    add(gallery, *("Anna", "Bob", None) * 5)
    for label in (None, "Anna", ["Anna", "Anna", "Bob"], ["nobody"], []):
        assert gallery.search(np.zeros(LENGTH), label=label).n_searched == gallery.size(label).n_entries


def test_a_label_that_is_asked_for_many_times_is_searched_once(gallery):
    add(gallery, "Anna", "Bob")
    answer = gallery.search(np.zeros(LENGTH), label=["Anna"] * 2000)
    assert (len(answer.hits), answer.n_searched) == (1, 1)


def test_chance_of_one_entry_each_is_that_of_independent_comparisons(calibration):
    threshold = calibration.threshold_at(0.01)
    chance = false_match_chance(calibration, threshold, Size(50, 50))
    assert chance.by_people == chance.by_entries == pytest.approx(1 - 0.99**50, rel=1e-6)
    assert chance.interval[0] <= chance.by_people <= chance.interval[1]
    said = chance.describe()
    assert f"a chance of {chance.by_people:.2g} (95 % interval" in said
    assert "among 50 people" in said
    assert "entries" not in said


def test_chance_of_several_entries_each_lies_between_people_and_entries(calibration):
    chance = false_match_chance(calibration, calibration.threshold_at(0.01), Size(100, 10))
    assert chance.by_people == pytest.approx(1 - 0.99**10, rel=1e-6)
    assert chance.by_entries == pytest.approx(1 - 0.99**100, rel=1e-6)
    assert chance.interval[0] <= chance.by_people < chance.by_entries <= chance.interval[1]
    assert f"{chance.by_people:.2g} to {chance.by_entries:.2g} (95 % interval" in chance.describe()
    assert "among 10 people with 100 entries" in chance.describe()


def test_queries_of_unknown_people_meet_false_matches_between_both_chances(calibration):
    """Of people whose entries are alike, but not the same."""
    draws = np.random.default_rng(1)
    n_people, per_person, n_queries = 20, 6, 2000
    people = 3 * draws.standard_normal((n_people, 1, LENGTH)) + draws.standard_normal((n_people, per_person, LENGTH))
    queries = np.sqrt(10) * draws.standard_normal((n_queries, LENGTH))
    distances = ((queries[:, np.newaxis] - people.reshape(1, -1, LENGTH)) ** 2).sum(2)
    threshold = calibration.threshold_at(0.01)
    rate = (distances <= threshold).mean()
    measured = (distances <= threshold).any(1).mean()
    assert 1 - (1 - rate) ** n_people < measured < 1 - (1 - rate) ** (n_people * per_person)


def test_no_chance_is_stated_below_what_the_calibration_supports(calibration):
    chance = false_match_chance(calibration, calibration.tail_thresholds[0] / 2, Size(100, 10))
    assert not chance.supported
    assert chance.interval is None
    assert "no chance of any false match among 10 people with 100 entries can be stated" in chance.describe()


def test_no_chance_without_a_calibration_or_without_entries(gallery, calibration):
    assert gallery.false_match_chance(1.0) is None
    assert gallery.false_match_chance(1.0, calibration=calibration) is None
    add(gallery, "Anna", "Anna", None)
    found = gallery.false_match_chance(1.0, label="Anna", calibration=calibration)
    assert (found.n_people, found.n_entries) == (1, 2)
    assert "among 1 person with 2 entries" in found.describe()


def test_rate_for_chance_is_the_inverse(calibration):
    assert 1 - (1 - rate_for_chance(0.01, 500)) ** 500 == pytest.approx(0.01)


def test_what_is_not_certain_is_not_called_so(calibration):
    chance = false_match_chance(calibration, calibration.threshold_at(0.01), Size(600, 3))
    assert " to over 0.99 " in chance.describe()
