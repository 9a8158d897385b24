"""Training and use follow one recipe: from samples to codes by hand, with NumPy alone."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from samekind import EnsembleMetric, JointMetric, Metric, SparseBlockMetric
from samekind.model import basis as basis_module
from samekind.model.basis import Basis
from samekind.store import ArrayStore, FeatureGroups, RowsOf
from tests import cases

X, Y = cases.labelled_data((6, 5, 4, 6, 5, 4), 12, spread=2.0)
X += np.linspace(-3, 5, 12)
X[:, 3:6] *= 20  # a group that would drown the others
NEW = np.random.default_rng(1).standard_normal((9, 12)) + np.linspace(-3, 5, 12)
FIRST, SECOND = np.triu_indices(len(Y), 1)
RIDGE = 0.02

groups_by = pytest.mark.parametrize("normalise_groups", ["none", "scale", "root", "unit"])
weighed = pytest.mark.parametrize("weigh", [0.0, 0.5, 1.0])
towards = pytest.mark.parametrize("target", ["zero", "identity"])


@pytest.fixture(scope="module")
def step1():
    return SparseBlockMetric(3, max_groups=3, ridge=RIDGE, random_state=0).fit(X, Y)


def learner(**settings):
    joint = JointMetric(target=settings.pop("target"), ridge=RIDGE, tol=1e-7, max_iter=5000, solver="convex")
    selection = settings.pop("selection", SparseBlockMetric(max_groups=3, ridge=RIDGE))
    return EnsembleMetric(
        3, selection=selection, joint=joint, **{"normalise": "none", "cv": None, "random_state": 0} | settings
    )


def features(step1, samples, normalise_groups, weigh):
    """What step 2 is to learn on, from the directions and eigenvalues of step 1's blocks."""
    made = []
    for k in step1.selected_groups_:
        columns = np.arange(3 * k, 3 * k + 3)
        values, U = np.linalg.eigh(step1.blocks_[k])
        # In falling order, with the signs of the package: its rows are parallel to these.
        kept = np.argsort(-values)[: int((values > 1e-9 * values.max()).sum())]
        values, U = values[kept], U[:, kept]
        own = np.array([row[columns] for row in step1.components_ if row[columns].any()])
        U = U * np.sign((U.T * own).sum(axis=1))
        mean = X[:, columns].mean(axis=0)
        z, trained = (samples[:, columns] - mean) @ U, (X[:, columns] - mean) @ (U * values ** (weigh / 2))
        if normalise_groups == "scale":
            z = z / np.sqrt(np.sqrt((trained**2).sum(axis=1).mean()))
        elif normalise_groups != "none":
            z = z / np.sqrt((z**2).mean(axis=1, keepdims=True)) ** {"root": 0.5, "unit": 1.0}[normalise_groups]
        made.append(z * values ** (weigh / 2))
    return np.hstack(made)


def root_mean_square_weight(step1, weigh):
    values = np.concatenate([np.linalg.eigvalsh(step1.blocks_[k]) for k in step1.selected_groups_])
    return np.sqrt(np.mean(values[values > 1e-9 * values.max()] ** weigh))


def squared(codes):
    return ((codes[FIRST] - codes[SECOND]) ** 2).sum(axis=1)


def assert_one_recipe(model, step1, normalise_groups, weigh, target):
    """Components were learned on these features, and are applied to them."""
    Z = features(step1, X, normalise_groups, weigh)
    scale = 1 if target == "identity" else 1 / root_mean_square_weight(step1, weigh)
    second = JointMetric(target=target, ridge=RIDGE, tol=1e-7, max_iter=5000, solver="convex").fit(scale * Z, Y)
    assert model.objective_ == pytest.approx(second.objective_, rel=1e-5)
    np.testing.assert_allclose(squared(model.transform(X)), squared(second.transform(scale * Z)), rtol=1e-3, atol=1e-4)
    for samples in (X, NEW):
        by_hand = features(step1, samples, normalise_groups, weigh) @ model.metric_.components.T
        np.testing.assert_allclose(model.transform(samples), by_hand, rtol=1e-6, atol=1e-8)


@groups_by
@weighed
@towards
def test_codes_are_components_applied_to_the_features_they_were_learned_on(step1, normalise_groups, weigh, target):
    model = learner(normalise_groups=normalise_groups, weigh=weigh, target=target).fit(X, Y)
    assert model.selected_groups_.tolist() == step1.selected_groups_.tolist()
    assert_one_recipe(model, step1, normalise_groups, weigh, target)


@pytest.mark.parametrize("normalise", ["none", "root", "unit"])
def test_lengths_of_codes_are_taken_last(step1, normalise):
    model = learner(normalise_groups="unit", weigh=0.5, target="identity", normalise=normalise).fit(X, Y)
    codes = features(step1, NEW, "unit", 0.5) @ model.metric_.components.T
    codes /= np.linalg.norm(codes, axis=1, keepdims=True) ** {"none": 0, "root": 0.5, "unit": 1}[normalise]
    np.testing.assert_allclose(model.transform(NEW), codes, rtol=1e-6, atol=1e-8)


def no_weights(patch):
    patch.setattr(Basis, "weights", property(lambda basis: np.ones(basis.n_codes)))


def no_lengths(patch):
    patch.setattr(basis_module, "normalised_blocks", lambda Z, starts, normalise: Z)


def no_scale(patch):
    patch.setattr(Basis, "scaled", lambda basis, X, rows=None: basis)


def no_mean(patch):
    patch.setattr(Basis, "__call__", lambda basis, selected: basis.of_centred(selected))


