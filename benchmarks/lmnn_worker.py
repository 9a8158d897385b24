"""One fit in a process of its own, part of lmnn.py and lfw_baselines.py: the worker of `samekind retrieval`, which has
joint learning and LMNN, with NCA, LDA and joint learning with validated settings."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "samekind" / "lfw" / "retrieval"))

import worker  # by its path: LMNN's interpreter has no samekind

NCA_ITERATIONS = 50


def nca(X: np.ndarray, y: np.ndarray, options: dict[str, Any], trace: worker.Trace) -> None:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis as NCA

    most = min(options.get("max_iter", NCA_ITERATIONS), NCA_ITERATIONS)

    def watch(components: np.ndarray, iteration: int) -> None:
        trace.note(components.reshape(-1, X.shape[1]).copy(), iteration + 1, most)

    watched = watch if trace.limit < np.inf else None
    trace.note(NCA(X.shape[1], max_iter=most, random_state=0, callback=watched).fit(X, y).components_, most)


def lda(X: np.ndarray, y: np.ndarray, options: dict[str, Any], trace: worker.Trace) -> None:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA

    trace.note(LDA().fit(X, y).scalings_.T, 1)


def validated(X: np.ndarray, y: np.ndarray, options: dict[str, Any], trace: worker.Trace) -> None:
    """The best of three settings, each learned on one half of every class and judged by 3-NN on the other."""
    from sklearn.neighbors import KNeighborsClassifier

    from samekind import JointMetric

    quarter, fifth, less_ridge = X.shape[1] // 4, X.shape[1] // 5, X.shape[1] / 1600 / 30
    settings = [{}, {"n_components": quarter}, {"n_components": fifth, "ridge": less_ridge}]
    order = np.argsort(y, kind="stable")
    learn, judge = order[::2], order[1::2]

    def accuracy(setting: dict[str, Any]) -> float:
        metric = JointMetric(**options, **setting).fit(X[learn], y[learn])
        nearest = KNeighborsClassifier(3).fit(metric.transform(X[learn]), y[learn])
        return nearest.score(metric.transform(X[judge]), y[judge])

    best = max(settings, key=accuracy)
    trace.facts["remark"] = f"chosen: {best or 'the defaults'}"
    made = JointMetric(**options, **best).fit(X, y)
    trace.note(made.components_, made.n_iter_)


worker.LEARNERS |= {"nca": nca, "lda": lda, "validated": validated}

if __name__ == "__main__":
    worker.main()
