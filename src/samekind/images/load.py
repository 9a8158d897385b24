"""One picture from one file, as grey floats; unusable files raise an error with the reason, damage gives a note."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile as PillowFile

Floats32: TypeAlias = NDArray[np.float32]

_RED, _GREEN, _BLUE = 0.299, 0.587, 0.114  # ITU-R BT.601
_ORIENTATION = 0x0112
_END_OF_IMAGE = b"\xff\xd9"
_START_OF_SCAN = b"\xff\xda"
_RESTART_MARKERS = range(0xD0, 0xD8)
_MARKER = re.compile(rb"\xff+[^\x00\xff]")
# Bytes that decode to something other than the zeros with which a JPEG decoder fills what is missing.
_FILLER = bytes.fromhex("a75b3ed1") * 64
# More bytes than any valid file: plain-text PPM takes up to 18 a pixel, and cameras add some megabytes of notes.
_BYTES_PER_PIXEL, _BYTES_OF_NOTES = 32, 64_000_000

_UPRIGHT: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: np.transpose,
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).T,
    8: np.rot90,
}


class ImageError(ValueError):
    """A file that cannot be used, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, eq=False)
class LoadedImage:
    """Grey values in [0, 1], float32 (height, width), upright; notes on damage."""

    grey: Floats32
    notes: tuple[str, ...] = ()


class _Unusable(Exception):
    """The reason of an `ImageError`, before the path is known."""


def load_image(path: str | os.PathLike[str], *, max_pixels: int = 100_000_000) -> LoadedImage:
    """Read a JPEG, PNG, PGM or PPM file of any depth; `ImageError` if it cannot be used.

    Colours become ITU-R 601 grey, transparency is ignored, EXIF orientation applied. The header is read first, so
    that a picture of more than ``max_pixels`` is refused before it takes memory. A JPEG whose data end early is used
    as far as it goes, and carries a note.
    """
    name = os.fspath(path)
    with _explained(name):
        data = _read(name, max_pixels)
        decode, _ = _kind(data[:16])
        return decode(data)


def decode_image(data: bytes, name: str, *, max_pixels: int = 100_000_000) -> LoadedImage:
    """The same of the content of a file; `name` is what errors call it."""
    with _explained(name):
        width, height = _header_size(data)
        _check_size(width, height, len(data), max_pixels)
        decode, _ = _kind(data[:16])
        return decode(data)


def header_size(data: bytes, name: str) -> tuple[int, int]:
    """Width and height that the header of a file's content gives, not turned upright."""
    with _explained(name):
        return _header_size(data)


