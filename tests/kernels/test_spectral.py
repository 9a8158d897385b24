"""Projections onto the set of metrics, factors and scores of small matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.kernels import spectral
from tests import cases, oracle

entries = st.floats(-100, 100, allow_subnormal=False)
matrices = st.integers(1, 5).flatmap(lambda n: hnp.arrays(np.float64, (n, n), elements=entries))
pairs = st.integers(1, 5).flatmap(lambda n: st.tuples(*[hnp.arrays(np.float64, (n, n), elements=entries)] * 2))
bounds = st.floats(1e-3, 1e3) | st.just(np.inf)


@given(matrices, bounds)
def test_projection_is_feasible(A, bound):
    P = spectral.project_trace_ball(A, bound)
    scale = np.abs(A).max() + 1e-300
    np.testing.assert_array_equal(P, P.T)
    assert np.linalg.eigvalsh(P).min() >= -1e-13 * scale
    assert np.trace(P) <= bound + 1e-12 * scale


@given(matrices, bounds)
def test_projection_is_idempotent(A, bound):
    P = spectral.project_trace_ball(A, bound)
    np.testing.assert_allclose(spectral.project_trace_ball(P, bound), P, atol=1e-12 * (np.abs(A).max() + 1e-300))


@given(pairs, bounds)
def test_projection_is_non_expansive(two, bound):
    A, B = (spectral.symmetrised(M) for M in two)
    P, Q = (spectral.project_trace_ball(M, bound) for M in (A, B))
    assert np.linalg.norm(P - Q) <= np.linalg.norm(A - B) + 1e-11


@given(matrices, bounds)
def test_projection_equals_the_oracles(A, bound):
    P = spectral.project_trace_ball(A, bound)
    np.testing.assert_allclose(P, oracle.project_trace_ball(A, bound), atol=1e-12 * (np.abs(A).max() + 1e-300))


@given(matrices)
def test_psd_projection_equals_the_oracles(A):
    P = spectral.project_psd(A)
    np.testing.assert_allclose(P, oracle.project_psd(A), atol=1e-12 * (np.abs(A).max() + 1e-300))


def test_a_matrix_that_is_feasible_comes_back_as_it_is():
    A = spectral.symmetrised(cases.random_psd(6, seed=0) + 0.1 * np.eye(6))
    for bound in (np.inf, np.trace(A)):
        np.testing.assert_array_equal(spectral.project_trace_ball(A, bound), A)
    assert np.trace(spectral.project_trace_ball(A, 0.9 * np.trace(A))) == pytest.approx(0.9 * np.trace(A))


def test_positive_definite_is_what_has_no_eigenvalue_below_or_at_zero():
    A = np.diag([3.0, 2.0, 1e-9])
    assert spectral.is_positive_definite(A)
    assert not spectral.is_positive_definite(A - 1e-6 * np.eye(3))
    assert not spectral.is_positive_definite(np.zeros((2, 2)))


@given(matrices, bounds, st.integers(0, 10**6))
def test_no_feasible_matrix_is_nearer_than_the_projection(A, bound, seed):
    A = spectral.symmetrised(A)
    P = spectral.project_trace_ball(A, bound)
    other = cases.random_psd(len(A), seed=seed)
    other *= min(1.0, bound / np.trace(other))
    assert np.vdot(A - P, other - P) <= 1e-10 * (1 + np.linalg.norm(A)) * (1 + np.linalg.norm(other))


@pytest.mark.parametrize("bound", [1e-10, 1e-17, 1e-300], ids=str)
def test_projection_to_a_bound_far_below_the_eigenvalues_keeps_the_largest(bound):
    projected = spectral.project_capped_simplex(np.array([0.5, 1.0, -1.0]), bound)
    assert projected.tolist() == pytest.approx([0.0, bound, 0.0], rel=1e-5, abs=0)
    assert projected.sum() <= bound * (1 + 1e-15)


def test_a_bound_of_zero_leaves_nothing():
    np.testing.assert_array_equal(spectral.project_capped_simplex(np.array([2.0, 1.0]), 0.0), [0.0, 0.0])


@given(matrices)
def test_leading_factor_gives_the_matrix_back(M):
    A = M @ M.T
    L = spectral.leading_factor(A, share=0.0)
    lengths = np.linalg.norm(L, axis=0)
    np.testing.assert_allclose(L @ L.T, A, atol=1e-12 * (np.abs(A).max() + 1e-300))
    assert (np.diff(lengths) <= 1e-9 * lengths.max(initial=0)).all()
    assert spectral.leading_factor(A).shape[1] == spectral.rank_of(A) <= L.shape[1]


def test_leading_factor_keeps_the_largest_eigenvalues():
    A = cases.random_psd(5)
    L = spectral.leading_factor(A, 2)
    values = np.linalg.eigvalsh(A)
    np.testing.assert_allclose(np.sort(np.linalg.norm(L, axis=0) ** 2), values[-2:])
    np.testing.assert_allclose(A @ L, L * values[:-3:-1], atol=1e-12)


def test_leading_factor_and_rank_do_not_count_rounding():
    A = cases.random_psd(6, rank=2)
    assert spectral.leading_factor(A).shape == (6, 2)
    assert spectral.rank_of(A) == 2
    assert spectral.rank_of(np.zeros((3, 3))) == 0


def test_one_share_of_the_largest_eigenvalue_tells_rank_from_rounding():
    A = np.diag([1.0, 1.1e-6, 0.9e-6])
    assert spectral.rank_of(A) == spectral.leading_factor(A).shape[1] == 2
    assert spectral.principal_axes(np.sqrt(A)).shape[1] == 2
    assert spectral.leading_factor(A, share=0.0).shape[1] == 3


def test_a_feature_in_large_units_is_rank_by_its_part_of_the_distances():
    A, scatter = np.diag([1.0, 1e-8, 1e-8]), np.diag([1.0, 1e8, 1.0])
    assert spectral.rank_of(A) == 1
    assert spectral.rank_of(A, scatter) == 2
    np.testing.assert_allclose(np.abs(spectral.leading_factor(A, scatter=scatter).T), np.eye(3)[:2] * [1, 1e-4, 0])


def test_fixed_signs_make_the_largest_entry_of_a_column_positive():
    L = np.array([[1.0, -3.0], [-2.0, 1.0]])
    np.testing.assert_array_equal(spectral.with_fixed_signs(L), [[-1.0, 3.0], [2.0, -1.0]])


def test_principal_axes_keep_the_metric_and_drop_what_adds_nothing():
    L = np.random.default_rng(0).normal(size=(6, 3))
    axes = spectral.principal_axes(np.hstack([L, 1e-9 * L[:, :1]]))
    inner = axes.T @ axes
    assert axes.shape == (6, 3)
    np.testing.assert_allclose(axes @ axes.T, L @ L.T, atol=1e-12)
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-12)
    assert (np.diff(np.diag(inner)) <= 0).all()


@given(matrices)
def test_block_scores_are_norms_of_projected_negative_gradients(G):
    G = spectral.symmetrised(G)
    P = oracle.project_psd(-G)
    scale = np.abs(G).max() + 1e-300
    stack = np.zeros((2, len(G) + 2, len(G) + 2))
    stack[0, : len(G), : len(G)] = G
    for norm, expected in (("frobenius", np.linalg.norm(P)), ("spectral", np.linalg.norm(P, 2))):
        assert spectral.block_scores(G[np.newaxis], norm) == pytest.approx([expected], abs=1e-12 * scale)
        assert spectral.block_scores(stack, norm) == pytest.approx([expected, 0], abs=1e-12 * scale)


def test_block_scores_are_zero_where_the_gradient_is_positive():
    stack = cases.random_psd(4)[np.newaxis]
    assert spectral.block_scores(stack, "frobenius").tolist() == [0.0]
    assert spectral.block_scores(stack, "spectral").tolist() == [0.0]


def test_a_stack_is_symmetrised_matrix_by_matrix():
    stack = np.random.default_rng(0).normal(size=(3, 4, 4))
    for A, S in zip(stack, spectral.symmetrised(stack), strict=True):
        np.testing.assert_array_equal(S, (A + A.T) / 2)


def weighted_problem(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(7, 7))
    return (A + A.T) / 2 + 0.5 * np.eye(7), 10.0 ** rng.uniform(-2, 2, 7)


@pytest.mark.parametrize("seed", range(4))
def test_the_fall_of_the_weighted_trace_is_its_derivative(seed):
    A, weights = weighted_problem(seed)

    def trace(shift):
        return weights @ np.diag(spectral.project_psd(A - shift * np.diag(weights)))

    shift, h = 1e-2, 1e-7
    fall = spectral._fall_of_trace(*spectral.eigh(A - shift * np.diag(weights)), weights)
    assert fall == pytest.approx((trace(shift - h) - trace(shift + h)) / (2 * h), rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.9, 0.1, 1e-3])
def test_a_weighted_trace_is_reached_in_few_decompositions(seed, share, monkeypatch):
    A, weights = weighted_problem(seed)
    bound = share * float(weights @ np.diag(spectral.project_psd(A)))
    calls = []
    plain = spectral.eigh
    monkeypatch.setattr(spectral, "eigh", lambda matrix: calls.append(1) or plain(matrix))
    projected = spectral.project_weighted_trace_ball(A, weights, bound)
    assert weights @ np.diag(projected) == pytest.approx(bound, rel=1e-9)
    assert len(calls) <= 25


def test_the_estimated_gap_is_what_f_falls_to_the_best_metric_of_so_large_a_trace():
    """`<G, A> - min(0, smallest eigenvalue) LARGER tr A`, by hand."""
    A, G = np.diag([2.0, 1.0]), np.diag([0.5, -0.25])
    assert spectral.estimated_gap(A, G) == pytest.approx(0.75 + 0.25 * spectral.LARGER * 3.0, rel=1e-15)
    assert spectral.estimated_gap(A, -G) == pytest.approx(0.5 * spectral.LARGER * 3.0, rel=1e-15)
    assert spectral.estimated_gap(A, np.diag([0.0, 0.0])) == 0
    assert spectral.estimated_gap(np.zeros((2, 2)), G) == np.inf
    assert spectral.estimated_gap(np.zeros((2, 2)), np.eye(2)) == 0
