import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from samekind.model.calibration import Calibration, OperatingPoint, smallest_supported_rate

POINT = OperatingPoint(0.1, 2.0, 0.9, (0.05, 0.2), (0.8, 0.95))
CALIBRATION = Calibration(
    distances=(1.0, 3.0, 5.0),
    log_odds=(2.0, 1.0, -3.0),
    tail_rates=(0.01, 0.1, 0.5, 1.0),
    tail_thresholds=(1.0, 2.0, 4.0, 9.0),
    thresholds=(POINT,),
    n_classes=40,
    n_samples=200,
    n_same=500,
    n_other=1000,
    source="held-out classes",
)


def test_log_odds_are_linear_between_the_knots_and_beyond():
    d = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0])
    p = CALIBRATION.probability(d)
    np.testing.assert_allclose(np.log(p / (1 - p)), [2.5, 2.0, 1.5, 1.0, -1.0, -3.0, -7.0])


def test_probability_falls_with_the_distance_and_stays_a_probability():
    p = CALIBRATION.probability(np.linspace(0, 300, 2000))
    assert (np.diff(p) < 0).all()
    assert (p > 0).all()
    assert (p < 1).all()
    np.testing.assert_array_equal(CALIBRATION.probability([np.inf, 1e300]), [0.0, 0.0])


def test_probability_is_one_half_at_the_threshold():
    assert CALIBRATION.threshold == 3.5
    assert CALIBRATION.probability(CALIBRATION.threshold) == 0.5


def test_prior_multiplies_the_odds():
    even, rare = (CALIBRATION.probability([0.5, 4.2], prior=prior) for prior in (0.5, 0.01))
    np.testing.assert_allclose(rare / (1 - rare), even / (1 - even) / 99)
    with pytest.raises(ValueError, match="prior"):
        CALIBRATION.probability([1.0], prior=1.0)


def test_a_single_knot_says_even_odds_everywhere():
    blind = replace(CALIBRATION, distances=(2.0,), log_odds=(0.0,))
    np.testing.assert_array_equal(blind.probability([0.0, 2.0, 50.0]), 0.5)
    assert blind.threshold == 2.0
    assert any("does not tell" in line for line in blind.describe())


def test_threshold_at_interpolates_in_the_logarithm_of_the_rate():
    assert CALIBRATION.threshold_at(0.1) == pytest.approx(2.0)
    assert CALIBRATION.threshold_at(math.sqrt(0.1 * 0.01)) == pytest.approx(1.5)


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.1, 0.3, 0.5, 0.9])
def test_false_match_rate_is_the_inverse_of_threshold_at(rate):
    assert CALIBRATION.false_match_rate(CALIBRATION.threshold_at(rate)) == pytest.approx(rate)


def test_false_match_rate_of_equal_thresholds_is_the_highest_and_of_tiny_ones_the_smallest_known():
    tied = replace(CALIBRATION, tail_thresholds=(1.0, 2.0, 2.0, 9.0))
    assert tied.false_match_rate(2.0) == pytest.approx(0.5)
    assert tied.false_match_rate(0.0) == pytest.approx(0.01) == tied.smallest_rate
    assert tied.false_match_rate(100.0) == pytest.approx(1.0)


def test_a_rate_below_the_smallest_is_refused_with_what_the_pairs_support():
    with pytest.raises(ValueError, match=r"0\.001 was asked for, but 1,000 .* 40 classes .* from 0\.01.*more classes"):
        CALIBRATION.threshold_at(0.001)
    none = replace(CALIBRATION, tail_rates=(), tail_thresholds=(), thresholds=())
    for ask in (none.threshold_at, none.false_match_rate):
        with pytest.raises(ValueError, match="support no false match rate"):
            ask(0.1)
    assert none.smallest_rate is None
    assert any("No false match rate is stated" in line for line in none.describe())


def test_support_needs_ten_false_matches_and_four_classes():
    assert smallest_supported_rate(1000, 4) == 0.01
    assert smallest_supported_rate(1000, 3) is None
    assert smallest_supported_rate(19, 10) is None


def test_json_gives_an_equal_calibration_back():
    text = json.dumps(CALIBRATION.to_json(), allow_nan=False)
    assert Calibration.from_json(json.loads(text)) == CALIBRATION
    assert replace(CALIBRATION, n_same=501) != CALIBRATION
    assert hash(Calibration.from_json(json.loads(text))) == hash(CALIBRATION)


def changed(**values):
    return {**CALIBRATION.to_json(), **values}


POINT_JSON = CALIBRATION.to_json()["thresholds"][0]
MISTAKES = {
    "must be a mapping": [1],
    "missing \\['n_same'\\]": {k: v for k, v in CALIBRATION.to_json().items() if k != "n_same"},
    "unknown \\['colour'\\]": changed(colour=1),
    "distances must be a list": changed(distances="123"),
    "distances must hold finite numbers; got nan": changed(distances=[1.0, math.nan, 5.0]),
    "distances must hold finite numbers; got True": changed(distances=[True, 3.0, 5.0]),
    "distances must hold finite numbers; got '1'": changed(distances=["1", 3.0, 5.0]),
    "distances must rise": changed(distances=[1.0, 1.0, 5.0]),
    "log_odds must fall strictly": changed(log_odds=[2.0, 2.0, -1.0]),
    "from at least 0 to at most 0": changed(log_odds=[3.0, 2.0, 1.0]),
    "as many, one at least; got 3, 2": changed(log_odds=[1.0, -1.0]),
    "tail_rates must be above 0 and rise": changed(tail_rates=[0.01, 0.5, 0.1, 1.0]),
    "tail_rates must lie between": changed(tail_rates=[0.01, 0.1, 0.5, 2.0]),
    "tail_thresholds must not fall": changed(tail_thresholds=[1.0, 3.0, 2.0, 4.0]),
    "tail_rates and tail_thresholds": changed(tail_thresholds=[1.0]),
    "n_classes must be a positive integer; got 2.5": changed(n_classes=2.5),
    "n_other must be a positive integer; got True": changed(n_other=True),
    "source must be text": changed(source=3),
    "thresholds must be a list": changed(thresholds={}),
    "An operating point must be a mapping": changed(thresholds=[3]),
    "An operating point has the fields": changed(thresholds=[{}]),
    "false_match_interval must be two rates": changed(thresholds=[{**POINT_JSON, "false_match_interval": [0.2, 0.1]}]),
    "threshold must hold finite": changed(thresholds=[{**POINT_JSON, "threshold": None}]),
    "true_match_rate must lie": changed(thresholds=[{**POINT_JSON, "true_match_rate": 1.5}]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_in_json_are_named(message):
    with pytest.raises(ValueError, match=message):
        Calibration.from_json(MISTAKES[message])


def test_distances_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        CALIBRATION.probability([np.nan])
    with pytest.raises(ValueError, match="NaN"):
        CALIBRATION.false_match_rate(np.nan)


def test_description_says_how_many_labels_it_rests_on_and_warns_of_few():
    many, few = CALIBRATION.describe(), replace(CALIBRATION, n_classes=4).describe()
    assert "200 samples of 40 labels (held-out classes)" in many[0]
    assert not any("Only" in line for line in many)
    assert any(line.startswith("Only 4 labels were left out, so") for line in few)
    assert any("10 % of other-class pairs" in line and "5 to 20 %" in line and "90.0 %" in line for line in many)


def test_use_needs_numpy_alone():
    script = "import sys, samekind.model.calibration; assert not {'scipy', 'sklearn', 'numba'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
