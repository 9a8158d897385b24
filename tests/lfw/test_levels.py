"""The experiment with families at several scales and crops."""

from dataclasses import replace

import numpy as np
import pytest

from samekind import Metric
from samekind.images.extractor import Extractor
from samekind.images.listing import list_images
from samekind.images.load import load_image
from samekind.lfw.faces import ordered_families
from samekind.lfw.measuring import distances_of_pairs, reading_all
from samekind.lfw.protocol import pair_rows, read_view1
from samekind.lfw.report import write_lfw_report
from samekind.lfw.tables import table1
from tests.lfw import small

WIDE = "slbp@0.5-75x80"


@pytest.fixture(scope="module")
def levels(lfw, tmp_path_factory):
    """View 1 of a family at the usual level and of one that sees more of the picture."""
    work = tmp_path_factory.mktemp("levels")
    experiment = replace(lfw.experiment, work=work, families=["slbp@0.5:75x80", "cov"], reporter=small.Recorder())
    return experiment, experiment.view1()


def test_families_have_one_order():
    asked = ["slbp@0.5:75x100", "cov@0.5", "slbp+r2", "slbp", "cov@0.5:75x100", "cov", "slbp+tt+r2"]
    expected = ("cov", "slbp", "slbp+r2", "slbp+r2+tt", "cov@0.5", "cov@0.5-75x100", "slbp@0.5-75x100")
    assert ordered_families(asked) == ordered_families(asked[::-1]) == expected


def test_each_family_counts_with_its_share_of_regions(levels):
    experiment, findings = levels
    # A family at another level has no step 2 of its own.
    assert [outcome.stage.families for outcome in findings.outcomes] == [("cov",)] * 2 + [(WIDE,), ("cov", WIDE)]
    assert findings.candidates == {"cov": 24, WIDE: 8}
    rows = {row[0]: row[1:] for row in table1(findings).rows}
    assert rows[f"{WIDE}, D"][0] == f"{8 * 8}"
    assert rows[f"{WIDE}, step 1"][-2:] == ["–", "–"]
    faces = experiment.faces([])
    assert {family: len(members) for family, members in faces.view.families.items()} == {"cov": 24, WIDE: 8}


def test_fewer_regions_of_a_store_are_fewer_at_each_level(levels, tmp_path):
    experiment, _ = levels
    store, settings = experiment.work / "store", replace(experiment.settings, regions=12)
    fewer = replace(experiment, work=tmp_path, store=store, settings=settings)
    assert {family: len(members) for family, members in fewer.faces([]).view.families.items()} == {"cov": 12, WIDE: 4}
    more = replace(fewer, settings=replace(settings, regions=48))
    with pytest.raises(ValueError, match="has 24 regions of the family cov, but 48 are needed"):
        more.faces([])
    other = replace(fewer, families=["slbp@0.5:75x90"])
    with pytest.raises(ValueError, match=r"has 0 regions of the family slbp@0\.5-75x90, but 4 are needed"):
        other.faces([])


@pytest.mark.parametrize("mirror", ["none", "mean", "distances"])
def test_distances_of_many_metrics_are_those_of_each_metrics_own_encoder(levels, lfw, mirror):
    experiment, _ = levels
    files, pairs = list_images(lfw.images, labelled=True), read_view1(lfw.protocol).test.pairs[::3]
    names = "step1-cov", f"step1-{WIDE}", f"step2-cov+{WIDE}"
    models = [experiment.work / "view1" / f"{name}.safetensors" for name in names]
    metrics = {path.name: replace(Metric.load(path), similarity=None).with_mirror(mirror) for path in models}
    made = distances_of_pairs(metrics, pairs, files)
    rows, _ = pair_rows(pairs, [file.name for file in files])
    for name, metric in metrics.items():
        codes = metric.encode([file.path for file in files])
        expected = metric.code_distance(codes[rows[:, 0]], codes[rows[:, 1]])
        np.testing.assert_allclose(made[name], expected, rtol=1e-3, atol=1e-5)


def test_each_region_of_each_level_is_read_once():
    some = Extractor.over(["cov", "cov@0.5"], n_regions=40)
    extractors = {"a": some.only([0, 3, 40, 41]), "b": some.only([3, 5, 41]), "c": some.only([45])}
    every, columns = reading_all(extractors)
    assert [(part.name, len(part.regions)) for part in every.parts] == [("cov", 3), ("cov@0.5", 3)]
    assert every.n_groups == 6
    picture = np.random.default_rng(0).random((150, 110), np.float32)
    for key, extractor in extractors.items():
        np.testing.assert_array_equal(every.features(picture)[columns[key]], extractor.features(picture))


def test_metrics_of_stores_with_and_without_other_levels_are_read_together(lfw):
    extractors = {
        families: Extractor.over(families, n_regions=40)
        for families in [("cov",), ("slbp@0.5-75x80", "cov"), ("cov@0.5-50x90",)]
    }
    every, columns = reading_all(extractors)
    assert every.frame.margin == (20, 15)
    image, name = load_image(lfw.images / "Person_A" / "Person_A_0001.png"), "it"
    features = every.features(every.aligner()(image, name).picture)
    for key, extractor in extractors.items():
        own = extractor.features(extractor.aligner()(image, name).picture)
        np.testing.assert_array_equal(features[columns[key]], own)


def test_the_page_draws_regions_over_what_their_level_shows(levels, tmp_path):
    experiment, findings = levels
    faces = experiment.mean_faces()
    assert {family: face.shape for family, face in faces.items()} == {"cov": (150, 110), WIDE: (80, 75)}
    page = write_lfw_report(tmp_path / "report.html", findings, faces).read_text()
    assert f"Where the {WIDE} regions lie" in page
