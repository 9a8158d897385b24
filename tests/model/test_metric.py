"""The metric as a value, as a distance, and as a file."""

import copy
import dataclasses
import errno
import hashlib
import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save as save_safetensors

from samekind.model import file as model_file
from samekind.model.basis import Basis
from samekind.model.calibration import Calibration
from samekind.model.metric import Metric
from samekind.schema import MOST_PARTS
from tests.model.files import EARLIER, assert_refused, parts_of, sealed

quick = settings(max_examples=60, deadline=None)
EXTRACTOR = {
    "crop": {"width": 40, "height": 56, "sigma": 1.0},
    "alignment": "none",
    "families": [{"name": "cov", "parameters": {"ridge": 0.001}, "regions": [[0, 0, 8, 8]]}],
}


def make_metric(dtype=np.float64, **changes):
    rng = np.random.default_rng(0)
    fields = {
        "components": rng.normal(size=(3, 4)).astype(dtype),
        "columns": np.array([1, 2, 5, 7]),
        "n_features": 9,
        "threshold": 2.5,
        "groups": ("eyes", "mouth"),
        "feature_names": tuple(f"pixel {i}" for i in range(9)),
        "attributes": {"loss": "pairwise", "ridge": 0.1, "rounds": [1, 2], "more": {"done": True, "x": None}},
    }
    return Metric.linear(**(fields | changes))


@pytest.fixture
def metric():
    return make_metric()


@pytest.fixture
def saved(tmp_path, metric):
    path = tmp_path / "small.metric"
    metric.save(path)
    return path


@st.composite
def metrics(draw):
    n_features = draw(st.integers(1, 8))
    columns = sorted(draw(st.sets(st.integers(0, n_features - 1))))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shape = (draw(st.integers(0, 4)), len(columns))
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=np.dtype(dtype).itemsize * 8)
    finite = st.floats(allow_nan=False, allow_infinity=False)
    text = st.text(max_size=5)
    scalars = st.none() | st.booleans() | st.integers() | finite | text
    nested = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
        max_leaves=4,
    )
    return Metric.linear(
        components=draw(hnp.arrays(dtype, shape, elements=numbers)),
        columns=columns,
        n_features=n_features,
        threshold=draw(st.none() | finite),
        groups=draw(st.lists(text, max_size=3)),
        feature_names=draw(st.none() | st.lists(text, min_size=n_features, max_size=n_features)),
        attributes=draw(st.dictionaries(text, nested, max_size=3)),
    )


def assert_same(a, b):
    assert a.components.dtype == b.components.dtype
    assert a.components.tobytes() == b.components.tobytes()
    assert a.columns.tolist() == b.columns.tolist()
    for name in ("n_features", "threshold", "groups", "normalise", "mirror", "calibration", "extractor"):
        assert getattr(a, name) == getattr(b, name)
    assert a.basis.feature_names == b.basis.feature_names
    assert dict(a.attributes) == dict(b.attributes)
    assert a == b
    assert hash(a) == hash(b)


# As a value


def test_fields_cannot_be_set(metric):
    for name in [f.name for f in dataclasses.fields(metric)]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(metric, name, None)
    with pytest.raises((AttributeError, TypeError)):
        metric.other = 1


