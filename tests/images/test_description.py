"""What the description of an extractor may say: all else is refused before compiled code sees it."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest

from samekind.images.align import Frame
from samekind.images.covariance import Covariance
from samekind.images.description import MOST_PIXELS, MOST_REGIONS, read_description
from samekind.images.extractor import Extractor, Part

# Values of other fields that are as good as what was there.
AS_GOOD = {("sigma", "0.5"), ("ridge", "0.5"), ("fuzziness", "0.5"), ("tan_triggs", "True"), ("regions.0.0", "True")}
LEVELS = ("cov", "slbp+r2+tt", "cov@0.5", "slbp@0.5:30x40")


@pytest.fixture(scope="module")
def extractor():
    return Extractor.over(LEVELS, n_regions=40, frame=Frame(40, 56))


@pytest.fixture
def notes(extractor):
    return json.loads(json.dumps(extractor.to_json()))


def changed(notes, path, value):
    """A copy with another value at a path such as `families.0.regions.3.1`."""
    made = copy.deepcopy(notes)
    *parents, last = [int(name) if name.isdigit() else name for name in path.split(".")]
    at = made
    for name in parents:
        at = at[name]
    at[last] = value
    return made


def test_what_an_extractor_writes_is_read(extractor, notes):
    described = read_description(notes)
    assert described.frame == extractor.frame
    assert [part.text for part in described.parts] == [part.name for part in extractor.parts]
    for part, own in zip(described.parts, extractor.parts, strict=True):
        np.testing.assert_array_equal(part.regions, own.regions)


@pytest.mark.parametrize("family", range(len(LEVELS)))
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("value", [-1, 300, 2**62, -(2**63)])
def test_a_region_outside_of_its_own_crop_is_refused(notes, family, place, value):
    with pytest.raises(ValueError, match=r"does not lie in the crop of \d+ x \d+ pixels"):
        Extractor.from_json(changed(notes, f"families.{family}.regions.5.{place}", value))


def test_a_region_of_a_smaller_level_has_to_lie_in_its_crop_and_not_in_the_whole_one(notes):
    whole = notes["families"][0]["regions"][-1]
    with pytest.raises(ValueError, match="does not lie in the crop of 20 x 28 pixels"):
        Extractor.from_json(changed(notes, "families.2.regions.0", whole))


@pytest.mark.parametrize(
    "value", [1e308, 0.5, "1", None, True, [1], {}, 10**30, float("nan"), -(10**20)], ids=lambda value: repr(value)[:9]
)
@pytest.mark.parametrize(
    "path",
    [
        "crop",
        "crop.width",
        "crop.height",
        "crop.sigma",
        "crop.margin",
        "alignment",
        "families",
        "families.0",
        "families.0.name",
        "families.0.parameters",
        "families.0.parameters.ridge",
        "families.1.parameters.fuzziness",
        "families.1.parameters.radius",
        "families.1.parameters.tan_triggs",
        "families.1.regions",
        "families.1.regions.0",
        "families.1.regions.0.0",
    ],
)
def test_a_value_of_another_type_or_size_is_a_value_error(notes, path, value):
    made = changed(notes, path, value)
    if any(path.endswith(end) and repr(value) == good for end, good in AS_GOOD):
        Extractor.from_json(made)
        return
    with pytest.raises(ValueError, match="This description of an extractor cannot be used"):
        Extractor.from_json(made)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("crop.width", 20_000, "too large: at most 400,000 are described"),
        ("crop.margin", [0, 0], "margin must be two whole numbers from 10, 12"),
        ("crop.margin", [10_000, 12], "margin must be two whole numbers"),
        ("families.0.name", "slbp", "unknown|lacks"),
        ("families.0.name", "sift", "must be one of cov, slbp"),
        ("families.0.name", "cov@1e-5", "scale"),
        ("families.0.name", "cov@0.5", "each stand once"),
        ("families.1.name", "slbp+r3+tt", "has the parameters of"),
        ("families.0.regions", [], "1 to 200,000 values"),
        ("families.0.regions", [[0, 0, 2, 8]], "a side below 3"),
        ("families.0.regions", [[0, 0, 8]], "four whole numbers"),
        ("families.0.parameters.more", 1, "does not know"),
        ("more", 1, "does not know"),
        ("families", [], "1 to 32 values"),
    ],
)
def test_the_reason_is_given(notes, path, value, message):
    with pytest.raises(ValueError, match=message):
        Extractor.from_json(changed(notes, path, value))


def test_regions_are_bounded_together(notes):
    many = [[0, 0, 8, 8]] * (MOST_REGIONS - 50)
    with pytest.raises(ValueError, match="are too many: at most 200,000"):
        Extractor.from_json(changed(notes, "families.0.regions", many))


def test_an_extractor_made_by_hand_is_checked_as_well():
    outside = Part(Covariance(), np.array([[300, 0, 8, 8]]))
    with pytest.raises(ValueError, match="does not lie in the crop of 110 x 150"):
        Extractor(Frame(), "none", (outside,))
    with pytest.raises(ValueError, match="too large"):
        Extractor.over(n_regions=5, frame=Frame(MOST_PIXELS // 100, 101))


def test_reading_a_description_loads_no_compiler():
    code = "import sys, samekind.images.description; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
