"""The paper's tables with our figures, and the page."""

import json
import re

import numpy as np
import pytest

from samekind.lfw.report import write_lfw_report
from samekind.lfw.tables import as_json, curve_table, fold_table, table1, table2


def cell(table, row, column):
    (found,) = [each for each in table.rows if each[0] == row]
    return found[table.columns.index(column)]


def test_table_1_has_the_papers_figures(lfw):
    table = table1(lfw.view2)
    assert table.columns[1:] == ["rank", "error (view 1)", "error (training folds)", "paper's rank", "paper's error"]
    assert {row[0]: row[4:] for row in table.rows} == {
        "cov, D": ["596,700", "–"],
        "cov, step 1": ["1,627 ± 53", "0.116 ± 0.013"],
        "cov, step 2": ["1,312 ± 15", "0.083 ± 0.011"],
        "slbp, D": ["596,700", "–"],
        "slbp, step 1": ["1,507 ± 34", "0.145 ± 0.020"],
        "slbp, step 2": ["1,179 ± 10", "0.100 ± 0.013"],
        "cov + slbp, step 2": ["2,302 ± 21", "0.074 ± 0.014"],
    }


def test_table_1_has_mean_and_deviation_over_our_folds(lfw):
    table = table1(lfw.view2)
    for outcome in lfw.view2.outcomes:
        ranks = [facts["rank"] for facts in outcome.facts]
        assert cell(table, outcome.stage.title, "rank") == f"{np.mean(ranks):.0f} ± {np.std(ranks, ddof=1):.0f}"
        for source, result in outcome.results.items():
            errors = 1 - result.accuracies
            shown = cell(table, outcome.stage.title, f"error ({source})")
            assert shown == f"{errors.mean():.3f} ± {errors.std(ddof=1):.3f}"
    assert cell(table, "cov, D", "rank") == f"{24 * 8}"


def test_table_2_has_the_papers_rows_and_ours(lfw):
    table = table2(lfw.view2)
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["the paper: CMD + SLBP, aligned", "view 1"] == [92.58, 1.36]
    assert rows["face.com r2011b", None] == [91.30, 0.30]
    for outcome in lfw.view2.outcomes:
        for source, result in outcome.results.items():
            if outcome.stage.step == 2:
                mean, spread = rows[f"samekind: {' + '.join(outcome.stage.families)}", source]
                assert mean == pytest.approx(100 * result.accuracy, abs=0.005)
                assert spread == pytest.approx(100 * result.standard_deviation, abs=0.005)


def test_the_curves_say_the_same_as_the_results(lfw):
    joint = [outcome for outcome in lfw.view2.outcomes if outcome.stage.step == 2]
    for outcome, row in zip(joint, curve_table(lfw.view2).rows, strict=True):
        result = outcome.results["view 1"]
        low, high = result.true_match_interval(1e-3)
        assert row[1] == f"{100 * result.auc:.2f}"
        assert row[4] == f"{100 * result.true_match_rate:.1f} ({100 * low:.1f} to {100 * high:.1f})"
    assert all("(" not in cell for row in curve_table(lfw.view1).rows for cell in row)


def test_a_single_split_has_no_spread(lfw):
    assert "±" not in "".join(cell for row in table1(lfw.view1).rows for cell in row[1:4])
    assert {row[3] for row in table2(lfw.view1).rows if row[0].startswith("samekind")} == {None}


def test_every_fold_has_a_row(lfw):
    assert [row[0] for row in fold_table(lfw.view2).rows] == ["Fold 1", "Fold 2", "Fold 3"]


def test_json_has_every_stage_and_no_nan(lfw):
    for findings in (lfw.view1, lfw.view2):
        parsed = json.loads(json.dumps(as_json(findings), allow_nan=False))
        assert [stage["families"] for stage in parsed["stages"]] == [
            list(each.stage.families) for each in findings.outcomes
        ]
        assert parsed["settings"]["learner"]["max_groups"] == 3
        first = findings.outcomes[0].results
        shown, result = parsed["stages"][0]["results"][0], next(iter(first.values()))
        assert shown["accuracy"] == result.accuracy
        assert shown["standard_error"] == (None if findings is lfw.view1 else result.standard_error)
        assert [each["at"] for each in shown["true_match_rates"]] == [1e-2, 1e-3]
        assert shown["true_match_rates"][1]["is"] == result.true_match_rate


@pytest.mark.parametrize("view", ["view1", "view2"])
def test_the_page_shows_the_chosen_regions_over_the_mean_face(lfw, view, tmp_path):
    findings = getattr(lfw, view)
    faces = lfw.experiment.mean_faces()
    assert {family: face.shape for family, face in faces.items()} == {"cov": (150, 110), "slbp": (150, 110)}
    assert all(0.1 < face.mean() < 0.9 for face in faces.values())
    page = write_lfw_report(tmp_path / "report.html", findings, faces).read_text()
    for heading in (
        "Chosen regions: cov",
        "Chosen regions: slbp",
        "Where the cov regions lie",
        "ROC",
        "Settings",
    ):
        assert heading in page
    assert page.count("<svg") == (5 if view == "view1" else 6)
    assert "92.58" in page
    assert page.count('id="figure') > 3
    drawn = re.findall(r"The first 3 of 3 of (View 1|Fold 1), over the mean face", page)
    assert drawn == ["View 1" if view == "view1" else "Fold 1"] * 2