def _header_size(data: bytes) -> tuple[int, int]:
    if not data:
        raise _Unusable("is empty (0 bytes)")
    _, open_header = _kind(data[:16])
    return _size(open_header, io.BytesIO(data))


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Whatever goes wrong becomes an `ImageError`."""
    try:
        yield
    except _Unusable as error:
        raise ImageError(name, str(error)) from error.__cause__
    except FileNotFoundError as error:
        raise ImageError(name, "there is no such file") from error
    except OSError as error:
        raise ImageError(name, f"cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise ImageError(name, "does not fit into memory; make the picture smaller") from error


def _read(name: str, max_pixels: int) -> bytes:
    """All bytes of a file whose header gives an acceptable picture size."""
    status = os.stat(name)
    if stat.S_ISDIR(status.st_mode):
        raise _Unusable("is a folder, not an image")
    if not stat.S_ISREG(status.st_mode):
        raise _Unusable("is a device or a pipe, not a plain file")
    if status.st_size == 0:
        raise _Unusable("is empty (0 bytes)")
    with open(name, "rb") as file:
        _, open_header = _kind(file.read(16))
        file.seek(0)
        width, height = _size(open_header, file)
        _check_size(width, height, status.st_size, max_pixels)
        file.seek(0)
        return file.read()


def _check_size(width: int, height: int, n_bytes: int, max_pixels: int) -> None:
    pixels = width * height
    if pixels < 1:
        raise _Unusable(f"has no pixels ({width} x {height})")
    if pixels > max_pixels:
        raise _Unusable(
            f"is too large: {width} x {height} = {pixels:,} pixels, at most {max_pixels:,} are read. "
            "Make the picture smaller, or raise max_pixels"
        )
    if n_bytes > _BYTES_PER_PIXEL * pixels + _BYTES_OF_NOTES:
        raise _Unusable(f"is {n_bytes:,} bytes long, far more than a picture of {width} x {height} needs")


def _kind(head: bytes) -> tuple[Callable[[bytes], LoadedImage], Callable[[Any], PillowFile]]:
    """How to decode a file that begins with ``head``, and what reads its header.

    Pillow's readers are called directly: `Image.open` has a size limit of its own, and calls some cameras' JPEG "MPO".
    """
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.PpmImagePlugin import PpmImageFile

    if head.startswith(b"\xff\xd8\xff"):
        return _load_jpeg, JpegImageFile
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _load_png, PngImageFile
    if re.match(rb"P[1-6][\s#]", head):
        return _load_netpbm, PpmImageFile
    raise _Unusable("is not a JPEG, PNG, PGM or PPM image; convert it to one of these")


def _size(open_header: Callable[[Any], PillowFile], file: Any) -> tuple[int, int]:
    try:
        width, height = open_header(file).size
    except Exception as error:  # Pillow's parsers raise nearly every kind on broken headers
        raise _Unusable(f"has a broken header ({_short(error)})") from error
    return width, height


def _load_jpeg(data: bytes) -> LoadedImage:
    notes: tuple[str, ...] = ()
    try:
        jpeg = _decode_jpeg(data)
    except _Unusable:
        # An end marker makes the decoder give what there is.
        data += _END_OF_IMAGE
        jpeg = _decode_jpeg(data)
        notes = ("damaged: the JPEG file ends without its end marker; the last of the picture may be missing",)
    sound = _sound_rows(data, jpeg.pixels)
    if sound < len(jpeg.pixels):
        notes = (_what_is_lost(sound, jpeg),)
    return LoadedImage(_upright(jpeg.pixels, jpeg.orientation), notes)


@dataclass(frozen=True, eq=False)
class _Jpeg:
    pixels: Floats32
    orientation: int
    progressive: bool


def _what_is_lost(sound: int, jpeg: _Jpeg) -> str:
    if jpeg.progressive:
        return "damaged: the JPEG data end early; the picture is coarser than it was, or part of it is missing"
    if sound == 0:
        raise _Unusable("is damaged: the JPEG data end before the first row of the picture is complete")
    rows = len(jpeg.pixels)
    return f"damaged: the JPEG data end early; {rows - sound} of {rows} rows are wrong, mostly flat grey"


def _decode_jpeg(data: bytes) -> _Jpeg:
    """Pillow rather than opencv: the same values, and silent about damage, where opencv's libjpeg writes to stderr."""
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        image = JpegImageFile(io.BytesIO(data))
        image.draft("L", image.size)
        image.load()
        return _Jpeg(_grey(image), _orientation(image), "progressive" in image.info)
    except MemoryError:
        raise
    except Exception as error:
        raise _Unusable(f"cannot be decoded ({_short(error)})") from error


def _sound_rows(data: bytes, pixels: Floats32) -> int:
    """Rows before the first that depends on bytes which are not there.

    libjpeg fills missing data with zeros and tells only its stderr. So bytes are put in where entropy-coded data end: a
    complete scan skips them, an incomplete one decodes them into other pixels. Of 13,233 LFW-a files this names the one
    of which libjpeg complains. Data that end exactly between two scans or restart intervals, and are closed by an end
    marker, pass as sound.
    """
    try:
        other = _decode_jpeg(_with_filler(data)).pixels
    except _Unusable:
        return len(pixels)
    differ = np.flatnonzero((other != pixels).any(axis=1))
    return int(differ[0]) if differ.size else len(pixels)


def _with_filler(data: bytes) -> bytes:
    parts, start = [], 0
    for end in _data_ends(data):
        parts += [data[start:end], _FILLER]
        start = end
    return b"".join([*parts, data[start:]])


def _data_ends(data: bytes) -> Iterator[int]:
    """Where entropy-coded data end: at each restart marker, and at the marker after each scan."""
    at = 2
    while data[at : at + 1] == b"\xff" and data[at : at + 2] != _END_OF_IMAGE:
        is_scan = data[at : at + 2] == _START_OF_SCAN
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if is_scan:
            for marker in _MARKER.finditer(data, at):
                yield marker.start()
                at = marker.end() - 2
                if marker.group()[-1] not in _RESTART_MARKERS:
                    break


def _load_png(data: bytes) -> LoadedImage:
    from PIL.PngImagePlugin import PngImageFile

    try:
        image = PngImageFile(io.BytesIO(data))
        image.load()
        orientation = _orientation(image)
        # Pillow has no mode for these: it would keep the upper 8 bits of 16.
        deep_colour = data[24] == 16 and data[25] != 0
        grey = _deep_png(data) if deep_colour else _grey(image)
    except MemoryError:
        raise
    except Exception as error:
        raise _Unusable(f"cannot be decoded, it is broken or cut off ({_short(error)})") from error
    return LoadedImage(_upright(grey, orientation))


