"""From a crop to its feature groups."""

import json

import numpy as np
import pytest

from samekind.images.align import Frame
from samekind.images.covariance import Covariance
from samekind.images.extractor import Extractor, picture_from
from samekind.images.load import ImageError
from samekind.images.slbp import SoftLBP
from tests.images.pictures import face_like

FRAME = Frame(40, 56)


@pytest.fixture(scope="module")
def extractor():
    return Extractor.over(n_regions=30, frame=FRAME)


@pytest.fixture(scope="module")
def crop():
    return face_like(56, 40)


def test_features_are_all_descriptors_side_by_side(extractor, crop):
    features = extractor.features(crop)
    regions = extractor.parts[0].regions
    assert features.shape == (extractor.n_features,) == (30 * (45 + 59),)
    assert extractor.n_groups == 60
    np.testing.assert_array_equal(features[: 30 * 45].reshape(30, 45), Covariance().describe(crop, regions))
    np.testing.assert_array_equal(features[30 * 45 :].reshape(30, 59), SoftLBP().describe(crop, regions))


def test_only_some_groups_are_their_columns_of_all(extractor, crop):
    groups = [0, 7, 29, 30, 44]
    starts = [0, 7 * 45, 29 * 45, 30 * 45, 30 * 45 + 14 * 59]
    sizes = [45, 45, 45, 59, 59]
    every = extractor.features(crop)
    expected = np.concatenate([every[start : start + size] for start, size in zip(starts, sizes, strict=True)])
    np.testing.assert_array_equal(extractor.only(groups).features(crop), expected)


def test_a_family_of_which_nothing_was_chosen_is_not_computed(extractor):
    assert [part.family.name for part in extractor.only([31, 40]).parts] == ["slbp"]


def test_mirrored_features_are_those_of_the_mirror_image(extractor, crop):
    plain, mirrored = extractor.features_and_mirrored(crop)
    np.testing.assert_allclose(plain, extractor.features(crop), atol=1e-6)
    np.testing.assert_allclose(mirrored, extractor.features(crop[:, ::-1]), atol=1e-3)
    assert np.abs(plain - mirrored).max() > 0.1


@pytest.mark.parametrize("family", [Covariance(), SoftLBP()])
def test_mirroring_moves_numbers_and_changes_signs_only(family):
    numbers = np.arange(1, family.size + 1, dtype=np.float32)
    moved = family.mirrored(numbers[np.newaxis])[0]
    assert sorted(np.abs(moved)) == numbers.tolist()
    X = np.random.default_rng(0).random((3, family.size)).astype(np.float32)
    np.testing.assert_array_equal(family.mirrored(X), X[:, np.abs(moved).astype(int) - 1] * np.sign(moved))


def test_mirror_groups_show_what_the_mirror_image_shows(extractor, crop):
    families = [part.family for part in extractor.parts for _ in part.regions]
    starts = np.cumsum([0, *(family.size for family in families)])
    plain, mirrored = (
        [features[start : start + family.size] for start, family in zip(starts[:-1], families, strict=True)]
        for features in extractor.features_and_mirrored(crop)
    )
    numbers = extractor.mirror_groups()
    assert numbers.shape == (60,)
    assert sorted(numbers) == list(range(60))
    for k, family in enumerate(families):
        np.testing.assert_allclose(family.mirrored(plain[numbers[k]]), mirrored[k], atol=1e-5)


def test_a_group_whose_mirror_image_was_not_chosen_has_none():
    extractor = Extractor.over(n_regions=30, frame=Frame(41, 56))
    numbers = extractor.mirror_groups()
    pair = next(k for k in range(30, 60) if numbers[k] > k)
    own = np.flatnonzero(numbers[:30] == np.arange(30))[0]
    assert extractor.only([own, pair]).mirror_groups().tolist() == [0, -1]
    assert extractor.only([own, pair, numbers[pair]]).mirror_groups().tolist() == [0, 2, 1]


def test_json_gives_an_equal_one(crop):
    extractor = Extractor.over(
        [SoftLBP(0.05), Covariance(0.01)], n_regions=20, frame=Frame(40, 56, 2.0), alignment="detect"
    )
    again = Extractor.from_json(json.loads(json.dumps(extractor.to_json())))
    assert (again.frame, again.alignment) == (extractor.frame, extractor.alignment)
    assert [part.family for part in again.parts] == [SoftLBP(0.05), Covariance(0.01)]
    np.testing.assert_array_equal(again.features(crop), extractor.features(crop))


@pytest.mark.parametrize("families", [[], ["cov", "cov"], ["sift"]])
def test_families_that_cannot_be_are_refused(families):
    with pytest.raises(ValueError, match="cov"):
        Extractor.over(families, n_regions=5)


@pytest.mark.parametrize("change", [{"crop": {"width": 0}}, {"families": [{"name": "sift"}]}, {"alignment": None}])
def test_a_damaged_description_is_refused(extractor, change):
    notes = extractor.to_json() | change
    if "alignment" in change:
        del notes["alignment"]
    with pytest.raises(ValueError, match="damaged, or was written by a newer samekind"):
        Extractor.from_json(notes)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.full((2, 3), 51, np.uint8), 0.2),
        (np.full((2, 3), 13107, np.uint16), 0.2),
        (np.full((2, 3), 0.2), 0.2),
        (np.full((2, 3, 3), [255, 0, 0], np.uint8), 0.299),
    ],
)
def test_arrays_are_pictures(array, expected):
    grey = picture_from(array, "it").grey
    assert grey.dtype == np.float32
    np.testing.assert_allclose(grey, np.full((2, 3), expected), atol=1e-6)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(5),
        np.zeros((2, 3, 4)),
        np.zeros((0, 3)),
        np.full((2, 2), 7.0),
        np.full((2, 2), np.nan),
        np.zeros((2, 2), int),
    ],
)
def test_other_arrays_are_refused_by_name(array):
    with pytest.raises(ImageError, match=r"^it: "):
        picture_from(array, "it")
