"""Alignment of faces, or other objects: crops in which the same pixel shows the same part."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.images.landmarks import Landmarks, read_landmarks
from samekind.images.load import ImageError, LoadedImage, _kind, _orientation
from samekind.kernels.types import BoolArray, IntArray

Floats32: TypeAlias = NDArray[np.float32]
Floats64: TypeAlias = NDArray[np.float64]
Method: TypeAlias = Literal["none", "landmarks", "detect"]
Several: TypeAlias = Literal["error", "largest", "central"]

# Left eye, right eye, mouth centre (x, y) in a crop of 110 x 150: medians of the points that `detect.find_faces` gives
# in the central crops of 221 LFW-a images (every 60th), to half a pixel. So crops of LFW-a and ours agree.
_WIDTH, _HEIGHT = 110, 150
_PLACES = ((33.0, 63.0), (77.5, 62.5), (56.0, 111.0))
# Below this, bilinear interpolation skips pixels.
_SMALLEST_SCALE = 0.5
# A crop that is fitted to pictures: at least this share of them holds it, and its sides are at least this long.
_PERCENT_HELD, _LEAST_FITTED = 98, 24
# Where Pillow finds the orientation; it would decode a PNG that has none of these to look behind its pixels.
_ORIENTED = {"exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp"}
_LYING = range(5, 9)  # orientations that swap width and height


@dataclass(frozen=True)
class Frame:
    """The size of the crop, in pixels, and the Gaussian (standard deviation in pixels) after it; 0 means none.

    `margin` is what is shown beyond the crop, on the left and on the right, and above and below.
    """

    width: int = _WIDTH
    height: int = _HEIGHT
    sigma: float = 1.0
    margin: tuple[int, int] = field(default=(0, 0), metadata={"later": True})

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            object.__setattr__(self, name, _checked_size(name, getattr(self, name)))
        object.__setattr__(self, "sigma", _checked_sigma(self.sigma))
        object.__setattr__(self, "margin", _checked_margin(self.margin))

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height with the margin."""
        return self.width + 2 * self.margin[0], self.height + 2 * self.margin[1]

    @property
    def places(self) -> Floats64:
        """Where left eye (smaller x), right eye and mouth centre go in the crop: (3, 2), x and y.

        The 110 x 150 crop is scaled as a whole to fit inside the frame, and centred: faces keep their shape, nothing
        that the default crop shows is lost, and a frame of other proportions shows more around it.
        """
        scale = min(self.width / _WIDTH, self.height / _HEIGHT)
        centre = np.array([self.width - 1, self.height - 1]) / 2
        places: Floats64 = (np.array(_PLACES) - np.array([_WIDTH - 1, _HEIGHT - 1]) / 2) * scale + centre
        return places


def _checked_size(name: str, value: object) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if not 1 <= number <= 32_000:
        raise ValueError(f"{name} must be a whole number of pixels from 1 to 32000, but is {value!r}.")
    return number


