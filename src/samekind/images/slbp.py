"""Soft histograms of local binary patterns (Ahonen and Pietikainen).

Each pixel is compared with eight points on a circle around it, of radius 1 or larger (bilinear between pixels, 0
outside of the picture). A point that is brighter by `z` gives its bit with probability
`clip(1/2 + z / (2 fuzziness), 0, 1)`, or, with no fuzziness, when `z >= 0`; a pattern's probability is the product over
its bits. Patterns with at most two changes around the circle have a bin each, all others share the last: 59 bins, in
scikit-image's order ("nri_uniform").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from samekind.images.description import checked_fuzziness, checked_radius
from samekind.images.illumination import tan_triggs
from samekind.images.integral import box_sum, integral_image
from samekind.kernels.compiled import compiled, compiled_exactly
from samekind.kernels.types import Array, IntArray

POINTS = 8
SIZE = POINTS * (POINTS - 1) + 3
_LANES = 128  # pixels side by side
_ZERO, _ONE = np.float32(0), np.float32(1)
_ANGLES = 2 * np.pi * np.arange(POINTS) / POINTS


@dataclass(frozen=True)
class SoftLBP:
    """The family `slbp`; `fuzziness` is a difference of grey values between 0 and 1.

    `root` takes the square roots of the histograms: their Euclidean distances are then Hellinger's. `radius` is that of
    the circle, in pixels. `tan_triggs` normalises the illumination first; its values lie between 0 and 1 as well, and
    the fuzziness is a difference of them. In faces, half of the differences are then below the default, against three
    quarters of those of grey values.
    """

    fuzziness: float = 0.02
    root: bool = field(default=False, metadata={"later": True})
    radius: int = field(default=1, metadata={"later": True})
    tan_triggs: bool = field(default=False, metadata={"later": True})

    name: ClassVar[str] = "slbp"
    size: ClassVar[int] = SIZE

    def __post_init__(self) -> None:
        checked_fuzziness(self.fuzziness)
        checked_radius(self.radius)

    @property
    def options(self) -> tuple[str, ...]:
        """As they stand in names of families."""
        radius = (f"r{self.radius}",) if self.radius > 1 else ()
        return (*radius, "tt") if self.tan_triggs else radius

    @classmethod
    def with_options(cls, options: Sequence[str]) -> "SoftLBP":
        """`r2` and so on for the radius, `tt` for normalisation by Tan and Triggs."""
        radii = [option for option in options if re.fullmatch(r"r\d", option)]
        unknown = [option for option in options if option not in (*radii, "tt")]
        if unknown or len(radii) > 1 or options.count("tt") > 1:
            raise ValueError(
                f"slbp+{'+'.join(options)}: the options of slbp are a radius, such as r2, and tt, each once at most."
            )
        return cls(radius=int(radii[0][1:]) if radii else 1, tan_triggs="tt" in options)

    def describe(self, picture: Array, regions: IntArray) -> Array:
        """Histograms (n_regions, 59) float32 of a grey picture (H, W), or their roots; a histogram sums to 1."""
        sums = integral_image(self.memberships(picture))
        histograms = np.empty((len(regions), SIZE), np.float32)
        _histograms(sums, np.ascontiguousarray(regions), histograms)
        return np.sqrt(histograms) if self.root else histograms

    def mirrored(self, histograms: Array) -> Array:
        """What the mirror image shows where these histograms' regions come to lie: patterns turn round."""
        return histograms[..., _MIRROR_BINS]

    def memberships(self, picture: Array) -> Array:
        """How much each pixel belongs to each bin, (H, W, 59) float32; sums to 1 over the bins."""
        picture = np.asarray(picture, np.float64)
        if self.tan_triggs:
            picture = tan_triggs(picture)
        bits = _memberships_of_bits(differences_on_circle(picture, self.radius), self.fuzziness)
        memberships = np.empty((picture.size, SIZE), np.float32)
        _memberships_of_bins(bits, _BIN_OF_RUN, memberships)
        return memberships.reshape(*picture.shape, SIZE)


def bin_of_run(start: int, length: int) -> int:
    """Of the pattern whose `length` ones, 1 to 7, begin at point `start`; all zeros have bin 0, all ones bin 57."""
    return 1 + (length - 1) * POINTS + (POINTS - start) % POINTS


_BIN_OF_RUN = np.array([[bin_of_run(s, length) for s in range(POINTS)] for length in range(1, POINTS)])


