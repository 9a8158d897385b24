"""Estimators learn from a store as from an array."""

import numpy as np
import pytest
from sklearn.base import clone

from samekind import EnsembleMetric, JointMetric, SparseBlockMetric
from samekind.estimators.data import TrainingData
from samekind.store import (
    ArrayStore,
    Family,
    FeatureGroups,
    GroupArrays,
    GroupsOf,
    RowsOf,
    StoreWriter,
    WhitenedStore,
    Whitening,
)
from tests import cases
from tests.cases import with_settings, with_sizes

SIZES = (6, 5, 4, 6, 5, 4)
PLAIN = {"max_groups": 3, "n_components": 4, "cv": None, "random_state": 0, "normalise": "none"}
LEARNERS = [
    SparseBlockMetric(max_groups=3),
    SparseBlockMetric(max_groups=3, loss="triplet"),
    EnsembleMetric(normalise_groups="scale", **PLAIN),
    EnsembleMetric(normalise_groups="unit", **PLAIN),
    EnsembleMetric(
        normalise_groups="scale",
        loss="triplet",
        selection=SparseBlockMetric(tol=1e-6),
        joint=JointMetric(n_neighbors=2, tol=1e-6),
        **PLAIN,
    ),
    JointMetric(4, random_state=0),
]


@pytest.fixture(scope="module")
def X_and_y():
    X, y = cases.labelled_data(SIZES, 24, spread=2.0)
    return X.astype(np.float16).astype(np.float32), y


@pytest.fixture(scope="module")
def store(X_and_y, tmp_path_factory):
    """Two families of four groups of three columns, in shards of eleven."""
    X, y = X_and_y
    path = tmp_path_factory.mktemp("stores") / "store"
    families = [Family(name, 3, [f"group {k}" for k in range(4)]) for name in ("a", "b")]
    images = [(f"{i:03d}", str(label)) for i, label in enumerate(y)]
    with StoreWriter.open(path, families=families, front_end={}, images=images, shard_rows=11) as writer:
        for shard in writer.pending():
            ids = [int(i) for i, _ in shard.images]
            by_group = X[ids].reshape(len(ids), 8, 3).transpose(1, 0, 2).astype(np.float16)
            writer.write(
                shard,
                {"a": by_group[:4], "b": by_group[4:]},
                rows=list(range(len(ids))),
                skipped={},
                notes={},
                digests=[f"{i:032d}" for i in ids],
            )
    from samekind.store import DiskStore

    return DiskStore.open(path)


def of_array(learner, whiten):
    """The same learner for the array that the store was made from."""
    changes = {}
    if hasattr(learner, "feature_groups"):
        changes["feature_groups"] = 3
    if hasattr(learner, "families"):
        changes["families"] = list("aaaabbbb")
    return with_settings(clone(learner), whiten=whiten, **changes)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_a_store_gives_the_metric_of_its_array(learner, store, X_and_y):
    X, y = X_and_y
    ours = with_settings(clone(learner), whiten=None).fit(store, store.labels)
    theirs = of_array(learner, None).fit(X, y)
    np.testing.assert_allclose(ours.transform(store), theirs.transform(X), atol=1e-3)
    np.testing.assert_allclose(ours.transform(X), ours.transform(store), atol=1e-5)
    assert ours.n_features_in_ == 24
    if hasattr(ours, "selected_groups_"):
        np.testing.assert_array_equal(ours.selected_groups_, theirs.selected_groups_)


@pytest.mark.parametrize("learner", LEARNERS[:-1], ids=str)
def test_whitening_inside_is_whitening_outside(learner, store, X_and_y):
    """The metric takes features as they were before whitening; distances are those on whitened ones."""
    y = X_and_y[1]
    rows = np.arange(len(store))
    white = WhitenedStore(store, Whitening.learned(store, rows, dims=45))
    Z = white.panel(range(8), rows)
    inside = clone(learner).fit(store, store.labels)
    outside = of_array(learner, None).set_params(
        feature_groups=FeatureGroups.parse(3, 24).columns if Z.shape[1] == 24 else 1
    )
    outside.fit(Z, y)
    np.testing.assert_allclose(inside.transform(store), outside.transform(Z), atol=2e-3)
    assert inside.metric_.basis.mean is not None


@pytest.mark.parametrize("search", ["exact", "fast"])
def test_whitened_groups_kept_in_memory_change_nothing(search, store):
    learner = SparseBlockMetric(max_groups=3, search=search, tol=1e-6, random_state=0)
    codes = []
    for share in (0.0, 1 / 16):
        codes.append(with_sizes(learner, copy_share=share).fit(store, store.labels).transform(store))
    np.testing.assert_allclose(codes[0], codes[1], atol=1e-3)


def test_whitened_groups_are_kept_in_memory_where_they_fit(store):
    data = TrainingData.from_samples(store, store.labels, np.arange(len(store)), 1).whitened(2)
    needed = len(store) * int(data.store.group_sizes.sum()) * 4
    assert isinstance(data.copied(needed).store, GroupArrays)
    assert data.copied(needed - 1) is data
    plain = TrainingData.from_samples(store, store.labels, np.arange(len(store)), 1)
    assert plain.copied(10**9) is plain


