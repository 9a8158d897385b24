"""The basis below a metric: features of chosen groups, as a map, as a value, and as a file."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.model.basis import Basis
from samekind.model.metric import Metric
from samekind.store import ArrayStore, FeatureGroups, GroupsOf, RowsOf
from tests.model.files import assert_refused, earlier_parts, sealed
from tests.stores import disk_store

# Group 0 has columns 0 and 3, group 1 column 2, group 2 columns 1, 4 and 5; group 2 has three rows, the first three.
OWNERS = [0, 2, 1, 0, 2, 2]
ROWS = [2, 2, 2, 0, 0, 1]
VALUES = np.random.default_rng(0).standard_normal(3 * 3 + 2 * 2 + 1)
MEAN = np.random.default_rng(3).standard_normal(6)
EIGENVALUES = np.array([4.0, 1.0, 0.25, 9.0, 2.0, 0.5])
COLUMNS = [1, 2, 4, 5, 6, 8]  # of 9 features
X = np.random.default_rng(1).standard_normal((5, 6))
POWERS = {"none": 0.0, "root": 0.5, "unit": 1.0}
each = pytest.mark.parametrize("normalise", POWERS)
weighs = pytest.mark.parametrize("weigh", [0.0, 0.5, 1.0])


def basis_with(normalise="none", weigh=0.0, dtype=np.float64, **changes):
    fields = {
        "columns": COLUMNS,
        "n_features": 9,
        "groups": ("c", "a", "b"),
        "mean": MEAN,
        "values": VALUES.astype(dtype),
        "rows": ROWS,
        "owners": OWNERS,
        "eigenvalues": EIGENVALUES,
        "normalise": normalise,
        "weigh": weigh,
    }
    return Basis(**fields | changes)


def literal(basis, x):
    """The features of one sample (n_columns,), in loops."""
    mean = np.zeros(len(x)) if basis.mean is None else basis.mean
    values, Z = iter(basis.values.tolist()), []
    for group in basis.rows:
        Z.append(sum(next(values) * (x[j] - mean[j]) for j, of in enumerate(basis.owners) if of == group))
    made = []
    for z, group, eigenvalue in zip(Z, basis.rows, basis.eigenvalues, strict=True):
        own = [other for other, of in zip(Z, basis.rows, strict=True) if of == group]
        length = (sum(v * v for v in own) / len(own)) ** 0.5 or 1.0
        made.append(z / length ** POWERS[basis.normalise] * float(eigenvalue) ** (basis.weigh / 2))
    return made


def random_basis(rng, columns, n_features, *, normalise="none", weigh=0.0, with_mean=True, name="g"):
    """Groups of random sizes with their columns in disorder, each with 1 to 3 features."""
    columns = np.sort(columns)
    n_groups = int(rng.integers(1, len(columns) + 1))
    owners = rng.permutation(np.append(np.arange(n_groups), rng.integers(0, n_groups, len(columns) - n_groups)))
    rows = np.repeat(rng.permutation(n_groups), rng.integers(1, 4, n_groups))
    sizes = np.bincount(owners)[rows]
    return Basis(
        columns,
        n_features,
        groups=tuple(f"{name}{k}" for k in range(n_groups)),
        mean=rng.standard_normal(len(columns)) if with_mean or normalise != "none" else None,
        values=rng.standard_normal(sizes.sum()),
        rows=rows,
        owners=owners,
        eigenvalues=rng.uniform(0.1, 5, len(rows)),
        normalise=normalise,
        weigh=weigh,
    )


how = {"normalise": st.sampled_from(list(POWERS)), "weigh": st.sampled_from([0.0, 0.5, 1.0, 2.0])}


@st.composite
def bases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_features = draw(st.integers(1, 12))
    columns = rng.permutation(n_features)[: draw(st.integers(1, n_features))]
    options = {name: draw(strategy) for name, strategy in how.items()}
    return random_basis(rng, columns, n_features, with_mean=draw(st.booleans()), **options)


@st.composite
def families(draw):
    """Several bases of one feature vector, with columns of their own."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_families = draw(st.integers(1, 4))
    n_features = draw(st.integers(n_families, 16))
    options = {name: draw(strategy) for name, strategy in how.items()} | {"with_mean": draw(st.booleans())}
    family = rng.permutation(np.append(np.arange(n_families), rng.integers(0, n_families + 1, n_features - n_families)))
    return [
        random_basis(rng, np.flatnonzero(family == k), n_features, name=f"family {k} group ", **options)
        for k in range(n_families)
    ]