def _mirror_bins() -> IntArray:
    """Point p of the circle becomes point 4 - p, so a run that ended there begins there."""
    bins = np.arange(SIZE)
    for length in range(1, POINTS):
        for start in range(POINTS):
            mirrored_start = (POINTS // 2 - (start + length - 1)) % POINTS
            bins[bin_of_run(start, length)] = bin_of_run(mirrored_start, length)
    return bins


_MIRROR_BINS = _mirror_bins()


def differences_on_circle(picture: Array, radius: int = 1) -> Array:
    """(8, H, W): the circle's points minus the pixel in its middle."""
    H, W = picture.shape
    differences = np.empty((POINTS, H, W))
    # Rounded as scikit-image does: equal neighbours then tie, or not, in the same places.
    offsets = np.round(radius * np.column_stack([-np.sin(_ANGLES), np.cos(_ANGLES)]), 5)
    _differences(np.pad(picture, radius), radius, offsets, differences)
    return differences


@compiled_exactly
def _differences(padded: Any, pad: int, offsets: Any, differences: Any) -> None:
    points, H, W = differences.shape
    for p in range(points):
        for y in range(H):
            row = y + offsets[p, 0]
            top = int(np.floor(row))
            bottom = int(np.ceil(row))
            down = row - top
            for x in range(W):
                column = x + offsets[p, 1]
                left = int(np.floor(column))
                right = int(np.ceil(column))
                across = column - left
                upper = (1 - across) * padded[top + pad, left + pad] + across * padded[top + pad, right + pad]
                lower = (1 - across) * padded[bottom + pad, left + pad] + across * padded[bottom + pad, right + pad]
                differences[p, y, x] = (1 - down) * upper + down * lower - padded[y + pad, x + pad]


def _memberships_of_bits(differences: Array, fuzziness: float) -> Array:
    """Probability of each bit, (8, pixels) float32."""
    z = differences.reshape(POINTS, -1)
    if fuzziness == 0:
        return (z >= 0).astype(np.float32)
    with np.errstate(over="ignore"):  # where it is next to nothing
        memberships: Array = np.clip(0.5 + z / (2 * fuzziness), 0, 1).astype(np.float32)
    return memberships


@compiled
def _memberships_of_bins(bits: Any, bin_of_run: Any, memberships: Any) -> None:
    points, pixels = bits.shape
    ones = np.empty((points, _LANES), np.float32)  # [s]: that the bits of a run from s are set
    zeros = np.empty((points, points, _LANES), np.float32)  # [m, s]: that the m + 1 bits from s are not
    rest = np.empty(_LANES, np.float32)
    for start in range(0, pixels, _LANES):
        used = min(_LANES, pixels - start)
        tile = memberships[start : start + used]
        for s in range(points):
            for lane in range(used):
                ones[s, lane] = bits[s, start + lane]
                zeros[0, s, lane] = _ONE - ones[s, lane]
        for m in range(1, points):
            for s in range(points):
                shorter, next_bit, longer = zeros[m - 1, s], zeros[0, (s + m) % points], zeros[m, s]
                for lane in range(_LANES):
                    longer[lane] = shorter[lane] * next_bit[lane]
        for lane in range(used):
            tile[lane, 0] = zeros[points - 1, 0, lane]
            rest[lane] = _ONE - tile[lane, 0]
        for length in range(1, points):
            for s in range(points):
                run, others = ones[s], zeros[points - length - 1, (s + length) % points]
                place = bin_of_run[length - 1, s]
                for lane in range(used):
                    tile[lane, place] = run[lane] * others[lane]
                    rest[lane] -= tile[lane, place]
            for s in range(points):
                for lane in range(used):
                    ones[s, lane] *= bits[(s + length) % points, start + lane]
        for lane in range(used):
            tile[lane, points * (points - 1) + 1] = ones[0, lane]
            tile[lane, points * (points - 1) + 2] = max(rest[lane] - ones[0, lane], _ZERO)


@compiled
def _histograms(sums: Any, regions: Any, histograms: Any) -> None:
    total = np.empty(sums.shape[2])
    for r in range(len(regions)):
        box_sum(sums, regions[r], total)
        area = regions[r, 2] * regions[r, 3]
        for b in range(len(total)):
            histograms[r, b] = max(total[b], 0.0) / area  # an empty bin may differ from 0 by rounding