def test_arrays_and_attributes_cannot_be_written(metric):
    with pytest.raises(ValueError, match="read-only"):
        metric.components[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        metric.columns[0] = 0
    with pytest.raises(TypeError):
        metric.attributes["loss"] = "triplet"


def test_metric_owns_what_it_was_given():
    components, columns, attributes = np.ones((1, 2)), np.array([0, 1]), {"list": [1]}
    metric = Metric.linear(components, columns, 2, attributes=attributes)
    components[:], columns[:] = 5, 5
    attributes["list"].append(2)
    assert metric.components.tolist() == [[1, 1]]
    assert metric.columns.tolist() == [0, 1]
    assert metric.attributes["list"] == [1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4", ">f8"])
def test_components_keep_their_precision(dtype):
    metric = make_metric().components.astype(dtype)
    kept = make_metric(components=metric).components
    assert kept.dtype.isnative
    assert kept.dtype.itemsize == np.dtype(dtype).itemsize
    np.testing.assert_array_equal(kept, metric)


def test_copies_and_pickles_are_equal_and_read_only(metric):
    for other in (copy.copy(metric), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert_same(metric, other)
        assert not other.components.flags.writeable


@pytest.mark.parametrize(
    "change",
    [
        {"components": np.zeros((3, 4))},
        {"components": make_metric().components.astype(np.float32)},
        {"columns": [1, 2, 5, 8]},
        {"n_features": 10, "feature_names": None},
        {"threshold": None},
        {"groups": ("mouth", "eyes")},
        {"feature_names": None},
        {"attributes": {}},
        {"mirror": "mean"},
        {"calibration": Calibration((2.0,), (0.0,), (), (), (), 5, 20, 30, 100, "held-out classes")},
        {"normalise": "unit", "mean": np.zeros(4)},
        {"mean": np.zeros(4)},
        {"extractor": {}},
    ],
)
def test_any_difference_makes_metrics_unequal(metric, change):
    assert metric != make_metric(**change)
    assert metric == make_metric()
    assert metric != "a metric"


def test_attributes_hold_numpy_numbers_as_plain_ones():
    notes = {
        "ridge": np.float32(0.5),
        "rounds": np.int64(3),
        "done": np.True_,
        "path": np.arange(2),
        "pair": (1, 2),
    }
    kept = Metric.linear([[1.0]], [0], 1, attributes=notes).attributes
    assert kept == {"ridge": 0.5, "rounds": 3, "done": True, "path": [0, 1], "pair": [1, 2]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"components": np.ones(4)}, "components must have shape"),
        ({"components": np.ones((3, 5))}, r"\(n_components, 4\)"),
        ({"components": np.full((3, 4), np.nan)}, "components holds NaN"),
        ({"components": np.full((3, 4), np.inf)}, "components holds NaN or infinite"),
        ({"components": [["a"] * 4]}, "components must hold real numbers"),
        ({"components": np.ones((3, 4), complex)}, "components must hold real numbers"),
        ({"components": [[1.0], [1.0, 2.0]]}, "rectangular"),
        ({"columns": [1, 2, 2, 5]}, "strictly increasing"),
        ({"columns": [5, 2, 1, 0]}, "strictly increasing"),
        ({"columns": [-1, 2, 3, 5]}, "between 0 and n_features - 1 = 8"),
        ({"columns": [1, 2, 3, 9]}, "go from 1 to 9"),
        ({"columns": [0.0, 1.0, 2.0, 3.0]}, "columns must be integers"),
        ({"columns": [[1, 2, 3, 4]]}, "in one dimension"),
        ({"columns": [True, False, True, True]}, "columns must be integers"),
        ({"n_features": 0}, "n_features must be a positive integer"),
        ({"n_features": 9.0}, "n_features must be a positive integer"),
        ({"threshold": float("nan")}, "threshold must be None or a finite number"),
        ({"threshold": float("inf")}, "threshold must be"),
        ({"threshold": "1.0"}, "threshold must be"),
        ({"threshold": 10**400}, "threshold must be"),
        ({"groups": "eyes"}, "groups must be a sequence of strings"),
        ({"groups": [1, 2]}, "groups must be a sequence of strings"),
        ({"groups": None}, "groups must be a sequence of strings"),
        ({"feature_names": ["a"]}, "n_features = 9 names, but holds 1"),
        ({"feature_names": range(9)}, "feature_names must be a sequence of strings"),
        ({"attributes": {"ridge": float("nan")}}, "JSON"),
        ({"attributes": {"when": object()}}, "object is not a JSON type"),
        ({"attributes": 3}, "attributes must be a mapping"),
    ],
)
def test_invalid_fields_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        make_metric(**change)


def test_threshold_can_be_changed_only_in_a_new_metric(metric):
    other = metric.with_threshold(np.float32(7))
    assert (metric.threshold, other.threshold) == (2.5, 7.0)
    assert type(other.threshold) is float
    assert other.with_threshold(2.5) == metric
    assert metric.with_threshold(None).threshold is None


def calibration():
    """Of 5 classes: even odds at a squared distance of 2."""
    return Calibration((1.0, 3.0), (4.0, -4.0), (0.1, 0.5), (1.5, 2.0), (), 5, 20, 30, 100, "held-out classes")


