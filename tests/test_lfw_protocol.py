"""The official protocol of LFW and the raw-pixel figure on LFW-a, if they lie beside the repository."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from samekind import list_images
from samekind.evaluation import pair_distances, verify_folds
from samekind.lfw.protocol import image_rows, pair_rows, read_view1, read_view2
from samekind.lfw.protocol_files import pairs_text, people_text

LFW = Path(__file__).parents[2] / "shared" / "data" / "lfw-a"
PROTOCOL, IMAGES = LFW / "protocol", LFW / "images"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROTOCOL.is_dir(), reason="no ../shared/data/lfw-a beside the repository"),
]


@pytest.fixture(scope="module")
def view1():
    return read_view1(PROTOCOL)


@pytest.fixture(scope="module")
def view2():
    return read_view2(PROTOCOL)


def test_view_1_has_its_official_counts(view1):
    assert (len(view1.train.people), len(view1.test.people)) == (4038, 1711)
    assert (len(view1.train.images), len(view1.test.images)) == (9525, 3708)
    for part, n_each in ((view1.train, 1100), (view1.test, 500)):
        assert [pair.same for pair in part.pairs] == [True] * n_each + [False] * n_each


def test_view_2_has_its_official_counts(view2):
    assert [len(fold.people) for fold in view2.folds] == [601, 555, 552, 560, 567, 527, 597, 601, 580, 609]
    assert sum(len(fold.images) for fold in view2.folds) == 13_233
    assert all([pair.same for pair in fold.pairs] == [True] * 300 + [False] * 300 for fold in view2.folds)


def test_no_fold_learns_from_the_people_it_tests(view2):
    everybody = frozenset().union(*(fold.names for fold in view2.folds))
    for number, split in enumerate(view2.splits()):
        learned = {image.person for image in split.train.images}
        learned |= {image.person for pair in split.train.pairs for image in pair}
        tested = {image.person for pair in split.test.pairs for image in pair}
        assert split.test == view2.folds[number]
        assert len(split.train.pairs) == 5400
        assert not learned & (tested | split.test.names)
        assert learned | split.test.names == everybody


def test_official_files_are_written_as_they_are(view1, view2):
    parts = {"DevTrain": [view1.train], "DevTest": [view1.test], "": view2.folds}
    for view, folds in parts.items():
        people, pairs = people_text([fold.people for fold in folds]), pairs_text([fold.pairs for fold in folds])
        assert people == (PROTOCOL / f"people{view}.txt").read_text()
        assert pairs == (PROTOCOL / f"pairs{view}.txt").read_text()


@pytest.mark.skipif(not IMAGES.is_dir(), reason="no images in ../shared/data/lfw-a")
def test_every_image_of_the_protocol_is_there_under_its_person(view1, view2):
    files = list_images(IMAGES, labelled=True)
    names, labels = [file.name for file in files], [file.label for file in files]
    for parts in ([view1.train, view1.test], view2.folds):
        rows = image_rows([image for part in parts for image in part.images], names, labels)
        assert sorted(rows) == list(range(13_233))


@pytest.fixture(scope="module")
def raw_pixels(view1, view2):
    """Names and codes of all images in pairs to test on."""
    if not IMAGES.is_dir():
        pytest.skip("no images in ../shared/data/lfw-a")
    pairs = view1.test.pairs + view2.pairs
    names = sorted({image.file_name() for pair in pairs for image in pair})
    return names, np.stack([raw_code(IMAGES / name) for name in names])


def raw_code(path):
    """Unit length, so that the squared distance of two codes is 2 - 2 cos."""
    with Picture.open(path) as picture:
        small = picture.convert("L").crop((85, 50, 165, 200)).resize((32, 60), Picture.Resampling.BILINEAR)
    pixels = np.asarray(small, dtype=np.float32).ravel()
    standard = (pixels - pixels.mean()) / pixels.std()
    rooted = np.sign(standard) * np.sqrt(np.abs(standard))
    return rooted / np.linalg.norm(rooted)


def judged(pairs, raw_pixels):
    names, codes = raw_pixels
    rows, same = pair_rows(pairs, names)
    return pair_distances(codes, rows), same


def test_raw_pixels_reach_the_reference_figure(view2, raw_pixels):
    result = verify_folds(*judged(view2.pairs, raw_pixels), view2.fold_numbers)
    assert result.threshold_source == "training folds"
    assert 100 * result.accuracy == pytest.approx(68.25, abs=0.5)
    assert 100 * result.standard_error == pytest.approx(0.61, abs=0.1)


def test_view_1_gives_raw_pixels_nearly_the_same_threshold(view1, view2, raw_pixels):
    chosen_on = judged(view1.test.pairs, raw_pixels)
    result = verify_folds(*judged(view2.pairs, raw_pixels), view2.fold_numbers, view1=chosen_on)
    assert result.threshold_source == "view 1"
    assert 100 * result.accuracy == pytest.approx(68.25, abs=0.5)
