"""The metric whose codes are divided by their lengths: as a distance, as a value, and as a file."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.model.metric import Metric, ModelFileError
from tests.model.files import EARLIER, assert_refused, parts_of, sealed

quick = settings(max_examples=60, deadline=None)
ALL = ["none", "root", "unit"]
each = pytest.mark.parametrize("normalise", ALL)
normalising = pytest.mark.parametrize("normalise", ["root", "unit"])

COLUMNS = [1, 2, 5, 7]
MEAN = np.array([1.0, -2.0, 0.5, 8.0])
COMPONENTS = np.random.default_rng(0).normal(size=(3, 4))
X = MEAN.mean() + 3 * np.random.default_rng(1).normal(size=(12, 9))
PAIRS = X.reshape(6, 2, 9)

samples = hnp.arrays(np.float64, (2, 4), elements=st.floats(-100, 100).map(lambda x: round(x, 3)))


def make(normalise, dtype=np.float64, **changes):
    fields = {
        "components": COMPONENTS.astype(dtype),
        "columns": COLUMNS,
        "n_features": 9,
        "threshold": 2.5,
        "groups": ("eyes", "mouth"),
        "mean": MEAN.astype(dtype),
        "normalise": normalise,
    }
    return Metric.linear(**fields | changes)


def literal_code(x, normalise):
    c = [sum(w * (x[j] - m) for w, j, m in zip(row, COLUMNS, MEAN, strict=True)) for row in COMPONENTS]
    length = sum(number**2 for number in c) ** 0.5
    divisor = {"none": 1.0, "root": length**0.5, "unit": length}[normalise] or 1.0
    return [number / divisor for number in c]


def literal_distance(x, y, normalise):
    return sum((a - b) ** 2 for a, b in zip(literal_code(x, normalise), literal_code(y, normalise), strict=True))


def at(centred):
    """Samples of the selected columns that are `centred` when the mean is taken off."""
    return MEAN + centred


# As a distance


@each
def test_transform_gives_the_normalised_codes(normalise):
    metric = make(normalise)
    np.testing.assert_allclose(metric.transform(X), [literal_code(x, normalise) for x in X], rtol=1e-11)
    np.testing.assert_array_equal(metric.transform(X[:, COLUMNS]), metric.transform(X))


@each
def test_all_distances_are_euclidean_ones_of_the_codes(normalise):
    metric = make(normalise)
    expected = [literal_distance(x, y, normalise) for x, y in PAIRS]
    np.testing.assert_allclose(metric.pair_distance(PAIRS), expected, rtol=1e-10)
    np.testing.assert_allclose(metric.pair_distance(PAIRS[..., COLUMNS]), expected, rtol=1e-10)
    np.testing.assert_allclose(metric.pair_score(PAIRS), np.negative(expected), rtol=1e-10)
    distance = pickle.loads(pickle.dumps(metric.get_metric()))
    for function in (metric.distance, distance):
        assert [function(x, y) for x, y in PAIRS] == pytest.approx(expected, rel=1e-10)


@each
def test_same_is_what_the_distances_of_the_codes_say(normalise):
    expected = np.array([literal_distance(x, y, normalise) for x, y in PAIRS])
    threshold = np.sort(expected)[2:4].mean()
    assert make(normalise, threshold=threshold).predict_pairs(PAIRS).tolist() == (expected <= threshold).tolist()


def test_plain_pairs_are_subtracted_before_they_are_projected():
    """To the last digit, in a precision where the other order loses most of them."""
    far = (1000 + X).astype(np.float32).reshape(6, 2, 9)
    metric = make("none", np.float32)
    between = (far[:, 0] - far[:, 1])[:, COLUMNS] @ metric.components.T
    np.testing.assert_array_equal(metric.pair_distance(far), np.einsum("ij,ij->i", between, between))
    codes = metric.transform(far.reshape(12, 9)).reshape(6, 2, 3)
    assert (metric.pair_distance(far) != ((codes[:, 0] - codes[:, 1]) ** 2).sum(axis=1)).any()


def test_unit_distances_are_those_of_the_cosine():
    c = (X[:, COLUMNS] - MEAN) @ COMPONENTS.T
    a, b = c[::2], c[1::2]
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(make("unit").pair_distance(PAIRS), 2 - 2 * cosines, rtol=1e-10)


@quick
@given(samples)
def test_unit_distances_go_from_0_to_4(centred):
    distance = make("unit").distance(*at(centred))
    assert 0 <= distance <= 4 + 1e-12


def test_unit_distances_reach_both_ends():
    centred = np.array([1.0, 2.0, -1.0, 3.0])
    metric = make("unit")
    assert metric.distance(at(centred), at(7 * centred)) == pytest.approx(0, abs=1e-12)
    assert metric.distance(at(centred), at(-7 * centred)) == pytest.approx(4)


@quick
@given(samples, st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)))
def test_unit_distances_do_not_see_the_lengths_of_centred_samples(centred, scales):
    metric = make("unit", mean=np.zeros(4))
    expected = metric.distance(*centred)
    assert metric.distance(scales[0] * centred[0], scales[1] * centred[1]) == pytest.approx(expected, abs=1e-9)


@quick
@given(samples, st.floats(0.01, 100))
def test_root_distances_grow_as_lengths_and_plain_ones_as_their_squares(centred, scale):
    for normalise, factor in (("root", scale), ("none", scale**2)):
        metric = make(normalise, mean=np.zeros(4))
        expected = factor * metric.distance(*centred)
        assert metric.distance(*(scale * centred)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@quick
@given(samples)
def test_squared_lengths_of_root_codes_are_lengths_of_plain_ones(centred):
    squares = (make("root").transform(at(centred)) ** 2).sum(axis=1)
    np.testing.assert_allclose(squares, np.linalg.norm(make("none").transform(at(centred)), axis=1), rtol=1e-9)


@normalising
def test_a_sample_at_the_mean_has_a_code_of_zeros(normalise):
    metric = make(normalise)
    other = X[0, COLUMNS]
    assert metric.transform([MEAN]).tolist() == [[0, 0, 0]]
    assert metric.distance(MEAN, MEAN) == 0
    length = np.linalg.norm(COMPONENTS @ (other - MEAN))
    assert metric.distance(MEAN, other) == pytest.approx({"root": length, "unit": 1}[normalise])


@normalising
def test_normalised_distances_see_the_mean_and_plain_ones_do_not(normalise):
    elsewhere = MEAN + 1
    plain = make("none").pair_distance(PAIRS)
    np.testing.assert_array_equal(make("none", mean=elsewhere).pair_distance(PAIRS), plain)
    moved = make(normalise, mean=elsewhere).pair_distance(PAIRS)
    assert (np.abs(moved / make(normalise).pair_distance(PAIRS) - 1) > 1e-3).all()


@normalising
def test_distances_are_symmetric_and_zero_to_oneself(normalise):
    metric = make(normalise)
    np.testing.assert_array_equal(metric.pair_distance(PAIRS), metric.pair_distance(PAIRS[:, ::-1]))
    np.testing.assert_array_equal(metric.pair_distance(PAIRS[:, [0, 0]]), 0)


@normalising
@pytest.mark.parametrize(("dtype", "computed"), [(np.float16, np.float32), (np.float32, np.float32), (int, float)])
def test_precision_is_that_of_the_rows(normalise, dtype, computed):
    rows = X.astype(dtype)
    metric = make(normalise)
    assert metric.transform(rows).dtype == computed
    assert metric.pair_distance(rows.reshape(6, 2, 9)).dtype == computed
    np.testing.assert_allclose(
        metric.transform(rows), [literal_code(x, normalise) for x in rows.astype(float)], rtol=1e-4
    )


@normalising
def test_no_rows_and_no_components(normalise):
    assert make(normalise).transform(np.empty((0, 9))).shape == (0, 3)
    assert make(normalise).pair_distance(np.empty((0, 2, 9))).shape == (0,)
    nothing = Metric.linear(np.zeros((0, 0)), [], 9, mean=[], normalise=normalise)
    assert nothing.pair_distance(PAIRS).tolist() == [0] * 6


@normalising
def test_there_is_no_mahalanobis_matrix(normalise):
    metric = make(normalise)
    with pytest.raises(ValueError, match=rf"normalise='{normalise}' has no Mahalanobis matrix.*with_normalise"):
        metric.get_mahalanobis_matrix()
    plain = metric.with_normalise("none")
    np.testing.assert_array_equal(plain.get_mahalanobis_matrix(), make("none").get_mahalanobis_matrix())
    np.testing.assert_array_equal(metric.components, COMPONENTS)
    np.testing.assert_array_equal(metric.full_components(), plain.full_components())


# As a value


def test_plain_is_the_default():
    assert Metric.linear([[1.0]], [0], 1).normalise == "none"


@pytest.mark.parametrize("unknown", ["cube", "", "Unit", None, 1, ["unit"]])
def test_an_unknown_normalisation_is_refused(unknown):
    with pytest.raises(ValueError, match="normalise must be one of 'none', 'root', 'unit', but is "):
        make(unknown)
    with pytest.raises(ValueError, match="normalise must be one of"):
        make("none").with_normalise(unknown)


@normalising
def test_without_a_mean_it_is_said_what_to_give(normalise):
    advice = rf"normalise='{normalise}' measures .* Give mean=X_train.* or mean=np.zeros"
    with pytest.raises(ValueError, match=advice):
        make(normalise, mean=None)
    with pytest.raises(ValueError, match=advice):
        make("none", mean=None).with_normalise(normalise)
    with pytest.raises(ValueError, match=advice):
        replace(make(normalise), basis=make("none", mean=None).basis)


@each
@pytest.mark.parametrize("before", ALL)
def test_with_normalise_changes_the_codes_and_drops_the_threshold(before, normalise):
    metric = make(before)
    assert metric.with_normalise(normalise) == make(normalise, threshold=None)
    assert (metric.normalise, metric.threshold) == (before, 2.5)


def test_with_normalise_takes_a_mean():
    assert make("none", mean=None).with_normalise("unit", mean=MEAN) == make("unit", threshold=None)
    elsewhere = make("root").with_normalise("root", mean=MEAN + 1)
    np.testing.assert_array_equal(elsewhere.basis.mean, MEAN + 1)
    with pytest.raises(ValueError, match=r"mean must have shape \(4,\)"):
        make("none").with_normalise("unit", mean=np.zeros(9))


def test_other_normalisations_make_other_metrics():
    metrics = [make(normalise) for normalise in ALL]
    assert len(set(metrics)) == len({hash(metric) for metric in metrics}) == 3
    assert all(metric == make(normalise) for metric, normalise in zip(metrics, ALL, strict=True))


@each
def test_pickles_are_equal(normalise):
    metric = make(normalise)
    again = pickle.loads(pickle.dumps(metric))
    assert again == metric
    assert hash(again) == hash(metric)
    assert again.normalise == normalise


def test_repr_shows_it_only_when_there_is_something_to_show():
    start = "Metric(n_components=3, n_columns=4, n_features=9, n_groups=2, threshold=2.5"
    assert repr(make("none")) == start + ")"
    assert repr(make("unit")) == start + ", normalise='unit')"


# As a file


@each
def test_file_gives_it_back(normalise, tmp_path):
    metric = make(normalise, np.float32)
    metric.save(tmp_path / "m")
    again = Metric.load(tmp_path / "m")
    assert again == metric
    assert again.normalise == normalise
    np.testing.assert_array_equal(again.transform(X), metric.transform(X))


@pytest.mark.parametrize("version", [1, 2])
def test_files_from_before_are_plain(version, tmp_path):
    metric = make("none")
    tensors, notes = parts_of(make("unit"), version)
    assert "normalise" not in notes
    (tmp_path / "m").write_bytes(sealed(tensors, notes))
    assert Metric.load(tmp_path / "m") == (metric if version == 2 else make("none", mean=None))


@each
@pytest.mark.parametrize("version", EARLIER[2:])
def test_files_of_versions_that_knew_it_are_read(version, normalise, tmp_path):
    (tmp_path / "m").write_bytes(sealed(*parts_of(make(normalise), version)))
    loaded = Metric.load(tmp_path / "m")
    assert loaded == make(normalise)
    np.testing.assert_allclose(loaded.transform(X), [literal_code(x, normalise) for x in X], rtol=1e-11)
    np.testing.assert_array_equal(loaded.transform(X), make(normalise).transform(X))


@pytest.mark.parametrize("unknown", ["cube", None, 2])
def test_a_file_of_an_unknown_normalisation_is_refused(unknown, tmp_path):
    tensors, notes = parts_of(make("unit"), 3)
    notes |= {"normalise": unknown}
    message = rf"does not hold a valid metric: normalise must be one of .* but is {unknown!r}"
    assert_refused(tmp_path / "m", sealed(tensors, notes), message)


def test_a_file_without_the_mean_that_it_needs_is_refused(tmp_path):
    tensors, notes = parts_of(make("unit"), 3)
    del tensors["mean"]
    (tmp_path / "m").write_bytes(sealed(tensors, notes))
    with pytest.raises(ModelFileError, match="normalise='unit' measures codes from the mean"):
        Metric.load(tmp_path / "m")
