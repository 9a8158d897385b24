"""From a picture to its feature groups: which families of descriptors, in which regions, of which crop."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.images.align import Aligner, Frame, Landmarks, Method, Several, aligner_from
from samekind.images.covariance import Covariance
from samekind.images.load import ImageError, LoadedImage, load_image
from samekind.images.regions import DEFAULT_COUNT, Region, enumerate_regions, mirror_places, mirrored_regions
from samekind.images.slbp import SoftLBP
from samekind.kernels.types import Array, IntArray


class Family(Protocol):
    """A kind of descriptor; a dataclass whose fields are its parameters."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str: ...

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
    """One family and its regions, (n, 4): top, left, height, width."""

    family: Family
    regions: IntArray

    @property
    def group_names(self) -> list[str]:
        return [Region(*map(int, region)).name for region in self.regions]


@dataclass(frozen=True, eq=False)
class Extractor:
    """All that turns a picture file into feature groups, and nothing that was learned."""

    frame: Frame
    alignment: Method
    parts: tuple[Part, ...]

    @classmethod
    def over(
        cls,
        families: Sequence[str | Family] = ("cov", "slbp"),
        *,
        n_regions: int = DEFAULT_COUNT,
        frame: Frame | None = None,
        alignment: Method = "none",
    ) -> "Extractor":
        """`n_regions` regions of the crop for every family; families by name or as objects with their parameters."""
        frame = frame or Frame()
        members = [_family(family) for family in families]
        if not members or len({member.name for member in members}) < len(members):
            raise ValueError(f"families={families!r} must name at least one of {', '.join(FAMILIES)}, each once.")
        regions = enumerate_regions(frame.width, frame.height, n_regions)
        return cls(frame, alignment, tuple(Part(member, regions) for member in members))

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
        return aligner_from(self.alignment, self.frame, landmarks, several)

    def describe(self, crop: Array) -> dict[str, Array]:
        """Family -> descriptors (n_regions, size) of a crop (height, width)."""
        return {part.family.name: part.family.describe(crop, part.regions) for part in self.parts}

    def features(self, crop: Array) -> Array:
        """All feature groups of a crop side by side, (n_features,)."""
        return np.concatenate([descriptors.ravel() for descriptors in self.describe(crop).values()])

    def features_and_mirrored(self, crop: Array) -> Array:
        """Those of a crop and of its mirror image, (2, n_features), for little more than the price of one."""
        pairs = []
        for part in self.parts:
            elsewhere = mirrored_regions(part.regions, self.frame.width)
            both = part.family.describe(crop, np.concatenate([part.regions, elsewhere]))
            n = len(part.regions)
            pairs.append(np.stack([both[:n].ravel(), part.family.mirrored(both[n:]).ravel()]))
        return np.hstack(pairs)

    def mirror_groups(self) -> IntArray:
        """For each group the number of the one that shows its mirror image, -1 where there is none: (n_groups,).

        Descriptors of the mirror image of a crop in group k are `family.mirrored` of those of the crop in group
        mirror_groups[k].
        """
        numbers, start = [], 0
        for part in self.parts:
            places = mirror_places(part.regions, self.frame.width)
            numbers.append(np.where(places < 0, -1, places + start))
            start += len(places)
        return np.concatenate([np.zeros(0, np.intp), *numbers])

    def only(self, groups: Sequence[int]) -> "Extractor":
        """The same for some groups, given by number in rising order; families with none of them are left out."""
        chosen, parts, start = np.asarray(groups, dtype=np.intp), [], 0
        for part in self.parts:
            stop = start + len(part.regions)
            mine = chosen[(chosen >= start) & (chosen < stop)] - start
            if len(mine):
                parts.append(Part(part.family, part.regions[mine]))
            start = stop
        return replace(self, parts=tuple(parts))

    def to_json(self) -> dict[str, Any]:
        """As JSON keeps it; `from_json` makes an equal one of it."""
        return {
            "crop": asdict(self.frame),
            "alignment": self.alignment,
            "families": [
                {
                    "name": part.family.name,
                    "parameters": _parameters(part.family),
                    "regions": part.regions.tolist(),
                }
                for part in self.parts
            ],
        }

    @classmethod
    def from_json(cls, notes: Mapping[str, Any]) -> "Extractor":
        try:
            parts = tuple(
                Part(FAMILIES[part["name"]](**part["parameters"]), np.array(part["regions"], np.intp).reshape(-1, 4))
                for part in notes["families"]
            )
            return cls(Frame(**notes["crop"]), notes["alignment"], parts)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"This description of an extractor cannot be used ({type(error).__name__}: {error}): it is damaged, or "
                "was written by a newer samekind."
            ) from error


def _parameters(family: Family) -> dict[str, Any]:
    """A switch that is off is not written: descriptors from before it came are the same ones."""
    return {name: value for name, value in asdict(family).items() if value is not False}


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


def _family(family: str | Family) -> Family:
    if not isinstance(family, str):
        return family
    if family not in FAMILIES:
        raise ValueError(f"There is no family {family!r}: choose from {', '.join(FAMILIES)}.")
    made: Family = FAMILIES[family]()
    return made
