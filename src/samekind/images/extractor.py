"""From a picture to its feature groups: which families of descriptors, in which regions, at which scales and crops."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.images.align import Aligner, Frame, Method, Several, aligner_from
from samekind.images.covariance import Covariance
from samekind.images.description import PartDescription, check_regions, read_description
from samekind.images.landmarks import Landmarks
from samekind.images.levels import BASE, FamilyName, Level, margin_for
from samekind.images.load import ImageError, LoadedImage, load_image
from samekind.images.regions import DEFAULT_COUNT, Region, enumerate_regions, mirror_places, mirrored_regions
from samekind.images.slbp import SoftLBP
from samekind.kernels.types import Array, IntArray


class Family(Protocol):
    """A kind of descriptor; a dataclass whose fields are its parameters."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str:
        """Of the kind."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """As they stand in names of families, in a fixed order."""
        ...

    @property
    def size(self) -> int:
        """Numbers per region."""
        ...

    def describe(self, picture: Array, regions: IntArray) -> Array:
        """Descriptors (n_regions, size) of a grey picture (height, width)."""
        ...

    def mirrored(self, descriptors: Array) -> Array:
        """What the mirror image shows where these descriptors' regions come to lie."""
        ...


FAMILIES: dict[str, type[Any]] = {kind.name: kind for kind in (Covariance, SoftLBP)}


@dataclass(frozen=True, eq=False)
class Part:
    """One family and its regions, (n, 4): top, left, height, width, in pixels of its level."""

    family: Family
    regions: IntArray
    level: Level = BASE

    @property
    def name(self) -> str:
        """Of the family, with its options and its level: what tells it from the other parts."""
        return str(FamilyName(self.family.name, self.family.options, self.level))

    @property
    def group_names(self) -> list[str]:
        return [Region(*map(int, region)).name for region in self.regions]


