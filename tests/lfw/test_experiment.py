"""The whole experiment on a dozen people: what it learns, from whom, and what it does not do twice."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from samekind import Metric
from samekind.estimators import presets
from samekind.estimators.use import as_learned_from, groups_with_mirror
from samekind.evaluation import best_threshold, flip_free_distances
from samekind.extraction import extract
from samekind.images.align import Frame
from samekind.images.extractor import Extractor
from samekind.images.listing import list_images
from samekind.images.load import load_image
from samekind.images.regions import enumerate_regions, evenly_spaced, symmetric_subset
from samekind.images.slbp import SoftLBP
from samekind.lfw.experiment import Experiment
from samekind.lfw.faces import Faces
from samekind.lfw.protocol import image_rows, pair_rows, read_view1, read_view2
from samekind.lfw.runs import SplitRun
from samekind.lfw.stages import Stage
from samekind.store import DiskStore
from tests import stores
from tests.lfw import small

BOTH = ("cov", "slbp")
STAGES = [Stage(1, ("cov",)), Stage(2, ("cov",)), Stage(1, ("slbp",)), Stage(2, ("slbp",)), Stage(2, BOTH)]


def test_every_stage_of_every_split_is_learned_once(lfw):
    assert [outcome.stage for outcome in lfw.view2.outcomes] == STAGES
    learned = [f"{split}: {stage.title}" for split in ("View 1", "Fold 1", "Fold 2", "Fold 3") for stage in STAGES]
    assert list(lfw.reporter.iterations) == learned
    assert all(steps == list(range(1, len(steps) + 1)) for steps in lfw.reporter.iterations.values())


def test_ranks_and_regions_are_within_the_settings(lfw):
    for outcome in lfw.view2.outcomes:
        assert len(outcome.facts) == small.N_FOLDS
        for facts in outcome.facts:
            assert facts["images"] == (small.N_FOLDS - 1) * small.PEOPLE_A_FOLD * small.PICTURES
            assert {family: len(chosen) for family, chosen in facts["regions"].items()} == dict.fromkeys(
                outcome.stage.families, small.LEARNER["max_groups"]
            )
            assert 1 <= facts["rank"] <= (3 * 8 if outcome.stage.step == 1 else 5 + 5 + 1)


def test_results_say_where_thresholds_come_from(lfw):
    for findings, sources in (
        (lfw.view1, ["training pairs", "these pairs"]),
        (lfw.view2, ["view 1", "training folds"]),
    ):
        for outcome in findings.outcomes:
            assert list(outcome.results) == sources
            assert all(result.threshold_source == source for source, result in outcome.results.items())


def test_people_never_seen_are_distinguished(lfw):
    """These pictures are easy: an experiment that mixes up rows, pairs or families is at chance."""
    for outcome in lfw.view2.outcomes:
        if outcome.stage.step == 2:
            assert outcome.results["view 1"].auc > 0.8


def test_the_threshold_from_view_1_is_chosen_on_pairs_of_its_test_people(lfw):
    split = read_view1(lfw.protocol)
    more = split.test.pairs + split.test.more_pairs()
    same, n = np.array([pair.same for pair in more]), len(split.test.pairs)
    best = replace(lfw.experiment, threshold_by="accuracy").view2()
    assert (lfw.view2.threshold_by, best.threshold_by) == ("logistic", "accuracy")
    for regressed, outcome, view1 in zip(lfw.view2.outcomes, best.outcomes, lfw.view1.outcomes, strict=True):
        (threshold,) = set(outcome.results["view 1"].thresholds.tolist())
        distances = np.load(lfw.work / "view1" / f"{outcome.stage.name}.distances.npy")[len(split.train.pairs) :]
        assert threshold == best_threshold(distances, same)
        on_its_own = distances[:n].astype(np.float64) <= view1.results["these pairs"].thresholds[0]
        assert np.mean(on_its_own == same[:n]) == view1.results["these pairs"].accuracy
        (threshold,) = set(regressed.results["view 1"].thresholds.tolist())
        assert threshold == best_threshold(distances, same, strategy="logistic")


def test_thresholds_from_training_folds_and_pairs_are_chosen_alike(lfw):
    view1, view2 = read_view1(lfw.protocol), read_view2(lfw.protocol)
    for outcome, first in zip(lfw.view2.outcomes, lfw.view1.outcomes, strict=True):
        distances = np.load(lfw.work / "fold-02" / f"{outcome.stage.name}.distances.npy")
        others = view2.fold_numbers != 1
        same = np.array([pair.same for pair in view2.pairs])
        expected = best_threshold(distances[others], same[others], strategy="logistic")
        assert outcome.results["training folds"].thresholds[1] == expected
        n, same = len(view1.train.pairs), np.array([pair.same for pair in view1.train.pairs])
        distances = np.load(lfw.work / "view1" / f"{outcome.stage.name}.distances.npy")[:n]
        (threshold,) = first.results["training pairs"].thresholds
        assert threshold == best_threshold(distances, same, strategy="logistic")


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_distances_are_those_of_the_models_own_encoder(lfw, stage):
    metric = Metric.load(lfw.work / "fold-02" / f"{stage.name}.safetensors")
    assert (metric.normalise, metric.mirror) == ("root", "mean")
    files = list_images(lfw.images, labelled=True)
    codes = metric.encode([file.path for file in files])
    rows, _ = pair_rows(read_view2(lfw.protocol).pairs, [file.name for file in files])
    kept = np.load(lfw.work / "fold-02" / f"{stage.name}.distances.npy")
    assert (metric.similarity is not None) == (stage.step == 2)
    np.testing.assert_allclose(kept, metric.code_distance(*codes[rows.T]), rtol=1e-4, atol=1e-5)


def test_the_papers_flip_free_distances_may_be_asked_for(lfw, tmp_path):
    settings = small.settings(mirror="distances", compare_by="distance")
    experiment = replace(lfw.experiment, settings=settings, work=tmp_path, store=lfw.store, families=["cov"])
    experiment.view1()
    files, split = list_images(lfw.images, labelled=True), read_view1(lfw.protocol)
    for name in ("step1-cov", "step2-cov"):
        metric = Metric.load(tmp_path / "view1" / f"{name}.safetensors")
        assert metric.mirror == "distances"
        codes = metric.encode([file.path for file in files])
        pairs = split.train.pairs + split.test.pairs + split.test.more_pairs()
        rows, _ = pair_rows(pairs, [file.name for file in files])
        kept = np.load(tmp_path / "view1" / f"{name}.distances.npy")
        np.testing.assert_allclose(kept, flip_free_distances(*codes[rows.T]), rtol=1e-4, atol=1e-5)


def test_step_2_works_in_orthogonal_coordinates(lfw, tmp_path):
    """As in the paper its codes are linear in step 1's directions: U_dagger^T x."""
    settings = small.settings(normalise_groups="none", weigh=0.0, compare_by="distance")
    replace(lfw.experiment, settings=settings, work=tmp_path, store=lfw.store, families=["cov"]).view1()
    first = Metric.load(tmp_path / "view1" / "step1-cov.safetensors").with_normalise("none")
    second = Metric.load(tmp_path / "view1" / "step2-cov.safetensors").with_normalise("none")
    np.testing.assert_array_equal(first.columns, second.columns)
    U = replace(first.basis, weigh=0.0).over_columns(None).astype(float)
    over = second.basis.over_columns(second.components)
    np.testing.assert_allclose(over, second.components @ U, atol=1e-5 * np.abs(over).max())