def _checked_sigma(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 100:
        raise ValueError(f"sigma must be a number of pixels from 0 (no smoothing) to 100, but is {value!r}.")
    return number


def _checked_margin(value: object) -> tuple[int, int]:
    try:
        across, down = (operator.index(each) for each in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        across = down = -1
    if not (0 <= across <= 32_000 and 0 <= down <= 32_000):
        raise ValueError(f"margin must be two whole numbers of pixels from 0 to 32000, but is {value!r}.")
    return across, down


def picture_size(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Width and height of the upright picture in a file, from its header alone; None where that cannot be read."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            _, open_header = _kind(file.read(16))
            file.seek(0)
            header = open_header(file)
            width, height = header.size
            lying = bool(_ORIENTED & header.info.keys()) and _orientation(header) in _LYING
    except Exception:  # Pillow's parsers raise nearly every kind on broken headers; loading will say what is wrong
        return None
    return (height, width) if lying else (width, height)


def fitted_frame(sizes: ArrayLike) -> Frame:
    """The crop of the largest area, at most the default's wide and high, that 98 % of the pictures hold.

    `sizes` (n, 2) are their widths and heights. Of crops of the same area the one nearest to the default's proportions
    is taken; without pictures it is the default.
    """
    n = len(np.asarray(sizes))
    if not n:
        return Frame()
    held = 100 * _holding(sizes) >= _PERCENT_HELD * n
    width, height = _largest(held, _LEAST_FITTED)
    if not width:
        width, height = _largest(held, 0)
        raise ValueError(
            f"The pictures are too small: {_PERCENT_HELD} % of them hold a crop of {width} x {height} pixels at most, "
            f"and at least {_LEAST_FITTED} x {_LEAST_FITTED} are needed. Enlarge them, or choose a "
            "smaller crop (--size, or a Frame)."
        )
    return Frame(width, height)


def percent_holding(sizes: ArrayLike, frame: Frame) -> int:
    """How many of the pictures, of sizes (n, 2), are at least as large as the crop; rounded down."""
    width, height = np.asarray(sizes).T
    held = (width >= frame.width) & (height >= frame.height)
    return 100 * int(held.sum()) // len(width)


def _holding(sizes: ArrayLike) -> IntArray:
    """[w, h]: how many pictures hold a crop of w x h, up to the default's."""
    capped = np.minimum(sizes, [_WIDTH, _HEIGHT])
    counts = np.zeros((_WIDTH + 1, _HEIGHT + 1), dtype=np.intp)
    np.add.at(counts, (capped[:, 0], capped[:, 1]), 1)
    reversed_sums = counts[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)
    return reversed_sums[::-1, ::-1]


def _largest(held: BoolArray, least: int) -> tuple[int, int]:
    """Width and height of the largest crop that is held, no side shorter than `least`; (0, 0) where there is none."""
    width, height = np.indices(held.shape)
    area = np.where(held & (np.minimum(width, height) >= least), width * height, 0)
    nearness = np.minimum(width / _WIDTH, height / _HEIGHT)
    best = np.argmax(np.where(area == area.max(), nearness, -1)) if area.any() else 0
    return int(width.flat[best]), int(height.flat[best])


def central_crop(grey: Floats32, frame: Frame) -> Floats32:
    """The middle of the picture, of the frame's size; of two middles the left and upper one.

    The frame's margin shows the picture around it; beyond the picture its border is repeated.
    """
    height, width = grey.shape
    if height < frame.height or width < frame.width:
        raise ValueError(
            f"the picture is {width} x {height} (width x height), smaller than the crop of "
            f"{frame.width} x {frame.height}; choose a smaller crop, or enlarge the picture"
        )
    top, left = (height - frame.height) // 2, (width - frame.width) // 2
    return _shown(grey, left - frame.margin[0], top - frame.margin[1], *frame.shown)


def _shown(grey: Floats32, left: int, top: int, width: int, height: int) -> Floats32:
    """A rectangle that may reach beyond the picture, whose border is repeated there."""
    bottom, right = top + height, left + width
    inside = grey[max(top, 0) : bottom, max(left, 0) : right]
    if inside.shape == (height, width):
        return inside
    import cv2

    missing = max(-top, 0), max(bottom - grey.shape[0], 0), max(-left, 0), max(right - grey.shape[1], 0)
    return np.asarray(cv2.copyMakeBorder(inside, *missing, cv2.BORDER_REPLICATE), dtype=np.float32)


def similarity(points_from: ArrayLike, points_to: ArrayLike) -> Floats64:
    """The (2, 3) matrix of the rotation, scaling and shift (no mirror) that takes one point set nearest to another.

    With points as complex numbers: a, b that minimise sum |a p + b - q|^2.
    """
    p, q = _complex_points(points_from, "points_from"), _complex_points(points_to, "points_to")
    if len(p) != len(q):
        raise ValueError(f"points_from and points_to must be as many, but are {len(p)} and {len(q)}.")
    p_mean, q_mean = p.mean(), q.mean()
    spread = np.vdot(p - p_mean, p - p_mean).real
    if spread <= (1e-6 * (1 + abs(p_mean))) ** 2:
        raise ValueError("the points coincide, so they give no direction and no size; at least two must differ")
    a = complex(np.vdot(p - p_mean, q - q_mean) / spread)
    b = complex(q_mean - a * p_mean)
    return np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]])