def samples(basis, n=6):
    return np.random.default_rng(5).standard_normal((n, basis.n_features))


def store_of(X, size=2, kind=ArrayStore):
    """X in groups of so many columns."""
    return RowsOf(kind(X, FeatureGroups.parse(size, X.shape[1])), np.arange(len(X)))


# As a map


@each
@weighs
def test_each_group_has_its_own_map_length_and_weights(normalise, weigh):
    basis = basis_with(normalise, weigh)
    np.testing.assert_allclose(basis(X), [literal(basis, x) for x in X], rtol=1e-12)
    single = basis_with(normalise, weigh, np.float32)
    assert single(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single(X.astype(np.float32)), basis(X), rtol=2e-4, atol=1e-5)


@given(bases())
def test_every_basis_is_its_loops(basis):
    Z = basis.transform(samples(basis))
    np.testing.assert_allclose(Z, [literal(basis, x[basis.columns]) for x in samples(basis)], rtol=1e-9, atol=1e-12)
    assert Z.shape == (6, basis.n_codes)


@given(bases(), st.integers(0, 7), st.sampled_from([1, 4, 2048]))
def test_arrays_columns_stores_and_rows_agree(basis, n, at_once):
    X = samples(basis, n)
    rows = np.random.default_rng(n).permutation(n)[: n // 2]
    store = store_of(X)
    transform = partial(basis.transform, at_once=at_once)
    Z = transform(X)
    for other in (transform(X[:, basis.columns]), transform(store)):
        np.testing.assert_allclose(other, Z, rtol=1e-12, atol=1e-13)
    for other in (transform(X, rows), transform(store, rows), transform(RowsOf(store, rows))):
        np.testing.assert_allclose(other, Z[rows], rtol=1e-12, atol=1e-13)
    assert sum(len(part) for part in basis.read(X, at_once=at_once)) == n
    np.testing.assert_allclose(Z, basis(X[:, basis.columns]), rtol=1e-12, atol=1e-13)


def test_a_store_on_disk_is_its_array(tmp_path):
    X = np.random.default_rng(2).standard_normal((30, 12)).astype(np.float16).astype(np.float32)
    store = disk_store(tmp_path / "store", X, np.arange(30) % 3, {"a": 3, "b": 2})
    basis = random_basis(np.random.default_rng(4), [1, 2, 4, 7, 8, 11], 12, normalise="unit", weigh=0.5)
    np.testing.assert_allclose(basis.transform(store), basis.transform(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(basis.transform(store, [7, 3]), basis.transform(X)[[7, 3]], rtol=1e-4, atol=1e-5)
    part = GroupsOf.of_families(store, ["b"])
    own = random_basis(np.random.default_rng(4), [0, 3, 4], 6)
    np.testing.assert_allclose(own.transform(part), own.transform(X[:, 6:]), rtol=1e-4, atol=1e-5)


def test_only_the_groups_that_are_read_are_asked_of_a_store():
    class Watched(ArrayStore):
        def panel(self, groups, rows):
            asked.append(tuple(groups))
            return super().panel(groups, rows)

    asked = []
    store = store_of(samples(basis_with()), kind=Watched)
    basis_with().transform(store)
    Basis.plain([5, 8], 9).transform(store)
    assert asked == [(0, 1, 2, 3, 4), (2, 4)]


@given(bases(), st.integers(0, 2**32 - 1))
def test_weighed_by_one_distances_are_those_of_step_1(basis, seed):
    """U Lambda U^T of each group by itself, summed over groups."""
    basis = replace(basis, normalise="none", weigh=1.0)
    a, b = np.random.default_rng(seed).standard_normal((2, basis.n_features))
    between, expected = (a - b)[basis.columns], 0.0
    values = np.split(basis.values, np.cumsum([(basis.owners == group).sum() for group in basis.rows])[:-1])
    for row, group, eigenvalue in zip(values, basis.rows, basis.eigenvalues, strict=True):
        expected += eigenvalue * (row @ between[basis.owners == group]) ** 2
    metric = Metric(basis)
    assert metric.distance(a, b) == pytest.approx(expected, rel=1e-9)
    codes = metric.transform(np.stack([a, b]))
    assert metric.code_distance(codes[:1], codes[1:])[0] == pytest.approx(expected, rel=1e-8, abs=1e-10)
    A = metric.get_mahalanobis_matrix()
    assert (a - b) @ A @ (a - b) == pytest.approx(expected, rel=1e-9)


@given(bases())
def test_weights_are_powers_of_the_deviations(basis):
    plain, weighed = replace(basis, weigh=0.0), replace(basis, weigh=1.5)
    np.testing.assert_array_equal(plain.weights, 1)
    np.testing.assert_allclose(weighed.weights, basis.eigenvalues**0.75, rtol=1e-12)
    X = samples(basis)
    np.testing.assert_allclose(weighed.transform(X), plain.transform(X) * weighed.weights, rtol=1e-12)


@given(bases(), st.integers(0, 4))
def test_over_columns_is_the_same_map_of_the_columns(basis, n_components):
    basis = replace(basis, normalise="none")
    selected = samples(basis)[:, basis.columns]
    over = basis.over_columns(None)
    assert over.shape == (basis.n_codes, basis.n_columns)
    np.testing.assert_allclose(basis.of_centred(selected), selected @ over.T, rtol=1e-9, atol=1e-12)
    components = np.random.default_rng(6).standard_normal((n_components, basis.n_codes))
    np.testing.assert_allclose(basis.over_columns(components), components @ over, rtol=1e-9, atol=1e-12)
    metric = Metric(basis, components)
    np.testing.assert_allclose(metric.full_components()[:, basis.columns], components @ over, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(metric.full_components()) <= n_components * basis.n_columns


def test_components_over_columns_keep_their_precision():
    basis, components = basis_with(weigh=0.5, dtype=np.float32), np.ones((2, 6), np.float32)
    assert basis.over_columns(None).dtype == basis.over_columns(components).dtype == np.float32
    assert Metric(basis, components).full_components().dtype == np.float32
    assert Metric(basis, components).get_mahalanobis_matrix().dtype == np.float32


@pytest.mark.parametrize("normalise", ["root", "unit"])
def test_normalised_features_are_not_linear(normalise):
    assert not basis_with(normalise).is_linear
    with pytest.raises(ValueError, match=f"normalise_groups='{normalise}' are not linear in the columns"):
        basis_with(normalise).over_columns(None)


def test_plain_columns_are_their_own_features():
    basis = Basis.plain([1, 4], 6, mean=[0.5, -1.0])
    X = samples(basis)
    np.testing.assert_array_equal(basis.transform(X), X[:, [1, 4]] - [0.5, -1.0])
    np.testing.assert_array_equal(Basis.plain([1, 4], 6).transform(X, [3, 0]), X[[3, 0]][:, [1, 4]])
    np.testing.assert_array_equal(basis.over_columns(None), np.eye(2))
    np.testing.assert_array_equal(basis.weights, 1)
    assert (basis.n_codes, basis.is_linear) == (2, True)


@pytest.mark.parametrize("width", [0, 5, 7, 10])
def test_other_widths_are_refused(width):
    with pytest.raises(ValueError, match=rf"X has {width} columns, .* 9 \(all features\) or 6 "):
        basis_with().transform(np.ones((2, width)))


def test_a_store_of_other_features_is_refused():
    for n_features in (8, 10):
        store = store_of(np.ones((4, n_features)))
        with pytest.raises(ValueError, match=rf"store has {n_features} features, .* takes 9"):
            basis_with().transform(store)


# Joined, cut and scaled


@given(families())
def test_joined_features_are_those_of_each_side_by_side(several):
    joined = Basis.joined(several)
    X = samples(joined)
    np.testing.assert_array_equal(joined.transform(X), np.hstack([basis.transform(X) for basis in several]))
    assert joined.groups == tuple(name for basis in several for name in basis.groups)
    assert joined.columns.tolist() == sorted(column for basis in several for column in basis.columns)
    np.testing.assert_array_equal(joined.weights, np.concatenate([basis.weights for basis in several]))
    for basis in several:
        np.testing.assert_array_equal(joined.columns[np.isin(joined.columns, basis.columns)], basis.columns)


@given(families())
def test_the_order_of_joining_is_that_of_groups_and_features_alone(several):
    one, other = Basis.joined(several), Basis.joined(several[::-1])
    assert other.columns.tolist() == one.columns.tolist()
    assert other.groups == tuple(name for basis in several[::-1] for name in basis.groups)
    ends = np.cumsum([basis.n_codes for basis in several])[:-1]
    turned = np.hstack(np.split(one.transform(samples(one)), ends, axis=1)[::-1])
    np.testing.assert_array_equal(other.transform(samples(one)), turned)


@given(families())
def test_cutting_undoes_joining(several):
    joined, start = Basis.joined(several), 0
    for basis in several:
        cut = joined.only(range(start, start + len(basis.groups)))
        start += len(basis.groups)
        in_order = np.argsort(basis.rows, kind="stable")
        np.testing.assert_array_equal(cut.transform(samples(basis)), basis.transform(samples(basis))[:, in_order])
        assert (cut.groups, cut.columns.tolist()) == (basis.groups, basis.columns.tolist())


@given(bases(), st.data())
def test_only_keeps_the_features_of_its_groups_in_the_order_asked_for(basis, data):
    chosen = data.draw(st.permutations(range(len(basis.groups))))
    chosen = chosen[: data.draw(st.integers(1, len(chosen)))]
    cut = basis.only(chosen)
    kept = np.concatenate([np.flatnonzero(basis.rows == k) for k in chosen])
    np.testing.assert_array_equal(cut.transform(samples(basis)), basis.transform(samples(basis))[:, kept])
    assert cut.groups == tuple(basis.groups[k] for k in chosen)
    assert set(cut.columns) == set(basis.columns[np.isin(basis.owners, chosen)])
    np.testing.assert_array_equal(cut.eigenvalues, basis.eigenvalues[kept])


def test_only_of_no_group_reads_nothing():
    cut = basis_with().only([])
    assert (cut.n_columns, cut.n_codes, cut.groups) == (0, 0, ())
    assert cut.transform(np.ones((4, 9))).shape == (4, 0)


def test_plain_columns_have_no_groups_to_choose_among():
    with pytest.raises(ValueError, match="Plain columns"):
        Basis.plain([0, 1], 3, groups=("a",)).only([0])
    with pytest.raises(ValueError, match="Plain columns"):
        Basis.plain([0, 1], 3, groups=("a",)).scaled(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({}, "read the same column"),
        ({"normalise": "unit"}, "normalise = 'none' and 'unit' cannot be joined"),
        ({"weigh": 1.0}, "weigh = 0.0 and 1.0 cannot be joined"),
        ({"n_features": 10}, "n_features = 9 and 10 cannot be joined"),
        ({"mean": None}, "where all have a mean, or none has"),
        ({"feature_names": tuple("abcdefghi")}, "feature_names = None and .* cannot be joined"),
    ],
)
def test_what_does_not_go_together_is_not_joined(other, message):
    with pytest.raises(ValueError, match=message):
        Basis.joined([basis_with(), basis_with(**other)])


def test_one_shared_column_is_enough_to_refuse():
    one, two = Basis.plain([0, 3], 9), Basis.plain([3, 5], 9)
    with pytest.raises(ValueError, match="Plain columns cannot be joined"):
        Basis.joined([one, two])
    apart = [basis_with().only([0]), basis_with().only([1, 2])]
    assert Basis.joined(apart).n_columns == 6
    with pytest.raises(ValueError, match="read the same column"):
        Basis.joined([*apart, basis_with().only([1])])


@given(bases(), st.booleans())
def test_scaled_groups_are_divided_by_the_roots_of_their_lengths(basis, in_a_store):
    """The root mean square length over samples, of features that are weighed but not normalised."""
    X = 3 * samples(basis, 9) + 1
    rows = np.array([8, 2, 3, 5])
    scaled = basis.scaled(store_of(X) if in_a_store else X, rows)
    before, after = (replace(each, normalise="none").transform(X[rows]) for each in (basis, scaled))
    for k in range(len(basis.groups)):
        own = basis.rows == k
        length = np.sqrt((before[:, own] ** 2).sum(axis=1).mean())
        np.testing.assert_allclose(after[:, own], before[:, own] / np.sqrt(length), rtol=1e-9, atol=1e-12)
    # All else stays: weights, mean, how it is normalised.
    assert scaled.notes() == basis.notes()
    for name in ("mean", "rows", "owners", "eigenvalues", "columns"):
        np.testing.assert_array_equal(getattr(scaled, name), getattr(basis, name))


def test_scaling_is_by_lengths_from_the_mean_and_leaves_groups_of_zeros():
    basis = basis_with(eigenvalues=np.ones(6))
    X = np.tile(np.insert(MEAN, [0, 2, 5], 0.0), (4, 1))  # every sample at the mean
    assert basis.scaled(X) == basis
    np.testing.assert_array_equal(basis.transform(X), 0)


# As a value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": VALUES[:-1]}, r"values must hold 14 numbers, .* shape \(13,\)"),
        ({"values": np.full(14, np.nan)}, "values holds NaN"),
        ({"rows": [2, 2, 0, 2, 0, 1]}, "rows of a group must stand together"),
        ({"rows": [2, 2, 2, 0, 0, 10**15]}, "rows of groups must be numbers from 0 to 2"),
        ({"rows": [-1, 2, 2, 0, 0, 1]}, "rows of groups must be numbers from 0 to 2"),
        ({"owners": [0.5] * 6}, "owners of groups must be numbers from 0 to 2"),
        ({"owners": OWNERS[:-1]}, r"owners must name the group of each of the 6 columns, but has shape \(5,\)"),
        ({"normalise": "cube"}, "normalise_groups must be one of .* but is 'cube'"),
        ({"weigh": -1}, "weigh must be a number of at least 0, but is -1"),
        ({"weigh": np.nan}, "weigh must be a number of at least 0"),
        ({"weigh": "auto"}, "weigh must be a number of at least 0, but is 'auto'"),
        ({"eigenvalues": EIGENVALUES[:-1]}, "eigenvalues must be 6 positive numbers"),
        ({"eigenvalues": np.zeros(6)}, "eigenvalues must be 6 positive numbers"),
        ({"eigenvalues": None}, "go together: give all, or none"),
        ({"mean": None, "normalise": "unit"}, "normalise_groups='unit' measures groups from the mean"),
        ({"mean": MEAN[:5]}, r"mean must have shape \(6,\)"),
        ({"columns": COLUMNS[::-1]}, "strictly increasing"),
        ({"columns": [1, 2, 4, 5, 6, 9]}, "go from 1 to 9"),
        ({"groups": "abc"}, "groups must be a sequence of strings"),
        ({"feature_names": ("a",)}, "n_features = 9 names, but holds 1"),
        ({"values": None, "rows": None, "owners": None, "eigenvalues": None, "weigh": 1.0}, "Plain columns have no"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        basis_with(**changes)


@given(bases())
def test_pickles_and_rebuilt_ones_are_equal_and_read_only(basis):
    again = pickle.loads(pickle.dumps(basis))
    assert again == basis
    assert hash(again) == hash(basis)
    assert all(not array.flags.writeable for array in again.arrays().values())
    assert Basis(**basis.arrays(), **basis.notes()) == basis


@pytest.mark.parametrize(
    "change",
    [
        {"normalise": "unit"},
        {"weigh": 1.0},
        {"values": 2 * VALUES},
        {"values": VALUES.astype(np.float32)},
        {"mean": None},
        {"mean": MEAN + 1},
        {"eigenvalues": EIGENVALUES + 1},
        {"groups": ("a", "b", "c")},
        {"n_features": 10},
        {"columns": [1, 2, 4, 5, 6, 7]},
        {"feature_names": tuple("abcdefghi")},
    ],
)
def test_any_difference_makes_bases_unequal(change):
    assert basis_with() == basis_with()
    assert basis_with(**change) != basis_with()
    assert Metric(basis_with(**change)) != Metric(basis_with())
    assert basis_with() != "a basis"


# Below a metric


def metric_over(groups_by="unit", weigh=0.5, **changes):
    fields = {"components": np.random.default_rng(2).standard_normal((3, 6)), "threshold": 2.5}
    return Metric(basis_with(groups_by, weigh), **fields | changes)


@each
@weighs
@pytest.mark.parametrize("codes_by", POWERS)
def test_a_metric_applies_its_components_to_the_features(normalise, weigh, codes_by):
    metric = metric_over(normalise, weigh, normalise=codes_by)
    codes = np.array([literal(metric.basis, x) for x in X]) @ metric.components.T
    codes /= np.linalg.norm(codes, axis=1, keepdims=True) ** POWERS[codes_by]
    np.testing.assert_allclose(metric.transform(X), codes, rtol=1e-10)
    pairs = np.stack([X[:2], X[2:4]], axis=1)
    np.testing.assert_allclose(metric.pair_distance(pairs), ((codes[:2] - codes[2:4]) ** 2).sum(axis=1), rtol=1e-9)
    assert metric.n_columns == 6
    assert metric.is_linear == (normalise == codes_by == "none")


def test_there_is_no_matrix_and_no_component_over_normalised_groups():
    with pytest.raises(ValueError, match="no Mahalanobis matrix"):
        metric_over().get_mahalanobis_matrix()
    with pytest.raises(ValueError, match="no components over the features"):
        metric_over().full_components()


def test_components_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"components must have shape \(n_components, 6\)"):
        metric_over(components=np.ones((3, 5)))


def test_the_basis_is_part_of_what_a_metric_is():
    metric = metric_over()
    assert metric == metric_over()
    assert hash(metric) == hash(metric_over())
    assert metric != metric_over("root")
    assert metric != metric_over(weigh=0.0)
    assert repr(metric).endswith("normalise_groups='unit')")
    again = pickle.loads(pickle.dumps(metric))
    assert again == metric
    with pytest.raises(ValueError, match="read-only"):
        again.basis.values[0] = 1


# As a file


@given(bases(), st.booleans())
def test_a_file_gives_the_basis_back(tmp_path_factory, basis, with_components):
    path = tmp_path_factory.getbasetemp() / "basis.metric"
    metric = Metric(basis, np.ones((2, basis.n_codes)) if with_components else None)
    metric.save(path)
    loaded = Metric.load(path)
    assert loaded == metric
    assert loaded.basis == basis
    np.testing.assert_array_equal(loaded.transform(samples(basis)), metric.transform(samples(basis)))
    written = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == written


def version_4(normalise, dtype=np.float64, codes_by="none"):
    """What the writer of version 4 had of normalised groups."""
    return earlier_parts(
        4,
        np.random.default_rng(2).standard_normal((3, 6)).astype(dtype),
        COLUMNS,
        9,
        threshold=2.5,
        groups=("c", "a", "b"),
        mean=MEAN.astype(dtype),
        normalise=codes_by,
        normalise_groups=normalise,
        group_codes=(VALUES.astype(dtype), np.array(ROWS), np.array(OWNERS)),
    )


@each
@pytest.mark.parametrize("codes_by", POWERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalised_groups_of_version_4_give_the_codes_of_then(normalise, codes_by, dtype, tmp_path):
    tensors, notes = version_4(normalise, dtype, codes_by)
    (tmp_path / "m").write_bytes(sealed(tensors, notes))
    loaded = Metric.load(tmp_path / "m")
    assert (loaded.basis.normalise, loaded.basis.weigh, loaded.normalise) == (normalise, 0.0, codes_by)
    assert (loaded.threshold, loaded.groups) == (2.5, ("c", "a", "b"))
    full = np.random.default_rng(8).standard_normal((5, 9)).astype(dtype)
    plain = basis_with(normalise, dtype=dtype, mean=MEAN.astype(dtype), eigenvalues=np.ones(6))
    codes = np.array([literal(plain, x[COLUMNS]) for x in full.astype(float)]) @ tensors["components"].T.astype(float)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True) ** POWERS[codes_by]
    tolerance = {"rtol": 1e-10} if dtype is np.float64 else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(loaded.transform(full), codes, **tolerance)
    loaded.save(tmp_path / "now")
    assert Metric.load(tmp_path / "now") == loaded


@pytest.mark.parametrize("lost", ["group_values", "group_rows", "group_columns"])
def test_a_file_of_version_4_that_lacks_some_of_its_groups_is_refused(lost, tmp_path):
    tensors, notes = version_4("unit")
    del tensors[lost]
    assert_refused(tmp_path / "m", sealed(tensors, notes), "groups are normalised, but what they are is missing")


def test_a_file_that_lacks_a_part_of_its_basis_is_refused(tmp_path):
    from samekind.model.saved import arrays_of, notes_of

    metric = metric_over()
    tensors = {name: np.array(array) for name, array in arrays_of(metric).items()}
    notes = {"format": "samekind.metric", "format_version": 5} | notes_of(metric)
    (tmp_path / "m").write_bytes(sealed(tensors, notes))
    assert Metric.load(tmp_path / "m") == metric
    for name in tensors.keys() - {"components"}:
        left = {other: array for other, array in tensors.items() if other != name}
        assert_refused(tmp_path / "m", sealed(left, notes), "does not hold a valid metric")
    for name in notes.keys() - {"format", "format_version"}:
        left = {other: note for other, note in notes.items() if other != name}
        assert_refused(tmp_path / "m", sealed(tensors, left), f"lacks '{name}'")
    for wrong in ([1], "unit", None, {"n_features": 9, "unknown": 1}):
        assert_refused(tmp_path / "m", sealed(tensors, notes | {"basis": wrong}), "does not hold a valid metric")
    for wrong in ([1], {"source": "x"}):
        assert_refused(tmp_path / "m", sealed(tensors, notes | {"calibration": wrong}), "does not hold a valid metric")
