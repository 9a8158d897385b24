"""How fast a panel comes from a warm store, against the machine's memcpy.

256 groups of 45 numbers x 12,000 of 13,233 rows, float16 in shards of 200 rows to float32, into an array that is
there already, as memcpy's target is. Rates count bytes read and bytes written per second; np.copyto moves the same
bytes in total, in the same run. Rows in rising order are held; rows in random order and a new array for each panel
are shown; to give a new array its pages takes the system as long as to fill it, for memcpy too. `verify` is what the
first read of a file costs besides: its checksum, and that its numbers are finite.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from harness import MB, Report, best_of, parser

from samekind.store import DiskStore, Family, StoreWriter

N_GROUPS, SIZE = 256, 45
N_STORED, N_ROWS, SHARD_ROWS = 13_233, 12_000, 200
TARGET = 0.5


def made_store(folder: Path) -> DiskStore:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((N_GROUPS + 64, SHARD_ROWS, SIZE), np.float32).astype(np.float16)
    family = Family("random", SIZE, [str(k) for k in range(len(values))])
    images = [(str(image), "") for image in range(N_STORED)]
    with StoreWriter.open(folder, families=[family], front_end={}, images=images, shard_rows=SHARD_ROWS) as writer:
        for shard in writer.pending():
            n = len(shard.images)
            writer.write(shard, {family.name: values[:, :n]}, rows=range(n))
    return DiskStore.open(folder)


def copy_by_two(source: np.ndarray, target: np.ndarray) -> None:
    middle = len(source) // 2
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(np.copyto, (target[:middle], target[middle:]), (source[:middle], source[middle:])))


def main() -> None:
    given = parser(__doc__).parse_args()
    repeats = 3 if given.quick else 10
    with tempfile.TemporaryDirectory() as folder:
        measure(made_store(Path(folder) / "store"), repeats)


def measure(store: DiskStore, repeats: int) -> None:
    rng = np.random.default_rng(1)
    groups = range(32, 32 + N_GROUPS)
    rising = np.sort(rng.permutation(N_STORED)[:N_ROWS])
    shuffled = rng.permutation(rising)
    out = np.zeros((N_ROWS, N_GROUPS * SIZE), np.float32)
    moved = out.nbytes * 3 // 2
    source, target = np.ones(moved // 2, np.uint8), np.zeros(moved // 2, np.uint8)
    print(f"{store!r}; a panel moves {moved / MB:,.0f} MB")

    def panel(rows: np.ndarray, n_jobs: int, into: np.ndarray | None) -> None:
        store.n_jobs = n_jobs
        store.panel(groups, rows, into)

    ways = {
        "memcpy_1": lambda: np.copyto(target, source),
        "memcpy_2": lambda: copy_by_two(source, target),
        "memcpy_new_array_1": lambda: source.copy(),
        "rising_1": lambda: panel(rising, 1, out),
        "rising_2": lambda: panel(rising, 2, out),
        "random_1": lambda: panel(shuffled, 1, out),
        "random_2": lambda: panel(shuffled, 2, out),
        "new_array_1": lambda: panel(rising, 1, None),
        "new_array_2": lambda: panel(rising, 2, None),
    }
    panel(rising, 1, out)  # compiles, maps, and brings the files to memory
    seconds = dict(zip(ways, best_of(list(ways.values()), repeats), strict=True))
    (verifying,) = best_of([lambda: DiskStore.open(store.path).verify()], repeats)
    report = Report("store")
    print(f"{'verify':18} {store.nbytes / verifying / 1e9:6.1f} GB/s, one core")
    report.note("verify_s_per_gb", verifying / (store.nbytes / 1e9))
    for way, taken in seconds.items():
        print(f"{way:18} {moved / taken / 1e9:6.1f} GB/s, {taken * 1e3:6.1f} ms")
        report.note(f"{way}_gb_per_s", moved / taken / 1e9)
    for way in list(ways)[3:]:
        report.note(f"{way}_ratio", seconds["memcpy_1"] / seconds[way])
    report.hold("rising_1_ratio", seconds["memcpy_1"] / seconds["rising_1"], at_least=TARGET)
    report.end()


if __name__ == "__main__":
    main()
