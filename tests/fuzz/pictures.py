"""Pictures that no camera makes."""

import io
import struct
import zlib

import cv2
import numpy as np
from PIL import Image

from samekind.images.align import picture_size
from samekind.images.load import ImageError, load_image
from tests.fuzz.mutations import spoilt_bytes

WORDS = [
    b"-1",
    b"+1",
    b"1_0",
    b"1.5",
    b"1e3",
    b"#x\r",
    b"#x\n",
    b"99999999999",
    b"0" * 3000,
    b"65536",
    b"x",
    b"\0",
    b"\v",
]


class Pictures:
    """Cases of the kind `pictures`."""

    def __init__(self, folder):
        self.path = folder / "picture"
        self.wholes = list(_wholes())

    def make(self, rng):
        data = rng.choice(self.wholes)
        kind = rng.random()
        if data[:1] == b"P" and kind < 0.5:
            words = data[:200].split(b" ")
            for _ in range(rng.choice([1, 1, 3])):
                words[rng.randrange(len(words))] = rng.choice([*WORDS, b"%d" % rng.choice([0, 1, 9999, 2**31, 10**8])])
            data = b" ".join(words) + data[200:]
        elif data[:1] == b"\x89" and kind < 0.6:
            data = _spoilt_png(rng, data)
        elif kind < 0.9:
            data = spoilt_bytes(rng, data, first=400)
        else:
            other = rng.choice(self.wholes)
            data = data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]
        self.path.write_bytes(data)

    def use(self, rng):
        picture_size(self.path)
        grey = self._loaded()
        assert grey.dtype == np.float32
        assert grey.size
        assert 0 <= grey.min() <= grey.max() <= 1

    def _loaded(self):
        try:
            return load_image(self.path).grey
        except ImageError as error:
            if "memory" in error.reason:
                raise MemoryError(error.reason) from error
            raise


def _wholes():
    rng = np.random.default_rng(0)
    rgb = cv2.GaussianBlur(rng.integers(0, 256, (24, 20, 3)).astype(np.uint8), (5, 5), 1)
    colours, grey = Image.fromarray(rgb), Image.fromarray(rgb[..., 0])
    exif = Image.Exif()
    exif[0x0112] = 6
    jpegs = [{}, {"progressive": True}, {"restart_marker_blocks": 1}, {"exif": exif}, {"subsampling": 2}]
    for image, options in [*((colours, each) for each in jpegs), (grey, {}), (colours.convert("CMYK"), {})]:
        yield _saved(image, "JPEG", **options)
    pngs = [colours, grey, colours.quantize(8), colours.convert("RGBA"), grey.convert("1"), grey.convert("LA")]
    for image in pngs:
        yield _saved(image, "PNG")
    yield _saved(colours, "PNG", exif=exif)
    for deep in (rgb[..., 0], rgb):
        yield cv2.imencode(".png", deep.astype(np.uint16) * 257)[1].tobytes()
    values = rgb.ravel()
    yield b"P2 20 24 255 " + b" ".join(b"%d" % value for value in rgb[..., 0].ravel())
    yield b"P3 20 24 255 " + b" ".join(b"%d" % value for value in values)
    yield b"P5 20 24 255 " + rgb[..., 0].tobytes()
    yield b"P6 20 24 65535 " + values.astype(">u2").tobytes()
    yield b"P1 20 24 " + b" ".join(b"%d" % (value > 128) for value in rgb[..., 0].ravel())
    yield b"P4 20 24 " + np.packbits(rgb[..., 0] > 128, axis=1).tobytes()


def _saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _spoilt_png(rng, data):
    """Chunks with other contents and right checksums."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.randrange(len(chunks))
        name, content = chunks[at]
        kind = rng.random()
        if name == b"IDAT" and kind < 0.4:
            content = zlib.compress(spoilt_bytes(rng, _unpacked(content)) if kind < 0.3 else bytes(10**7))
            chunks[at] = (name, content)
        elif kind < 0.7:
            chunks[at] = (name, spoilt_bytes(rng, content))
        elif kind < 0.8:
            chunks.insert(
                at, (rng.choice([b"tEXt", b"zTXt", b"iCCP", b"eXIf", b"gAMA", b"tRNS", b"PLTE", b"acTL"]), content)
            )
        elif kind < 0.9:
            chunks.insert(at, chunks[rng.randrange(len(chunks))])
        else:
            del chunks[at]
            if not chunks:
                break
        if name == b"IDAT" and kind < 0.4:
            break
    return data[:8] + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


def _unpacked(content):
    try:
        return zlib.decompress(content)
    except zlib.error:  # spoilt before
        return content
