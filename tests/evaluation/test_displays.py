import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
from matplotlib.figure import Figure

import samekind.evaluation as evaluation
from samekind.evaluation import (
    CalibrationDisplay,
    ConvergenceDisplay,
    DistanceHistogramDisplay,
    FoldsDisplay,
    RocDisplay,
    SpectrumDisplay,
    reliability,
    roc_curve,
    verify_folds,
)
from samekind.evaluation.displays import figure_svg

DISTANCES = np.array([1.0, 3.0, 2.0, 4.0, 5.0])
SAME = np.array([True, True, False, False, False])


class PlainMetric:
    def pair_distance(self, pairs):
        return np.square(pairs[:, 0] - pairs[:, 1]).sum(axis=-1)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def all_displays():
    return [
        RocDisplay(roc_curve(DISTANCES, SAME)).plot(),
        SpectrumDisplay([3.0, 1.0]).plot(),
        ConvergenceDisplay([{"step": "joint", "iteration": 0, "objective": 1.0}]).plot(),
        DistanceHistogramDisplay(DISTANCES, SAME).plot(),
        FoldsDisplay(verify_folds(DISTANCES, SAME, [0, 1, 0, 1, 0])).plot(),
        CalibrationDisplay(reliability([0.1, 0.8], [False, True])).plot(),
    ]


def test_roc_draws_the_curve_given():
    roc = roc_curve(DISTANCES, SAME)
    display = RocDisplay(roc).plot(name="mine")
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), roc.false_match_rate)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), roc.true_match_rate)
    assert legend_texts(display.ax_) == [f"mine (AUC {roc.auc:.3f})"]


def test_roc_without_a_name_still_tells_its_area():
    assert legend_texts(RocDisplay(roc_curve(DISTANCES, SAME)).plot().ax_) == ["AUC 0.833"]


def test_roc_draws_several_curves_by_name_in_colours_of_their_own():
    curves = {"good": roc_curve(DISTANCES, SAME), "bad": roc_curve(-DISTANCES, SAME)}
    display = RocDisplay(curves).plot()
    for line, roc in zip(display.lines_, curves.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), roc.true_match_rate)
    assert [text.split()[0] for text in legend_texts(display.ax_)] == ["good", "bad"]
    assert display.lines_[0].get_color() != display.lines_[1].get_color()


def test_roc_from_distances_and_from_an_estimator_agree():
    pairs = np.stack([np.zeros((5, 1)), np.sqrt(DISTANCES)[:, None]], axis=1)
    one = RocDisplay.from_distances(DISTANCES, SAME)
    other = RocDisplay.from_estimator(PlainMetric(), pairs, SAME)
    np.testing.assert_array_equal(one.lines_[0].get_ydata(), other.lines_[0].get_ydata())
    assert legend_texts(other.ax_)[0].startswith("PlainMetric")
    assert legend_texts(RocDisplay.from_estimator(PlainMetric(), pairs, SAME, name="x").ax_) == ["x (AUC 0.833)"]


def test_spectrum_is_drawn_largest_first_on_a_log_scale():
    display = SpectrumDisplay([0.1, 5.0, 0.0, 2.0]).plot(name="A")
    np.testing.assert_array_equal(display.line_.get_ydata(), [5.0, 2.0, 0.1, 0.0])
    np.testing.assert_array_equal(display.line_.get_xdata(), [1, 2, 3, 4])
    assert display.ax_.get_yscale() == "log"
    assert legend_texts(display.ax_) == ["A"]


def test_spectrum_of_the_zero_metric_can_be_drawn():
    display = SpectrumDisplay(np.zeros(3)).plot()
    assert display.ax_.get_yscale() == "linear"
    assert figure_svg(display.figure_).startswith("<svg")


def record(step, iteration, objective, **more):
    return {"step": step, "iteration": iteration, "objective": objective, **more}


def test_convergence_of_one_step_is_one_panel_with_a_line_per_family():
    history = [record("selection", i, 10.0 - i, family="covariance") for i in range(3)]
    history += [record("selection", i, 20.0 - i, family="lbp") for i in range(2)]
    display = ConvergenceDisplay(history).plot()
    assert [list(line.get_ydata()) for line in display.lines_] == [[10.0, 9.0, 8.0], [20.0, 19.0]]
    assert [list(line.get_xdata()) for line in display.lines_] == [[0, 1, 2], [0, 1]]
    assert {line.axes for line in display.lines_} == {display.ax_}
    assert legend_texts(display.ax_) == ["covariance", "lbp"]
    assert display.ax_.get_title() == "selection"


def test_convergence_of_two_steps_is_a_panel_per_step_and_family():
    history = [record("selection", 0, 3.0, family="a"), record("selection", 0, 2.0, family="b")]
    history += [record("joint", 0, 5.0), record("joint", 1, 4.0)]
    display = ConvergenceDisplay(iter(history)).plot()
    assert [panel.get_title() for panel in display.ax_] == ["selection, a", "selection, b", "joint"]
    assert [list(panel.lines[0].get_ydata()) for panel in display.ax_] == [[3.0], [2.0], [5.0, 4.0]]


def test_convergence_uses_the_axes_given_and_asks_for_enough_of_them():
    display = ConvergenceDisplay([record("selection", 0, 3.0), record("joint", 0, 5.0)])
    panels = Figure().subplots(1, 2)
    assert list(display.plot(ax=panels).ax_) == list(panels)
    with pytest.raises(ValueError, match=r"2 panel.*got 1 axes"):
        display.plot(ax=panels[0])


@pytest.mark.parametrize(("history", "message"), [([], "empty"), ([{"step": "joint"}], "lacks.*iteration.*objective")])
def test_convergence_names_what_the_history_lacks(history, message):
    with pytest.raises(ValueError, match=message):
        ConvergenceDisplay(history).plot()


