"""Forms of the weights, from tiles over half of the pairs, against the sums over all pairs."""

import numpy as np
import pytest

from samekind.compute.tiles import Tile, TilePlan
from samekind.kernels.laplacian import BlockForm, GramForm, InnerForm, ProductForm, RowSums, Sums, WeightTile
from tests import cases, oracle

N = 11


@pytest.fixture(params=[1, 4, 11, 20], ids=lambda block: f"block {block}")
def plan(request):
    return TilePlan(N, request.param)


def random_weights(seed=0):
    W = np.random.default_rng(seed).normal(size=(N, N))
    np.fill_diagonal(W, 0)
    return W


def folded(W, tile):
    """A tile's H with H + H^T = W + W^T: what a mirrored tile says of both ends."""
    return W[tile.rows, tile.cols] + W[tile.cols, tile.rows].T if tile.mirrored else W[tile.rows, tile.cols]


def evaluate(form, W, plan):
    parts = [
        form.strip(WeightTile.of(t.rows, t.cols, folded(W, t).astype(form_dtype(form)), 0.0) for t in strip)
        for strip in plan.strips()
    ]
    return form.total(parts, lambda function: map(function, plan.blocks()))


def form_dtype(form):
    form = getattr(form, "form", form)
    return (form.Y if isinstance(form, ProductForm) else form.Z).dtype


# float32: sums of some hundred terms of either sign, each rounded to 6e-8
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 3e-6)])
class TestForms:
    def test_gram_form_is_the_sum_of_weighted_outer_products(self, plan, dtype, rtol):
        Z, W = data(dtype), random_weights()
        assert cases.relative_error(evaluate(GramForm(Z), W, plan), oracle.gradient(Z, W)) < rtol

    def test_gram_form_is_equation_6(self, plan, dtype, rtol):
        Z, W = data(dtype), random_weights()
        assert cases.relative_error(evaluate(GramForm(Z), W, plan), oracle.laplacian_gradient(Z, W)) < rtol

    def test_product_form_is_the_laplacian_times_a_matrix(self, plan, dtype, rtol):
        Y, W = data(dtype, width=2), random_weights()
        assert cases.relative_error(evaluate(ProductForm(Y), W, plan), oracle.laplacian_product(W, Y)) < rtol

    def test_block_form_is_the_diagonal_blocks_of_the_gram_form(self, plan, dtype, rtol):
        Z, W = data(dtype, width=6), random_weights()
        blocks = [slice(0, 1), slice(1, 4), slice(4, 6)]
        G = oracle.gradient(Z, W)
        made = evaluate(BlockForm(Z, blocks), W, plan)
        assert len(made) == 3
        for block, matrix in zip(blocks, made, strict=True):
            assert np.abs(matrix - G[block, block]).max() < rtol * np.abs(G).max()

    def test_inner_form_adds_the_derivative_by_the_scale(self, plan, dtype, rtol):
        Z, W = data(dtype), random_weights()
        D0 = oracle.distances(Z, np.eye(Z.shape[1])).astype(dtype)
        form = InnerForm(GramForm(Z), lambda tile: D0[tile.rows, tile.cols])
        G, slope = evaluate(form, W, plan)
        magnitude = oracle.inner_product(np.abs(W), D0)  # the sum's terms cancel
        assert slope == pytest.approx(oracle.inner_product(W, D0), abs=rtol * magnitude)
        assert cases.relative_error(G, oracle.gradient(Z, W)) < rtol


def data(dtype, width=3):
    return np.random.default_rng(7).normal(size=(N, width)).astype(dtype)


def test_results_are_symmetric_float64():
    made = evaluate(GramForm(data(np.float32)), random_weights(), TilePlan(N, 4))
    assert made.dtype == np.float64
    np.testing.assert_array_equal(made, made.T)


def test_the_laplacian_of_constant_features_is_zero():
    made = evaluate(ProductForm(np.ones((N, 1))), random_weights(), TilePlan(N, 3))
    np.testing.assert_allclose(made, 0, atol=1e-13)


def test_folding_a_tile_keeps_the_weights_of_both_ends():
    W = random_weights()
    tile = Tile(slice(0, 4), slice(4, 8))
    np.testing.assert_array_equal(folded(W, tile), (W + W.T)[:4, 4:8])


def test_row_sums_that_begin_at_later_samples_keep_their_places():
    """Strips of a share may come from the last rows on: the sums of earlier ones are put before what is there."""
    rng = np.random.default_rng(0)
    sums, expected = RowSums((N, 2)), np.zeros((N, 2))
    for samples in (slice(8, 11), np.array([5, 7, 9]), slice(2, 6)):
        array = rng.normal(size=(3 if not isinstance(samples, slice) else samples.stop - samples.start, 2))
        parts = Sums()
        parts.add(samples, array)
        sums.subtract(parts)
        expected[samples] -= array
    later = RowSums((N, 2))
    later.subtract(parts)
    later.add(sums)
    np.testing.assert_allclose(sums.whole(), expected, atol=1e-15)
    expected[2:6] -= array
    np.testing.assert_allclose(later.whole(), expected, atol=1e-15)
