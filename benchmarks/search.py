"""Exact search of a gallery against NumPy's matrix-vector product and faiss's flat index, and against brute force.

4,000,000 codes of 150 numbers, float32, in classes, with equal rows, rows that differ in one bit, and zeros. One query
at a time: `Gallery.search(k=10)`, records included, against one product of the same matrix with the query, and against
faiss's IndexFlatL2 (one index, and one shard per thread; the faster counts) where faiss is installed (extra `faiss`).
All take turns in one run, warm. Then batches of 64, opening, memory that is not mapped files, and equality with brute
force in float64 on 1,000 queries. Last, where faiss is installed, approximate search with an index: its recall against
brute force, and its time. A gallery in `--folder` is kept with its index (`samekind gallery build-index`), which is
then not built again.
"""

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from gallerydata import LENGTH, all_codes, made_gallery, queries_of
from harness import MB, Report, interleaved, parser

from samekind.gallery import Gallery

K = 10
BATCH = 64
TARGETS = {"ratio": 0.6, "faiss": 1.0, "batch": 0.5, "open": 2.0, "memory": 200, "recall": 0.95, "approximate": 5.0}


def brute_force(codes: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The K nearest rows of each query and their distances, in float64; of equal ones the first."""
    m = len(queries)
    wide = queries.astype(np.float64)
    lengths = (wide**2).sum(axis=1)
    limit = np.full(m, np.inf)
    places, distances = [np.zeros(0, int)] * m, [np.zeros(0)] * m
    for start in range(0, len(codes), 20_000):
        part = codes[start : start + 20_000].astype(np.float64)
        norms = (part**2).sum(axis=1)
        table = wide @ part.T
        table *= -2
        table += lengths[:, None]
        table += norms
        margin = 1e-9 * (lengths + norms.max())  # products cancel; what is near is computed again
        if start == 0:
            limit = np.partition(table, K, axis=1)[:, K] + margin
        at, rows = np.nonzero(table <= (limit + margin)[:, None])
        for i in np.unique(at):
            new = rows[at == i]
            exact = ((part[new] - wide[i]) ** 2).sum(axis=1)
            places[i] = np.append(places[i], new + start)
            distances[i] = np.append(distances[i], exact)
            order = np.lexsort((places[i], distances[i]))[:K]
            places[i], distances[i] = places[i][order], distances[i][order]
            if len(order) == K:
                limit[i] = distances[i][-1]
    return np.array(places), np.array(distances)


def wrong_answers(gallery: Gallery, queries: np.ndarray, expected: tuple[np.ndarray, np.ndarray]) -> dict[str, int]:
    """Queries whose answers differ: in a distance beyond float64's rounding, or in an id that no tie explains."""
    answers = {"single": [gallery.search(query, K) for query in queries], "batch": gallery.search_many(queries, K)}
    return {
        kind: sum(not same(answer.hits, *each) for answer, *each in zip(found, *expected, strict=True))
        for kind, found in answers.items()
    }


def same(hits: tuple, places: np.ndarray, distances: np.ndarray) -> bool:
    found = np.array([hit.distance for hit in hits])
    ids = np.array([hit.record.id - 1 for hit in hits])
    tolerance = 1e-12 * (1 + distances)
    if not (np.abs(found - distances) <= tolerance).all():
        return False
    apart = np.abs(np.subtract.outer(distances, distances)) <= 2 * tolerance[:, None]
    return all(ids[i] == places[i] or apart[i].sum() > 1 for i in range(len(ids)))


def faiss_searches(codes: np.ndarray) -> dict:
    """Searches of one query by faiss, by the way they are set up."""
    try:
        import faiss
    except ImportError:
        print("faiss is not installed (pip install faiss-cpu), so that it is not compared")
        return {}
    flat = faiss.IndexFlatL2(LENGTH)
    flat.add(codes)
    shards = faiss.IndexShards(LENGTH, True, False)
    halves = [faiss.IndexFlatL2(LENGTH) for _ in range(2)]
    for half, part in zip(halves, np.array_split(codes, 2), strict=True):
        half.add(part)
        shards.add_shard(half)
    return {"faiss_flat": (flat,), "faiss_shards": (shards, halves)}  # the shards do not keep their parts


def memory_worker(folder: Path) -> None:
    """Prints MB of memory beyond mapped files: its peak during searches over that after a first small one."""
    with tempfile.TemporaryDirectory() as small, Gallery.create(Path(small) / "g", length=LENGTH) as tiny:
        tiny.add(np.random.default_rng(0).standard_normal((20_000, LENGTH)))
        tiny.search(np.zeros(LENGTH))
        tiny.search_many(np.zeros((BATCH, LENGTH)))
    start = peak = anonymous()
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.002):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with Gallery.open(folder, read_only=True) as gallery:
        for seed in range(5):
            gallery.search(np.random.default_rng(seed).standard_normal(LENGTH), K)
        gallery.search_many(np.random.default_rng(9).standard_normal((BATCH, LENGTH)), K)
    over.set()
    watcher.join()
    print((peak - start) / MB)


