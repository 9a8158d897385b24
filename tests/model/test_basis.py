"""Features of groups, divided by their lengths, below a metric: as a map, as a value, and as a file."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from samekind.model.basis import GroupCodes
from samekind.model.metric import Metric, ModelFileError
from tests.test_metric import parts_of, sealed

# Group 0 has columns 0 and 3, group 1 column 2, group 2 columns 1, 4 and 5; group 2 has three rows, the first two.
COLUMNS = [0, 2, 1, 0, 2, 2]
ROWS = [2, 2, 2, 0, 0, 1]
VALUES = np.random.default_rng(0).standard_normal(3 * 3 + 2 * 2 + 1)
X = np.random.default_rng(1).standard_normal((5, 6))
POWERS = {"none": 0.0, "root": 0.5, "unit": 1.0}
each = pytest.mark.parametrize("normalise", POWERS)


def codes_over(normalise, dtype=np.float64):
    return GroupCodes(VALUES.astype(dtype), ROWS, COLUMNS, normalise)


def literal(x, normalise):
    values, Z = iter(VALUES), []
    for group in ROWS:
        Z.append(sum(next(values) * x[column] for column, of in enumerate(COLUMNS) if of == group))
    made = []
    for z, group in zip(Z, ROWS, strict=True):
        own = [other for other, of in zip(Z, ROWS, strict=True) if of == group]
        made.append(z / (sum(v * v for v in own) / len(own)) ** (POWERS[normalise] / 2))
    return made


@each
def test_each_group_has_its_own_map_and_length(normalise):
    np.testing.assert_allclose(codes_over(normalise)(X), [literal(x, normalise) for x in X], rtol=1e-12)
    assert codes_over(normalise, np.float32)(X.astype(np.float32)).dtype == np.float32


@each
def test_of_takes_a_block_matrix_apart(normalise):
    dense = np.zeros((6, 6))
    values = iter(VALUES)
    for row, group in enumerate(ROWS):
        for column in np.flatnonzero(np.equal(COLUMNS, group)):
            dense[row, column] = next(values)
    assert GroupCodes.of(dense, COLUMNS, normalise) == codes_over(normalise)
    np.testing.assert_allclose(codes_over("none")(X), X @ dense.T, rtol=1e-12)
    dense[0, 0] = 1e-9
    with pytest.raises(ValueError, match="the columns of one group only"):
        GroupCodes.of(dense, COLUMNS, normalise)


def test_together_reads_columns_side_by_side():
    one, two = codes_over("unit"), replace(codes_over("unit"), values=VALUES[::-1])
    both = GroupCodes.together([one, two])
    np.testing.assert_allclose(both(np.hstack([X, 2 * X])), np.hstack([one(X), two(X)]), rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": VALUES[:-1]}, r"values must hold 14 numbers, .* shape \(13,\)"),
        ({"values": np.full(14, np.nan)}, "values holds NaN"),
        ({"rows": [2, 2, 0, 2, 0, 1]}, "rows of a group must stand together"),
        ({"rows": [2, 2, 2, 0, 0, 10**15]}, "name group 1000000000000000, which has no columns"),
        ({"rows": [-1, 2, 2, 0, 0, 1]}, "rows of groups must be numbers from 0 on"),
        ({"columns": [0.5] * 6}, "columns of groups must be numbers from 0 on"),
        ({"normalise": "cube"}, "normalise_groups must be one of .* but is 'cube'"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(codes_over("unit"), **changes)


def metric_over(groups_by="unit", **changes):
    fields = {
        "components": np.random.default_rng(2).standard_normal((3, 6)),
        "columns": [1, 2, 4, 5, 6, 8],
        "n_features": 9,
        "threshold": 2.5,
        "groups": ("c", "a", "b"),
        "mean": np.random.default_rng(3).standard_normal(6),
        "group_codes": codes_over(groups_by),
    }
    return Metric(**fields | changes)


@each
@pytest.mark.parametrize("codes_by", POWERS)
def test_a_metric_applies_its_components_to_them(normalise, codes_by):
    metric = metric_over(normalise, normalise=codes_by)
    codes = codes_over(normalise)(X - metric.mean) @ metric.components.T
    codes /= np.linalg.norm(codes, axis=1, keepdims=True) ** POWERS[codes_by]
    np.testing.assert_allclose(metric.transform(X), codes, rtol=1e-10)
    pairs = np.stack([X[:2], X[2:4]], axis=1)
    np.testing.assert_allclose(metric.pair_distance(pairs), ((codes[:2] - codes[2:4]) ** 2).sum(axis=1), rtol=1e-9)
    assert metric.n_columns == 6
    assert not metric.is_linear


def test_there_is_no_matrix_and_no_component_over_features():
    with pytest.raises(ValueError, match="no Mahalanobis matrix"):
        metric_over().get_mahalanobis_matrix()
    with pytest.raises(ValueError, match="no components over the features"):
        metric_over().full_components()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": None}, "measures groups from the mean"),
        ({"components": np.ones((3, 5))}, r"components must have shape \(n_components, 6\)"),
        ({"columns": [1, 2, 4, 5, 6], "mean": np.ones(5)}, "group_codes read 6 columns, but the metric has 5"),
        ({"group_codes": "unit"}, "group_codes must be None or GroupCodes, but is str"),
    ],
)
def test_a_metric_that_does_not_fit_them_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        metric_over(**changes)


def test_they_are_part_of_what_a_metric_is():
    metric = metric_over()
    assert metric == metric_over()
    assert hash(metric) == hash(metric_over())
    assert metric != metric_over("root")
    assert metric != replace(metric, group_codes=replace(metric.group_codes, values=2 * VALUES))
    assert repr(metric).endswith("normalise_groups='unit')")
    again = pickle.loads(pickle.dumps(metric))
    assert again == metric
    with pytest.raises(ValueError, match="read-only"):
        again.group_codes.values[0] = 1


@each
def test_a_file_gives_them_back(normalise, tmp_path):
    metric = metric_over(normalise)
    metric.save(tmp_path / "m")
    assert Metric.load(tmp_path / "m") == metric
    metric.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_a_file_that_lacks_some_of_it_is_refused(tmp_path):
    metric = metric_over()
    tensors, notes = parts_of(metric)
    notes |= {"format_version": 4, "normalise_groups": "unit"}
    (tmp_path / "m").write_bytes(sealed(tensors | {"mean": metric.mean, "group_rows": metric.group_codes.rows}, notes))
    with pytest.raises(ModelFileError, match="groups are normalised, but what they are is missing"):
        Metric.load(tmp_path / "m")
