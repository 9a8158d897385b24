import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from samekind.lfw.experiment import Experiment
from samekind.lfw.presets import ExperimentSettings
from samekind.lfw.retrieval.experiment import PARTS, RetrievalExperiment
from samekind.lfw.retrieval.settings import FACES, RetrievalSettings
from tests.lfw import small

LEARNER = {name: value for name, value in small.LEARNER.items() if name not in ("n_components", "principal")}
SETTINGS = RetrievalSettings(
    ExperimentSettings(24, FACES | LEARNER | {"principal": 10}),
    query_images=(3, 3),
    neighbors=(1, None),
    dims=(4, 10_000),  # more than there are: left out
    lmnn_neighbors=(1, 3),  # nobody has more than 3 images
    final_dims=(2, 5, 100),
    lda_dims=(4,),
    scale_dims=20,
)

# Stands in for metric-learn: steps towards the identity, as LMNN reports them.
METRIC_LEARN = """
import numpy as np

class LMNN:
    def __init__(self, n_neighbors=3, max_iter=1000):
        self.n_neighbors, self.max_iter = n_neighbors, max_iter

    def _loss_grad(self, X, L, *rest):
        return None, float(np.linalg.norm(L - np.eye(len(L)))), 0

    def fit(self, X, y):
        if len(X) > 500:
            raise MemoryError("a matrix of all pairs")
        for step in range(min(self.max_iter, 6)):
            self._loss_grad(X, np.eye(X.shape[1]) * step / 5)
        return self
"""


@pytest.fixture(scope="session")
def lmnn_python(tmp_path_factory):
    """An interpreter that has (what stands in for) metric-learn."""
    folder = tmp_path_factory.mktemp("lmnn")
    (folder / "metric_learn.py").write_text(METRIC_LEARN)
    (folder / "python").write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    (folder / "python").chmod(0o755)
    return str(folder / "python")


def experiment_of(home, **changes):
    """With the descriptors that are there."""
    settings = replace(SETTINGS, **changes)
    base = Experiment(
        home / "images",
        home / "protocol",
        home / "work",
        settings.experiment,
        families=["cov"],
        n_jobs=1,
        reporter=small.Recorder(),
    )
    return RetrievalExperiment(base, settings, samples=(1_000,))


@pytest.fixture(scope="session")
def retrieval(tmp_path_factory, lmnn_python):
    """Pictures and protocol, and an experiment of all parts that ran through."""
    home = tmp_path_factory.mktemp("retrieval")
    small.write_protocol(home / "protocol")
    small.write_images(home / "images")
    experiment = experiment_of(home)
    experiment.lmnn_python = lmnn_python
    return SimpleNamespace(home=home, experiment=experiment, findings=experiment.run(PARTS))
