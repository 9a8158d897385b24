"""Pictures to files."""

import io
import os

import numpy as np

from samekind.files import write_whole
from samekind.kernels.types import Array


def save_png(path: str | os.PathLike[str], grey: Array) -> None:
    """A grey picture (height, width) between 0 and 1, as an 8-bit PNG; what lies outside is cut to black and white."""
    write_whole(path, png_bytes(grey))


def png_bytes(grey: Array, *, most: int | None = None) -> bytes:
    """The content of such a file, with sides of `most` pixels at most."""
    from PIL import Image

    pixels = np.clip(np.round(255 * np.asarray(grey)), 0, 255).astype(np.uint8)
    picture = Image.fromarray(pixels)
    if most is not None:
        picture.thumbnail((most, most))
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()
