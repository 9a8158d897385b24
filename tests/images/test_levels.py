"""Descriptors at several scales and crops: each level is what one gets of pictures resized by hand."""

import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from samekind.images.align import Frame, align_by_points, central_crop
from samekind.images.covariance import Covariance
from samekind.images.extractor import Extractor, canonical_name, picture_from
from samekind.images.levels import BASE, FamilyName, Level, margin_for
from samekind.images.load import ImageError
from samekind.images.regions import most_regions
from samekind.images.slbp import SoftLBP
from tests.images.pictures import face_like

FRAME = Frame(40, 56)
WIDE = "@0.5-30x40"  # 60 x 80 pixels of scale 1
FAMILIES = ("cov", "slbp", f"cov{WIDE}", f"slbp+r2{WIDE}", "cov@0.5")


def exact_greys(height, width, seed=0):
    """A picture of 256 greys that are sums of powers of two, so that means of four pixels are exact."""
    return (np.floor(255 * face_like(height, width, seed=seed)) / 256).astype(np.float32)


def halved(picture):
    height, width = picture.shape
    return picture.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3), dtype=np.float32)


def aligned(extractor, picture, **aligner):
    return extractor.aligner(**aligner)(picture_from(picture, "it"), "it").picture


def described(extractor, picture, **aligner):
    return extractor.describe(aligned(extractor, picture, **aligner))


@pytest.fixture(scope="module")
def picture():
    return exact_greys(120, 100)


@pytest.fixture(scope="module")
def extractor():
    return Extractor.over(FAMILIES, n_regions=40, frame=FRAME)


class TestNames:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("cov", ("cov", (), BASE)),
            ("slbp+r2+tt", ("slbp", ("r2", "tt"), BASE)),
            ("cov@0.5", ("cov", (), Level(0.5))),
            ("slbp+r2@0.5-75x100", ("slbp", ("r2",), Level(0.5, (75, 100)))),
            ("cov@1-150x200", ("cov", (), Level(1, (150, 200)))),
        ],
    )
    def test_have_kind_options_and_level(self, text, parts):
        assert FamilyName.parse(text) == parts
        assert str(FamilyName(*parts)) == text

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("cov@0.5:75x100", "cov@0.5-75x100"),
            ("slbp+tt+r2@.50", "slbp+r2+tt@0.5"),
            ("cov@1", "cov"),
            ("slbp+r1", "slbp"),
        ],
    )
    def test_several_texts_of_one_family(self, text, name):
        assert canonical_name(text) == name
        assert [part.name for part in Extractor.over([text], n_regions=5).parts] == [name]

    @pytest.mark.parametrize("text", ["", "cov@", "cov@half", "cov@0.5:75", "cov@0.5:75x", "cov 0.5", "+r2", "slbp+"])
    def test_others_are_refused_with_an_example(self, text):
        with pytest.raises(ValueError, match=r"names no family.*such as cov, slbp\+r2, cov@0\.5"):
            FamilyName.parse(text)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("sift@0.5", "no family 'sift': choose from cov, slbp"),
            ("cov+r2", r"cov has no options, but \+r2"),
            ("slbp+r0", "radius must be a whole number from 1 to 9, but is 0"),
            ("slbp+r2+r3", "a radius, such as r2, and tt, each once"),
            ("slbp+tt+tt", "each once"),
            ("slbp+r20", "the options of slbp are a radius"),
            ("cov@2", "Family 'cov@2': scale=2.0 must be at least 0.01 and at most 1"),
            ("cov@0", "scale=0.0 must be at least 0.01"),
            ("cov@nan", "scale=nan must be at least 0.01"),
            ("cov@0.05", "@0.05 has a crop of 5 x 7 pixels, but each side needs at least 10"),
            ("cov@0.5:9x20", "each side needs at least 10"),
            ("cov@0.5:221x20", "shows 442 x 40 pixels of a picture, more than 4 times the crop of 110 x 150"),
        ],
    )
    def test_families_that_cannot_be_are_refused(self, text, problem):
        with pytest.raises(ValueError, match=problem):
            Extractor.over([text], n_regions=5)

    def test_the_same_family_twice_is_refused_but_not_at_two_levels(self):
        with pytest.raises(ValueError, match="each once"):
            Extractor.over(["cov@0.5", "cov@0.50"], n_regions=20)
        Extractor.over(["cov", "cov@0.5", "cov@0.5-60x80", "slbp", "slbp+r2", "slbp+tt"], n_regions=20)


