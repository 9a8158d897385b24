"""How long `Gallery.doctor` takes: all pairs of 100,000 codes of 150 numbers, for duplicates, labels and outliers.

The codes of `gallerydata.py`, with the labels of their classes but for one class under two labels, two under one, and
a wrong label; the run is short if one of these, or a duplicate, is not found.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from gallerydata import LENGTH, PER_CLASS
from harness import PeakMemory, Report, parser

from samekind.evaluation import calibrate
from samekind.gallery import Gallery
from samekind.gallery.doctor import Diagnosis

TARGETS = {"seconds": 300, "memory": 2000}


def made(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes in classes of 20, and the number of each one's class."""
    rng = np.random.default_rng(seed)
    scales = np.linspace(2, 0.3, LENGTH, dtype=np.float32)
    codes = np.repeat(rng.standard_normal((n // PER_CLASS, LENGTH), np.float32) * scales, PER_CLASS, axis=0)
    codes += scales * rng.standard_normal(codes.shape, np.float32)
    return codes, np.arange(len(codes)) // PER_CLASS


def missed(found: Diagnosis) -> int:
    """How many of the four mistakes were not found."""
    return 4 - sum(
        (
            any({record.id for record in each.records} == {101, 102} for each in found.duplicates),
            any(set(each.labels) == {"7", "new"} for each in found.same),
            any(each.label == "9" for each in found.mixed),
            any(each.record.id == 12 * PER_CLASS + 1 for each in found.outliers),
        )
    )


def main() -> None:
    given = parser(__doc__).parse_args()
    n = 10_000 if given.quick else 100_000
    report = Report("doctor")
    calibration = calibrate(*made(4000, seed=1))
    codes, classes = made(n)
    codes[101] = codes[100] + np.float32(0.01)
    labels = classes.astype(str).astype(object)
    labels[7 * PER_CLASS : 7 * PER_CLASS + 10] = "new"
    labels[classes == 10] = "9"
    labels[12 * PER_CLASS] = "20"
    with tempfile.TemporaryDirectory() as folder, Gallery.create(Path(folder) / "g", length=LENGTH) as gallery:
        gallery.add(codes, label=labels.tolist())
        gallery.search_many(codes[:2])  # compiles what is shared
        with PeakMemory() as memory:
            start = time.perf_counter()
            found = gallery.doctor(calibration=calibration, most=10**6)
            seconds = time.perf_counter() - start
    print(f"{n:,} codes: {seconds:.1f} s; findings {found.counts}")
    report.hold("doctor_s", seconds, at_most=TARGETS["seconds"])
    report.hold("memory_mb", memory.extra, at_most=TARGETS["memory"])
    report.hold("missed", missed(found), at_most=0)
    report.end()


if __name__ == "__main__":
    main()
