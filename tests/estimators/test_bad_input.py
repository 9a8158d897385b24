"""Bad input gets a clear error before any work is done."""

import numpy as np
import pytest

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric
from tests.cases import with_settings

LEARNERS = [SparseBlockMetric, JointMetric, EnsembleMetric]
GROUPED = [SparseBlockMetric, EnsembleMetric]
X = np.arange(24.0).reshape(6, 4) % 7
y = np.array([0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("bad_X", "bad_y", "message"),
    [
        (np.where(X == 3, np.nan, X), y, "NaN"),
        (np.where(X == 3, np.inf, X), y, "infinity"),
        (X, np.zeros(6, int), "1 class .* at least 2 are needed"),
        (X, np.arange(6), "All 6 classes of y have a single sample"),
        (X[:, 0], y, "Expected 2D array"),
        (X, y[:4], "inconsistent numbers of samples"),
        (X, np.linspace(0, 1, 6), "Unknown label type"),
        (X[:1], y[:1], "minimum of 2 is required"),
    ],
)
def test_bad_data(learner, bad_X, bad_y, message):
    with pytest.raises(ValueError, match=message):
        learner().fit(bad_X, bad_y)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hinge"}, "loss='hinge' is not known: choose one of 'pairwise', 'triplet'"),
        ({"threshold": -1}, "threshold=-1 must be a finite number above 0"),
        ({"threshold": "14"}, "threshold='14' must be a finite number"),
        ({"pair_balance": "none"}, "pair_balance='none' is not known"),
        ({"normalise": "cube"}, "normalise='cube' is not known: choose one of .*'none', 'root', 'unit'"),
        ({"normalise": None}, "normalise=None is not known"),
        ({"min_per_class": 0}, "min_per_class=0 must be a whole number of at least 1"),
        ({"min_per_class": 3}, "min_per_class=3, .* leave 0 of 6 samples"),
        ({"whiten": 0}, "whiten=0 must be a whole number of at least 1"),
        ({"whiten": "yes"}, "whiten='yes' must be a whole number"),
        # Those of the other loss are checked as well.
        ({"loss": "triplet", "threshold": -1}, "threshold=-1 must be a finite number above 0"),
        ({"loss": "triplet", "pair_balance": "none"}, "pair_balance='none' is not known"),
        ({"loss": "pairwise", "beta": 0}, "beta=0 must be a finite number above 0"),
        ({"loss": "pairwise", "n_neighbors": 0}, "n_neighbors=0 must be a whole number of at least 1"),
        ({"loss": "triplet", "beta": 0}, "beta=0 must be a finite number above 0"),
        ({"loss": "triplet", "n_neighbors": 0}, "n_neighbors=0 must be a whole number of at least 1"),
        ({"loss": "triplet", "n_neighbors": 1.5}, "n_neighbors=1.5 must be a whole number"),
        ({"ridge": -0.1}, "ridge=-0.1 must be a finite number of at least 0"),
        ({"ridge": "none"}, "ridge='none' must be"),
        ({"tol": 0}, "tol=0 must be a finite number above 0"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number"),
        ({"max_iter": True}, "max_iter=True must be a whole number"),
        ({"memory_budget": "much"}, "memory_budget='much' is no amount of memory"),
        ({"memory_budget": -5}, "memory_budget=-5 is no amount of memory"),
        ({"n_jobs": 0}, "n_jobs=0 means no work"),
        ({"callback": 3}, "callback=3 must be None or a function"),
    ],
)
def test_bad_parameters_of_all(learner, parameters, message):
    with pytest.raises(ValueError, match=message):
        with_settings(learner(), **parameters).fit(X, y)


@pytest.mark.parametrize("learner", GROUPED)
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"max_groups": 0}, ValueError, "max_groups=0 must be a whole number of at least 1"),
        ({"max_groups": "many"}, ValueError, "max_groups='many' must be a whole number"),
        ({"max_groups": 2.5}, ValueError, "max_groups=2.5 must be a whole number"),
        ({"feature_groups": 0}, ValueError, "feature_groups=0 is no group size"),
        ({"feature_groups": []}, ValueError, "feature_groups is empty"),
        ({"feature_groups": [[0, 1], [4]]}, ValueError, "has column 4, but X has 4 features"),
        ({"feature_groups": [[0, -1]]}, ValueError, "has column -1, but X has 4 features"),
        ({"feature_groups": {"a": [0, 1], "b": [1, 2]}}, ValueError, "Column 1 stands in group 'a' and in 'b'"),
        ({"feature_groups": [[0, 0]]}, ValueError, "names a column twice"),
        ({"feature_groups": [slice(0, 0)]}, ValueError, "has no columns"),
        ({"feature_groups": [[0.5]]}, ValueError, "integer column indices"),
        ({"feature_groups": "ab"}, TypeError, "is of type str"),
        ({"feature_groups": None}, TypeError, "is of type NoneType"),
        ({"score_norm": "l2"}, ValueError, "score_norm='l2' is not known"),
    ],
)
def test_bad_groups(learner, parameters, error, message):
    with pytest.raises(error, match=message):
        with_settings(learner(), **parameters).fit(X, y)