def test_calibration_brings_threshold_and_probability(metric):
    calibrated = metric.with_calibration(calibration())
    assert (calibrated.threshold, metric.calibration) == (2.0, None)
    pairs = rows(10).reshape(5, 2, 9)
    expected = calibration().probability(calibrated.pair_distance(pairs), 0.2)
    np.testing.assert_array_equal(calibrated.pair_probability(pairs, 0.2), expected)
    np.testing.assert_array_equal(calibrated.predict_pairs(pairs), calibrated.pair_probability(pairs) >= 0.5)
    with pytest.raises(ValueError, match=r"not calibrated.*EnsembleMetric\.calibrate"):
        metric.pair_probability(pairs)


def test_what_changes_distances_drops_threshold_and_calibration(metric):
    calibrated = metric.with_calibration(calibration())
    for other in (calibrated.with_mirror("mean"), calibrated.with_normalise("unit", mean=np.zeros(4))):
        assert (other.threshold, other.calibration) == (None, None)
    assert calibrated.with_threshold(3).calibration == calibration()


def test_code_distance_is_that_of_pairs(metric):
    pairs = rows(10).reshape(5, 2, 9)
    codes = [metric.transform(pairs[:, i]) for i in (0, 1)]
    np.testing.assert_allclose(metric.code_distance(*codes), metric.pair_distance(pairs), rtol=1e-12)
    assert metric.code_distance(codes[0][0], codes[1][0]).shape == (1,)
    with pytest.raises(ValueError, match="of 3 and 2 numbers are of different metrics"):
        metric.code_distance(codes[0], codes[1][:, :2])
    with pytest.raises(ValueError, match="have 2 numbers, but those of this metric have 3"):
        metric.code_distance(codes[0][:, :2], codes[1][:, :2])


def test_code_distance_of_mirrored_pictures_is_the_mean_of_four(metric):
    from samekind.kernels.flips import flip_free_codes

    flipping = metric.with_mirror("distances")
    X, mirrored = metric.transform(rows(6)), metric.transform(rows(6) + rows(12)[6:])
    codes = flip_free_codes(X, mirrored)
    four = [((a[:3] - b[3:]) ** 2).sum(axis=1) for a in (X, mirrored) for b in (X, mirrored)]
    np.testing.assert_allclose(flipping.code_distance(codes[:3], codes[3:]), np.mean(four, axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="have 4 numbers, but those of this metric have 3"):
        metric.code_distance(codes[:3], codes[3:])


@pytest.mark.parametrize("unknown", ["both", None, True, 1])
def test_an_unknown_mirror_is_refused(metric, unknown):
    with pytest.raises(ValueError, match="mirror must be one of 'none', 'mean', 'distances', but is "):
        metric.with_mirror(unknown)


def test_parts_of_other_kinds_are_refused(metric):
    with pytest.raises(ValueError, match="basis must be a Basis, but is ndarray"):
        Metric(np.arange(4), metric.components)
    with pytest.raises(ValueError, match="calibration must be None or a Calibration, but is dict"):
        dataclasses.replace(metric, calibration={})


def test_a_metric_without_components_gives_the_features_of_its_basis():
    metric = Metric(Basis.plain([1, 2, 5], 9, mean=np.ones(3)))
    assert metric.n_components == 3
    np.testing.assert_array_equal(metric.transform(rows()), rows()[:, [1, 2, 5]] - 1)
    np.testing.assert_array_equal(metric.full_components(), np.eye(9)[[1, 2, 5]])
    assert metric.get_mahalanobis_matrix().trace() == 3


def test_repr_is_short(metric):
    assert repr(metric) == "Metric(n_components=3, n_columns=4, n_features=9, n_groups=2, threshold=2.5)"


# As a distance


def rows(n=6, dtype=np.float64, width=9):
    return np.random.default_rng(1).normal(size=(n, width)).astype(dtype)


def test_transform_of_full_rows_equals_that_of_selected_columns(metric):
    X = rows()
    np.testing.assert_array_equal(metric.transform(X), metric.transform(X[:, metric.columns]))
    np.testing.assert_allclose(metric.transform(X), X @ metric.full_components().T, rtol=1e-12)
    assert metric.full_components().shape == (metric.n_components, metric.n_features)


def test_transform_of_all_columns():
    metric = Metric.linear(rows(2), np.arange(9), 9)
    np.testing.assert_allclose(metric.transform(rows()), rows() @ rows(2).T)


@pytest.mark.parametrize("components_dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("dtype", "computed"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (int, np.float64),
        (bool, np.float64),
    ],
)
def test_precision_is_that_of_the_rows(components_dtype, dtype, computed):
    metric = make_metric(components_dtype)
    X = rows(dtype=dtype)
    assert metric.transform(X).dtype == computed
    assert metric.pair_distance(X.reshape(3, 2, 9)).dtype == computed
    expected = X.astype(float) @ metric.full_components().T
    np.testing.assert_allclose(metric.transform(X), expected, atol=1e-5)


