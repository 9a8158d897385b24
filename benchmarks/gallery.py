"""How fast codes are added and erased, each durable when the call returns.

Codes of 150 numbers with labels and names: batches of 1,000, then single ones (their median), then removals of single
records from the gallery of `benchmarks/search.py`, 4,000,000 codes. For comparison: one write and fsync of a file.
"""

import os
import statistics
import tempfile
from pathlib import Path

import numpy as np
from gallerydata import LENGTH, chunks, made_gallery
from harness import Report, parser, seconds_of

from samekind.gallery import Gallery

BATCH = 1000
TARGETS = {"rate": 5000, "add_ms": 10, "remove_ms": 50}


def fsync_seconds(folder: Path) -> float:
    """Median of one small write and its fsync."""
    with open(folder / "plain", "wb") as file:

        def write() -> None:
            file.write(b"0" * 600)
            file.flush()
            os.fsync(file.fileno())

        return statistics.median(seconds_of(write) for _ in range(50))


def adding(report: Report, folder: Path, n_batches: int, n_single: int) -> None:
    (codes,) = chunks(n_batches * BATCH)
    with Gallery.create(folder, length=LENGTH) as gallery:

        def add(start: int, n: int) -> None:
            labels = [str(row // 20) for row in range(start, start + n)]
            names = [f"album/{row}.jpg" for row in range(start, start + n)]
            gallery.add(codes[start : start + n], label=labels, name=names)

        times = [seconds_of(lambda at=at: add(at * BATCH, BATCH)) for at in range(n_batches)]
        single = [seconds_of(lambda at=at: add(at, 1)) for at in range(n_single)]
    print(f"batches of {BATCH}: median {1e3 * statistics.median(times):.1f} ms, slowest {1e3 * max(times):.1f} ms")
    print(f"single: median {1e3 * statistics.median(single):.2f} ms, slowest {1e3 * max(single):.2f} ms")
    report.hold("codes_per_s", n_batches * BATCH / sum(times), at_least=TARGETS["rate"])
    report.hold("add_ms", 1e3 * statistics.median(single), at_most=TARGETS["add_ms"])


def removing(report: Report, folder: Path, n: int, n_removed: int) -> None:
    made_gallery(folder, n).close()
    with Gallery.open(folder) as gallery:
        drawn = np.random.default_rng(0).choice(np.arange(1, n + 1), n_removed + 1, replace=False).tolist()
        codes = gallery.codes(drawn)
        gallery.remove(drawn[0])  # loads what erasing needs
        times = [seconds_of(lambda at=at: gallery.remove(at)) for at in drawn[1:]]
        for code in codes[:3]:
            assert gallery.search(code, 1).hits[0].record.id not in drawn
        print(
            f"removing one of {n:,}: median {1e3 * statistics.median(times):.1f} ms, slowest {1e3 * max(times):.1f} ms"
        )
        report.hold("remove_ms", 1e3 * statistics.median(times), at_most=TARGETS["remove_ms"])
        report.note("slowest_remove_ms", 1e3 * max(times))


def measure(folder: Path, gallery: Path, quick: bool) -> None:
    report = Report("gallery")
    report.note("fsync_ms", 1e3 * fsync_seconds(folder))
    print(f"one write and fsync: {report.numbers['fsync_ms']:.2f} ms")
    adding(report, folder / "added", 20 if quick else 100, 200)
    removing(report, gallery, 100_000 if quick else 4_000_000, 20)
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--folder", type=Path, help="gallery to remove from, made if it is not there; it loses records"
    )
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder and given.folder.parent) as folder:
        measure(Path(folder), given.folder or Path(folder) / "gallery", given.quick)


if __name__ == "__main__":
    main()