def test_step_2_reads_each_region_by_what_step_1_made_of_it_and_by_its_length(lfw):
    """A region whose descriptor is twice as far from the mean counts for as much as before."""
    first = Metric.load(lfw.work / "fold-01" / "step1-cov.safetensors").with_normalise("none")
    second = Metric.load(lfw.work / "fold-01" / "step2-cov.safetensors")
    assert (second.basis.normalise, second.basis.weigh) == ("unit", 0.5)
    assert second.components.shape[1] == first.n_components
    codes = second.basis.of_centred(np.eye(first.n_columns, dtype=np.float32))
    mixed = first.basis.of_centred(np.eye(first.n_columns, dtype=np.float32))
    np.testing.assert_array_equal(codes != 0, mixed != 0)
    mean = first.basis.mean.astype(np.float32)
    x = mean + np.random.default_rng(0).standard_normal((1, first.n_columns)).astype(np.float32)
    farther = x.copy()
    farther[:, :45] += x[:, :45] - mean[:45]
    np.testing.assert_allclose(second.transform(farther), second.transform(x), rtol=1e-3, atol=1e-4)


def test_a_run_again_repeats_nothing(lfw):
    before, reporter = small.kept(lfw.work), small.Recorder()
    again = replace(lfw.experiment, reporter=reporter).view2()
    assert not reporter.iterations
    assert not reporter.counts
    assert small.kept(lfw.work) == before
    for one, other in zip(again.outcomes, lfw.view2.outcomes, strict=True):
        assert one.facts == other.facts
        np.testing.assert_array_equal(one.results["view 1"].accuracies, other.results["view 1"].accuracies)