def test_pair_distance_is_the_mahalanobis_form(metric):
    pairs = rows(10).reshape(5, 2, 9)
    difference = pairs[:, 0] - pairs[:, 1]
    expected = np.einsum("mi,ij,mj->m", difference, metric.get_mahalanobis_matrix(), difference)
    np.testing.assert_allclose(metric.pair_distance(pairs), expected)
    np.testing.assert_allclose(metric.pair_distance(pairs[..., metric.columns]), expected)
    np.testing.assert_array_equal(metric.pair_score(pairs), -metric.pair_distance(pairs))


def test_pair_distance_is_the_euclidean_distance_of_codes(metric):
    X = rows(10)
    codes = metric.transform(X)
    expected = ((codes[:5] - codes[5:]) ** 2).sum(axis=1)
    np.testing.assert_allclose(metric.pair_distance(np.stack([X[:5], X[5:]], axis=1)), expected)


def test_distances_are_symmetric_and_zero_to_oneself(metric):
    pairs = rows(10).reshape(5, 2, 9)
    np.testing.assert_array_equal(metric.pair_distance(pairs), metric.pair_distance(pairs[:, ::-1]))
    np.testing.assert_array_equal(metric.pair_distance(pairs[:, [0, 0]]), 0)


def test_close_pairs_far_from_the_origin_keep_their_digits(metric):
    near = rows(10, np.float32).reshape(5, 2, 9)
    step = np.zeros(9, np.float32)
    step[metric.columns] = 2.0**-8
    pairs = np.stack([near[:, 0].round() + 1000, near[:, 0].round() + 1000 + step], axis=1)
    expected = metric.pair_distance(np.stack([np.zeros(9), step])[np.newaxis])
    np.testing.assert_allclose(metric.pair_distance(pairs), np.repeat(expected, 5), rtol=1e-5)


def test_mahalanobis_matrix_is_symmetric_and_reads_only_the_columns(metric):
    A = metric.get_mahalanobis_matrix()
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_allclose(A, metric.full_components().T @ metric.full_components(), atol=1e-14)
    unread = np.setdiff1d(np.arange(9), metric.columns)
    assert not A[unread].any()


def test_single_distance_and_its_pickled_function(metric):
    a, b = rows(2)
    expected = metric.pair_distance([[a, b]])[0]
    distance = pickle.loads(pickle.dumps(metric.get_metric()))
    assert metric.distance(a, b) == distance(a, b) == metric.distance(list(b), list(a)) == expected
    assert type(distance(a, b)) is float


def test_same_when_distance_is_at_most_the_threshold(metric):
    pairs = rows(20).reshape(10, 2, 9)
    distances = metric.pair_distance(pairs)
    predicted = metric.with_threshold(distances[3]).predict_pairs(pairs)
    assert predicted.dtype == bool
    np.testing.assert_array_equal(predicted, distances <= distances[3])


def test_threshold_is_not_rounded_to_the_precision_of_the_rows():
    metric = Metric.linear([[1.0]], [0], 1, threshold=1 - 1e-12)
    assert not metric.predict_pairs(np.array([[[0], [1]]], np.float32))[0]


def test_predicting_without_a_threshold_says_how_to_set_one(metric):
    with pytest.raises(ValueError, match="with_threshold"):
        metric.with_threshold(None).predict_pairs(rows(2)[np.newaxis])


@pytest.mark.parametrize("components", [np.zeros((0, 0)), np.zeros((2, 0))])
def test_metric_that_reads_nothing_finds_all_alike(components):
    metric = Metric.linear(components, [], 9)
    assert metric.transform(rows()).shape == (6, len(components))
    assert metric.pair_distance(rows().reshape(3, 2, 9)).tolist() == [0, 0, 0]


