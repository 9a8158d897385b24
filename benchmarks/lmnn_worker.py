"""One fit in a process of its own, by whichever interpreter has the learner; part of lmnn.py and lfw_baselines.py.

Reads X and y from an .npz and writes an .npz: components (m, r, D) as they stood after `seconds` (m,), the last
being the result; peak memory in MB over what the process held before; whether the fit came to its own end; a
remark.
"""

import argparse
import sys
import time
from typing import Any

import numpy as np
from harness import PeakMemory

NCA_ITERATIONS = 50
OURS = {"loss": "triplet", "memory_budget": "64MB"}


class TimeIsUp(Exception):
    pass


class Path:
    """Components on their way, at moments at least 5% apart, and the latest ones."""

    def __init__(self, limit: float):
        self.limit = limit
        self.start = time.perf_counter()
        self.seconds: list[float] = []
        self.components: list[np.ndarray] = []
        self.remark = ""

    @property
    def passed(self) -> float:
        return time.perf_counter() - self.start

    def note(self, components: np.ndarray) -> None:
        now = self.passed
        if len(self.seconds) > 1 and now < 1.05 * self.seconds[-2]:
            del self.seconds[-1], self.components[-1]
        self.seconds.append(now)
        self.components.append(components)


def lmnn(X: np.ndarray, y: np.ndarray, k: int, max_iter: int, path: Path) -> None:
    """LMNN with its defaults. It tries each L in `_loss_grad` and moves on to those that lower its objective."""
    from metric_learn import LMNN

    class Watched(LMNN):
        lowest = np.inf

        def _loss_grad(self, X: np.ndarray, L: np.ndarray, *rest: Any) -> Any:
            if path.passed > path.limit:
                raise TimeIsUp
            made = super()._loss_grad(X, L, *rest)
            if made[1] <= self.lowest:
                self.lowest = made[1]
                path.note(L)
            return made

    Watched(n_neighbors=k, max_iter=max_iter).fit(X, y)


def nca(X: np.ndarray, y: np.ndarray, k: int, max_iter: int, path: Path) -> None:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis as NCA

    def watch(components: np.ndarray, iteration: int) -> None:
        path.note(components.reshape(-1, X.shape[1]).copy())
        if path.passed > path.limit:
            raise TimeIsUp

    limited = min(max_iter, NCA_ITERATIONS)
    made = NCA(X.shape[1], max_iter=limited, random_state=0, callback=watch if path.limit < np.inf else None)
    path.note(made.fit(X, y).components_)


def lda(X: np.ndarray, y: np.ndarray, k: int, max_iter: int, path: Path) -> None:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA

    path.note(LDA().fit(X, y).scalings_.T)


def joint(X: np.ndarray, y: np.ndarray, k: int, max_iter: int, path: Path) -> None:
    """JointMetric with its defaults."""
    from samekind import JointMetric

    path.note(JointMetric(**OURS, n_neighbors=k).fit(X, y).components_)


def validated(X: np.ndarray, y: np.ndarray, k: int, max_iter: int, path: Path) -> None:
    """The best of three settings, each learned on one half of every class and judged by 3-NN on the other."""
    from sklearn.neighbors import KNeighborsClassifier

    from samekind import JointMetric

    quarter, fifth, less_ridge = X.shape[1] // 4, X.shape[1] // 5, X.shape[1] / 1600 / 30
    settings = [{}, {"n_components": quarter}, {"n_components": fifth, "ridge": less_ridge}]
    order = np.argsort(y, kind="stable")
    learn, judge = order[::2], order[1::2]

    def accuracy(setting: dict[str, Any]) -> float:
        metric = JointMetric(**OURS, n_neighbors=k, **setting).fit(X[learn], y[learn])
        nearest = KNeighborsClassifier(3).fit(metric.transform(X[learn]), y[learn])
        return nearest.score(metric.transform(X[judge]), y[judge])

    best = max(settings, key=accuracy)
    path.remark = f"chosen: {best or 'the defaults'}"
    path.note(JointMetric(**OURS, n_neighbors=k, **best).fit(X, y).components_)


LEARNERS = {"lmnn": lmnn, "nca": nca, "lda": lda, "joint": joint, "validated": validated}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("learner", choices=LEARNERS)
    options.add_argument("data")
    options.add_argument("result")
    options.add_argument("--neighbors", type=int, required=True)
    options.add_argument("--max-iter", type=int, default=1000)
    options.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    given = options.parse_args()
    with np.load(given.data) as data:
        X, y = data["X"], data["y"]
    LEARNERS[given.learner](
        X[y < 20], y[y < 20], min(3, given.neighbors), 2, Path(np.inf)
    )  # imports and first calls are not charged
    path, finished = Path(given.limit), True
    with PeakMemory() as peak:
        try:
            LEARNERS[given.learner](X, y, given.neighbors, given.max_iter, path)
        except TimeIsUp:
            finished = False
    if not path.components:
        sys.exit("the time was up before it had anything")
    np.savez(
        given.result,
        components=np.stack(path.components),
        seconds=np.append(path.seconds[:-1], path.passed),
        peak=peak.extra,
        finished=finished,
        remark=path.remark,
    )


if __name__ == "__main__":
    main()