def test_histogram_draws_each_kind_with_area_one_over_the_same_bins():
    display = DistanceHistogramDisplay(DISTANCES, SAME, threshold=2.5).plot(bins=4)
    same, _, other, _ = (patch.get_data() for patch in display.ax_.patches)
    np.testing.assert_array_equal(same.edges, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(other.edges, same.edges)
    np.testing.assert_allclose(same.values, [1 / 2, 0, 1 / 2, 0])
    np.testing.assert_allclose(other.values, [0, 1 / 3, 0, 2 / 3])
    assert display.ax_.lines[0].get_xdata()[0] == 2.5
    assert legend_texts(display.ax_) == ["same class", "other class", "threshold"]


def test_histogram_refuses_pairs_of_one_kind():
    with pytest.raises(ValueError, match="All of the 5 pairs"):
        DistanceHistogramDisplay(DISTANCES, np.ones(5, dtype=bool)).plot()


def test_displays_draw_on_the_axes_given():
    ax = Figure().subplots()
    display = RocDisplay(roc_curve(DISTANCES, SAME)).plot(ax=ax)
    assert (display.ax_, display.figure_) == (ax, ax.figure)


@pytest.mark.parametrize("display", all_displays(), ids=lambda display: type(display).__name__)
def test_displays_are_quiet_and_labelled(display):
    assert display.ax_.figure is display.figure_
    assert display.ax_.get_xlabel()
    assert display.ax_.get_ylabel()
    assert not any(display.ax_.spines[side].get_visible() for side in ("top", "right"))


def test_svg_is_the_same_each_time():
    first, again = (figure_svg(RocDisplay(roc_curve(DISTANCES, SAME)).plot().figure_) for _ in range(2))
    assert first == again
    assert "True match rate" in first


def test_public_names_are_all_there_and_others_are_not():
    assert all(hasattr(evaluation, name) for name in evaluation.__all__)
    assert set(evaluation.__all__) <= set(dir(evaluation))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        evaluation.nothing  # noqa: B018


def test_import_alone_brings_neither_matplotlib_nor_jinja2_and_no_display_touches_pyplot():
    script = """
import sys
import samekind.evaluation as evaluation
assert not {"matplotlib", "jinja2"} & set(sys.modules), "at import"
evaluation.SpectrumDisplay([2.0, 1.0]).plot()
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules, "pyplot"
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FOLDS = np.array([0, 1, 0, 1, 0])


class FittedMetric(PlainMetric):
    components_ = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    threshold_ = 2.5
    history_: ClassVar = [{"step": "joint", "iteration": 0, "objective": 1.0}]


def pairs_at(distances):
    return np.stack([np.zeros((len(distances), 1)), np.sqrt(distances)[:, None]], axis=1)


def test_folds_are_drawn_in_percent_with_mean_and_error():
    result = verify_folds(DISTANCES, SAME, FOLDS, threshold=2.5)
    display = FoldsDisplay(result).plot(name="mine")
    np.testing.assert_allclose(display.lines_[0].get_ydata(), 100 * result.accuracies)
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["0", "1"]
    assert legend_texts(display.ax_) == [f"mine {result}"]
    assert display.ax_.lines[0].get_ydata()[0] == 100 * result.accuracy
    band = display.ax_.patches[0].get_extents().transformed(display.ax_.transData.inverted())
    assert band.height == pytest.approx(200 * result.standard_error)


def test_folds_of_several_results_have_colours_of_their_own():
    result = verify_folds(DISTANCES, SAME, FOLDS)
    display = FoldsDisplay({"a": result, "b": result}).plot()
    assert [text[0] for text in legend_texts(display.ax_)] == ["a", "b"]
    assert display.lines_[0].get_color() != display.lines_[1].get_color()


@pytest.mark.parametrize("options", [{}, {"threshold": 2.5}, {"view1": (DISTANCES, SAME)}])
def test_folds_from_distances_and_from_an_estimator_agree(options):
    one = FoldsDisplay.from_distances(DISTANCES, SAME, FOLDS, **options)
    other = FoldsDisplay.from_estimator(PlainMetric(), pairs_at(DISTANCES), SAME, FOLDS, **options)
    assert one.result == verify_folds(DISTANCES, SAME, FOLDS, **options)
    np.testing.assert_array_equal(one.lines_[0].get_ydata(), other.lines_[0].get_ydata())
    assert legend_texts(other.ax_) == [f"PlainMetric {other.result}"]


def test_histogram_from_an_estimator_has_its_distances_and_threshold():
    plain = DistanceHistogramDisplay.from_estimator(PlainMetric(), pairs_at(DISTANCES), SAME, bins=4)
    fitted = DistanceHistogramDisplay.from_estimator(FittedMetric(), pairs_at(DISTANCES), SAME)
    given = DistanceHistogramDisplay.from_estimator(FittedMetric(), pairs_at(DISTANCES), SAME, threshold=4.0)
    np.testing.assert_allclose(plain.distances, DISTANCES)
    assert len(plain.ax_.patches[0].get_data().values) == 4
    assert (plain.threshold, fitted.threshold, given.threshold) == (None, 2.5, 4.0)


def test_spectrum_and_convergence_from_an_estimator():
    spectrum = SpectrumDisplay.from_estimator(FittedMetric())
    np.testing.assert_allclose(spectrum.line_.get_ydata(), [4.0, 1.0])
    assert legend_texts(spectrum.ax_) == ["FittedMetric"]
    convergence = ConvergenceDisplay.from_estimator(FittedMetric())
    assert list(convergence.lines_[0].get_ydata()) == [1.0]