class TestWhatALevelShows:
    @pytest.mark.parametrize("mirror", [False, True])
    def test_is_what_extraction_of_halved_pictures_shows(self, extractor, picture, mirror):
        picture = np.ascontiguousarray(picture[:, ::-1]) if mirror else picture
        found = described(extractor, picture)
        for name, family, frame in [
            (f"cov{WIDE}", Covariance(), Frame(30, 40)),
            (f"slbp+r2{WIDE}", SoftLBP(radius=2), Frame(30, 40)),
            ("cov@0.5", Covariance(), Frame(20, 28)),
        ]:
            by_hand = Extractor.over([family], n_regions=len(found[name]), frame=frame)
            (expected,) = described(by_hand, halved(picture)).values()
            np.testing.assert_array_equal(found[name], expected, err_msg=name)

    def test_at_scale_1_is_what_a_larger_crop_shows(self, picture):
        found = described(Extractor.over(["cov", "cov@1-60x72"], n_regions=40, frame=FRAME), picture)
        by_hand = Extractor.over(["cov"], n_regions=len(found["cov@1-60x72"]), frame=Frame(60, 72))
        np.testing.assert_array_equal(found["cov@1-60x72"], described(by_hand, picture)["cov"])

    def test_at_the_usual_level_does_not_change(self, extractor, picture):
        alone = Extractor.over(n_regions=40, frame=FRAME)
        found = described(extractor, picture)
        for family, descriptors in described(alone, picture).items():
            np.testing.assert_array_equal(found[family], descriptors)

    def test_does_not_depend_on_the_other_levels(self, picture):
        both = described(Extractor.over(["cov@0.7", "slbp@0.5-40x45"], n_regions=40, frame=FRAME), picture)
        for family, descriptors in both.items():
            alone = described(Extractor.over([family], n_regions=40, frame=FRAME), picture)
            np.testing.assert_array_equal(alone[family], descriptors)

    def test_beyond_the_picture_is_its_border_repeated(self, extractor):
        small = exact_greys(56, 44)
        padded = np.pad(small, 20, mode="edge")
        for family, descriptors in described(extractor, small).items():
            np.testing.assert_array_equal(descriptors, described(extractor, padded)[family])

    def test_a_picture_smaller_than_the_crop_is_refused(self, extractor):
        with pytest.raises(ImageError, match=r"39 x 56.*smaller than the crop of 40 x 56"):
            described(extractor, exact_greys(56, 39))

    def test_is_smoothed_at_its_own_scale(self, picture):
        level, frame = Level(0.5, (30, 40)), replace(FRAME, margin=(10, 12))
        wide = central_crop(picture, frame)
        expected = cv2.GaussianBlur(halved(wide), (9, 9), 1, borderType=cv2.BORDER_REFLECT_101)
        np.testing.assert_array_equal(level.cut(wide, frame), expected)

    def test_at_a_scale_of_no_whole_factor_the_crop_is_about_as_large(self):
        level = Level(0.7, (50, 80))
        assert level.extent(Frame()) == (71, 114)
        assert Level(0.7).extent(Frame()) == (110, 150)
        assert Level(0.3).frame(Frame(100, 100)) == Frame(30, 30)  # 0.3 * 100 is below 30 in floats

    def test_another_picture_than_the_aligners_is_refused(self, extractor, picture):
        with pytest.raises(ValueError, match=r"shape \(120, 100\), but these levels need \(80, 60\)"):
            extractor.features(picture)


class TestByLandmarks:
    POINTS = np.array([[40.3, 51.2], [61.7, 49.9], [50.1, 75.6]])

    def extractor(self, families=FAMILIES):
        return Extractor.over(families, n_regions=40, frame=FRAME, alignment="landmarks")

    def test_the_same_transform_shows_more_around_the_crop(self, picture):
        wide = align_by_points(picture, self.POINTS, replace(FRAME, margin=(10, 12)))
        crop = align_by_points(picture, self.POINTS, FRAME)
        assert wide.shape == (80, 60)
        np.testing.assert_allclose(wide[12:-12, 10:-10], crop, atol=0.01)  # opencv interpolates at 32nds of a pixel

    def test_a_level_is_what_halved_pictures_show(self, picture):
        extractor = self.extractor()
        wide = align_by_points(picture, self.POINTS, extractor.frame)
        found = described(extractor, picture, landmarks={"it": self.POINTS})
        by_hand = Extractor.over(["cov"], n_regions=len(found[f"cov{WIDE}"]), frame=Frame(30, 40))
        expected = described(by_hand, halved(wide))["cov"]
        np.testing.assert_allclose(found[f"cov{WIDE}"], expected, atol=1e-3)

    def test_what_was_chosen_of_one_level_sees_the_same_picture(self, picture):
        extractor = self.extractor()
        found = described(extractor, picture, landmarks={"it": self.POINTS})
        some = described(extractor.only([0, 5, 41]), picture, landmarks={"it": self.POINTS})
        np.testing.assert_array_equal(some["cov"], found["cov"][[0, 5]])
        np.testing.assert_array_equal(some["slbp"], found["slbp"][[1]])


