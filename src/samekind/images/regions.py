"""Rectangles spread evenly over a crop, in mirror pairs.

The rule. Sides run up geometrically from `SMALLEST` to `LARGEST` (in pixels of a 110 x 150 crop, scaled to other
crops); each width goes with each height unless the longer side is over `LONGEST_ASPECT` times the shorter. There are as
many sizes, up to `MOST_WIDTHS` widths, as leave each at least `FEWEST_PLACES` places on average: with fewer places a
size would miss most of the crop. Rectangles of one size stand on a grid from border to border, whose columns lie
symmetrically about the middle of the crop. The step is the same for all sizes, and the largest that gives at least the
count asked for. What is over is left out at equal intervals, a rectangle together with its mirror image. Sizes come in
rising order of area, positions row by row.

So the set is closed under mirroring the crop: the mirror image of each rectangle is in it. The one exception is an odd
count where no width has the parity of the crop's: then no rectangle is its own mirror image, and one has to go without
its partner.
"""

from typing import NamedTuple

import numpy as np

from samekind.kernels.types import IntArray

DEFAULT_COUNT = 13_260
REFERENCE = (110, 150)  # width and height that SMALLEST and LARGEST belong to
SMALLEST, LARGEST = (8, 8), (96, 144)
MOST_WIDTHS = 8  # and one height more
LONGEST_ASPECT = 2.0
FEWEST_PLACES = 12
LEAST_SIDE = 3  # pixels: a covariance of derivatives needs some


class Region(NamedTuple):
    """A rectangle of pixels."""

    top: int
    left: int
    height: int
    width: int

    @property
    def name(self) -> str:
        return f"{self.width}x{self.height} at {self.left},{self.top}"


def enumerate_regions(width: int = REFERENCE[0], height: int = REFERENCE[1], count: int = DEFAULT_COUNT) -> IntArray:
    """`count` rectangles (count, 4) inside a width x height crop: top, left, height, width; see the rule above."""
    if count < 1:
        raise ValueError(f"count={count!r} must be a whole number of at least 1.")
    if min(width, height) < LEAST_SIDE:
        raise ValueError(f"A crop of {width} x {height} pixels is too small: each side needs at least {LEAST_SIDE}.")
    sizes = _sizes(width, height, count)
    most = _count(width, height, sizes, 1.0)
    if count > most:
        raise ValueError(
            f"count={count} regions were asked for, but a crop of {width} x {height} pixels has only {most} of these "
            "sizes: ask for fewer, or take a larger crop."
        )
    regions = _grids(width, height, sizes, _largest_step(width, height, sizes, count))
    return regions[symmetric_subset(mirror_places(regions, width), count)]


def most_regions(width: int, height: int) -> int:
    """As many regions as `enumerate_regions` can give of a crop of at least 10 x 10."""
    return _count(width, height, _sizes(width, height), 1.0)


def mirrored_regions(regions: IntArray, crop_width: int) -> IntArray:
    """Where rectangles (n, 4) lie in the picture's mirror image."""
    mirrored = regions.copy()
    mirrored[:, 1] = crop_width - regions[:, 1] - regions[:, 3]
    return mirrored


def mirror_places(regions: IntArray, crop_width: int) -> IntArray:
    """For each of the rectangles (n, 4) the place of its mirror image among them, -1 where it is missing: (n,)."""
    places = {tuple(region): place for place, region in enumerate(regions.tolist())}
    mirrored = mirrored_regions(regions, crop_width).tolist()
    return np.array([places.get(tuple(region), -1) for region in mirrored], dtype=np.intp)