def test_folds_share_a_pass_over_the_pictures_while_their_metrics_fit(lfw, tmp_path):
    passes = [title for title in lfw.reporter.counts if title.endswith("comparing pictures")]
    assert passes == ["View 1: comparing pictures", "Fold 1, Fold 2, Fold 3: comparing pictures"]
    models = sum(path.stat().st_size for path in (lfw.work / "fold-01").glob("*.safetensors"))
    work = tmp_path / "work"
    shutil.copytree(lfw.work, work)
    for path in work.rglob("*.npy"):
        if "store" not in path.parts:
            path.unlink()
    reporter = small.Recorder()
    replace(lfw.experiment, work=work, reporter=reporter, held_bytes=int(2.5 * models)).view2()
    titles = ["View 1", "Fold 1, Fold 2", "Fold 3"]
    assert list(reporter.counts) == [f"{title}: comparing pictures" for title in titles]
    before, after = small.kept(lfw.work), small.kept(work)
    assert before.keys() == after.keys()
    for name in after:
        if name.endswith(".npy"):
            np.testing.assert_allclose(np.load(work / name), np.load(lfw.work / name), rtol=1e-4, atol=1e-6)


def test_some_folds_give_what_they_give_among_all(lfw):
    some = lfw.experiment.view2([3, 1])
    assert [run.title for run in some.runs] == ["Fold 1", "Fold 3"]
    for one, every in zip(some.outcomes, lfw.view2.outcomes, strict=True):
        for source in one.results:
            assert one.results[source].results == every.results[source].results[::2]


def test_without_view_1_it_is_not_learned(lfw, tmp_path):
    reporter = small.Recorder()
    experiment = replace(lfw.experiment, work=tmp_path, store=lfw.store, families=["cov"], reporter=reporter)
    (fold,) = experiment.view2([2], with_view1=False).outcomes[1].results.values()
    assert list(reporter.iterations) == ["Fold 2: cov, step 1", "Fold 2: cov, step 2"]
    assert fold.results[0] == lfw.view2.outcomes[1].results["training folds"].results[1]


def test_one_family_is_enough_and_another_is_added(lfw, tmp_path):
    reporter = small.Recorder()
    alone = Experiment(
        lfw.images, lfw.protocol, tmp_path, small.SETTINGS, ["slbp"], store=lfw.store, reporter=reporter
    ).view1()
    assert [outcome.stage.name for outcome in alone.outcomes] == ["step1-slbp", "step2-slbp"]
    reporter.iterations.clear()
    Experiment(
        lfw.images, lfw.protocol, tmp_path, small.SETTINGS, ["slbp", "cov"], store=lfw.store, reporter=reporter
    ).view1()
    assert list(reporter.iterations) == [f"View 1: {stage.title}" for stage in STAGES if stage.families != ("slbp",)]
    assert small.kept(tmp_path) == {
        name: content for name, content in small.kept(lfw.work).items() if name.startswith("view1")
    }


def test_a_larger_store_is_thinned_out_evenly(lfw, tmp_path):
    few = replace(small.SETTINGS, regions=6)
    experiment = Experiment(lfw.images, lfw.protocol, tmp_path, few, ["cov"], store=lfw.store)
    experiment.view1()
    store = DiskStore.open(lfw.store)
    allowed = symmetric_subset(Extractor.from_json(store.front_end).mirror_groups()[:24], 6)
    assert len(allowed) == 6
    chosen = Metric.load(tmp_path / "view1" / "step1-cov.safetensors").groups
    assert set(chosen) <= {store.group_names[at] for at in allowed}
    # Of a store whose regions are no mirror pairs.
    assert evenly_spaced(np.arange(24), 6).tolist() == [0, 4, 8, 12, 16, 20]


def test_own_descriptors_are_of_the_regions_that_extract_would_give(lfw):
    regions = [family["regions"] for family in DiskStore.open(lfw.store).front_end["families"]]
    assert regions == [enumerate_regions(count=24).tolist()] * 2


