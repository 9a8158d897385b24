"""Nothing of the people that are tested reaches what tests them, except their own pairs at the very end."""

from dataclasses import replace

import numpy as np
import pytest

from samekind.estimators import presets
from samekind.lfw.experiment import Experiment
from samekind.lfw.protocol import read_view1, read_view2
from samekind.lfw.runs import SplitRun, judged_by_folds, judged_on_view1
from tests.lfw import small

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fold_of_strangers(lfw, tmp_path_factory):
    """Fold 1 from scratch, the pictures of its people being of others."""
    home = tmp_path_factory.mktemp("strangers")
    images = small.write_images(home / "images", strangers=small.FOLDS[0])
    experiment = Experiment(images, lfw.protocol, home / "work", small.SETTINGS)
    (learned,) = experiment.learned([SplitRun.from_fold(read_view2(lfw.protocol), 1)])
    return experiment, learned


def test_a_folds_own_pictures_do_not_change_what_is_learned_for_it(lfw, fold_of_strangers):
    """Whitening, chosen regions and both steps, to the last bit."""
    experiment, _ = fold_of_strangers
    clean = {name: content for name, content in small.models(lfw.work).items() if name.startswith("fold-01")}
    assert len(clean) == 5
    assert small.models(experiment.work) == clean


def test_a_folds_own_pictures_do_not_change_its_threshold(lfw, fold_of_strangers):
    _, learned = fold_of_strangers
    view2 = read_view2(lfw.protocol)
    view1, clean = lfw.experiment.learned([SplitRun.from_view1(read_view1(lfw.protocol)), SplitRun.from_fold(view2, 1)])
    for stage in lfw.experiment.stages:
        changed = judged_by_folds(view1, {1: learned}, view2, stage, "logistic")
        before = judged_by_folds(view1, {1: clean}, view2, stage, "logistic")
        for source in ("view 1", "training folds"):
            assert changed[source].thresholds.tolist() == before[source].thresholds.tolist()
        own = view2.fold_numbers == 0
        np.testing.assert_array_equal(learned.distances[stage][~own], clean.distances[stage][~own])
        assert not np.isclose(learned.distances[stage][own], clean.distances[stage][own]).any()


def test_view_1s_test_people_do_not_change_what_is_learned(lfw, tmp_path):
    images = small.write_images(tmp_path / "images", strangers=small.VIEW1[1])
    experiment = Experiment(images, lfw.protocol, tmp_path / "work", small.SETTINGS)
    (learned,) = experiment.learned([SplitRun.from_view1(read_view1(lfw.protocol))])
    assert small.models(experiment.work) == {
        name: content for name, content in small.models(lfw.work).items() if name.startswith("view1")
    }
    for outcome in lfw.view1.outcomes:
        changed = judged_on_view1(learned, outcome.stage, "logistic")["training pairs"]
        assert changed.thresholds == outcome.results["training pairs"].thresholds


def test_a_single_training_picture_does(lfw, tmp_path):
    """So that the tests above can fail."""
    images = small.write_images(tmp_path / "images")
    name = small.FOLDS[1][0]
    small.write_picture(images / name / f"{name}_0001.png", 999, 1)
    experiment = replace(lfw.experiment, images=images, work=tmp_path / "work", reporter=small.Recorder())
    experiment.learned([SplitRun.from_fold(read_view2(lfw.protocol), 1)])
    clean = small.models(lfw.work)
    assert all(content != clean[name] for name, content in small.models(experiment.work).items())


CHOOSING = presets.PRESETS["pictures"] | {"max_groups": 2, "n_components": 3, "cv": 2}


@pytest.mark.parametrize("learner", [small.SETTINGS.learner, CHOOSING], ids=["as given", "chosen on people left out"])
def test_rows_of_the_tested_are_never_read_from_the_store(lfw, tmp_path, monkeypatch, learner):
    """Not even to be thrown away."""
    from samekind.store import DiskStore

    read = set()

    def noting(method):
        def noted(self, groups, rows, *more, **options):
            read.update(self.labels[np.asarray(rows)].tolist())
            return method(self, groups, rows, *more, **options)

        return noted

    for name in ("panel", "stacked"):
        monkeypatch.setattr(DiskStore, name, noting(getattr(DiskStore, name)))
    settings = replace(small.SETTINGS, learner=learner)
    experiment = replace(lfw.experiment, settings=settings, work=tmp_path, store=lfw.store, reporter=small.Recorder())
    experiment.learned([SplitRun.from_fold(read_view2(lfw.protocol), 2)])
    assert read == set(small.NAMES) - set(small.FOLDS[1])
