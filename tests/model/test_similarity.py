"""The similarity term of a metric."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from samekind import Metric
from samekind.kernels.similarity import offset_distances
from samekind.model.basis import Basis
from samekind.model.calibration import Calibration
from samekind.model.saved import arrays_of, notes_of
from samekind.model.similarity import Similarity
from tests.model import files

RNG = np.random.default_rng(0)
COMPONENTS, SHIFT, SHARES = RNG.standard_normal((2, 3)), RNG.standard_normal(2), np.array([0.3, 0.8])
OWN = RNG.standard_normal((2, 3))
X = RNG.standard_normal((6, 5))
COLUMNS = [0, 2, 3]


def term(**changes):
    return Similarity(**{"components": COMPONENTS, "shift": SHIFT, "shares": SHARES} | changes)


def metric(own=OWN, **fields):
    basis = Basis.plain(COLUMNS, 5, mean=np.array([0.5, -1.0, 2.0]))
    return Metric(basis, np.zeros((0, 3)) if own is None else own, **{"similarity": term()} | fields)


def by_hand(x, y, own=OWN, times=1.0):
    """The whole distance of two samples, number by number."""
    mean, total = [0.5, -1.0, 2.0], 0.0
    u, v = ([float(each[c]) - m for c, m in zip(COLUMNS, mean, strict=True)] for each in (x, y))
    for row in [] if own is None else own:
        total += sum(w * (p - q) for w, p, q in zip(row, u, v, strict=True)) ** 2
    for row, shift, share in zip(COMPONENTS, SHIFT, SHARES, strict=True):
        a, b = (sum(w * p for w, p in zip(row, each, strict=True)) - shift for each in (u, v))
        total += times * ((a - b) ** 2 - share * (a**2 + b**2))
    return total


@pytest.mark.parametrize("own", [None, OWN])
def test_distances_are_those_by_hand(own):
    made = metric(own)
    expected = [by_hand(x, y, own) for x, y in zip(X[:3], X[3:], strict=True)]
    codes = made.transform(X)
    assert codes.shape == (6, made.n_components) == (6, 3 if own is None else 5)
    assert made.n_distance_components == (0 if own is None else 2)
    np.testing.assert_allclose(made.code_distance(codes[:3], codes[3:]), expected)
    np.testing.assert_allclose(made.pair_distance(np.stack([X[:3], X[3:]], axis=1)), expected)
    np.testing.assert_allclose(made.pair_score(np.stack([X[:3], X[3:]], axis=1)), np.negative(expected))
    assert made.distance(X[0], X[3]) == pytest.approx(expected[0])
    assert made.distance_function is offset_distances
    vectors, numbers = made.split_codes(codes)
    by_parts = ((vectors[:3] - vectors[3:]) ** 2).sum(axis=1) + numbers[:3] + numbers[3:]
    np.testing.assert_allclose(by_parts, expected)


def test_shares_of_zero_give_the_metric_of_both_components():
    made = metric(similarity=term(shares=np.zeros(2)))
    plain = Metric(made.basis, np.vstack([OWN, COMPONENTS]))
    pairs = np.stack([X[:3], X[3:]], axis=1)
    np.testing.assert_allclose(made.pair_distance(pairs), plain.pair_distance(pairs))


def test_a_weight_multiplies_the_differences():
    made = metric(similarity=term().times(3.0))
    assert made.distance(X[0], X[3]) == pytest.approx(by_hand(X[0], X[3], times=3.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_have_the_precision_of_the_samples(dtype):
    assert metric().transform(X.astype(dtype)).dtype == dtype
    single = term(**{name: array.astype(np.float32) for name, array in term().arrays().items()})
    assert single.components.dtype == single.shift.dtype == single.shares.dtype == np.float32
    assert single.times(2.0).components.dtype == np.float32


def test_predictions_with_negative_distances():
    made = metric(None)
    pairs = np.stack([X[:3], X[3:]], axis=1)
    distances = made.pair_distance(pairs)
    assert distances.min() < 0
    middle = float(np.sort(distances)[1])
    np.testing.assert_array_equal(made.with_threshold(middle).predict_pairs(pairs), distances <= middle)
    assert metric(threshold=-3.5).threshold == -3.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"components": np.zeros(3)}, "components must have shape"),
        ({"components": 1.0}, "components must have shape"),
        ({"components": np.full((2, 3), np.nan)}, "NaN"),
        ({"shift": np.zeros(3)}, "shift of a similarity must be 2 numbers"),
        ({"shift": [np.inf, 0]}, "NaN or infinite"),
        ({"shares": np.zeros((2, 1))}, "shares of a similarity must be 2 numbers"),
        ({"shares": [0.5, 1.5]}, "from 0 to 1"),
        ({"shares": [-0.5, 0.5]}, "from 0 to 1"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        term(**changes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"similarity": COMPONENTS}, "must be None or a Similarity, but is ndarray"),
        ({"similarity": Similarity(np.ones((2, 4)), SHIFT, SHARES)}, "reads 4 features, but the basis has 3"),
        ({"mirror": "distances"}, 'takes mirror="none" or "mean"'),
    ],
)
def test_metrics_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        metric(**fields)


def test_a_term_cannot_be_changed():
    made = term()
    for array in made.arrays().values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    given = COMPONENTS.copy()
    made = term(components=given)
    given[:] = 0
    np.testing.assert_array_equal(made.components, COMPONENTS)


def test_what_a_sum_does_not_have():
    made = metric()
    assert not made.is_linear
    for method in (made.full_components, made.get_mahalanobis_matrix):
        with pytest.raises(ValueError, match="no quadratic form"):
            method()


def test_normalisation_of_a_sum_stays():
    made = metric(normalise="root", threshold=1.0)
    assert made.with_normalise("root") == replace(made, threshold=None)
    with pytest.raises(ValueError, match="weighed against codes with normalise='root'"):
        made.with_normalise("none")
    with pytest.raises(ValueError, match="from its mean"):
        made.with_normalise("root", np.zeros(3))


def test_normalised_codes_beside_the_term():
    codes, plain = metric(normalise="unit").transform(X), metric().transform(X)
    np.testing.assert_allclose(np.linalg.norm(codes[:, :2], axis=1), 1)
    np.testing.assert_allclose(codes[:, 2:], plain[:, 2:])
    assert metric(None, normalise="unit").transform(X).shape == (6, 3)


def test_mirror_means_are_allowed():
    assert metric(threshold=2.0).with_mirror("mean").threshold is None


CALIBRATION = Calibration(
    distances=(-3.0, 1.0),
    log_odds=(2.0, -1.0),
    tail_rates=(),
    tail_thresholds=(),
    thresholds=(),
    n_classes=3,
    n_samples=6,
    n_same=5,
    n_other=9,
    source="a test",
)


@pytest.mark.parametrize("own", [None, OWN])
def test_files_and_pickles_keep_all(own, tmp_path):
    made = metric(own, mirror="mean", threshold=-1.25, calibration=CALIBRATION, attributes={"a": 1})
    made.save(tmp_path / "one")
    loaded = Metric.load(tmp_path / "one")
    for other in (loaded, pickle.loads(pickle.dumps(made))):
        assert other == made
        assert hash(other) == hash(made)
        assert other.calibration == CALIBRATION
        np.testing.assert_array_equal(other.transform(X), made.transform(X))
        assert not other.similarity.components.flags.writeable
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_metrics_with_other_terms_are_not_equal():
    made = metric()
    others = [None, term(shift=SHIFT + 1), term(shares=SHARES / 2), term(components=COMPONENTS.astype(np.float32))]
    for other in others:
        assert replace(made, similarity=other) != made
    assert replace(made, similarity=term()) == made


def test_the_text_of_a_metric_names_the_term():
    assert "similarity=3" in repr(metric())
    assert "similarity" not in repr(metric(similarity=None))


def test_files_of_version_5_are_still_read(tmp_path):
    plain = metric(similarity=None, threshold=2.0)
    notes = {"format": "samekind.metric", "format_version": 5, **notes_of(plain)}
    (tmp_path / "model").write_bytes(files.sealed(arrays_of(plain), notes))
    assert Metric.load(tmp_path / "model") == plain