def _deep_png(data: bytes) -> Floats32:
    import cv2

    flags = cv2.IMREAD_ANYDEPTH | cv2.IMREAD_ANYCOLOR | cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError("opencv cannot decode it")
    return _from_colours(pixels[..., ::-1], 65535) if pixels.ndim == 3 else _scaled(pixels, 65535)


def _load_netpbm(data: bytes) -> LoadedImage:
    if data[1:2] in b"14":
        return LoadedImage(_bitmap(data))
    # Neither opencv (no scaling by the maximum) nor Pillow (8 bits for colours) reads all of these right.
    blank = rb"(?:\s|#[^\n]*\n)+"
    header = re.match(rb"P[2356]" + 3 * (blank + rb"(\d{1,9})") + rb"\s", data)
    if header is None:
        raise _Unusable("has a broken header")
    width, height, largest = map(int, header.groups())
    if not 0 < largest < 65536:
        raise _Unusable(f"has a broken header: the largest value is {largest}, but must be 1 to 65535")
    colours = 3 if data[1:2] in b"36" else 1
    shape = (height, width, colours)
    raster = memoryview(data)[header.end() :]
    values = _plain_values(raster, shape) if data[1:2] in b"23" else _raw_values(raster, shape, largest)
    if values.max() > largest:
        raise _Unusable(f"is broken: it holds {values.max()}, above its own largest value {largest}")
    return LoadedImage(_from_colours(values, largest) if colours == 3 else _scaled(values[..., 0], largest))


def _raw_values(raster: memoryview, shape: tuple[int, int, int], largest: int) -> NDArray[Any]:
    dtype = np.dtype(">u2" if largest > 255 else "u1")
    needed = int(np.prod(shape, dtype=np.int64))
    if len(raster) < needed * dtype.itemsize:
        raise _Unusable(f"is cut off: {len(raster):,} of {needed * dtype.itemsize:,} bytes of pixels are there")
    return np.frombuffer(raster, dtype, needed).reshape(shape)


def _plain_values(raster: memoryview, shape: tuple[int, int, int]) -> NDArray[Any]:
    needed = int(np.prod(shape, dtype=np.int64))
    words = bytes(raster).split()[:needed]
    if len(words) < needed:
        raise _Unusable(f"is cut off: {len(words):,} of {needed:,} values are there")
    try:
        return np.array(words).astype(np.int64).reshape(shape)
    except ValueError as error:
        raise _Unusable("is broken: not all of its values are numbers") from error


def _bitmap(data: bytes) -> Floats32:
    from PIL.PpmImagePlugin import PpmImageFile

    try:
        image = PpmImageFile(io.BytesIO(data))
        image.load()
        return _grey(image)
    except MemoryError:
        raise
    except Exception as error:
        raise _Unusable(f"cannot be decoded, it is broken or cut off ({_short(error)})") from error


def _grey(image: PillowFile) -> Floats32:
    """Grey in [0, 1] of what Pillow has decoded."""
    if image.mode == "1":
        return np.asarray(image).astype(np.float32)
    if image.mode in ("L", "LA"):
        return _scaled(np.asarray(image.getchannel(0)), 255)
    if image.mode.startswith("I"):
        return _scaled(np.asarray(image), 65535)
    return _from_colours(np.asarray(image.convert("RGB")), 255)


def _scaled(values: NDArray[Any], largest: int) -> Floats32:
    grey: Floats32 = values.astype(np.float32)
    grey /= np.float32(largest)
    return grey


def _from_colours(rgb: NDArray[Any], largest: int) -> Floats32:
    """Channel by channel, to need no float copy of all three."""
    grey: Floats32 = np.zeros(rgb.shape[:2], np.float32)
    for channel, weight in enumerate((_RED, _GREEN, _BLUE)):
        grey += rgb[..., channel] * np.float32(weight / largest)
    return np.minimum(grey, np.float32(1), out=grey)


def _orientation(image: PillowFile) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # broken notes of a camera are no reason to lose the picture
        return 1


def _upright(pixels: Floats32, orientation: int) -> Floats32:
    turn = _UPRIGHT.get(orientation)
    return pixels if turn is None else np.ascontiguousarray(turn(pixels))


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."
