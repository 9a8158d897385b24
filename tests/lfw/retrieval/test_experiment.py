"""The whole experiment on a dozen people."""

import json

import numpy as np
import pytest

from samekind import Metric
from samekind.kernels.lengths import normalised
from samekind.lfw.retrieval.experiment import USUAL, by_variance, discriminants
from samekind.lfw.retrieval.report import write_retrieval_report
from samekind.lfw.retrieval.tables import as_json, dimensions_table, figure4_table, table3, table4, trace_table
from tests.lfw import small
from tests.lfw.retrieval.conftest import experiment_of

pytestmark = pytest.mark.slow


def test_nobody_who_is_looked_for_is_learned_from(retrieval):
    features = retrieval.experiment.features
    asked = set(features.labels[features.queries].tolist())
    assert asked == set(small.VIEW1[1])
    assert not asked & set(features.labels[features.train].tolist())


def test_table_3_has_a_row_for_each_number_of_target_neighbours(retrieval):
    rows = table3(retrieval.findings).texts
    assert [row[0] for row in rows] == ["1", "all"]
    assert all(0 <= row.figures.map_q.value <= 1 for row in retrieval.findings.neighbors)
    assert retrieval.findings.neighbors[0].fit.facts["converged"]


def test_table_4_has_both_learners_and_says_what_was_not_run(retrieval):
    cells = retrieval.findings.cells
    assert [(row.dims, row.neighbors) for row in cells["joint"]] == [(4, 1), (4, 3)]
    first, second = table4(cells).texts
    assert "min (6)" in first[3]
    assert second[3] == second[5] == "not run: 0 people with more than 3 images"
    assert figure4_table(cells).columns[3:5] == ["3-NN error: LMNN", "3-NN error: joint"]
    # The stand-in ends at the identity: its figures are those of the principal features.
    plain = retrieval.experiment.features.principal(4).figures(n_jobs=1)
    assert cells["lmnn"][0].figures == plain
    for learner, steps in retrieval.findings.steps.items():
        assert steps.errors[-1] == cells[learner][0].figures.error.value
        assert list(steps.iterations) == sorted(steps.iterations)


def test_codes_of_several_lengths_are_cut_from_one_solution(retrieval):
    curves = {curve.name: curve for curve in retrieval.findings.curves}
    features = retrieval.experiment.features
    assert curves["PCA"].lengths == (2, 5)
    assert curves["PCA"].figures[1] == features.principal(5).figures(n_jobs=1)
    plain = curves["Euclidean"]
    assert plain.lengths == (2, 5, features.n_features)
    assert plain.figures[-1].map_ql.value == pytest.approx(features.figures(n_jobs=1).map_ql.value, rel=1e-6)
    most = np.argsort(features.X[features.train].var(axis=0))[:-3:-1]
    assert plain.figures[0] == features.figures(np.eye(features.n_features)[most], n_jobs=1)
    lda = discriminants(features.principal(4))
    assert curves["LDA, 4 principal features"].figures[0] == features.principal(4).figures(lda[:2], n_jobs=1)
    whole = retrieval.findings.neighbors[1].fit.metric
    assert curves["joint, by eigenvalue"].figures[0] == features.principal(10).figures(whole[:2], n_jobs=1)
    turned = by_variance(whole, features.principal(10))
    np.testing.assert_allclose(turned.T @ turned, whole.T @ whole, atol=1e-5)
    variances = (features.principal(10).X[features.train] @ turned.T).var(axis=0)
    assert (np.diff(variances) <= 1e-6).all()
    assert curves["joint"].figures[0] == features.principal(10).figures(turned[:2], n_jobs=1)
    assert len(dimensions_table(retrieval.findings).rows) == sum(len(curve.lengths) for curve in curves.values())


def test_section_4_3_keeps_its_trace(retrieval):
    row = retrieval.findings.trace
    assert (row.fit.metric**2).sum() <= 6.001
    assert row.fit.facts["solver"] == "factored"
    assert row.fit.facts["relative_gap"] < 0.01
    scale = retrieval.findings.scales[0]
    assert (scale.trace.metric**2).sum() <= 6.001
    assert len(trace_table(retrieval.findings).rows) == 2
    assert [(row.dims, row.neighbors) for row in scale.cells["joint"]] == [(4, 1), (4, 3)]
    assert "memory" in scale.cells["lmnn"][0].fit.status


def test_the_model_gives_the_codes_that_were_judged(retrieval, tmp_path):
    experiment, row = retrieval.experiment, retrieval.findings.trace
    experiment.model(row).save(tmp_path / "model.safetensors")
    metric = Metric.load(tmp_path / "model.safetensors")
    names = [image.file_name(".png") for image in experiment.cast.images[:4]]
    codes = metric.encode([retrieval.home / "images" / name for name in names])
    features = experiment.features.principal(10)
    expected = normalised((features.X[:4] - features.origin) @ row.fit.metric.T, metric.normalise)
    assert metric.normalise == "root"
    scale = np.sqrt(((expected[0] - expected[1]) ** 2).sum() / ((codes[0] - codes[1]) ** 2).sum())
    found = scale * np.linalg.norm(codes[0] - codes[2])
    assert found == pytest.approx(np.linalg.norm(expected[0] - expected[2]), rel=0.01)


def test_what_is_finished_is_not_done_again(retrieval):
    again = experiment_of(retrieval.home)
    again.lmnn_python = retrieval.experiment.lmnn_python
    found = again.run(USUAL)
    assert not again.base.reporter.iterations, "step 1 is there"
    assert not [title for title in again.base.reporter.counts if "learning" in title or "dimensions" in title]
    assert as_json(found)["dimensions"] == as_json(retrieval.findings)["dimensions"]


def test_the_page_and_json_have_everything(retrieval, tmp_path):
    page = write_retrieval_report(tmp_path / "page.html", retrieval.findings).read_text()
    for text in ("Target neighbours", "Error against iterations", "Final dimensions", "Times at 1,000", "LMNN, k = 1"):
        assert text in page
    written = json.loads(json.dumps(as_json(retrieval.findings), allow_nan=False))
    assert written["people"] == {"train": [6, 18], "queries": [6, 18], "distractors": [6, 18]}
    assert written["scale"][0]["samples"] == 1_000


def test_mirror_distances_are_refused(retrieval):
    flipped = retrieval.experiment.settings.experiment.changed(["mirror=distances"])
    with pytest.raises(ValueError, match="not linear"):
        experiment_of(retrieval.home, experiment=flipped).run()
