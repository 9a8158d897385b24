"""The demo's pictures: handwritten digits, enlarged and badly lit, in a folder per digit."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

from samekind.images.save import save_png

Images = NDArray[np.floating]

PER_DIGIT = 110
SIDE = 48  # pixels, after enlarging
STRONGEST_SLOPE, NOISE = 0.5, 0.025
DARKEST, CONTRAST = 0.25, 0.5  # of the evenly lit pictures: leaves room for the light


def write_digits(folder: Path, *, evenly_lit: bool = False) -> None:
    """folder/DIGIT/NUMBER.png for `PER_DIGIT` pictures of each of scikit-learn's digits."""
    vectors, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    for digit in range(10):
        images = vectors[labels == digit][:PER_DIGIT].reshape(-1, 8, 8) / 16
        pictures = DARKEST + CONTRAST * zoom(images, (1, SIDE / 8, SIDE / 8), order=1, grid_mode=True, mode="nearest")
        if not evenly_lit:
            pictures = unevenly_lit(pictures, rng)
        (folder / str(digit)).mkdir(parents=True, exist_ok=True)
        for number, picture in enumerate(pictures):
            save_png(folder / str(digit) / f"{number:03d}.png", picture)


def unevenly_lit(images: Images, rng: np.random.Generator) -> Images:
    """Images (n, rows, cols) as a careless photograph shows them: less contrast, a slope of light, noise."""
    n, rows, cols = images.shape
    angle, strength = rng.uniform(0, 2 * np.pi, (n, 1, 1)), rng.uniform(0, STRONGEST_SLOPE, (n, 1, 1))
    down, across = np.linspace(-1, 1, rows)[:, None], np.linspace(-1, 1, cols)
    slope = strength * (np.cos(angle) * down + np.sin(angle) * across)
    contrast, offset = rng.uniform(0.6, 1.2, (n, 1, 1)), rng.uniform(-0.15, 0.15, (n, 1, 1))
    return contrast * images + slope + offset + NOISE * rng.standard_normal(images.shape)