def _complex_points(points: ArrayLike, name: str) -> NDArray[np.complex128]:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2 or len(array) < 2:
        raise ValueError(f"{name} must have shape (m, 2) with m at least 2, but has {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    together: NDArray[np.complex128] = array[:, 0] + 1j * array[:, 1]
    return together


def align_by_points(grey: Floats32, points: ArrayLike, frame: Frame) -> Floats32:
    """The crop, and its margin, in which eyes and mouth, at ``points`` (3, 2), come nearest to the frame's places.

    Bilinear; beyond the picture its border is repeated. Not smoothed.
    """
    import cv2

    height, width = grey.shape
    matrix = similarity(points, frame.places)
    middle = np.mean(np.asarray(points, dtype=np.float64), axis=0)
    if (middle < 0).any() or (middle > [width - 1, height - 1]).any():
        raise ValueError(
            f"the points lie around ({middle[0]:g}, {middle[1]:g}), outside the picture of {width} x {height}; "
            "are they from a version of it of another size?"
        )
    if np.abs(np.asarray(points) - middle).max() > 2 * max(width, height):  # shrinking by so much would take memory
        raise ValueError(f"the points lie farther apart than twice the picture of {width} x {height} is long")
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    if not scale > 0:
        raise ValueError("the points cannot be brought to the places of eyes and mouth by turning and scaling")
    matrix[:, 2] += frame.margin
    part, matrix = _needed_part(grey, matrix, frame.shown)
    if scale < _SMALLEST_SCALE:
        part, matrix = _shrunk(part, matrix, int(1 / scale))
    crop = cv2.warpAffine(part, matrix, frame.shown, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(crop, dtype=np.float32)


def _needed_part(grey: Floats32, matrix: Floats64, shown: tuple[int, int]) -> tuple[Floats32, Floats64]:
    """The part of the picture that is shown, and a margin: opencv warps none above 32,767 a side."""
    corners = np.array([[0, 0, 1, 1], [0, 1, 0, 1]]) * np.array(shown)[:, np.newaxis]
    seen = np.linalg.solve(matrix[:, :2], corners - matrix[:, 2:])
    margin = 2 + 2 / math.hypot(matrix[0, 0], matrix[1, 0])
    limit = np.array([grey.shape[1], grey.shape[0]])
    first = np.clip(np.floor(seen.min(axis=1) - margin), 0, limit - 1).astype(int)
    last = np.clip(np.ceil(seen.max(axis=1) + margin), first + 1, limit).astype(int)
    part = grey[first[1] : last[1], first[0] : last[0]]
    shift = matrix[:, 2] + matrix[:, :2] @ first
    return part, np.column_stack([matrix[:, :2], shift])


def _shrunk(grey: Floats32, matrix: Floats64, factor: int) -> tuple[Floats32, Floats64]:
    """Means over ``factor`` x ``factor`` pixels, and the matrix for them; the border is repeated to whole blocks."""
    import cv2

    height, width = grey.shape
    blocks = cv2.copyMakeBorder(grey, 0, -height % factor, 0, -width % factor, cv2.BORDER_REPLICATE)
    size = (blocks.shape[1] // factor, blocks.shape[0] // factor)
    small = cv2.resize(blocks, size, interpolation=cv2.INTER_AREA)
    # Pixel i of the small picture has its centre at factor * i + (factor - 1) / 2 of the large one.
    shift = matrix[:, 2] + matrix[:, :2].sum(axis=1) * (factor - 1) / 2
    return np.asarray(small, dtype=np.float32), np.column_stack([matrix[:, :2] * factor, shift])


def smooth(picture: Floats32, sigma: float) -> Floats32:
    """A Gaussian of ``sigma`` pixels, the picture mirrored at its border (the border pixel itself once)."""
    import cv2

    if sigma == 0:
        return np.ascontiguousarray(picture)
    size = 2 * math.ceil(4 * sigma) + 1
    smoothed = cv2.GaussianBlur(picture, (size, size), sigma, borderType=cv2.BORDER_REFLECT_101)
    return np.asarray(smoothed, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Aligned:
    """An aligned and smoothed picture, float32 (height, width); all notes, those of the loaded image first."""

    picture: Floats32
    notes: tuple[str, ...] = ()


class Aligner(Protocol):
    """What makes a loaded image into one of the frame's size; `ImageError` for an image that it cannot align."""

    @property
    def frame(self) -> Frame: ...

    def __call__(self, image: LoadedImage, name: str) -> Aligned: ...


@dataclass(frozen=True)
class NoAlignment:
    """Images that are aligned already: their central crop."""

    frame: Frame

    def __call__(self, image: LoadedImage, name: str) -> Aligned:
        try:
            crop = central_crop(image.grey, self.frame)
        except ValueError as error:
            raise ImageError(name, str(error)) from error
        return Aligned(smooth(crop, self.frame.sigma), image.notes)


@dataclass(frozen=True, eq=False)
class LandmarkAlignment:
    """Eyes and mouth given for each image by name, as `read_landmarks` gives them."""

    frame: Frame
    landmarks: Landmarks

    def __call__(self, image: LoadedImage, name: str) -> Aligned:
        if name not in self.landmarks:
            example = next(iter(self.landmarks), None)
            hint = "they are empty" if example is None else f"they name images like {example}"
            raise ImageError(name, f"has no landmarks ({hint}); add a line for it, or remove the image")
        return Aligned(aligned_picture(image, name, self.landmarks[name], self.frame), image.notes)


def aligned_picture(image: LoadedImage, name: str, points: ArrayLike, frame: Frame) -> Floats32:
    """Warped by the points and smoothed; `ImageError` where the points do not fit the picture."""
    try:
        return smooth(align_by_points(image.grey, points, frame), frame.sigma)
    except ValueError as error:
        raise ImageError(name, str(error)) from error


def aligner_from(
    method: Method,
    frame: Frame | None = None,
    landmarks: str | os.PathLike[str] | Landmarks | None = None,
    several: Several = "error",
) -> Aligner:
    """The aligner of a name: ``none``, ``landmarks`` (a CSV or a mapping) or ``detect``."""
    if method not in get_args(Method):
        raise ValueError(f"The alignment must be one of {', '.join(get_args(Method))}, but is {method!r}.")
    if several not in get_args(Several):
        raise ValueError(f"several must be one of {', '.join(get_args(Several))}, but is {several!r}.")
    if (landmarks is not None) != (method == "landmarks"):
        problem = "needs a CSV of landmarks" if method == "landmarks" else "takes no landmarks"
        raise ValueError(f"The alignment {method!r} {problem}; 'landmarks' is the one that goes with them.")
    frame = Frame() if frame is None else frame
    if method == "none":
        return NoAlignment(frame)
    if method == "detect":
        from samekind.images.detect import DetectAlignment

        return DetectAlignment(frame, several)
    assert landmarks is not None
    return LandmarkAlignment(frame, landmarks if isinstance(landmarks, Mapping) else read_landmarks(landmarks))
