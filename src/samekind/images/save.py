"""Pictures to files."""

import io
import os

import numpy as np

from samekind.files import write_whole
from samekind.kernels.types import Array


def save_png(path: str | os.PathLike[str], grey: Array) -> None:
    """A grey picture (height, width) between 0 and 1, as an 8-bit PNG; what lies outside is cut to black and white."""
    from PIL import Image

    pixels = np.clip(np.round(255 * np.asarray(grey)), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    write_whole(path, file.getvalue())
