"""Whole LFW-a, both families, all 13,260 regions each, into a store, on all cores.

`--quick` extracts a few hundred of the pictures and scales the time up. The store goes to a temporary folder and is
removed, unless `--store` is given; the whole one takes 37 GB. Memory is the peak of the resident set over that at the
start.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

from harness import PeakMemory, Report, parser

from samekind.extraction import extract
from samekind.images.extractor import Extractor
from samekind.images.listing import list_images

IMAGES = Path(__file__).parents[2] / "shared" / "data" / "lfw-a" / "images"
ALL = 13_233
TARGET_MINUTES, TARGET_MB = 45, 4_000


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=Path, default=IMAGES, help="a folder per label")
    options.add_argument("--store", type=Path, help="where the store goes, and stays; a new folder")
    given = options.parse_args()
    report = Report("extract")
    if not given.images.is_dir():
        print(f"There is no {given.images}: give --images.")
        report.end()
    files = list_images(given.images, labelled=True)
    if given.quick:
        files = files[:: len(files) // 400]
    extract(files[:2], folder := Path(tempfile.mkdtemp()), Extractor.over())  # compiles
    shutil.rmtree(folder)
    folder = given.store or Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))) / "store"
    last = [time.perf_counter()]

    def show(done: int, total: int) -> None:
        if time.perf_counter() - last[0] > 30:
            last[0] = time.perf_counter()
            print(f"{done:,} of {total:,} pictures", flush=True)

    try:
        with PeakMemory() as peak:
            start = time.perf_counter()
            store = extract(files, folder, Extractor.over(), progress=show)
            seconds = time.perf_counter() - start
        print(f"{len(store):,} pictures of {len(files):,} in {seconds / 60:.1f} minutes; {store.nbytes / 1e9:.1f} GB")
        print(f"damaged: {store.notes}; left out: {store.skipped}; the same picture: {store.duplicates()}")
    finally:
        if given.store is None:
            shutil.rmtree(folder.parent)
    report.hold("minutes_for_all", seconds / 60 * ALL / len(files), at_most=TARGET_MINUTES)
    report.hold("memory_mb", peak.extra, at_most=TARGET_MB)
    report.note("ms_a_picture", 1e3 * seconds / len(files))
    report.end()


if __name__ == "__main__":
    main()