def test_rows_are_all_that_is_learned_from(store, X_and_y):
    X, y = X_and_y
    rows = np.flatnonzero(y < 4)
    poisoned = np.array([label if int(label) < 4 else f"x{i}" for i, label in enumerate(store.labels)])
    some = EnsembleMetric(normalise_groups="scale", **PLAIN).fit(store, poisoned, rows=rows)
    alone = EnsembleMetric(3, families=list("aaaabbbb"), normalise_groups="scale", **PLAIN)
    alone.set_params(selection__whiten=45).fit(X[rows], y[rows])
    np.testing.assert_allclose(some.transform(store), alone.transform(X), atol=2e-3)


def test_a_mask_is_as_good_as_numbers(store):
    mask = store.labels != "2"
    a = SparseBlockMetric(max_groups=2).fit(store, store.labels, rows=mask)
    b = SparseBlockMetric(max_groups=2).fit(store, store.labels, rows=np.flatnonzero(mask))
    assert a.metric_ == b.metric_


def test_rows_of_an_array_work_too(X_and_y):
    X, y = X_and_y
    rows = np.flatnonzero(y < 3)
    a = SparseBlockMetric(3, max_groups=2).fit(X, y, rows=rows)
    b = SparseBlockMetric(3, max_groups=2).fit(X[rows], y[rows])
    assert a.metric_ == b.metric_
    np.testing.assert_array_equal(a.transform(X, rows=rows), b.transform(X[rows]))


def test_codes_of_some_rows(store):
    model = SparseBlockMetric(max_groups=2).fit(store, store.labels)
    np.testing.assert_allclose(model.transform(store, rows=[5, 2, 2]), model.transform(store)[[5, 2, 2]], atol=1e-6)


def test_families_of_the_store_are_searched_one_by_one(store):
    model = EnsembleMetric(max_groups=2, n_components=3, cv=None).fit(store, store.labels)
    families = [record["family"] for record in model.history_ if record["step"] == "selection"]
    assert families == ["a", "a", "b", "b"]
    assert all(name.split()[0] in "ab" for name in model.selected_group_names_)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_whiten_takes_a_number_of_directions(store, dims):
    model = SparseBlockMetric(max_groups=2, whiten=dims).fit(store, store.labels)
    assert all(block.shape == (dims, dims) for block in model.blocks_.values())


@pytest.mark.parametrize(
    ("change", "rows", "words"),
    [
        ({"feature_groups": 3}, None, "brings its own feature groups"),
        ({"selection": SparseBlockMetric(whiten=0)}, None, "whiten=0"),
        ({}, [0, 1, 99], "rows go from 0 to 99"),
        ({}, [[0]], "rows must be sample numbers"),
        ({}, [0.5], "rows must be sample numbers"),
        ({}, [True, False], "mask of 30"),
    ],
)
def test_what_cannot_be_is_said(store, change, rows, words):
    with pytest.raises(ValueError, match=words):
        EnsembleMetric(**change).fit(store, store.labels, rows=rows)


def test_labels_must_be_one_for_each_sample(store):
    with pytest.raises(ValueError, match="y has 3 labels, but the store has 30 samples"):
        SparseBlockMetric().fit(store, store.labels[:3])


def test_rows_of_one_class_are_refused(store):
    with pytest.raises(ValueError, match=r"(?i)class"):
        SparseBlockMetric().fit(store, store.labels, rows=store.labels == "0")


def test_joint_learning_says_when_a_store_is_too_large(store):
    with pytest.raises(ValueError, match=r"All features of this store take .* use EnsembleMetric"):
        JointMetric(memory_budget=1000).fit(store, store.labels)


def test_a_view_of_rows_is_the_rows(X_and_y):
    X, _ = X_and_y
    whole = ArrayStore(X, FeatureGroups.parse(3, 24))
    view = RowsOf(whole, np.array([4, 9, 1]))
    np.testing.assert_array_equal(view.panel([2, 0], np.array([2, 0])), whole.panel([2, 0], np.array([1, 4])))
    assert len(view) == 3
    assert (view.dtype, view.stored_dtype) == (np.float32, np.float32)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_some_groups_of_a_store_are_a_store(learner, store, X_and_y):
    """One family of two, as an array of its columns alone."""
    X, y = X_and_y
    part = GroupsOf.of_families(store, ["b"])
    ours = with_settings(clone(learner), whiten=None).fit(part, part.labels)
    changes = {"families": list("bbbb")} if hasattr(learner, "families") else {}
    theirs = of_array(learner, None).set_params(**changes).fit(X[:, 12:], y)
    np.testing.assert_allclose(ours.transform(part), theirs.transform(X[:, 12:]), atol=1e-3)
    assert ours.n_features_in_ == 12
    if hasattr(ours, "selected_group_names_"):
        assert all(name.startswith("b ") for name in ours.selected_group_names_)
