"""Bad input gets a clear error before any work is done."""

import numpy as np
import pytest

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric

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
        ({"normalise": "cube"}, "normalise='cube' is not known: choose one of 'none', 'root', 'unit'"),
        ({"normalise": None}, "normalise=None is not known"),
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
        learner(**parameters).fit(X, y)


@pytest.mark.parametrize("learner", GROUPED)
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"feature_groups": 2, "max_groups": 3}, ValueError, "max_groups=3 must be a whole number from 1 to 2"),
        ({"max_groups": 0}, ValueError, "max_groups=0"),
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
        learner(**parameters).fit(X, y)


@pytest.mark.parametrize("learner", [JointMetric, EnsembleMetric])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 5}, "n_components=5 must be a whole number from 1 to 4"),
        ({"n_components": 0}, "n_components=0"),
        ({"solver": "newton"}, "solver='newton' is not known"),
        ({"trace_bound": 0}, "trace_bound=0 must be a finite number above 0"),
    ],
)
def test_bad_parameters_of_step_2(learner, parameters, message):
    with pytest.raises(ValueError, match=message):
        learner(**parameters).fit(X, y)


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


def test_max_groups_is_checked_for_every_family_before_work_begins():
    seen = []
    model = EnsembleMetric(1, families=list("aaab"), max_groups=2, callback=seen.append)
    with pytest.raises(ValueError, match="number of feature groups of family 'b'"):
        model.fit(X, y)
    assert not seen


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
