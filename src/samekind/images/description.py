"""How an extractor is written in models and stores, and what it may say.

    {"crop": {"width": 110, "height": 150, "sigma": 1.0},                      and "margin" where levels need one
     "alignment": "none",
     "families": [{"name": "cov@0.5-75x100", "parameters": {"ridge": 0.001}, "regions": [[top, left, height, width]]}]}

`read_description` checks all of it. Compiled code reads pictures without looking whether a region lies inside, so
`check_regions` is also what every `Extractor` passes, wherever it comes from. Nothing here loads a compiler: a model is
checked whenever it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from samekind.images.align import Frame, Method
from samekind.images.levels import MOST_EXTENT, FamilyName, Level, margin_for
from samekind.images.regions import LEAST_SIDE
from samekind.kernels.types import IntArray
from samekind.schema import (
    checked_flag,
    checked_list,
    checked_number,
    checked_one_of,
    checked_record,
    checked_text,
    checked_whole,
    short,
)

# What an extractor may ask for. The descriptors of one picture take up to 900 bytes for each pixel of a crop.
MOST_PIXELS = 400_000  # of a crop, at each level
MOST_PIXELS_IN_ALL = 4_000_000  # of the crops that all families see
MOST_FAMILIES = 32
MOST_REGIONS = 200_000  # of all families together
LARGEST_RADIUS = 9
SMALLEST_RIDGE, LARGEST_RIDGE = 1e-9, 1e6

_REGION = ("top", "left", "height", "width")


class PartDescription(NamedTuple):
    """A family with its parameters, and its regions (n, 4)."""

    name: FamilyName
    text: str
    parameters: dict[str, Any]
    regions: IntArray


class Description(NamedTuple):
    """Of an extractor."""

    frame: Frame
    alignment: Method
    parts: tuple[PartDescription, ...]


def read_description(notes: Any) -> Description:
    """What the JSON of an extractor says, all of it checked; ValueError says what is wrong."""
    crop, alignment, families = _values(notes, "The extractor", ("crop", "alignment", "families"))
    method: Method = checked_one_of(alignment, "alignment", get_args(Method))  # type: ignore[assignment]
    frame = _frame(crop)
    parts = tuple(
        _part(family, f"families[{at}]")
        for at, family in enumerate(checked_list(families, "families", 1, MOST_FAMILIES))
    )
    names = [part.text for part in parts]
    if len(set(names)) < len(names):
        raise ValueError(f"families must each stand once, but are {', '.join(names)}.")
    check_regions(frame, [(part.name.level, part.regions) for part in parts])
    return Description(frame, method, parts)


def check_regions(frame: Frame, parts: Sequence[tuple[Level, IntArray]]) -> None:
    """ValueError unless all regions lie in the crops of their levels, and all of it is within the limits above."""
    levels = dict.fromkeys([Level(), *(level for level, _ in parts)])
    crops = {level: level.frame(frame) for level in levels}
    for crop in crops.values():
        if crop.width * crop.height > MOST_PIXELS:
            raise ValueError(
                f"A crop of {crop.width} x {crop.height} pixels is too large: at most {MOST_PIXELS:,} are described. "
                "Choose a smaller one, or a smaller scale."
            )
    if sum(crops[level].width * crops[level].height for level, _ in parts) > MOST_PIXELS_IN_ALL:
        raise ValueError(
            f"{len(parts)} families see more than {MOST_PIXELS_IN_ALL:,} pixels together. Choose fewer, or smaller "
            "crops."
        )
    _check_margin(frame, set(levels))
    total = sum(len(regions) for _, regions in parts)
    if total > MOST_REGIONS:
        raise ValueError(f"{total:,} regions are too many: at most {MOST_REGIONS:,} are described. Choose fewer.")
    for level, regions in parts:
        _check_inside(regions, crops[level])


def checked_ridge(value: Any, where: str = "ridge") -> float:
    """Of covariances: without one, flat regions have no logarithm."""
    return checked_number(value, where, SMALLEST_RIDGE, LARGEST_RIDGE)


def checked_fuzziness(value: Any, where: str = "fuzziness") -> float:
    """A difference of grey values between 0 and 1."""
    return checked_number(value, where, 0, 1)


def checked_radius(value: Any, where: str = "radius") -> int:
    """Of a circle, in pixels."""
    return checked_whole(value, where, 1, LARGEST_RADIUS)


# Name of a kind -> its parameters, and what they may be; all but the first have come later, and may be missing.
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "cov": {"ridge": checked_ridge},
    "slbp": {
        "fuzziness": checked_fuzziness,
        "root": checked_flag,
        "radius": checked_radius,
        "tan_triggs": checked_flag,
    },
}


def _frame(crop: Any) -> Frame:
    width, height, sigma, margin = _values(crop, "crop", ("width", "height", "sigma"), {"margin": [0, 0]})
    return Frame(
        checked_whole(width, "crop.width", 1, MOST_PIXELS),
        checked_whole(height, "crop.height", 1, MOST_PIXELS),
        checked_number(sigma, "crop.sigma", 0, 100),
        tuple(checked_whole(side, "crop.margin") for side in checked_list(margin, "crop.margin", 2, 2)),  # type: ignore[arg-type]
    )


def _part(notes: Any, where: str) -> PartDescription:
    name, parameters, regions = _values(notes, where, ("name", "parameters", "regions"))
    text = checked_text(name, f"{where}.name", 100)
    parsed = FamilyName.parse(text)
    kinds = PARAMETERS[checked_one_of(parsed.kind, f"{where}.name", PARAMETERS.keys())]
    first, *later = kinds
    checked_record(parameters, f"{where}.parameters", (first,), later)
    checked = {each: kinds[each](value, f"{where}.parameters.{each}") for each, value in parameters.items()}
    return PartDescription(parsed, text, checked, _regions(regions, f"{where}.regions"))


def _regions(value: Any, where: str) -> IntArray:
    listed = checked_list(value, where, 1, MOST_REGIONS)
    try:
        array = np.array(listed)
    except (ValueError, OverflowError):  # ragged, or no numbers at all
        array = np.zeros(0)
    if array.dtype.kind != "i" or array.ndim != 2 or array.shape[1] != len(_REGION):
        raise ValueError(f"{where} must be lists of four whole numbers, {', '.join(_REGION)}, but are {short(value)}.")
    return array.astype(np.intp, copy=False)


def _check_inside(regions: IntArray, crop: Frame) -> None:
    top, left, height, width = regions.T
    # In this order no sum can overflow: sides are known to be small when they are added.
    inside = (top >= 0) & (left >= 0) & (height >= LEAST_SIDE) & (width >= LEAST_SIDE)
    inside &= (height <= crop.height) & (width <= crop.width)
    inside &= (top <= crop.height - height) & (left <= crop.width - width)
    if not inside.all():
        wrong = dict(zip(_REGION, regions[np.argmin(inside)].tolist(), strict=True))
        raise ValueError(
            f"The region {', '.join(f'{name} {side}' for name, side in wrong.items())} does not lie in the crop of "
            f"{crop.width} x {crop.height} pixels, or has a side below {LEAST_SIDE}."
        )


def _check_margin(frame: Frame, levels: set[Level]) -> None:
    """Levels show what is in the margin, and none shows more than some times the crop."""
    needed, sides = margin_for(levels, frame), (frame.width, frame.height)
    most = tuple(-(-(MOST_EXTENT - 1) * side // 2) for side in sides)
    if any(not low <= given <= high for low, given, high in zip(needed, frame.margin, most, strict=True)):
        raise ValueError(
            f"margin must be two whole numbers from {needed[0]}, {needed[1]} to {most[0]}, {most[1]} for these levels "
            f"and a crop of {frame.width} x {frame.height}, but is {frame.margin[0]}, {frame.margin[1]}."
        )


def _values(notes: Any, where: str, needed: Sequence[str], defaults: Mapping[str, Any] = {}) -> list[Any]:
    """Of an object, in the order of the names."""
    record = {**defaults, **checked_record(notes, where, needed, defaults)}
    return [record[name] for name in (*needed, *defaults)]