def test_no_rows_give_no_codes(metric):
    assert metric.transform(np.empty((0, 9))).shape == (0, 3)
    assert metric.pair_distance(np.empty((0, 2, 4))).shape == (0,)


@pytest.mark.parametrize("width", [0, 3, 5, 8, 10])
def test_other_widths_are_refused_with_the_two_possible_ones(metric, width):
    with pytest.raises(ValueError, match=rf"has {width} columns, .* 9 .* or 4 "):
        metric.transform(np.ones((2, width)))
    with pytest.raises(ValueError, match=rf"pairs has {width} columns"):
        metric.pair_distance(np.ones((1, 2, width)))
    with pytest.raises(ValueError, match=rf"has {width} columns"):
        metric.distance(np.ones(width), np.ones(width))


def test_wrong_dimensions_are_refused(metric):
    with pytest.raises(ValueError, match=r"shape \(9,\).*reshape\(1, -1\)"):
        metric.transform(np.ones(9))
    for X in (1.0, np.ones((1, 1, 9)), None):
        with pytest.raises(ValueError, match="X "):
            metric.transform(X)
    for pairs in (np.ones((2, 9)), np.ones((4, 3, 9)), []):
        with pytest.raises(ValueError, match="n_pairs, 2, n_features"):
            metric.pair_distance(pairs)
    with pytest.raises(ValueError, match="two vectors of one length"):
        metric.distance(np.ones(9), np.ones(4))
    with pytest.raises(ValueError, match="two vectors of one length"):
        metric.distance(np.ones((1, 9)), np.ones((1, 9)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 1])
def test_rows_that_are_not_finite_are_refused(metric, bad, column):
    X = rows(2)
    X[1, column] = bad
    with pytest.raises(ValueError, match="X holds NaN or infinite"):
        metric.transform(X)
    with pytest.raises(ValueError, match="pairs holds NaN or infinite"):
        metric.predict_pairs(X[np.newaxis])
    with pytest.raises(ValueError, match="b holds NaN or infinite"):
        metric.distance(*X)


@pytest.mark.parametrize("X", [[["1"] * 9], [[1j] * 9], [[object()] * 9], np.full((1, 9), "2024", "datetime64[Y]")])
def test_rows_that_are_not_numbers_are_refused(metric, X):
    with pytest.raises(ValueError, match="X must hold real numbers"):
        metric.transform(X)


# As a file


@quick
@given(metrics())
def test_file_gives_the_metric_back(tmp_path_factory, metric):
    path = tmp_path_factory.getbasetemp() / "round-trip.metric"
    metric.save(path)
    loaded = Metric.load(path)
    assert_same(metric, loaded)
    assert not loaded.components.flags.writeable


@pytest.mark.parametrize("mirror", ["none", "mean", "distances"])
def test_file_gives_calibration_and_mirror_back(mirror, tmp_path, metric):
    metric = metric.with_mirror(mirror).with_calibration(calibration())
    metric.save(tmp_path / "m")
    loaded = Metric.load(tmp_path / "m")
    assert_same(metric, loaded)
    assert (loaded.mirror, loaded.calibration, loaded.threshold) == (mirror, calibration(), 2.0)
    assert_same(metric, pickle.loads(pickle.dumps(metric)))


def test_names_and_attributes_in_any_script(tmp_path):
    odd = ("œil", "口", "\x00", '"\\', "\ud800", "👁️")
    metric = make_metric(groups=odd, attributes={name: name for name in odd})
    metric.save(tmp_path / "m")
    assert_same(metric, Metric.load(tmp_path / "m"))


def test_equal_metrics_have_equal_bytes(tmp_path, metric):
    reordered = dict(reversed(metric.attributes.items()))
    fortran = np.asfortranarray(metric.components)
    for i in range(5):
        make_metric(attributes=reordered, components=fortran).save(tmp_path / f"{i}")
    assert len({(tmp_path / f"{i}").read_bytes() for i in range(5)}) == 1
    assert Metric.load(tmp_path / "0") == metric


def test_any_safetensors_reader_can_open_the_file(saved, metric):
    from safetensors import safe_open

    with safe_open(saved, framework="np") as file:
        np.testing.assert_array_equal(file.get_tensor("components"), metric.components)
        notes = json.loads(file.metadata()["samekind"])
    assert (notes["format"], notes["format_version"]) == ("samekind.metric", 6)
    assert notes["attributes"] == metric.attributes


