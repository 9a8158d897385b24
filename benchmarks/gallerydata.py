"""Codes with class structure for the benchmarks of galleries, and a gallery of them that is made once."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from samekind.gallery import Gallery

LENGTH = 150
PER_CLASS = 20
CHUNK = 100_000


def chunks(n: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Codes (up to CHUNK, LENGTH) of classes of 20, with falling variances as metrics have.

    Among each thousand rows there are equal ones, ones that differ in one bit, and zeros.
    """
    scales = np.linspace(2, 0.3, LENGTH, dtype=np.float32)
    for start in range(0, n, CHUNK):
        rng = np.random.default_rng([seed, start])
        rows = min(CHUNK, n - start)
        centres = rng.standard_normal((-(-rows // PER_CLASS), LENGTH), np.float32) * scales
        codes = np.repeat(centres, PER_CLASS, axis=0)[:rows]
        codes += np.float32(0.6) * scales * rng.standard_normal(codes.shape, np.float32)
        codes[3::1000] = codes[2::1000][: len(codes[3::1000])]
        codes[4::1000] = codes[2::1000][: len(codes[4::1000])]
        codes[4::1000, 7] = np.nextafter(codes[4::1000, 7], np.float32(0))
        codes[5::1000] = 0
        yield rng.permutation(codes, axis=0)


def queries_of(codes: np.ndarray, n: int) -> np.ndarray:
    """New members of classes, rows themselves, and a few zeros."""
    rng = np.random.default_rng(1)
    drawn = codes[np.sort(rng.choice(len(codes), n, replace=False))].copy()
    moved = drawn[: 2 * n // 3]
    moved += np.float32(0.3) * rng.standard_normal(moved.shape, np.float32)
    drawn[:: n // 4] = 0
    return drawn


def made_gallery(folder: Path, n: int) -> Gallery:
    """A gallery of n codes, the one that is there already if it has as many."""
    if (folder / "gallery.sqlite").exists():
        opened = Gallery.open(folder)
        if len(opened) == n:
            return opened
        raise SystemExit(f"{folder} has {len(opened):,} records, not {n:,}: give another --folder.")
    start = time.perf_counter()
    made = Gallery.create(folder, length=LENGTH)
    for at, codes in enumerate(chunks(n)):
        made.add(codes, label=[str((at * CHUNK + row) // PER_CLASS) for row in range(len(codes))])
    print(f"made a gallery of {n:,} codes in {time.perf_counter() - start:.0f} s", flush=True)
    return made


def all_codes(gallery: Gallery) -> np.ndarray:
    """In one array in memory, in the order of the ids."""
    return np.concatenate([segment.codes for segment in gallery._view().segments])
