"""JointMetric with the triplet loss against metric-learn's LMNN: time, memory and held-out 3-NN error.

Data: classes of 40 whose means lie in the D/5 directions with the least noise, so that plain distances see mostly what does not
matter; standardised; the held-out samples are others of the same classes. Everyone is given the same float32 array; LMNN makes
float64 of it. Each fit has its own process; LMNN (0.7.0, its defaults) has its own environment as well, made once below
the user's cache folder, as it needs scikit-learn < 1.8.

Fairness to LMNN. It gets one BLAS thread or all of them, whichever made its first evaluation faster. It is watched while it
works, so that being cut off at --limit costs it nothing: its components and error are those it had by then. Its time is
what it took to come down to our error, as measured on the held-out samples on its way; where it never did, all the time that it
ran, and the speedup is a lower bound (>=). Our time includes the choice of settings on a split of the training samples;
the row "joint" shows the defaults. NCA and LDA stand beside them for comparison. One run of each: these are long.
"""

import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness import Report, parser
from sklearn.neighbors import KNeighborsClassifier

CLASS_SIZE, HELD_OUT = 40, 2_000
SPEEDUP, MEMORY_RATIO = 10, 0.25


@dataclass
class Task:
    folder: Path
    held_out: tuple[np.ndarray, np.ndarray]
    train: tuple[np.ndarray, np.ndarray]

    @classmethod
    def made(cls, folder: Path, n_classes: int, n_features: int, apart: float) -> "Task":
        rng = np.random.default_rng(0)
        noise = np.geomspace(2, 0.85, n_features)
        means = rng.normal(size=(n_classes, n_features)) * noise * apart
        means[:, : -(n_features // 5)] = 0
        rotation, _ = np.linalg.qr(rng.normal(size=(n_features, n_features)))
        each = CLASS_SIZE + HELD_OUT // n_classes
        y = np.repeat(np.arange(n_classes), each)
        X = (means[y] + rng.normal(size=(len(y), n_features)) * noise) @ rotation
        train = np.arange(len(y)) % each < CLASS_SIZE
        X = ((X - X[train].mean(axis=0)) / X[train].std(axis=0)).astype(np.float32)
        np.savez(folder / "data.npz", X=X[train], y=y[train])
        return cls(folder, (X[~train], y[~train]), (X[train], y[train]))

    def error(self, components: np.ndarray) -> float:
        """Of 3-NN on the held-out samples."""
        nearest = KNeighborsClassifier(3).fit(self.train[0] @ components.T, self.train[1])
        return 1 - nearest.score(self.held_out[0] @ components.T, self.held_out[1])

    def fit(self, learner: str, k: int, *, python: str = sys.executable, threads: int | None = None, **options) -> "Fit":
        """The learner's fit in a fresh process; `options` are the worker's."""
        result = self.folder / "result.npz"
        worker = Path(__file__).with_name("lmnn_worker.py")
        command = [python, "-W", "ignore", worker, learner, self.folder / "data.npz", result, f"--neighbors={k}"]
        command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        limits = {} if threads is None else {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        subprocess.run(list(map(str, command)), check=True, env=os.environ | limits)
        with np.load(result) as made:
            errors = np.array([self.error(components) for components in made["components"]])
            return Fit(made["seconds"], errors, float(made["peak"]), bool(made["finished"]))


@dataclass
class Fit:
    """A learner's way: the last entries are its result."""

    seconds: np.ndarray
    errors: np.ndarray
    peak: float
    finished: bool

    def show(self, name: str, remark: str = "") -> None:
        line = f"{name:16} {self.seconds[-1]:9.2f} s {self.errors[-1]:8.4f} {self.peak:9.1f} MB  {remark}"
        print(line.rstrip(), flush=True)

    def seconds_to(self, error: float) -> tuple[float, bool]:
        """Until its error was as low as that, and whether it ever was; the whole time where it was not."""
        reached = np.flatnonzero(self.errors <= error)
        return (self.seconds[reached[0]], True) if len(reached) else (self.seconds[-1], False)


def metric_learn_python() -> str:
    """The interpreter of metric-learn's own environment, made if need be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "samekind-benchmarks" / "metric-learn-0.7.0"
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    if not (folder / "installed").exists():
        print("making an environment for metric-learn", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "metric-learn==0.7.0", "scikit-learn<1.8"], check=True)
        (folder / "installed").touch()
    return python


def lmnn_fit(task: Task, k: int, limit: float) -> Fit:
    python = metric_learn_python()
    choices = {1, os.cpu_count() or 1}
    first = {n: task.fit("lmnn", k, python=python, threads=n, max_iter=2).seconds[-1] for n in choices}
    threads = min(first, key=first.get)
    made = task.fit("lmnn", k, python=python, threads=threads, limit=limit)
    end = "came to its end" if made.finished else "cut off"
    made.show(f"LMNN k={k}", f"{end}; lowest on its way {made.errors.min():.4f}; {threads} BLAS thread(s)")
    return made


def compare(task: Task, k: int, limit: float, report: Report) -> None:
    task.fit("joint", k).show(f"joint k={k}", "defaults")
    ours = task.fit("validated", k)
    ours.show(f"joint k={k}", "settings chosen within the training samples: this one counts")
    theirs = lmnn_fit(task, k, limit)
    seconds, reached = theirs.seconds_to(ours.errors[-1])
    print(f"LMNN to our error: {'' if reached else '>= '}{seconds:.1f} s")
    report.hold(f"speedup_k{k}", seconds / ours.seconds[-1], at_least=SPEEDUP)
    report.hold(f"memory_ratio_k{k}", ours.peak / theirs.peak, at_most=MEMORY_RATIO)
    report.hold(f"error_ours_k{k}", ours.errors[-1], at_most=theirs.errors[-1])
    report.note(f"error_lmnn_k{k}", theirs.errors[-1])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--limit", type=float, help="minutes for LMNN and each k (40; with --quick 0.4)")
    given = options.parse_args()
    n_classes, n_features, apart, minutes = (25, 50, 1.8, 0.4) if given.quick else (100, 100, 1.6, 40)
    limit = 60 * (minutes if given.limit is None else given.limit)
    report = Report("lmnn")
    with tempfile.TemporaryDirectory() as folder:
        task = Task.made(Path(folder), n_classes, n_features, apart)
        print(f"N = {n_classes * CLASS_SIZE:,} in {n_classes} classes, D = {n_features}, {len(task.held_out[0]):,} held out;")
        print(f"seconds, held-out 3-NN error, peak memory. Plain Euclidean distance: {task.error(np.eye(n_features)):.4f}")
        for learner in ["lda", "nca"]:
            task.fit(learner, 0).show(learner.upper())
        for k in [5] if given.quick else [5, 30]:
            compare(task, k, limit, report)
    report.end()


if __name__ == "__main__":
    main()