def with_header(text):
    return len(text).to_bytes(8, "little") + text


def test_every_truncation_is_noticed(saved):
    whole = saved.read_bytes()
    for length in range(len(whole)):
        assert_refused(saved, whole[:length])


def test_anything_appended_is_noticed(saved):
    whole = saved.read_bytes()
    for tail in (b"\0", b" ", whole):
        assert_refused(saved, whole + tail, "damaged")


def test_every_changed_byte_is_noticed(saved):
    whole = saved.read_bytes()
    flips = np.random.default_rng(2).integers(1, 256, size=len(whole))
    for position, flip in enumerate(flips):
        altered = bytearray(whole)
        altered[position] ^= int(flip)
        assert_refused(saved, bytes(altered))


def test_change_that_means_the_same_is_noticed_too(saved):
    whole = saved.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, tensors = whole[8 : 8 + length], whole[8 + length :]
    assert_refused(saved, with_header(header + b" " * 8) + tensors, "altered")


@quick
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(tmp_path_factory, data):
    assert_refused(tmp_path_factory.getbasetemp() / "random.metric", data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"abc", "not a samekind metric"),
        (b"\0\0\0\0\6", "not a samekind metric"),
        (with_header(b"{}")[:-1], "ends too soon"),
        (pickle.dumps({"components": 1}), "not a samekind metric"),
        (with_header(b"[]"), "not a samekind metric"),
        (with_header(b"{}"), "not a samekind metric"),
        (with_header(b"[" * 100_000), "not a samekind metric"),
        (with_header(b'{"__metadata__":{"samekind":"[1]"}}'), "not a samekind metric"),
        (with_header(b'{"__metadata__":{"samekind":7}}'), "not a samekind metric"),
        (save_safetensors({"weight": np.ones(3)}), "not a samekind metric"),
        (save_safetensors({"weight": np.ones(3)}, {"format": "pt"}), "not a samekind metric"),
    ],
)
def test_other_files_are_refused(tmp_path, data, message):
    assert_refused(tmp_path / "other", data, message)


def test_checksum_covers_all_other_bytes_of_the_file(saved, metric):
    saved.write_bytes(sealed(*parts_of(metric)))
    assert_same(metric, Metric.load(saved))


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({"format_version": 7}, "format version 7, .* reads up to 6. Upgrade samekind"),
        ({"format_version": 0}, "format version reads 0"),
        ({"format_version": "1"}, "format version reads '1'"),
        ({"format": "samekind.gallery"}, "holds 'samekind.gallery', not 'samekind.metric'"),
        ({"n_features": 3}, "does not hold a valid metric: columns must lie"),
        ({"n_features": None}, "valid metric: n_features"),
        ({"threshold": float("nan")}, "valid metric: threshold"),
        ({"groups": 4}, "valid metric: groups"),
        ({"attributes": [1]}, "valid metric: attributes"),
    ],
)
def test_sealed_file_with_wrong_notes_is_refused(tmp_path, metric, notes, message):
    tensors, right = parts_of(metric)
    assert_refused(tmp_path / "m", sealed(tensors, right | notes), message)


@pytest.mark.parametrize("lost", ["components", "columns", "n_features", "attributes"])
def test_sealed_file_that_lacks_a_part_is_refused(tmp_path, metric, lost):
    tensors, notes = parts_of(metric)
    tensors.pop(lost, None)
    notes.pop(lost, None)
    assert_refused(tmp_path / "m", sealed(tensors, notes), f"lacks '{lost}'")


@pytest.mark.parametrize(
    "tensors",
    [{"components": np.ones(3)}, {"components": np.full((3, 4), np.nan)}, {"columns": np.ones(4)}],
)
def test_sealed_file_with_wrong_arrays_is_refused(tmp_path, metric, tensors):
    right, notes = parts_of(metric)
    assert_refused(tmp_path / "m", sealed(right | tensors, notes), "does not hold a valid metric")


def test_sealed_file_that_breaks_the_safetensors_rules_is_refused(tmp_path, metric):
    body = sealed(*parts_of(metric))[:-32].replace(b'"F64"', b'"F32"')
    assert_refused(tmp_path / "m", body + hashlib.sha256(body).digest(), "not readable as safetensors")


