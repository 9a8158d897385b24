"""The experiment learns by the public learner: with the same settings on the same rows it is the same metric."""

from dataclasses import replace

import numpy as np
import pytest

from samekind import Metric
from samekind.estimators import presets
from samekind.estimators.use import as_learned_from
from samekind.lfw.protocol import image_rows, read_view1
from samekind.lfw.runs import SplitRun
from tests.lfw import small

pytestmark = pytest.mark.slow

SETTINGS = {
    "as chosen on View 1": small.SETTINGS.learner,
    "the paper's": presets.PRESETS["paper"] | {"max_groups": 3, "n_components": 5, "cv": None},
    "chosen on people left out": presets.PRESETS["pictures"] | {"max_groups": 3, "n_components": 5, "cv": 2},
}


def rows_of(run, store):
    return image_rows(run.training_images, store.image_ids.tolist(), store.labels)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_metric_is_that_of_the_public_learner(lfw, tmp_path, name):
    settings, run = replace(small.SETTINGS, learner=SETTINGS[name]), SplitRun.from_view1(read_view1(lfw.protocol))
    experiment = replace(lfw.experiment, settings=settings, work=tmp_path, store=lfw.store)
    experiment.learned([run])
    faces = experiment.faces(run.images)
    mirror = "mean" if settings.mirror == "mean" else "none"
    learner = presets.learner(settings.learner | {"mirror": mirror}, random_state=settings.seed)
    learner.fit(faces.view, faces.view.labels, rows=rows_of(run, faces.store))
    metric = Metric.load(tmp_path / "view1" / "step2-cov+slbp.safetensors")
    assert metric.groups == learner.metric_.groups
    assert (metric.normalise, metric.mirror) == (learner.metric_.normalise, settings.mirror)
    everyone = np.arange(len(faces.store))
    X = as_learned_from(faces.view, mirror)
    expected = learner.transform(X, rows=everyone)
    np.testing.assert_allclose(metric.transform(X, everyone), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_a_step_1_that_chooses_nothing_is_reported(lfw, tmp_path):
    experiment = replace(lfw.experiment, settings=small.settings(selection__ridge=1e9), work=tmp_path, store=lfw.store)
    with pytest.raises(ValueError, match=r"Step 1 chose none of the 24 cov regions.*--set selection__ridge"):
        experiment.view1()


def test_pictures_chosen_on_people_left_out_are_judged_as_any(lfw, tmp_path):
    """What was tried is written down, and the threshold is the protocol's."""
    settings = replace(small.SETTINGS, learner=SETTINGS["chosen on people left out"] | {"mirror": "mean"})
    experiment = replace(lfw.experiment, settings=settings, work=tmp_path, store=lfw.store, families=["cov"])
    findings = experiment.view1()
    (facts,) = findings.outcomes[-1].facts
    assert facts["tried"]
    metric = Metric.load(tmp_path / "view1" / "step2-cov.safetensors")
    assert (metric.mirror, metric.threshold, metric.calibration) == ("mean", None, None)
    assert findings.outcomes[-1].results["these pairs"].auc > 0.6