@pytest.mark.parametrize("learner", [JointMetric, EnsembleMetric])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": "few"}, "n_components='few' must be a whole number"),
        ({"target": "unit"}, "target='unit' is not known: choose one of 'auto', 'zero', 'identity'"),
        ({"solver": "newton"}, "solver='newton' is not known"),
        ({"trace_bound": 0}, "trace_bound=0 must be a finite number above 0"),
        ({"trace_bound": -np.inf}, "trace_bound=-inf must be a finite number above 0"),
        ({"trace_bound": np.nan}, "trace_bound=nan must be a finite number above 0"),
    ],
)
def test_bad_parameters_of_step_2(learner, parameters, message):
    with pytest.raises(ValueError, match=message):
        with_settings(learner(), **parameters).fit(X, y)


def test_codes_are_no_longer_than_the_features():
    with pytest.raises(ValueError, match="n_components=5 must be a whole number from 1 to 4, the number of features"):
        JointMetric(5).fit(X, y)
    with pytest.warns(UserWarning, match="Codes have 4 numbers, fewer than the 5 that were asked for"):
        assert EnsembleMetric(n_components=5).fit(X, y).transform(X).shape == (6, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"selection": JointMetric()}, r"selection=JointMetric\(\) must be a SparseBlockMetric, a Basis or None"),
        ({"joint": SparseBlockMetric()}, r"joint=SparseBlockMetric\(\) must be a JointMetric or None"),
        ({"normalise_groups": "cube"}, "normalise_groups='cube' is not known"),
        ({"weigh": -1}, "weigh=-1 must be a finite number of at least 0"),
        ({"weigh": "much"}, "weigh='much' must be a finite number"),
        ({"principal": 0}, "principal=0 must be a whole number of at least 1"),
        ({"mirror": "both"}, "mirror='both' is not known"),
        ({"mirror": "mean"}, "stores of pictures, but this is data without pictures"),
        ({"cv": 1}, 'cv=1 must be "auto", None, a number of folds from 2 on, or a share'),
        ({"cv": 0.9}, "cv=0.9 must be"),
        ({"cv": True}, "cv=True must be"),
        ({"cv": "all"}, "cv='all' must be"),
    ],
)
def test_bad_parameters_of_both_steps(parameters, message):
    with pytest.raises(ValueError, match=message):
        EnsembleMetric(**parameters).fit(X, y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_zeros_and_ones_are_no_sample_numbers(learner):
    """A mask of integers was once read as samples 0 and 1, over and over."""
    mask = np.array([1, 1, 1, 1, 0, 0])
    with pytest.raises(ValueError, match=r"only 0 and 1, as a mask would: give booleans, rows.astype\(bool\)"):
        learner().fit(X, y, rows=mask)
    model = learner().fit(X, y, rows=mask.astype(bool))
    with pytest.raises(ValueError, match="only 0 and 1"):
        model.transform(X, rows=mask)
    assert model.transform(X, rows=mask.astype(bool)).shape[0] == 4
    with pytest.raises(ValueError, match="names a sample twice"):
        learner().fit(X, y, rows=[0, 1, 2, 2])


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (["a"], "families has 1 labels for 2 feature groups"),
        ({"0": "a"}, "families has no label for feature group '1'"),
        ("ab", "families='ab' must be None, one label per feature group"),
        (3, "families=3 must be None"),
    ],
)
def test_bad_families(families, message):
    with pytest.raises(ValueError, match=message):
        EnsembleMetric(2, families=families).fit(X, y)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (X, "pairs must have shape"),
        (np.zeros((3, 2, 9)), "has 9 columns"),
        (np.full((1, 2, 4), np.nan), "NaN"),
    ],
)
def test_bad_pairs(learner, pairs, message):
    model = learner().fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.pair_distance(pairs)


@pytest.mark.parametrize("learner", LEARNERS)
def test_bad_calibration(learner):
    model = learner().fit(X, y)
    pairs = np.stack([X[:3], X[3:]], axis=1)
    with pytest.raises(ValueError, match="strategy must be"):
        model.calibrate_threshold(pairs, [True, False, True], strategy="guess")
    with pytest.raises(ValueError, match="far"):
        model.calibrate_threshold(pairs, [True, False, True], strategy="far")


def test_a_metric_that_cannot_help_says_so_and_stays_usable():
    """Same-class samples lie apart and other classes on the same spots: the best metric is zero."""
    same_spots = np.array([[0.0], [1.0], [0.0], [1.0]])
    with pytest.warns(UserWarning, match="The learned metric is zero"):
        model = JointMetric(loss="triplet").fit(same_spots, [0, 0, 1, 1])
    assert model.transform(same_spots).shape == (4, 1)
    assert not model.transform(same_spots).any()