def test_the_split_of_a_fold_has_none_of_its_people(lfw):
    view2 = read_view2(lfw.protocol)
    for fold in (1, 2, 3):
        run = SplitRun.from_fold(view2, fold)
        assert {image.person for image in run.split.train.images} == set(small.NAMES) - set(small.FOLDS[fold - 1])
        assert run.pairs == view2.pairs


def test_people_with_few_images_are_tested_but_not_learned_from(lfw, tmp_path):
    protocol = small.write_protocol(tmp_path / "protocol")
    path = protocol / "peopleDevTrain.txt"
    path.write_text(path.read_text().replace("Person_C\t3", "Person_C\t1"))
    pairs = protocol / "pairsDevTrain.txt"
    kept = [line for line in pairs.read_text().splitlines() if "Person_C" not in line]
    n = sum(len(line.split()) == 3 for line in kept)
    others = [line for line in kept[1:] if len(line.split()) == 4]
    pairs.write_text("\n".join([str(len(others)), *kept[1:][:n][: len(others)], *others]) + "\n")
    settings = small.settings(selection__min_per_class=2, joint__min_per_class=2)
    experiment = replace(lfw.experiment, protocol=protocol, store=lfw.store, settings=settings, families=["cov"])
    replace(experiment, work=tmp_path / "few").view1()
    people = path.read_text().splitlines()
    path.write_text("\n".join([str(len(people) - 2), *(line for line in people[1:] if "Person_C" not in line)]) + "\n")
    replace(experiment, work=tmp_path / "without").view1()
    without = small.models(tmp_path / "without")
    assert without == small.models(tmp_path / "few")
    path.write_text("\n".join(people) + "\n")
    replace(experiment, work=tmp_path / "every", settings=small.SETTINGS).view1()
    assert all(content != without[name] for name, content in small.models(tmp_path / "every").items())


def test_only_so_many_images_of_a_person_are_learned_from_in_step_1(lfw, tmp_path):
    settings = small.settings(selection__max_per_class=2)
    experiment = replace(lfw.experiment, work=tmp_path, store=lfw.store, settings=settings, families=["cov"])
    experiment.view1()
    run = SplitRun.from_view1(read_view1(lfw.protocol))
    faces = experiment.faces(run.images)
    images = [image for image in run.training_images if image.number <= 2]
    rows = image_rows(images, faces.store.image_ids.tolist(), faces.store.labels)
    made = presets.learner(small.SETTINGS.learner, random_state=0).step1()
    means = as_learned_from(faces.view, "mean")
    members = [k for k in groups_with_mirror(means, "mean") if k in faces.members("cov")]
    made.fit(means, means.labels, rows=rows, groups=members)
    assert Metric.load(tmp_path / "view1" / "step1-cov.safetensors").basis == made.metric_.basis


def test_roots_of_histograms_are_learned_from_and_encoded_alike(lfw, tmp_path):
    experiment = replace(
        lfw.experiment, work=tmp_path, store=lfw.store, settings=small.settings(roots=True), families=["slbp"]
    )
    experiment.view1()
    metric = Metric.load(tmp_path / "view1" / "step1-slbp.safetensors")
    assert metric.extractor["families"][0]["parameters"]["root"] is True
    faces = experiment.faces(SplitRun.from_view1(read_view1(lfw.protocol)).images)
    store, some = faces.view, np.arange(0, 36, 5)
    features = store.panel(faces.members("slbp"), some)
    np.testing.assert_allclose(np.square(features).reshape(len(some), 24, 59).sum(axis=2), 1, atol=2e-3)
    codes = metric.with_mirror("none").encode([lfw.images / name for name in store.image_ids[some]])
    np.testing.assert_allclose(codes, metric.transform(store, some), atol=0.03 * np.abs(codes).max())


def test_roots_that_a_store_has_already_are_not_taken_again(lfw, tmp_path):
    files = list_images(lfw.images, labelled=True)[:6]
    plain, rooted = (
        Faces(
            extract(files, tmp_path / str(root), Extractor.over([SoftLBP(root=root)], n_regions=6)), ("slbp",), 6, True
        )
        for root in (False, True)
    )
    ours, theirs = (faces.of_families(["slbp"]).panel(range(6), np.arange(6)) for faces in (plain, rooted))
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    assert theirs.max() > 0.1


def test_a_store_that_was_not_made_of_pictures_is_refused(lfw, tmp_path):
    store = stores.disk_store(tmp_path / "store", np.ones((36, 48), np.float32), np.repeat(small.NAMES, 3), {"cov": 2})
    experiment = replace(lfw.experiment, store=store.path, families=["cov"], work=tmp_path)
    with pytest.raises(ValueError, match="description of an extractor cannot be used"):
        experiment.view1()