def test_file_without_a_checksum_is_refused(tmp_path, metric):
    tensors, notes = parts_of(metric)
    data = save_safetensors(tensors, {"samekind": json.dumps(notes)})
    assert_refused(tmp_path / "m", data, "no checksum")


def test_missing_file_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such model file") as caught:
        Metric.load(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")


def test_folder_is_not_a_model(tmp_path, metric):
    with pytest.raises(IsADirectoryError, match="model file itself"):
        Metric.load(tmp_path)
    with pytest.raises(IsADirectoryError, match="name of a file"):
        metric.save(tmp_path)


def test_full_disk_leaves_the_older_metric(saved, metric, monkeypatch):
    def no_space(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left on device"):
        metric.with_threshold(9).save(saved)
    assert Metric.load(saved) == metric
    assert os.listdir(saved.parent) == [saved.name]


def test_names_too_long_for_a_file_are_refused_when_saving(saved):
    parts = model_file.read_model(saved)
    assert model_file.to_bytes(*parts, longest_header=len(saved.read_bytes())) == saved.read_bytes()
    with pytest.raises(ValueError, match="shorten the names"):
        model_file.to_bytes(*parts, longest_header=300)


# -- mean and extractor ------------------------------------------------------------------------------------------------


@pytest.fixture
def centred_metric():
    return make_metric(np.float32, mean=np.array([1, -2, 0.5, 8], np.float32), extractor=EXTRACTOR)


def test_the_mean_is_taken_off_the_selected_columns(centred_metric):
    X = np.random.default_rng(3).normal(size=(5, 9))
    expected = (X[:, centred_metric.columns] - centred_metric.basis.mean) @ centred_metric.components.T
    np.testing.assert_allclose(centred_metric.transform(X), expected, rtol=1e-6)


def test_distances_do_not_see_the_mean(centred_metric):
    pairs = np.random.default_rng(4).normal(size=(6, 2, 9))
    codes = centred_metric.transform(pairs.reshape(12, 9)).reshape(6, 2, -1)
    np.testing.assert_allclose(centred_metric.pair_distance(pairs), ((codes[:, 0] - codes[:, 1]) ** 2).sum(axis=1))


def test_mean_and_extractor_come_back_from_a_file(centred_metric, tmp_path):
    centred_metric.save(tmp_path / "m")
    again = Metric.load(tmp_path / "m")
    assert again == centred_metric
    assert again.basis.mean.dtype == np.float32
    assert again.extractor == EXTRACTOR
    assert again == pickle.loads(pickle.dumps(again))


def test_metrics_with_other_means_or_extractors_differ(centred_metric):
    basis = centred_metric.basis
    for mean in (None, basis.mean + 1, basis.mean.astype(np.float64)):
        assert dataclasses.replace(centred_metric, basis=dataclasses.replace(basis, mean=mean)) != centred_metric
    for extractor in (None, {}):
        assert dataclasses.replace(centred_metric, extractor=extractor) != centred_metric


@pytest.mark.parametrize("mean", [np.zeros(3), np.zeros((4, 1)), [0, 0, 0, np.nan]])
def test_a_mean_that_does_not_fit_is_refused(mean):
    with pytest.raises(ValueError, match="mean"):
        make_metric(mean=mean)


@pytest.mark.parametrize("version", EARLIER)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_file_of_an_earlier_version_is_read(version, dtype, tmp_path):
    mean, extractor = np.array([1, -2, 0.5, 8], dtype), EXTRACTOR
    known = {} if version == 1 else {"mean": mean, "extractor": extractor}
    metric = make_metric(dtype, **known)
    (tmp_path / "m").write_bytes(sealed(*parts_of(metric, version)))
    loaded = Metric.load(tmp_path / "m")
    assert_same(loaded, metric)
    X = rows(dtype=dtype)
    centred = X[:, metric.columns] - known.get("mean", dtype(0))
    np.testing.assert_array_equal(loaded.transform(X), centred @ metric.components.T)
    loaded.save(tmp_path / "now")
    assert Metric.load(tmp_path / "now") == loaded


def test_a_metric_of_plain_features_cannot_read_pictures(metric):
    with pytest.raises(ValueError, match=r"learned from plain features .* use transform"):
        metric.encode(np.zeros((150, 110), np.uint8))


# -- crafted files -----------------------------------------------------------------------------------------------------


def written(metric, tmp_path):
    """Tensors and notes as a file of this version has them."""
    metric.save(tmp_path / "whole")
    arrays, notes = model_file.read_model(tmp_path / "whole")
    return dict(arrays), notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extractor": {**EXTRACTOR, "crop": {"width": 20_000, "height": 20_000, "sigma": 1}}}, "crop .* too large"),
        ({"extractor": {**EXTRACTOR, "alignment": "magic"}}, "alignment must be one of none, landmarks, detect"),
        ({"extractor": []}, "extractor must be an object"),
        ({"attributes": [["a", 1]]}, "attributes must be a mapping"),
        ({"basis": []}, "basis must be an object"),
        ({"basis": {}}, "basis lacks 'n_features'"),
        ({"threshold": 10**400}, "threshold must be None or a finite number"),
        ({"threshold": True}, "threshold must be None or a finite number"),
        ({"normalise": ["unit"]}, "normalise must be one of"),
        ({"more": 1}, "which this samekind does not know"),
        ({"calibration": 5}, "A calibration must be a mapping"),
    ],
)
def test_a_crafted_file_is_refused(centred_metric, tmp_path, changes, message):
    arrays, notes = written(centred_metric, tmp_path)
    assert_refused(tmp_path / "m", sealed(arrays, notes | changes), message)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_features", 10**400), ("n_features", 2**40), ("n_features", 1e3), ("weigh", 10**400), ("groups", 5)],
)
def test_a_crafted_basis_is_refused(centred_metric, tmp_path, name, value):
    arrays, notes = written(centred_metric, tmp_path)
    assert_refused(tmp_path / "m", sealed(arrays, notes | {"basis": notes["basis"] | {name: value}}), name)