class TestRegions:
    def test_are_as_many_as_the_share_of_the_crops_pixels(self):
        extractor = Extractor.over(["cov", "cov@0.5", "slbp@0.5:75x100"], n_regions=4000)
        assert [len(part.regions) for part in extractor.parts] == [4000, 1000, 1818]

    def test_are_no_more_than_there_are(self):
        assert Level(0.25).n_regions(Frame(40, 56), 10**9) == most_regions(10, 14)
        assert len(Extractor.over(["cov@0.25"], n_regions=10**9, frame=FRAME).parts[0].regions) == most_regions(10, 14)
        assert Level(0.25).n_regions(Frame(40, 56), 1) == 1

    def test_come_in_mirror_pairs(self):
        extractor = Extractor.over(["cov@0.5", "cov@0.5-33x50", "slbp@0.7"], n_regions=501)
        assert [len(part.regions) for part in extractor.parts] == [124, 50, 244]
        assert (extractor.mirror_groups() >= 0).all()

    def test_lie_within_the_levels_crop(self, extractor):
        for part in extractor.parts:
            top, left, height, width = part.regions.T
            frame = part.level.frame(FRAME)
            assert (left + width).max() == frame.width
            assert (top + height).max() == frame.height

    def test_margin_is_that_of_the_widest_level(self):
        levels = {BASE, Level(0.5), Level(0.5, (30, 20)), Level(0.5, (10, 41))}
        assert margin_for(levels, FRAME) == (10, 13)
        assert margin_for({BASE, Level(0.5)}, Frame(41, 57)) == (0, 0)


class TestMirrorImages:
    def test_features_are_those_of_the_mirror_image(self, extractor, picture):
        plain, mirrored = extractor.features_and_mirrored(aligned(extractor, picture))
        np.testing.assert_allclose(plain, extractor.features(aligned(extractor, picture)), atol=1e-6)
        flipped = extractor.features(aligned(extractor, np.ascontiguousarray(picture[:, ::-1])))
        np.testing.assert_allclose(mirrored, flipped, atol=1e-3)
        assert np.abs(plain - mirrored).max() > 0.1

    def test_groups_show_what_the_mirror_image_shows(self, extractor, picture):
        families = [part.family for part in extractor.parts for _ in part.regions]
        ends = np.cumsum([family.size for family in families])[:-1]
        both = extractor.features_and_mirrored(aligned(extractor, picture))
        plain, mirrored = (np.split(features, ends) for features in both)
        for k, (family, other) in enumerate(zip(families, extractor.mirror_groups(), strict=True)):
            np.testing.assert_allclose(family.mirrored(plain[other]), mirrored[k], atol=1e-4)


class TestJson:
    def test_gives_an_equal_one(self, extractor, picture):
        again = Extractor.from_json(json.loads(json.dumps(extractor.to_json())))
        assert again.frame == extractor.frame
        assert [part.name for part in again.parts] == list(FAMILIES)
        np.testing.assert_array_equal(
            again.features(aligned(again, picture)), extractor.features(aligned(extractor, picture))
        )

    def test_of_the_usual_level_and_options_is_as_it_was_before_there_were_others(self):
        notes = Extractor.over(n_regions=2, frame=FRAME).to_json()
        regions = notes["families"][0]["regions"]
        assert notes == {
            "crop": {"width": 40, "height": 56, "sigma": 1.0},
            "alignment": "none",
            "families": [
                {"name": "cov", "parameters": {"ridge": 1e-3}, "regions": regions},
                {"name": "slbp", "parameters": {"fuzziness": 0.02}, "regions": regions},
            ],
        }

    def test_has_parameters_that_fit_the_name(self, extractor):
        notes = extractor.to_json()
        assert notes["families"][3]["parameters"] == {"fuzziness": 0.02, "radius": 2}
        notes["families"][3]["parameters"]["radius"] = 3
        with pytest.raises(ValueError, match=r"'slbp\+r2@0.5-30x40' has the parameters of 'slbp\+r3@0.5-30x40'"):
            Extractor.from_json(notes)

    @pytest.mark.parametrize("margin", [[1], 3, [-1, 0], [0.5, 1], None])
    def test_of_a_margin_that_cannot_be_is_refused(self, extractor, margin):
        notes = extractor.to_json()
        notes["crop"]["margin"] = margin
        with pytest.raises(ValueError, match=r"crop\.margin must be a"):
            Extractor.from_json(notes)
