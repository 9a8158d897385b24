"""Uploaded pictures: crops and codes of their faces, kept in memory for a while."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from samekind.images.align import Aligned, LandmarkAlignment, aligned_picture
from samekind.images.load import ImageError, LoadedImage, decode_image
from samekind.images.save import png_bytes
from samekind.kernels.types import Array
from samekind.model.encoder import Encoder
from samekind.service.errors import Refusal

NAME = "The picture"
MOST_FACES = 12  # of one picture, the largest ones
THUMBNAIL = 96  # pixels a side at the most
OVERHEAD = 2_000  # bytes of a picture beside its arrays, about


@dataclass(frozen=True, eq=False)
class Face:
    """What one face of a picture shows, or the whole picture where the model looks for none."""

    aligned: Aligned
    code: Array

    def png(self, most: int | None = None) -> bytes:
        return png_bytes(self.aligned.picture, most=most)


@dataclass(frozen=True, eq=False)
class Picture:
    """An upload, without its pixels beyond the crops."""

    width: int
    height: int
    faces: tuple[Face, ...]

    @property
    def n_bytes(self) -> int:
        return OVERHEAD + sum(face.aligned.picture.nbytes + face.code.nbytes for face in self.faces)

    def face(self, number: int) -> Face:
        if not 0 <= number < len(self.faces):
            raise Refusal(
                422, "no_such_face", f"The picture has {len(self.faces)} faces, numbered from 0; got {number}."
            )
        return self.faces[number]


def read_picture(data: bytes, encoder: Encoder, max_pixels: int, points: Sequence[float] | None = None) -> Picture:
    """Decode, find faces, crop and encode; a `Refusal` says why a picture cannot be used.

    `points` are x and y of the left eye, the right eye and the middle of the mouth.
    """
    try:
        image = decode_image(data, NAME, max_pixels=max_pixels)
        crops = _crops(image, encoder, points)
    except ImageError as error:
        raise Refusal(422, "unusable_picture", _sentence(error.reason)) from error
    codes = encoder.codes([encoder.describe(crop) for crop in crops])
    height, width = image.grey.shape
    faces = tuple(Face(crop, code) for crop, code in zip(crops, codes, strict=True))
    return Picture(width, height, faces)


def _crops(image: LoadedImage, encoder: Encoder, points: Sequence[float] | None) -> list[Aligned]:
    alignment, align = encoder.extractor.alignment, encoder.align
    if points is not None:
        if alignment == "none":
            raise Refusal(422, "no_points", "This model takes pictures that are aligned already: leave out points.")
        landmarks = {NAME: np.array(points, dtype=np.float64).reshape(3, 2)}
        return [LandmarkAlignment(align.frame, landmarks)(image, NAME)]
    if alignment == "landmarks":
        raise Refusal(
            422, "points_needed", "The pictures of this model were aligned by points: give those of eyes and mouth."
        )
    if alignment == "none":
        return [align(image, NAME)]
    from samekind.images.detect import DetectAlignment

    assert isinstance(align, DetectAlignment)
    faces = align.found(image, NAME)[:MOST_FACES]
    if not faces:
        raise Refusal(422, "no_face", "No face was found. Choose a picture in which a face is seen from the front.")
    return [Aligned(aligned_picture(image, NAME, face.points, align.frame), image.notes) for face in faces]


def _sentence(reason: str) -> str:
    begins = reason.split(" ", 1)[0]
    text = f"{NAME} {reason}" if begins in ("is", "has", "cannot", "does", "ends") else reason[:1].upper() + reason[1:]
    return text if text.endswith(".") else f"{text}."


class Pictures:
    """The last pictures, by a name that nobody can guess; the least recently used go when there are too many."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.n_bytes = max_bytes, 0
        self._kept: OrderedDict[str, Picture] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, picture: Picture) -> str:
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[name] = picture
            self.n_bytes += picture.n_bytes
            while self.n_bytes > self.max_bytes and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self.n_bytes -= gone.n_bytes
        return name

    def get(self, name: str) -> Picture:
        with self._lock:
            picture = self._kept.get(name)
            if picture is not None:
                self._kept.move_to_end(name)
        if picture is None:
            raise Refusal(404, "no_such_picture", "This picture is not kept any more: send it again.")
        return picture