@dataclass(frozen=True, eq=False)
class Extractor:
    """All that turns a picture file into feature groups, and nothing that was learned.

    Regions lie within the crops of their levels, and crops and regions within the limits of
    `samekind.images.description`: compiled code relies on it.
    """

    frame: Frame
    alignment: Method
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        check_regions(self.frame, [(part.level, part.regions) for part in self.parts])

    @classmethod
    def over(
        cls,
        families: Sequence[str | Family | tuple[Family, Level]] = ("cov", "slbp"),
        *,
        n_regions: int = DEFAULT_COUNT,
        frame: Frame | None = None,
        alignment: Method = "none",
    ) -> "Extractor":
        """`n_regions` regions of the crop for every family; families by name or as objects with their parameters.

        A name may have options and a level, as `samekind.images.levels` says; an object comes alone or with its level.
        At other levels there are as many regions as their share of the crop's pixels.
        """
        frame = frame or Frame()
        members = [_member(family) for family in families]
        levels = {level for _, level in members}
        regions = {level: _regions(level, frame, n_regions) for level in levels}
        parts = tuple(Part(family, regions[level], level) for family, level in members)
        if not parts or len({part.name for part in parts}) < len(parts):
            raise ValueError(f"families={families!r} must name at least one of {', '.join(FAMILIES)}, each once.")
        return cls(replace(frame, margin=margin_for(levels, frame)), alignment, parts)

    @property
    def n_groups(self) -> int:
        return sum(len(part.regions) for part in self.parts)

    @property
    def n_features(self) -> int:
        return sum(len(part.regions) * part.family.size for part in self.parts)

    def aligner(
        self, landmarks: str | os.PathLike[str] | Landmarks | None = None, several: Several = "error"
    ) -> Aligner:
        """What makes crops of pictures; `landmarks` (a CSV or a mapping) are needed for alignment by them."""
        frame = self.frame if self._one_level else replace(self.frame, sigma=0)
        return aligner_from(self.alignment, frame, landmarks, several)

    @property
    def _one_level(self) -> bool:
        """Whether pictures are cropped and smoothed once; otherwise each level does so by itself."""
        return self.frame.margin == (0, 0) and all(part.level == BASE for part in self.parts)

    def crops(self, picture: Array) -> dict[Level, Array]:
        """What each level shows of a picture as the aligner made it, cropped and smoothed."""
        if self._one_level:
            return {BASE: picture}
        width, height = self.frame.shown
        if picture.shape != (height, width):
            raise ValueError(
                f"The picture has shape {picture.shape}, but these levels need {(height, width)}: have it made by the "
                "extractor's aligner."
            )
        levels = dict.fromkeys(part.level for part in self.parts)
        return {level: level.cut(picture, self.frame) for level in levels}

    def describe(self, picture: Array) -> dict[str, Array]:
        """Name of a part -> descriptors (n_regions, size) of a picture as the aligner made it."""
        crops = self.crops(picture)
        return {part.name: part.family.describe(crops[part.level], part.regions) for part in self.parts}

    def features(self, picture: Array) -> Array:
        """All feature groups of a picture side by side, (n_features,)."""
        return np.concatenate([descriptors.ravel() for descriptors in self.describe(picture).values()])

    def features_and_mirrored(self, picture: Array) -> Array:
        """Those of a picture and of its mirror image, (2, n_features), for little more than the price of one."""
        pairs, crops = [], self.crops(picture)
        for part in self.parts:
            elsewhere = mirrored_regions(part.regions, self._width(part))
            both = part.family.describe(crops[part.level], np.concatenate([part.regions, elsewhere]))
            n = len(part.regions)
            pairs.append(np.stack([both[:n].ravel(), part.family.mirrored(both[n:]).ravel()]))
        return np.hstack(pairs)

    def rectangles(self) -> dict[str, tuple[float, float, float, float]]:
        """Where each group, by its name in a store, lies in the crop: top, left, height, width, in pixels of the crop.

        Groups of levels that show more than the crop may reach beyond it.
        """
        found = {}
        for part in self.parts:
            (width, height), scale = part.level.extent(self.frame), part.level.scale
            across, down = (self.frame.width - width) // 2, (self.frame.height - height) // 2
            for region, name in zip(part.regions.tolist(), part.group_names, strict=True):
                top, left, tall, wide = (side / scale for side in region)
                found[f"{part.name} {name}"] = (top + down, left + across, tall, wide)
        return found

    def mirror_groups(self) -> IntArray:
        """For each group the number of the one that shows its mirror image, -1 where there is none: (n_groups,).

        Descriptors of the mirror image of a crop in group k are `family.mirrored` of those of the crop in group
        mirror_groups[k].
        """
        numbers, start = [], 0
        for part in self.parts:
            places = mirror_places(part.regions, self._width(part))
            numbers.append(np.where(places < 0, -1, places + start))
            start += len(places)
        return np.concatenate([np.zeros(0, np.intp), *numbers])

    def _width(self, part: Part) -> int:
        return part.level.frame(self.frame).width

    def only(self, groups: Sequence[int]) -> "Extractor":
        """The same for some groups, given by number in rising order; families with none of them are left out."""
        chosen, parts, start = np.asarray(groups, dtype=np.intp), [], 0
        for part in self.parts:
            stop = start + len(part.regions)
            mine = chosen[(chosen >= start) & (chosen < stop)] - start
            if len(mine):
                parts.append(replace(part, regions=part.regions[mine]))
            start = stop
        return replace(self, parts=tuple(parts))

    def to_json(self) -> dict[str, Any]:
        """As JSON keeps it; `from_json` makes an equal one of it."""
        return {
            "crop": _written(self.frame),
            "alignment": self.alignment,
            "families": [
                {
                    "name": part.name,
                    "parameters": _written(part.family),
                    "regions": part.regions.tolist(),
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_json(cls, notes: Mapping[str, Any]) -> "Extractor":
        """From what `to_json` gave, now or before; `samekind.images.description` says what it may be."""
        try:
            described = read_description(dict(notes))
            return cls(described.frame, described.alignment, tuple(map(_part_from, described.parts)))
        except ValueError as error:
            raise ValueError(
                f"This description of an extractor cannot be used: it is damaged, or was written by a newer samekind. "
                f"{error}"
            ) from error


def _part_from(described: PartDescription) -> Part:
    family = FAMILIES[described.name.kind](**described.parameters)
    part = Part(family, described.regions, described.name.level)
    if part.name != described.text:
        raise ValueError(f"{described.text!r} has the parameters of {part.name!r}.")
    return part


def _written(settings: Family | Frame) -> dict[str, Any]:
    """What came later is written only where it is used: all that was made before has it unused."""
    unused = {field.name: field.default for field in fields(settings) if field.metadata.get("later")}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
        if name not in unused or value != unused[name]
    }


def picture_from(image: Any, name: str) -> LoadedImage:
    """A path, a grey (H, W) or a colour (H, W, 3) RGB array: whole numbers as 8 or 16 bits say, floats from 0 to 1."""
    if isinstance(image, np.ndarray):
        return LoadedImage(_grey(image, name), ())
    return load_image(image)


_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)


def _grey(array: NDArray[Any], name: str) -> Array:
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or not array.size:
        raise ImageError(name, f"an array of shape {array.shape} is no picture: give (height, width) or (..., 3).")
    if array.dtype.kind == "u":
        values = array.astype(np.float32) / np.iinfo(array.dtype).max
    elif array.dtype.kind == "f":
        values = array.astype(np.float32)
    else:
        raise ImageError(name, f"an array of {array.dtype} is no picture: give uint8, uint16, or floats from 0 to 1.")
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
        raise ImageError(name, "the picture has values that are not between 0 and 1: divide it by its white.")
    grey: Array = values @ _LUMINANCE if array.ndim == 3 else values
    return grey


def family_from(name: FamilyName) -> Family:
    """With its options."""
    if name.kind not in FAMILIES:
        raise ValueError(f"There is no family {name.kind!r}: choose from {', '.join(FAMILIES)}.")
    made: Family = FAMILIES[name.kind].with_options(name.options)
    return made


def canonical_name(text: str) -> str:
    """As a part that is asked for by this text is called."""
    name = FamilyName.parse(text)
    return str(name._replace(options=family_from(name).options))


def _member(family: str | Family | tuple[Family, Level]) -> tuple[Family, Level]:
    if isinstance(family, str):
        name = FamilyName.parse(family)
        return family_from(name), name.level
    return family if isinstance(family, tuple) else (family, BASE)


def _regions(level: Level, frame: Frame, n_regions: int) -> IntArray:
    own = level.frame(frame)
    return enumerate_regions(own.width, own.height, level.n_regions(frame, n_regions))