MISTAKES = {
    "step": (
        {"settings": small.settings(joint__ridge=0.2)},
        r"view1 was made with settings.learner.joint__ridge = 0.1.*0.2.*--work",
    ),
    "seed": (
        {"settings": replace(small.SETTINGS, seed=1)},
        r"view1 was made with settings.seed = 0.*--work",
    ),
    "mirror": (
        {"settings": small.settings(mirror="none")},
        r"view1 was made with settings.learner.mirror = 'mean'.*--work",
    ),
    "regions": (
        {"settings": replace(small.SETTINGS, regions=25)},
        r"has 24 regions of the family cov, but 25 are needed",
    ),
    "families": ({"families": ["cov", "sift"]}, r"no family 'sift': choose from cov, slbp"),
    "store": ({"families": ["slbp"], "settings": replace(small.SETTINGS, regions=12)}, r"settings.regions = 24.*12"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_other_settings_are_refused_before_the_work(lfw, mistake):
    changes, message = MISTAKES[mistake]
    before = small.kept(lfw.work)
    with pytest.raises(ValueError, match=message):
        replace(lfw.experiment, reporter=small.Recorder(), **changes).view2()
    assert small.kept(lfw.work) == before


def test_another_protocol_is_refused(lfw, tmp_path):
    protocol = small.write_protocol(tmp_path / "protocol")
    path = protocol / "pairs.txt"
    path.write_text(path.read_text().replace("Person_A\t1\t2", "Person_A\t2\t3"))
    with pytest.raises(ValueError, match=r"fold-01 was made with pairs = "):
        replace(lfw.experiment, protocol=protocol).view2()


def test_a_missing_picture_is_named_before_the_work(lfw, tmp_path):
    images = small.write_images(tmp_path / "images")
    (images / "Person_C" / "Person_C_0002.png").unlink()
    with pytest.raises(ValueError, match=r"Person_C/Person_C_0002.jpg is missing among the 35 images"):
        Experiment(images, lfw.protocol, tmp_path / "work", small.SETTINGS).view2()
    assert not (tmp_path / "work").exists()


def test_a_store_without_a_training_picture_is_reported(lfw, tmp_path):
    files = [file for file in list_images(lfw.images, labelled=True) if "Person_A_0003" not in file.name]
    extract(files, tmp_path / "store", Extractor.over(["cov"], n_regions=24))
    with pytest.raises(ValueError, match=r"Person_A/Person_A_0003.jpg is missing among the 35 images"):
        Experiment(
            lfw.images, lfw.protocol, tmp_path / "work", small.SETTINGS, ["cov"], store=tmp_path / "store"
        ).view1()


@pytest.mark.parametrize("folds", [[0], [4], [1, 1], []])
def test_folds_that_are_not_there(lfw, folds):
    with pytest.raises(ValueError, match=r"the protocol has folds 1 to 3; name some of them, each once"):
        lfw.experiment.view2(folds)


def test_a_damaged_record_of_settings_is_reported(lfw, tmp_path):
    (tmp_path / "view1").mkdir()
    (tmp_path / "view1" / "made-with.json").write_text("{")
    with pytest.raises(ValueError, match=r"made-with.json is damaged"):
        replace(lfw.experiment, work=tmp_path, store=lfw.store).view1()


def test_landmarks_align_the_pictures_that_are_learned_from_and_compared(lfw, tmp_path):
    """Points where aligned pictures have them leave all as it was; points elsewhere do not."""
    frame = Frame()
    files = list_images(lfw.images, labelled=True)
    room = np.array(load_image(files[0].path).grey.shape[::-1]) - (frame.width, frame.height)
    usual = {file.name: frame.places + room // 2 for file in files}
    shifted = {name: points + 2 for name, points in usual.items()}

    def distances(landmarks, name):
        experiment = replace(lfw.experiment, work=tmp_path / name, families=("cov",), landmarks=landmarks)
        experiment.view1()
        return np.load(tmp_path / name / "view1" / "step2-cov.distances.npy")

    plain = np.load(lfw.work / "view1" / "step2-cov.distances.npy")
    np.testing.assert_allclose(distances(usual, "usual"), plain, rtol=2e-2, atol=2e-2 * plain.std())
    assert np.corrcoef(distances(shifted, "shifted"), plain)[0, 1] < 0.999
