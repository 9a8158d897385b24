"""Levels of the image pyramid: the scale at which a family of descriptors sees a picture, and how much of the picture.

A family is known by its kind, its options and its level, in this order: `cov`, `slbp+r2+tt`, `cov@0.5` (the crop at
half its size), `slbp+r2@0.5-75x100` (at half size, 75 x 100 pixels of it: 150 x 200 of the picture). The command line
also takes a colon for the hyphen, which file names cannot have everywhere.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from samekind.images.align import Floats32, Frame, smooth
from samekind.images.regions import most_regions

LEAST_CROP = 10  # pixels a side, for regions of several sizes
LEAST_SCALE = 0.01
MOST_EXTENT = 4  # times the sides of the crop: beyond, a level would mostly show the repeated border of pictures

_NAME = re.compile(r"(?P<kind>\w+)(?P<options>(\+\w+)*)(@(?P<scale>[^:-]+)([:-](?P<crop>.+))?)?")
_CROP = re.compile(r"(\d{1,5})x(\d{1,5})")


@dataclass(frozen=True)
class Level:
    """A scale, at most 1, and the width and height of a crop in pixels of that scale.

    Without `crop` it shows what the frame's crop shows.
    """

    scale: float = 1.0
    crop: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not LEAST_SCALE <= self.scale <= 1:
            raise ValueError(
                f"scale={self.scale!r} must be at least {LEAST_SCALE} and at most 1, such as 0.5 for half the size."
            )
        object.__setattr__(self, "scale", float(f"{self.scale:g}"))  # as its name has it

    @property
    def name(self) -> str:
        """As it stands in names of families; the usual level has none."""
        if self.crop is None:
            return "" if self.scale == 1 else f"@{self.scale:g}"
        return f"@{self.scale:g}-{self.crop[0]}x{self.crop[1]}"

    def frame(self, base: Frame) -> Frame:
        """The crop at this level, for pictures that are aligned to `base`."""
        if self == BASE:
            return base
        # Rounded down, so that the crop at a smaller scale lies within that of scale 1.
        width, height = self.crop or (int(self.scale * side + 1e-9) for side in (base.width, base.height))
        if min(width, height) < LEAST_CROP:
            raise ValueError(
                f"The level {self.name} has a crop of {width} x {height} pixels, but each side needs at least "
                f"{LEAST_CROP}: choose a larger scale or crop."
            )
        return Frame(width, height, base.sigma)

    def extent(self, base: Frame) -> tuple[int, int]:
        """Width and height of what it shows, in pixels of scale 1."""
        own = self.frame(base)
        width, height = round(own.width / self.scale), round(own.height / self.scale)
        if width > MOST_EXTENT * base.width or height > MOST_EXTENT * base.height:
            raise ValueError(
                f"The level {self.name} shows {width} x {height} pixels of a picture, more than {MOST_EXTENT} times "
                f"the crop of {base.width} x {base.height}: choose a smaller crop for it, or a larger scale."
            )
        return width, height

    def n_regions(self, base: Frame, n_regions: int) -> int:
        """In proportion to the pixels that it has, where `base` has `n_regions`; as many as there are at most.

        An even number, so that each region has its mirror image, unless it is one.
        """
        if self == BASE:
            return n_regions
        own = self.frame(base)
        share = own.width * own.height / (base.width * base.height)
        count = min(round(n_regions * share), most_regions(own.width, own.height))
        return 2 * (count // 2) or 1

    def cut(self, picture: Floats32, base: Frame) -> Floats32:
        """The smoothed crop at this level of a picture that shows all of `base` and its margin, not smoothed."""
        import cv2

        own, (width, height), (across, down) = self.frame(base), self.extent(base), base.margin
        left, top = across + (base.width - width) // 2, down + (base.height - height) // 2
        part = picture[top : top + height, left : left + width]
        if part.shape != (own.height, own.width):
            part = np.asarray(cv2.resize(part, (own.width, own.height), interpolation=cv2.INTER_AREA), np.float32)
        return smooth(part, own.sigma)


BASE = Level()


def margin_for(levels: set[Level], base: Frame) -> tuple[int, int]:
    """What levels show beyond the frame's crop: pixels on the left and on the right, and above and below."""
    extents = [level.extent(base) for level in levels]
    across = max((-(-(width - base.width) // 2) for width, _ in extents), default=0)
    down = max((-(-(height - base.height) // 2) for _, height in extents), default=0)
    return max(across, 0), max(down, 0)


class FamilyName(NamedTuple):
    """The parts of a family's name."""

    kind: str
    options: tuple[str, ...] = ()
    level: Level = BASE

    @classmethod
    def parse(cls, text: str) -> "FamilyName":
        """From `slbp+r2@0.5-75x100` or `slbp+r2@0.5:75x100`; whether there is such a kind is for others to say."""
        match = _NAME.fullmatch(text)
        crop = match and match["crop"] and _CROP.fullmatch(match["crop"])
        if not match or (match["crop"] and not crop):
            raise ValueError(_no_name(text))
        try:
            scale = 1.0 if match["scale"] is None else float(match["scale"])
        except ValueError as error:
            raise ValueError(_no_name(text)) from error
        try:
            level = Level(scale, (int(crop[1]), int(crop[2])) if crop else None)
        except ValueError as error:
            raise ValueError(f"Family {text!r}: {error}") from error
        return cls(match["kind"], tuple(match["options"].split("+")[1:]), level)

    def __str__(self) -> str:
        return "+".join([self.kind, *self.options]) + self.level.name


def _no_name(text: str) -> str:
    return (
        f"{text!r} names no family of descriptors: give its kind, options after +, and a scale with or without a crop "
        "after @, such as cov, slbp+r2, cov@0.5 or slbp@0.5:75x100."
    )