@pytest.mark.parametrize("version", EARLIER[1:])
def test_a_crafted_file_of_an_earlier_version_is_refused(centred_metric, tmp_path, version):
    tensors, notes = parts_of(centred_metric, version)
    outside = {**EXTRACTOR, "families": [EXTRACTOR["families"][0] | {"regions": [[300, 0, 8, 8]]}]}
    assert_refused(tmp_path / "m", sealed(tensors, notes | {"extractor": outside}), "does not lie in the crop")


def test_a_checksum_has_its_own_place(metric, tmp_path):
    """Of no bytes at all it could not be wrong."""
    tensors, notes = written(metric, tmp_path)
    assert_refused(
        tmp_path / "m", save_safetensors(tensors | {"sha256": np.zeros(0, np.uint8)}, {"samekind": json.dumps(notes)})
    )


def test_a_file_of_millions_of_lists_is_refused_before_it_fills_the_memory(metric, tmp_path):
    arrays, notes = written(metric, tmp_path)
    assert_refused(
        tmp_path / "m", sealed(arrays, notes | {"attributes": {"a": [[]] * (MOST_PARTS // 2)}}), "header is damaged"
    )


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a pipe"):
        Metric.load(tmp_path / "pipe")


class TestOverflow:
    """Infinity is no answer: infinitely far would be called different."""

    def test_of_codes(self, strict_warnings):
        metric = make_metric(np.float32, components=np.full((3, 4), 1e38, np.float32))
        with pytest.raises(ValueError, match="codes come out as infinity"):
            metric.transform(np.full((2, 9), 100, np.float32))

    @pytest.mark.parametrize("normalise", ["none", "root"])
    def test_of_distances_of_codes(self, strict_warnings, normalise):
        metric = make_metric(np.float32, normalise=normalise, mean=np.zeros(4))
        codes = np.array([[1e30, 0, 0], [-1e30, 0, 0]], np.float32)
        with pytest.raises(ValueError, match="distances come out as infinity"):
            metric.code_distance(codes[0], codes[1])

    def test_of_flip_free_distances(self, strict_warnings):
        metric = make_metric(np.float32, mirror="distances")
        codes = np.array([[1e30, 0, 0, 0], [-1e30, 0, 0, 0]], np.float32)
        with pytest.raises(ValueError, match="distances come out as infinity"):
            metric.code_distance(codes[0], codes[1])

    def test_of_distances_of_pairs(self, strict_warnings):
        metric = make_metric(np.float32, components=np.full((3, 4), 1e30, np.float32))
        with pytest.raises(ValueError, match="distances come out as infinity"):
            metric.pair_distance(np.arange(18, dtype=np.float32).reshape(1, 2, 9))