def symmetric_subset(mirrors: IntArray, count: int) -> IntArray:
    """`count` places at equal intervals, each with that of its mirror image, as `mirror_places` gives it: rising.

    Regions that lack their mirror image (-1) are left out. An odd count takes an odd number of regions that are their
    own mirror images; where there are none, one region goes without its partner.
    """
    order = np.arange(len(mirrors))
    pairs, own = order[mirrors > order], order[mirrors == order]  # a pair by its first member
    if count > 2 * len(pairs) + len(own):
        raise ValueError(
            f"count={count} regions were asked for, but only {2 * len(pairs) + len(own)} of the {len(mirrors)} have "
            "their mirror image among them: ask for fewer."
        )
    n_own = _own_count(len(pairs), len(own), count)
    firsts = evenly_spaced(pairs, -(-(count - n_own) // 2))
    chosen = np.concatenate([firsts, mirrors[firsts][: count - n_own - len(firsts)], evenly_spaced(own, n_own)])
    return np.sort(chosen)


def _own_count(n_pairs: int, n_own: int, count: int) -> int:
    """How many of `count` regions are their own mirror images: their share, made to fit the count's parity."""
    share = round(count * n_own / max(2 * n_pairs + n_own, 1))
    share += (count - share) % 2
    most = n_own - (count - n_own) % 2  # -1 where an odd count finds none
    return max(min(share, most), count - 2 * n_pairs, 0)


def evenly_spaced(places: IntArray, n: int) -> IntArray:
    """`n` of the places, at equal intervals."""
    return places[np.arange(n) * len(places) // max(n, 1)]


def _sizes(width: int, height: int, count: int | None = None) -> list[tuple[int, int]]:
    """As many sizes as `count` regions, or all that there are of them, can place, by rising area."""
    for n_widths in range(MOST_WIDTHS, 1, -1):
        sizes = _paired(width, height, n_widths)
        if FEWEST_PLACES * len(sizes) <= (_count(width, height, sizes, 1.0) if count is None else count):
            break
    return sizes


def _paired(width: int, height: int, n_widths: int) -> list[tuple[int, int]]:
    """Widths and heights that belong together."""
    widths = _ladder(SMALLEST[0], LARGEST[0], n_widths, width / REFERENCE[0], width)
    heights = _ladder(SMALLEST[1], LARGEST[1], n_widths + 1, height / REFERENCE[1], height)
    pairs = [(w, h) for w in widths for h in heights if max(w, h) <= LONGEST_ASPECT * min(w, h)]
    return sorted(pairs or [(widths[-1], heights[-1])], key=lambda size: (size[0] * size[1], size))


def _ladder(smallest: float, largest: float, steps: int, scale: float, limit: int) -> list[int]:
    sides = np.round(scale * np.geomspace(smallest, largest, steps)).astype(int)
    return sorted(set(np.clip(sides, LEAST_SIDE, limit).tolist()))


def _positions(room: int, side: int, step: float) -> int:
    """How many places a side has in its direction."""
    return int(np.ceil((room - side) / step)) + 1


def _columns(room: int, side: int, step: float) -> int:
    """As `_positions`, or one more: of the parity of all places, so that there is one in the middle if any can be."""
    positions = _positions(room, side, step)
    return positions + (room - side + 1 - positions) % 2


def _count(width: int, height: int, sizes: list[tuple[int, int]], step: float) -> int:
    return sum(_columns(width, w, step) * _positions(height, h, step) for w, h in sizes)


def _largest_step(width: int, height: int, sizes: list[tuple[int, int]], count: int) -> float:
    """By bisection; the count falls as the step rises."""
    low, high = 1.0, float(max(width, height))
    for _ in range(60):
        middle = (low + high) / 2
        if _count(width, height, sizes, middle) >= count:
            low = middle
        else:
            high = middle
    return low


def _grids(width: int, height: int, sizes: list[tuple[int, int]], step: float) -> IntArray:
    grids = []
    for w, h in sizes:
        lefts = _symmetric(width - w, _columns(width, w, step))
        tops = np.round(np.linspace(0, height - h, _positions(height, h, step))).astype(np.intp)
        top, left = (axis.ravel() for axis in np.meshgrid(tops, lefts, indexing="ij"))
        grids.append(np.column_stack([top, left, np.full_like(top, h), np.full_like(top, w)]))
    return np.concatenate(grids)


def _symmetric(last: int, n: int) -> IntArray:
    """`n` whole numbers from 0 to `last` at equal intervals, as far as whole numbers can; with x also last - x."""
    left = np.round(np.linspace(0, last, n)[: n // 2]).astype(np.intp)
    middle = np.full(n % 2, last // 2, dtype=np.intp)
    return np.concatenate([left, middle, last - left[::-1]])