def anonymous() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no RssAnon: memory can be measured on Linux only.")


def approximate(report: Report, gallery: Gallery, queries: np.ndarray, nearest: np.ndarray) -> None:
    """Recall and time of `search(approximate=True)`; entries as near as the K-th nearest count as found."""
    try:
        if gallery.search(queries[0], K, approximate=True).exact:
            built = gallery.build_index(recall=TARGETS["recall"] + 0.01, k=K)
            cells = f"{built.size:,} cells, {built.effort} read"
            print(f"index of {cells}, in {built.seconds:.0f} s: {built.measured.describe()}")
            report.note("build_s", built.seconds)
    except ValueError as error:
        print(error)
        return
    times, shares = [], []
    for query, distances in zip(queries, nearest, strict=True):
        start = time.perf_counter()
        answer = gallery.search(query, K, approximate=True)
        times.append(time.perf_counter() - start)
        limit = distances[-1] + 1e-12 * (1 + distances[-1])
        shares.append(sum(hit.distance <= limit for hit in answer.hits) / K)
    report.hold("recall", float(np.mean(shares)), at_least=TARGETS["recall"])
    report.hold("approximate_ms", 1e3 * float(np.median(times)), at_most=TARGETS["approximate"])


def measure(folder: Path, n: int, n_checked: int, repeats: int) -> None:
    report = Report("search")
    made_gallery(folder, n).close()
    start = time.perf_counter()
    gallery = Gallery.open(folder)
    opening = time.perf_counter() - start
    codes = all_codes(gallery)
    queries = queries_of(codes, n_checked)
    start = time.perf_counter()
    gallery.search(queries[1], K)
    print(f"first search, with compilation and checksums: {time.perf_counter() - start:.2f} s")
    gallery.search_many(queries[:BATCH], K)
    turn = iter(range(10**9))

    def query() -> np.ndarray:
        return queries[next(turn) % len(queries)]

    ways = {
        "single": lambda: gallery.search(query(), K),
        "one_thread": lambda: gallery.search(query(), K, n_jobs=1),
        "numpy": lambda: codes @ query(),
        **{
            name: lambda index=index: index[0].search(query()[None], K) for name, index in faiss_searches(codes).items()
        },
        "batch": lambda: gallery.search_many(queries[:BATCH], K),
    }
    seconds = dict(zip(ways, (np.median(times) for times in interleaved(list(ways.values()), repeats)), strict=True))
    seconds["batch"] /= BATCH
    for way, taken in seconds.items():
        print(f"{way:12} {1e3 * taken:8.2f} ms a query")
        report.note(f"{way}_ms", 1e3 * taken)
    shares = [answer.n_computed for answer in (gallery.search(each, K) for each in queries[:100])]
    print(f"distances computed per query: median {np.median(shares):,.0f}, most {max(shares):,} of {n:,}")
    report.note("computed", float(np.median(shares)))
    report.hold("ratio_to_numpy", seconds["single"] / seconds["numpy"], at_most=TARGETS["ratio"])
    flat = [taken for way, taken in seconds.items() if way.startswith("faiss")]
    if flat:
        report.hold("ratio_to_faiss", seconds["single"] / min(flat), at_most=TARGETS["faiss"])
    report.hold("batch_ratio", seconds["batch"] / seconds["single"], at_most=TARGETS["batch"])
    report.hold("open_s", opening, at_most=TARGETS["open"])
    worker = [sys.executable, __file__, "--worker", str(folder)]
    used = float(subprocess.run(worker, check=True, capture_output=True, text=True).stdout)
    report.hold("memory_mb", used, at_most=TARGETS["memory"])
    del ways
    expected = brute_force(codes, queries)
    for kind, count in wrong_answers(gallery, queries, expected).items():
        report.hold(f"wrong_{kind}", count, at_most=0)
    approximate(report, gallery, queries, expected[1])
    gallery.close()
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, help="where the gallery is made, or is already; default: temporary")
    options.add_argument("--worker", type=Path, metavar="GALLERY", help="the measurement of memory, for internal use")
    given = options.parse_args()
    if given.worker:
        return memory_worker(given.worker)
    size = (200_000, 200, 5) if given.quick else (4_000_000, 1000, 11)
    if given.folder:
        return measure(given.folder, *size)
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "gallery", *size)


if __name__ == "__main__":
    main()
