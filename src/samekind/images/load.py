"""One picture from one file, as grey floats; unusable files raise an error with the reason, damage gives a note."""

from __future__ import annotations

import io
import os
import re
import stat
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from samekind.images import netpbm
from samekind.images.deep_png import deep_png_pixels

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage
    from PIL.ImageFile import ImageFile as PillowFile

Floats32: TypeAlias = NDArray[np.float32]

_RED, _GREEN, _BLUE = 0.299, 0.587, 0.114  # ITU-R BT.601
_ORIENTATION = 0x0112
_END_OF_IMAGE = b"\xff\xd9"
_START_OF_SCAN = 0xDA
_FRAME_MARKERS = (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
_RESTART_MARKERS = range(0xD0, 0xD8)
_MARKER = re.compile(rb"\xff+[^\x00\xff]")
# Bytes that decode to something other than the zeros with which a JPEG decoder fills what is missing.
_FILLER = bytes.fromhex("a75b3ed1") * 64
# More bytes than any valid file: plain-text PPM takes up to 18 a pixel, and cameras add some megabytes of notes.
_BYTES_PER_PIXEL, _BYTES_OF_NOTES = 32, 64_000_000
_MOST_BYTES = 500_000_000
_STRIP = 1 << 22  # pixels that are converted at once
# A sound JPEG has at most as many restart markers as blocks of 8 x 8 pixels in all its scans, which are a dozen.
_MOST_SCANS = 64
_FILLER_BYTES = 1 << 24  # of all fillers together, unless the file itself is longer

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
    """Read a JPEG, PNG, PBM, PGM or PPM file of any depth, and no other; `ImageError` if it cannot be used.

    Colours become ITU-R 601 grey, transparency is ignored, EXIF orientation applied. The header is read first, so
    that a picture of more than ``max_pixels`` is refused before it takes memory. A JPEG whose data end early is used
    as far as it goes, and carries a note.
    """
    name = os.fspath(path)
    with _explained(name):
        data = _read(name, max_pixels)
        decode, _ = _kind(data[:16])
        return decode(data, max_pixels)


def decode_image(data: bytes, name: str, *, max_pixels: int = 100_000_000) -> LoadedImage:
    """The same of the content of a file; `name` is what errors call it."""
    with _explained(name):
        width, height = _header_size(data)
        _check_size(width, height, len(data), max_pixels)
        decode, _ = _kind(data[:16])
        return decode(data, max_pixels)


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
    except (_Unusable, netpbm.NetpbmError) as error:
        raise ImageError(name, str(error)) from error.__cause__
    except FileNotFoundError as error:
        raise ImageError(name, "there is no such file") from error
    except OSError as error:
        raise ImageError(name, f"cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise ImageError(name, "does not fit into memory; make the picture smaller") from error


def _read(name: str, max_pixels: int) -> bytes:
    """All bytes of a file whose header gives an acceptable picture size."""
    try:
        status = os.stat(name)
    except ValueError as error:
        raise _Unusable("has a name that no file can have, with a NUL (a byte of 0) in it") from error
    if stat.S_ISDIR(status.st_mode):
        readable = os.access(name, os.R_OK | os.X_OK)
        raise _Unusable("is a folder, not an image" if readable else "is a folder that cannot be read")
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
    if n_bytes > min(_BYTES_PER_PIXEL * pixels + _BYTES_OF_NOTES, _MOST_BYTES):
        raise _Unusable(f"is {n_bytes:,} bytes long, far more than a picture of {width} x {height} needs")


def _kind(head: bytes) -> tuple[Callable[[bytes, int], LoadedImage], Callable[[Any], PillowFile | netpbm.Header]]:
    """How to decode a file that begins with ``head``, and what reads its header.

    Pillow's readers are called directly: `Image.open` has a size limit of its own, and calls some cameras' JPEG "MPO".
    """
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    if head.startswith(b"\xff\xd8\xff"):
        return _load_jpeg, JpegImageFile
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _load_png, PngImageFile
    if re.match(rb"P[1-6][\s#]", head):
        return _load_netpbm, netpbm.read_header
    raise _Unusable("is not a JPEG, PNG, PBM, PGM or PPM image; convert it to one of these")


def _size(open_header: Callable[[Any], PillowFile | netpbm.Header], file: Any) -> tuple[int, int]:
    try:
        width, height = open_header(file).size
    except netpbm.NetpbmError as error:
        raise _Unusable(str(error)) from error
    except Exception as error:  # Pillow's parsers raise nearly every kind on broken headers
        raise _Unusable(f"has a broken header ({_short(error)})") from error
    return width, height


def _load_jpeg(data: bytes, max_pixels: int) -> LoadedImage:
    notes: tuple[str, ...] = ()
    ends = _data_ends(data)
    try:
        jpeg = _decode_jpeg(data)
    except _Unusable:
        # An end marker makes the decoder give what there is.
        data += _END_OF_IMAGE
        ends = _data_ends(data)
        jpeg = _decode_jpeg(data)
        notes = ("damaged: the JPEG file ends without its end marker; the last of the picture may be missing",)
    sound = _sound_rows(_with_filler(data, ends), jpeg.pixels)
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
    try:
        image = _opened_jpeg(data)
        return _Jpeg(_grey(image), _orientation(image), "progressive" in image.info)
    except MemoryError:
        raise
    except Exception as error:
        raise _Unusable(f"cannot be decoded ({_short(error)})") from error


def _opened_jpeg(data: bytes) -> PillowFile:
    from PIL.JpegImagePlugin import JpegImageFile

    image = JpegImageFile(io.BytesIO(data))
    image.draft("L", image.size)
    image.load()
    return image


def _sound_rows(with_filler: bytes, pixels: Floats32, strip: int = _STRIP) -> int:
    """Rows before the first that depends on bytes which are not there.

    libjpeg fills missing data with zeros and tells only its stderr. So bytes are put in where entropy-coded data end: a
    complete scan skips them, an incomplete one decodes them into other pixels. Of 13,233 LFW-a files this names the one
    of which libjpeg complains. Data that end exactly between two scans or restart intervals, and are closed by an end
    marker, pass as sound.
    """
    try:
        image = _opened_jpeg(with_filler)
        for rows, part in _strips(image, strip):
            differ = np.flatnonzero((part != pixels[rows]).any(axis=1))
            if differ.size:
                return int(rows.start + differ[0])
    except MemoryError:
        raise
    except Exception:  # then it has nothing to say
        pass
    return len(pixels)


def _with_filler(data: bytes, ends: Sequence[int], filler_bytes: int = _FILLER_BYTES) -> bytes:
    filler = _FILLER[: max(4, max(filler_bytes, len(data)) // max(len(ends), 1))]
    parts, start = [], 0
    for end in ends:
        parts += [data[start:end], filler]
        start = end
    return b"".join([*parts, data[start:]])


def _data_ends(data: bytes) -> Sequence[int]:
    """Where entropy-coded data end: at each restart marker, and at the marker after each scan."""
    ends, scans, most, at = array("q"), 0, 0, 2
    while data[at : at + 1] == b"\xff" and len(data) > at + 1 and data[at : at + 2] != _END_OF_IMAGE:
        kind = data[at + 1]
        if kind in _FRAME_MARKERS:
            most = _MOST_SCANS * (1 + _blocks(data[at + 5 : at + 9]))
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == _START_OF_SCAN:
            scans += 1
            for marker in _MARKER.finditer(data, at):
                ends.append(marker.start())
                if scans > _MOST_SCANS or len(ends) > most:
                    raise _Unusable("is broken: it has more scans or restart markers than a picture of its size can")
                at = marker.end() - 2
                if marker.group()[-1] not in _RESTART_MARKERS:
                    break
            else:
                break
    return ends


def _blocks(size: bytes) -> int:
    """Of 8 x 8 pixels, by the height and width of a frame's header."""
    height, width = int.from_bytes(size[:2], "big"), int.from_bytes(size[2:], "big")
    return -(-height // 8) * -(-width // 8)


def _load_png(data: bytes, max_pixels: int) -> LoadedImage:
    from PIL.PngImagePlugin import PngImageFile

    try:
        image = PngImageFile(io.BytesIO(data))
        image.load()
        orientation = _orientation(image)
        # Pillow has no mode for these: it would keep the upper 8 bits of 16.
        deep_colour = data[24] == 16 and data[25] != 0
        if not deep_colour:
            return LoadedImage(_upright(_grey(image), orientation))
        size = image.size
        del image
        if size[0] * size[1] > max_pixels // 2:
            raise _Unusable(f"is too large: at most {max_pixels // 2:,} pixels of 16-bit colours are read")
        return LoadedImage(_upright(_from_deep(deep_png_pixels(data)), orientation))
    except (MemoryError, _Unusable):
        raise
    except Exception as error:
        raise _Unusable(f"cannot be decoded, it is broken or cut off ({_short(error)})") from error


def _load_netpbm(data: bytes, max_pixels: int) -> LoadedImage:
    values, largest = netpbm.decode(data)
    return LoadedImage(_from_colours(values, largest) if values.shape[2] == 3 else _scaled(values[..., 0], largest))


def _strips(image: PillowFile, strip: int = _STRIP) -> Iterator[tuple[slice, Floats32]]:
    """Grey in [0, 1] of what Pillow has decoded, some rows at a time: a float copy of all colours takes much memory."""
    width, height = image.size
    step = max(1, strip // max(width, 1))
    for top in range(0, height, step):
        rows = slice(top, min(top + step, height))
        whole = step >= height
        yield rows, _grey_part(image if whole else image.crop((0, rows.start, width, rows.stop)))


def _grey(image: PillowFile, strip: int = _STRIP) -> Floats32:
    width, height = image.size
    if height * width <= strip:
        return _grey_part(image)
    grey: Floats32 = np.empty((height, width), np.float32)
    for rows, part in _strips(image, strip):
        grey[rows] = part
    return grey


def _grey_part(image: PillowImage) -> Floats32:
    if image.mode == "1":
        return np.asarray(image).astype(np.float32)
    if image.mode in ("L", "LA"):
        return _scaled(np.asarray(image.getchannel(0)), 255)
    if image.mode.startswith("I"):
        return _scaled(np.asarray(image), 65535)
    return _from_colours(np.asarray(image.convert("RGB")), 255)


def _from_deep(pixels: NDArray[np.uint16]) -> Floats32:
    return _from_colours(pixels, 65535) if pixels.ndim == 3 else _scaled(pixels, 65535)


def _scaled(values: NDArray[Any], largest: int) -> Floats32:
    grey: Floats32 = values.astype(np.float32)
    grey /= np.float32(largest)
    return grey


def _from_colours(rgb: NDArray[Any], largest: int) -> Floats32:
    """Channel by channel, to need no float copy of all three."""
    grey: Floats32 = np.zeros(rgb.shape[:2], np.float32)
    step = max(1, _STRIP // max(rgb.shape[1], 1))
    for channel, weight in enumerate((_RED, _GREEN, _BLUE)):
        for top in range(0, len(grey), step):
            grey[top : top + step] += rgb[top : top + step, :, channel] * np.float32(weight / largest)
    return np.minimum(grey, np.float32(1), out=grey)


def _orientation(image: PillowFile | netpbm.Header) -> int:
    if isinstance(image, netpbm.Header):
        return 1
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