PARTS = [
    (no_weights, "scale", 0.5, "zero"),
    (no_weights, "unit", 1.0, "identity"),
    (no_lengths, "unit", 0.5, "zero"),
    (no_lengths, "root", 0.0, "identity"),
    (no_mean, "unit", 0.0, "zero"),
    (no_mean, "root", 0.5, "identity"),
]
each_part = pytest.mark.parametrize(("taken_out", "normalise_groups", "weigh", "target"), PARTS)


@each_part
def test_a_part_missing_from_training_alone_is_noticed(step1, taken_out, normalise_groups, weigh, target):
    with pytest.MonkeyPatch.context() as patch:
        taken_out(patch)
        model = learner(normalise_groups=normalise_groups, weigh=weigh, target=target).fit(X, Y)
    with pytest.raises(AssertionError):
        assert_one_recipe(model, step1, normalise_groups, weigh, target)


@each_part
def test_a_part_missing_from_use_alone_is_noticed(step1, taken_out, normalise_groups, weigh, target):
    model = learner(normalise_groups=normalise_groups, weigh=weigh, target=target).fit(X, Y)
    with pytest.MonkeyPatch.context() as patch:
        taken_out(patch)
        with pytest.raises(AssertionError):
            assert_one_recipe(model, step1, normalise_groups, weigh, target)


@towards
def test_a_scale_missing_from_either_is_noticed(step1, target):
    with pytest.MonkeyPatch.context() as patch:
        no_scale(patch)
        model = learner(normalise_groups="scale", weigh=0.5, target=target).fit(X, Y)
    with pytest.raises(AssertionError):
        assert_one_recipe(model, step1, "scale", 0.5, target)
    model = learner(normalise_groups="scale", weigh=0.5, target=target).fit(X, Y)
    model.metric_ = replace(model.metric_, basis=replace(model.basis_, values=step1.basis_.values))
    with pytest.raises(AssertionError):
        assert_one_recipe(model, step1, "scale", 0.5, target)


# Step by step


@groups_by
@towards
def test_a_step_1_learned_before_gives_the_same_metric(step1, normalise_groups, target):
    settings = {"normalise_groups": normalise_groups, "weigh": 0.5, "target": target}
    whole = learner(**settings).fit(X, Y)
    for selection in (step1, step1.basis_):
        continued = learner(selection=selection, **settings).fit(X, Y)
        assert continued.metric_.basis == whole.metric_.basis
        np.testing.assert_array_equal(continued.metric_.components, whole.metric_.components)
        assert continued.selected_groups_.tolist() == whole.selected_groups_.tolist()
        assert continued.threshold_ == whole.threshold_
        assert "selection" not in {record["step"] for record in continued.history_}


@groups_by
@weighed
def test_step_2_alone_on_the_features_of_the_basis_gives_the_same_distances(step1, normalise_groups, weigh):
    whole = learner(normalise_groups=normalise_groups, weigh=weigh, target="identity").fit(X, Y)
    Z = whole.basis_.transform(X)
    second = JointMetric(target="identity", ridge=RIDGE, tol=1e-7, max_iter=5000).fit(Z, Y)
    np.testing.assert_allclose(squared(second.transform(Z)), squared(whole.transform(X)), rtol=1e-6, atol=1e-8)
    joined = Metric(whole.basis_, second.metric_.components)
    np.testing.assert_allclose(squared(joined.transform(X)), squared(whole.transform(X)), rtol=1e-6, atol=1e-8)


def test_the_features_weighed_by_one_are_the_codes_of_step_1(step1):
    basis = replace(step1.basis_, weigh=1.0)
    np.testing.assert_array_equal(basis.transform(NEW), step1.transform(NEW))
    assert Metric(basis).distance(NEW[0], NEW[1]) == step1.get_metric()(NEW[0], NEW[1])


@groups_by
@towards
@pytest.mark.parametrize("whiten", [False, True, 2])
def test_a_store_an_array_and_steps_by_hand_agree(normalise_groups, target, whiten):
    settings = {"normalise_groups": normalise_groups, "weigh": 0.5, "target": target}
    selection = SparseBlockMetric(max_groups=3, ridge=RIDGE, whiten=whiten)
    store = RowsOf(ArrayStore(X, FeatureGroups.parse(3, 12)), np.arange(len(X)))
    of_array = learner(selection=selection, **settings).fit(X, Y)
    of_store = learner(selection=clone(selection), **settings).set_params(feature_groups=1).fit(store, Y)
    np.testing.assert_allclose(of_store.transform(store), of_array.transform(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(of_store.transform(X), of_array.transform(X), rtol=1e-9, atol=1e-10)
    assert of_store.threshold_ == pytest.approx(of_array.threshold_, rel=1e-9)
    first = clone(selection).set_params(feature_groups=3).fit(X, Y)
    by_hand = learner(selection=first.basis_, **settings).fit(X, Y)
    np.testing.assert_array_equal(by_hand.transform(X), of_array.transform(X))


@pytest.mark.parametrize("families", [None, [0, 1, 0, 1], {"0": "b", "1": "a", "2": "b", "3": "a"}])
def test_families_are_step_1_on_their_groups_joined(families):
    model = learner(families=families, target="identity", normalise_groups="scale", weigh=0.5).fit(X, Y)
    members = {None: [range(4)]}.get(families) if families is None else [[0, 2], [1, 3]]
    parts = [SparseBlockMetric(3, max_groups=3, ridge=RIDGE).fit(X, Y, groups=own) for own in members]
    joined = Basis.joined([part.basis_ for part in parts])
    assert replace(model.step1_metric_.basis, weigh=0.0) == joined
    assert model.selected_groups_.tolist() == [k for part in parts for k in part.selected_groups_]
    np.testing.assert_array_equal(
        learner(selection=joined, target="identity", normalise_groups="scale", weigh=0.5).fit(X, Y).transform(NEW),
        model.transform(NEW),
    )
