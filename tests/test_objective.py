"""The loss over all pairs: the same answer however it is cut up, and whoever does the work."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.executor import Executor
from samekind.compute.sources import PresentDistances
from samekind.compute.tiles import TilePlan
from samekind.kernels.laplacian import BlockForm, GramForm, InnerForm, ProductForm
from samekind.objective import Objective
from tests import cases, oracle

A = cases.random_psd(6)
A0 = cases.random_psd(6, seed=5)
BLOCKS = [slice(0, 2), slice(2, 6)]


@pytest.fixture(params=cases.ALL_LOSSES)
def loss(request):
    return request.param


def forms(case):
    Y = case.Z[:, :2]
    fixed = cases.under(case.Z, A0)
    return {
        "gram": GramForm(case.Z),
        "block": BlockForm(case.Z, BLOCKS),
        "product": ProductForm(Y),
        "inner": InnerForm(ProductForm(Y), lambda tile: fixed.left[tile.rows] @ fixed.right[tile.cols].T),
    }


def everything(case):
    """The value, alone and with each form, and all forms, end to end in one vector per form."""
    source = cases.under(case.Z, A)
    made = {name: case.objective.value_and_form(source, form) for name, form in forms(case).items()}
    flat = {name: np.concatenate([np.ravel(part) for part in listed(form)]) for name, (_, form) in made.items()}
    return [case.objective.value(source), *(value for value, _ in made.values())], flat


def listed(form):
    return form if isinstance(form, list | tuple) else [form]


def oracles(case):
    W = case.reference.weights(oracle.distances(case.Z, A))
    G, product = oracle.gradient(case.Z, W), oracle.laplacian_product(W, case.Z[:, :2])
    return {
        "gram": G.ravel(),
        "block": np.concatenate([G[block, block].ravel() for block in BLOCKS]),
        "product": product.ravel(),
        "inner": np.append(product.ravel(), oracle.inner_product(W, oracle.distances(case.Z, A0))),
    }


# float32: distances up to 30 carry errors of 2e-6, and the terms of a form cancel to some tenth of their size.
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-4)])
@pytest.mark.parametrize("block", [1, 4, 16, 40])
def test_value_and_every_form_equal_the_oracles(loss, block, dtype, rtol):
    case = cases.case(loss, dtype=dtype, block=block)
    values, made = everything(case)
    literal = case.reference.value(oracle.distances(case.Z, A))
    assert values == pytest.approx([literal] * len(values), rel=min(rtol, 1e-5))
    for name, expected in oracles(case).items():
        assert cases.relative_error(made[name], expected) < rtol, name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_is_the_same_number_with_a_form_or_without(loss, dtype):
    values, _ = everything(cases.case(loss, dtype=dtype))
    assert len(set(values)) == 1


@pytest.mark.parametrize("sizes", [(8, 8), (1, 9), (2, 1, 1, 1), (3, 1, 6)], ids=str)
def test_two_classes_and_singletons_equal_the_oracle(loss, sizes):
    case = cases.case(loss, sizes, block=3)
    values, made = everything(case)
    literal = case.reference.value(oracle.distances(case.Z, A))
    assert values == pytest.approx([literal] * len(values), rel=1e-9)
    for name, expected in oracles(case).items():
        assert cases.relative_error(made[name], expected) < 1e-9, name


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_threads_changes_no_bit(loss, n_jobs):
    case = cases.case(loss, (9, 1, 7, 12, 1, 8), block=3, dtype=np.float32)
    values, made = everything(case)
    values_of_many, made_by_many = everything(case.with_plan(3, n_jobs=n_jobs))
    assert values == values_of_many
    for name, expected in made.items():
        np.testing.assert_array_equal(made_by_many[name], expected, err_msg=name)


@pytest.mark.parametrize("kept_tiles", [0, 3])
def test_the_memory_budget_changes_no_bit(loss, kept_tiles):
    case = cases.case(loss, block=5)
    values, made = everything(case)
    room = kept_tiles * 5 * 5 * 8
    scarce = case.with_plan(5, memory_budget=int(room * 8 / 3) + 8)
    assert len(scarce.objective.kept(cases.under(case.Z, A)).keeps) == kept_tiles
    values_of_scarce, made_by_scarce = everything(scarce)
    assert values == values_of_scarce
    for name, expected in made.items():
        np.testing.assert_array_equal(made_by_scarce[name], expected, err_msg=name)


def test_kept_weights_give_every_form_the_same(loss):
    case = cases.case(loss)
    weights = case.objective.weights(cases.under(case.Z, A))
    kept = weights.kept()
    for name, form in forms(case).items():
        for _ in range(2):  # made, then taken from memory
            value, again = kept.into(form)
            expected_value, expected = weights.into(form)
            assert value == expected_value
            for part, expected_part in zip(listed(again), listed(expected), strict=True):
                np.testing.assert_array_equal(part, expected_part, err_msg=name)


def test_weights_take_the_memory_of_those_that_nobody_needs_any_more(loss):
    case = cases.case(loss, block=5)
    form = GramForm(case.Z)
    old = case.objective.weights(cases.under(case.Z, A)).kept()
    old.into(form)
    memory = {key: tile.H for key, tile in old.source.kept.items()}
    assert memory
    weights = case.objective.weights(cases.under(case.Z, 2 * A))
    new = weights.kept(over=old)
    value, G = new.into(form)
    expected_value, expected = weights.into(form)
    assert value == expected_value
    np.testing.assert_array_equal(G, expected)
    assert all(tile.H is memory[key] for key, tile in new.source.kept.items())


@given(seed=st.integers(0, 10**6), name=st.sampled_from(cases.ALL_LOSSES))
def test_the_order_of_samples_does_not_matter(seed, name):
    X, labels = cases.labelled_data()
    order = np.random.default_rng(seed).permutation(len(X))
    here, there = cases.case_of(name, X, labels), cases.case_of(name, X[order], labels[order])
    value, G = here.objective.value_and_form(cases.under(here.Z, A), GramForm(here.Z))
    turned_value, turned = there.objective.value_and_form(cases.under(there.Z, A), GramForm(there.Z))
    assert turned_value == pytest.approx(value, rel=1e-12)
    assert cases.relative_error(turned, G) < 1e-12


@given(seed=st.integers(0, 10**6), name=st.sampled_from(cases.ALL_LOSSES), at=st.floats(0, 1), rank=st.integers(1, 6))
def test_the_loss_is_convex_between_metrics(seed, name, at, rank):
    case = cases.case(name, seed=seed % 7)
    M0, M1 = cases.random_psd(6, seed=seed, rank=rank, scale=3.0), cases.random_psd(6, seed=seed + 1)
    f0, f1, between = (case.objective.value(cases.under(case.Z, M)) for M in (M0, M1, (1 - at) * M0 + at * M1))
    assert between <= (1 - at) * f0 + at * f1 + 1e-12 * (f0 + f1)


@given(seed=st.integers(0, 10**6), name=st.sampled_from(cases.ALL_LOSSES))
def test_the_loss_lies_above_its_tangents(seed, name):
    case = cases.case(name, seed=seed % 7)
    M0, M1 = cases.random_psd(6, seed=seed), cases.random_psd(6, seed=seed + 1, rank=2)
    f0, G = case.objective.value_and_form(cases.under(case.Z, M0), GramForm(case.Z))
    f1 = case.objective.value(cases.under(case.Z, M1))
    assert f1 >= f0 + np.vdot(G, M1 - M0) - 1e-12 * (f0 + f1)


# float32 knows a distance of 1e6 to 0.1 only: values, of that size themselves, keep five digits; weights do not.
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-4)])
@pytest.mark.parametrize("factor", [1.0, -1.0], ids=["psd", "negative"])
def test_distances_of_a_million_stay_finite(loss, dtype, rtol, factor, strict_warnings):
    case = cases.case(loss, spread=500.0, dtype=dtype)
    D = oracle.distances(case.Z, factor * A)
    source = cases.under(case.Z, factor * A)
    value, G = case.objective.value_and_form(source, GramForm(case.Z))
    assert np.abs(D).max() > 1e6
    assert np.isfinite(G).all()
    assert value == case.objective.value(source) == pytest.approx(case.reference.value(D), rel=rtol)
    if dtype == np.float64:
        assert cases.relative_error(G, oracle.gradient(case.Z, case.reference.weights(D))) < 1e-8


@pytest.mark.parametrize("room_in_tiles", [0, 4, 10, 1000])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-5)])
def test_the_loss_of_present_distances_follows_the_metric(loss, room_in_tiles, dtype, rtol):
    case = cases.case(loss, dtype=dtype)
    present = PresentDistances(case.objective.plan, dtype, room_in_tiles * 25 * np.dtype(dtype).itemsize)
    M = np.zeros((6, 6))
    for alpha, seed in [(1.0, 1), (0.7, 2), (1.3, 3)]:
        L = 0.5 * np.random.default_rng(seed).normal(size=(6, 2))
        present.update(alpha, case.Z @ L.astype(dtype), case.objective.executor)
        M = alpha * M + L @ L.T
        literal = case.reference.value(oracle.distances(case.Z, M))
        assert case.objective.value(present) == pytest.approx(literal, rel=rtol)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_over_makes_a_plan_that_covers_all_samples(n_jobs):
    case = cases.case("triplet")
    objective = Objective.over(
        cases.package_loss("triplet"), case.objective.relation, Executor(n_jobs), 2000, np.float64
    )
    assert objective.plan.n_samples == len(case.Z)
    assert objective.plan.block < len(case.Z)
    value = objective.value(cases.under(case.Z, A))
    assert value == pytest.approx(case.objective.value(cases.under(case.Z, A)), rel=1e-12)


def test_a_plan_with_a_last_short_block_counts_every_pair_once():
    case = cases.case("pairwise-literal")
    far = replace(case.objective, plan=TilePlan(16, 7))
    zero = cases.under(case.Z, np.zeros((6, 6)))
    assert far.value(zero) == pytest.approx(case.reference.value(np.zeros((16, 16))), rel=1e-12)
