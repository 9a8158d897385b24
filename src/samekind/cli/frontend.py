"""How pictures become descriptors, by the options of `extract` or as its store has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated

import typer

from samekind.cli.options import FAMILIES_HELP, Align, LandmarksOption, parse_families, parse_size

if TYPE_CHECKING:
    from samekind.images.extractor import Extractor, Family
    from samekind.images.levels import FamilyName
    from samekind.images.listing import ImageFile
    from samekind.store import DiskStore


@dataclass(frozen=True)
class FrontEndOptions:
    """Of `extract`, for a new store."""

    align: Annotated[
        Align | None,
        typer.Option(
            "--align",
            help="none: pictures are aligned, the middle is cut out; landmarks: eyes and mouth from a CSV; detect: "
            'found by a detector (pip install "samekind\\[faces]"). Default: none, or landmarks with --landmarks.',
        ),
    ] = None
    landmarks: LandmarksOption = None
    families: Annotated[
        str | None,
        typer.Option("--families", help=f"{FAMILIES_HELP} Default: cov,slbp."),
    ] = None
    regions: Annotated[
        int | None, typer.Option("--regions", min=1, help="Rectangles of the crop per family. Default: 13260.")
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            help="Width x height of the crop, in pixels. Default: 110x150, or with --align none the largest below that "
            "which 98 % of the pictures hold.",
        ),
    ] = None
    sigma: Annotated[
        float | None, typer.Option("--sigma", help="Gaussian over the crop, in pixels; 0 for none. Default: 1.")
    ] = None
    fuzziness: Annotated[
        float | None,
        typer.Option("--fuzziness", help="Of slbp: grey values (0 to 1) closer than this are not quite different."),
    ] = None


@dataclass(frozen=True)
class FrontEnd:
    """Values of the options of the same names; None where there is none."""

    align: Align | None = None
    families: tuple[str, ...] | None = None
    regions: int | None = None
    size: tuple[int, int] | None = None
    sigma: float | None = None
    fuzziness: float | None = None

    @classmethod
    def from_options(cls, given: FrontEndOptions) -> FrontEnd:
        """From the command line; landmarks ask for alignment by them."""
        return cls(
            given.align or ("landmarks" if given.landmarks else None),
            None if given.families is None else tuple(parse_families(given.families)),
            given.regions,
            None if given.size is None else parse_size(given.size),
            given.sigma,
            given.fuzziness,
        )

    @classmethod
    def from_extractor(cls, extractor: Extractor, regions: int | None = None) -> FrontEnd:
        """What would make this extractor anew; of several counts of regions that would, the one given."""
        frame = extractor.frame
        return cls(
            extractor.alignment,
            tuple(part.name for part in extractor.parts),
            _n_regions(extractor, regions),
            (frame.width, frame.height),
            frame.sigma,
            next((part.family.fuzziness for part in extractor.parts if hasattr(part.family, "fuzziness")), None),
        )

    def fitted_to(self, files: Sequence[ImageFile]) -> tuple[FrontEnd, str | None]:
        """With a smaller crop where aligned pictures do not hold the default one, and a sentence that says so."""
        if self.size is not None or self.align not in (None, "none"):
            return self, None
        from samekind.extraction import picture_sizes
        from samekind.images.align import Frame, fitted_frame, percent_holding

        sizes, default = picture_sizes(files), Frame()
        frame = fitted_frame(sizes)
        if frame == default:
            return self, None
        crop, usual = (f"{each.width} x {each.height}" for each in (frame, default))
        percent = percent_holding(sizes, frame)
        said = f"Crop {crop}: the largest that {percent} % of the pictures hold; the default is {usual}."
        return replace(self, size=(frame.width, frame.height)), said

    def extractor(self) -> Extractor:
        """A new one; defaults where there is no value."""
        from samekind.images.align import Frame
        from samekind.images.extractor import FAMILIES, Extractor
        from samekind.images.levels import FamilyName
        from samekind.images.regions import DEFAULT_COUNT, most_regions

        frame = Frame() if self.size is None else Frame(*self.size)
        frame = frame if self.sigma is None else replace(frame, sigma=self.sigma)
        names = self.families or tuple(FAMILIES)
        parsed = [FamilyName.parse(name) for name in names]
        if self.fuzziness is not None and not any(name.kind == "slbp" for name in parsed):
            raise ValueError(f"--fuzziness belongs to slbp, but --families is {','.join(names)}: leave it out.")
        return Extractor.over(
            [(self._family(name), name.level) for name in parsed],
            n_regions=self.regions or min(DEFAULT_COUNT, most_regions(frame.width, frame.height)),
            frame=frame,
            alignment=self.align or "none",
        )

    def extractor_of(self, store: DiskStore) -> Extractor:
        """The one that made a store; `ValueError` where an option says otherwise."""
        from samekind.images.extractor import Extractor

        extractor = Extractor.from_json(store.front_end)
        present = FrontEnd.from_extractor(extractor, self.regions)
        for field in fields(self):
            asked, made = (_as_option(field.name, getattr(each, field.name)) for each in (self, present))
            if asked is not None and asked != made:
                raise ValueError(
                    f"{store.path} was made with {made or f'no --{field.name}'}, but {asked} was given. Leave the "
                    "option out to add pictures to this store, or give another folder for a new one."
                )
        return extractor

    def _family(self, name: FamilyName) -> Family:
        from samekind.images.extractor import family_from
        from samekind.images.slbp import SoftLBP

        family = family_from(name)
        if isinstance(family, SoftLBP) and self.fuzziness is not None:
            return replace(family, fuzziness=self.fuzziness)
        return family


def _n_regions(extractor: Extractor, asked: int | None) -> int:
    """The count that gives the regions there are: the one asked for, where it does."""
    from samekind.images.levels import BASE

    frame, part = extractor.frame, max(extractor.parts, key=lambda part: part.level == BASE)
    own, there = part.level.frame(frame), len(part.regions)
    if asked is not None and part.level.n_regions(frame, asked) == there:
        return asked
    return round(there * (frame.width * frame.height) / (own.width * own.height))


def _as_option(name: str, value: object) -> str | None:
    """As it would be written on the command line; families in any order are the same."""
    if value is None:
        return None
    if name == "families":
        from samekind.images.extractor import canonical_name

        return f"--families {','.join(sorted(map(canonical_name, value)))}"  # type: ignore[call-overload]
    return f"--{name} {'x'.join(map(str, value)) if isinstance(value, tuple) else value}"
