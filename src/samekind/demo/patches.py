"""Overcomplete patch features of small images: every rectangle of some sizes, each whitened on its own."""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.floating]

STRONGEST_SLOPE, NOISE = 1.0, 0.05


def unevenly_lit(images: Images, rng: np.random.Generator) -> Images:
    """Images (n, rows, cols) between 0 and 1 as a careless photograph shows them: contrast, a slope of light, noise."""
    n, rows, cols = images.shape
    angle, strength = rng.uniform(0, 2 * np.pi, (n, 1, 1)), rng.uniform(0, STRONGEST_SLOPE, (n, 1, 1))
    down, across = np.linspace(-1, 1, rows)[:, None], np.linspace(-1, 1, cols)
    slope = strength * (np.cos(angle) * down + np.sin(angle) * across)
    contrast, offset = rng.uniform(0.6, 1.2, (n, 1, 1)), rng.uniform(-0.3, 0.3, (n, 1, 1))
    return contrast * images + slope + offset + NOISE * rng.standard_normal(images.shape)


class Rectangle(NamedTuple):
    top: int
    left: int
    height: int
    width: int

    @property
    def name(self) -> str:
        return f"{self.height}x{self.width} at {self.top},{self.left}"

    def cut(self, images: Images) -> Images:
        """The pixels inside, (n, height * width)."""
        inside = images[:, self.top : self.top + self.height, self.left : self.left + self.width]
        return inside.reshape(len(images), -1)


def all_rectangles(shape: tuple[int, int], sides: range) -> list[Rectangle]:
    """Every rectangle inside `shape` whose sides are in `sides`."""
    rows, cols = shape
    return [
        Rectangle(top, left, height, width)
        for height, width in product(sides, sides)
        for top, left in product(range(rows - height + 1), range(cols - width + 1))
    ]


@dataclass(frozen=True)
class PatchFeatures:
    """Whitened pixels of many rectangles, side by side: one feature group per rectangle."""

    rectangles: list[Rectangle]
    means: list[Images]
    maps: list[Images]

    @classmethod
    def learned(cls, images: Images, rectangles: list[Rectangle], damping: float, least: float) -> "PatchFeatures":
        """Directions with a deviation below `least` are dropped; `damping` joins the variances, to keep noise small."""
        kept, means, maps = [], [], []
        for rectangle in rectangles:
            pixels = rectangle.cut(images)
            mean = pixels.mean(axis=0)
            _, lengths, directions = np.linalg.svd(pixels - mean, full_matrices=False)
            deviations = lengths / len(images) ** 0.5
            alive = deviations > least
            if alive.any():
                kept.append(rectangle)
                means.append(mean)
                maps.append(directions[alive].T / np.sqrt(deviations[alive] ** 2 + damping))
        return cls(kept, means, maps)

    @property
    def groups(self) -> dict[str, slice]:
        """Columns of each rectangle, by its name."""
        ends = np.cumsum([M.shape[1] for M in self.maps]).tolist()
        return {
            rectangle.name: slice(end - M.shape[1], end)
            for rectangle, M, end in zip(self.rectangles, self.maps, ends, strict=True)
        }

    def of(self, images: Images) -> NDArray[np.float32]:
        parts = [
            (rectangle.cut(images) - mean) @ M
            for rectangle, mean, M in zip(self.rectangles, self.means, self.maps, strict=True)
        ]
        return np.hstack(parts).astype(np.float32)
