"""The search by quantised rows is exact for any finite codes, and excludes most rows of ordinary ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from samekind.kernels.nearest import (
    TAIL,
    NearestSoFar,
    QuantisedRows,
    absent_row,
    batch_norms,
    distances_to,
    nearest_in_blocks,
    nearest_in_products,
    nearest_in_rows,
    pairs_in_products,
    quantised,
    row_bytes,
)

BLOCK = 8
EVERY = np.zeros(0, bool)
LARGEST = float(np.finfo(np.float32).max)
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    LARGEST,
    -LARGEST,
    1e-45,
    -1e-45,
    1e-38,
    1e-20,
    1e20,
    float(np.nextafter(np.float32(1), np.float32(2))),
]

numbers = st.one_of(
    st.sampled_from(SPECIAL), st.floats(-2, 2, width=32), st.floats(allow_nan=False, allow_infinity=False, width=32)
)


@st.composite
def problem(draw):
    """Codes with equal and nearly equal rows among them, numbers s per row, and queries near or far."""
    width = draw(st.sampled_from([1, 2, 3, 8, 17]))
    n = draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["ordinary", "special", "few values"]))
    elements = {
        "ordinary": st.floats(-4, 4, width=32),
        "special": numbers,
        "few values": st.sampled_from([0.0, 1.0, 2.0]),
    }
    codes = draw(arrays.arrays(np.float32, (n, width), elements=elements[kind]))
    for at in draw(st.lists(st.integers(0, n - 1), max_size=6)):
        codes[at] = codes[0]
        if draw(st.booleans()):  # one bit away
            codes[at, 0] = np.nextafter(codes[at, 0], np.float32(0))
    offsets = draw(
        st.one_of(
            st.just(np.zeros(n)),
            arrays.arrays(np.float64, n, elements=st.floats(-3, 3)),
            arrays.arrays(np.float64, n, elements=st.floats(-1e38, 1e38)),
        )
    )
    query = draw(st.one_of(st.just(codes[-1]), arrays.arrays(np.float32, width, elements=elements[kind])))
    return codes, offsets, query.astype(np.float64), draw(st.integers(1, 12))


def brute_force(codes, offsets, query, k):
    distances = distances_to(codes, offsets, query)
    order = np.lexsort((np.arange(len(codes)), distances))[:k]
    return order, distances[order]


def quantised_blocks(codes, offsets, block=BLOCK):
    parts = [quantised(codes[at : at + block], offsets[at : at + block]) for at in range(0, len(codes), block)]
    return np.concatenate([rows for rows, _ in parts]), np.array([scales for _, scales in parts])


def by_blocks(codes, offsets, query, k, allowed=EVERY, block=BLOCK):
    rows, scales = quantised_blocks(codes, offsets, block)
    nearest = nothing_so_far(k)
    blocks = np.arange(len(scales))
    computed = nearest_in_blocks(blocks, allowed, QuantisedRows(rows, scales, block, codes, 0), query, nearest)
    found = nearest.distances < np.inf
    return nearest.places[found], nearest.distances[found], computed


def nothing_so_far(k):
    return NearestSoFar(np.full(1, np.inf), np.full(k, np.inf), np.full(k, np.iinfo(np.int64).max))


def by_rows(codes, offsets, query, k):
    """All rows, in any order."""
    rows, scales = quantised_blocks(codes, offsets)
    chosen = np.random.default_rng(0).permutation(len(codes))
    nearest = nothing_so_far(k)
    nearest_in_rows(chosen, QuantisedRows(rows, scales, BLOCK, codes, 0), query, nearest)
    found = nearest.distances < np.inf
    return nearest.places[found], nearest.distances[found]


def by_products(codes, offsets, query, k):
    width = codes.shape[1]
    queries = np.stack([query, np.zeros(width)])
    with np.errstate(over="ignore", invalid="ignore"):
        products = (-2 * queries).astype(np.float32) @ codes.T
    least, spread = np.empty(len(codes)), np.empty(len(codes))
    batch_norms(codes, offsets, width, least, spread)
    distances, places = np.full((2, k), np.inf), np.full((2, k), np.iinfo(np.int64).max)
    error = 1.01 * (width + 2) * 2.0**-24
    nearest_in_products(products, least, spread, codes, offsets, EVERY, 0, queries, error, distances, places)
    found = distances[0] < np.inf
    return places[0][found], distances[0][found]


@given(problem())
def test_quantised_rows_find_exactly_what_sorting_finds(case):
    codes, offsets, query, k = case
    order, distances = brute_force(codes, offsets, query, k)
    places, found, _ = by_blocks(codes, offsets, query, k)
    assert places.tolist() == order.tolist()
    assert found.tolist() == distances.tolist()


@given(problem())
def test_quantised_rows_in_any_order_find_exactly_what_sorting_finds(case):
    codes, offsets, query, k = case
    order, distances = brute_force(codes, offsets, query, k)
    places, found = by_rows(codes, offsets, query, k)
    assert places.tolist() == order.tolist()
    assert found.tolist() == distances.tolist()


@given(problem())
def test_products_find_exactly_what_sorting_finds(case):
    codes, offsets, query, k = case
    order, distances = brute_force(codes, offsets, query, k)
    places, found = by_products(codes, offsets, query, k)
    assert places.tolist() == order.tolist()
    assert found.tolist() == distances.tolist()


@given(problem())
def test_norms_and_errors_are_rounded_outward(case):
    codes, offsets, _, _ = case
    rows, scales = quantised(codes, offsets)
    integers = rows[:, : codes.shape[1]].astype(np.longdouble)
    rounded = integers * scales.astype(np.longdouble)
    bounds = rows[:, -TAIL:-8].copy().view(np.float32).astype(np.longdouble)
    assert (bounds[:, 0] <= (rounded**2).sum(axis=1)).all()
    assert (bounds[:, 1] >= np.sqrt(((codes.astype(np.longdouble) - rounded) ** 2).sum(axis=1))).all()
    assert np.array_equal(rows[:, -8:].copy().view(np.float64)[:, 0], offsets)


def test_the_distance_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    codes, query = rng.standard_normal((30, 150)).astype(np.float32), rng.standard_normal(150)
    literal = [sum((float(u) - q) ** 2 for u, q in zip(row, query, strict=True)) + 0.5 for row in codes]
    np.testing.assert_allclose(distances_to(codes, np.full(30, 0.5), query), literal, rtol=1e-14)


def clustered(n, width=60, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n // 20, width)) * np.linspace(2, 0.2, width)
    return (centres[rng.integers(len(centres), size=n)] + 0.4 * rng.standard_normal((n, width))).astype(np.float32)


def test_most_rows_are_excluded():
    codes = clustered(4000)
    query = codes[0].astype(np.float64) + 0.1
    places, _, computed = by_blocks(codes, np.zeros(len(codes)), query, 10, block=1000)
    assert places.tolist() == brute_force(codes, np.zeros(len(codes)), query, 10)[0].tolist()
    assert computed < 0.05 * len(codes)


def test_a_wide_code_does_not_overflow_the_integer_sum():
    rng = np.random.default_rng(0)
    codes = np.sign(rng.standard_normal((50, 2000))).astype(np.float32)
    codes[7] = 1
    places, _, _ = by_blocks(codes, np.zeros(50), np.ones(2000), 3)
    assert places.tolist() == brute_force(codes, np.zeros(50), np.ones(2000), 3)[0].tolist()


def test_rows_that_are_not_allowed_or_absent_are_not_found():
    codes = clustered(60)
    offsets = np.zeros(60)
    allowed = np.arange(60) % 3 == 1
    places, _, _ = by_blocks(codes, offsets, codes[0].astype(np.float64), 60, allowed)
    assert sorted(places) == np.flatnonzero(allowed).tolist()
    codes[5] = np.nan
    rows, _ = quantised(codes, offsets)
    assert rows[5].tobytes() == absent_row(60)
    places, _, _ = by_blocks(codes, offsets, codes[0].astype(np.float64), 60)
    assert sorted(places) == [at for at in range(60) if at != 5]
    assert sorted(by_products(codes, offsets, codes[0].astype(np.float64), 60)[0]) == sorted(places)


@pytest.mark.parametrize("width", [1, 16, 17, 150])
def test_rows_end_where_numbers_are_aligned(width):
    assert row_bytes(width) % 16 == 0
    assert row_bytes(width) >= width + TAIL


def close_pairs(vectors, offsets, limits, parents):
    """All of one tile, in as many calls as its buffer needs."""
    n = len(vectors)
    products, norms = vectors @ vectors.T, np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    error = 1.01 * (vectors.shape[1] + 2) * 2.0**-24
    room, distances = np.empty((n + 5, 2), np.int64), np.empty(n + 5)
    pairs, row = [], 0
    while row < n:
        row, count = pairs_in_products(
            products, 0, 0, row, vectors, offsets, norms, limits, error, parents, room, distances
        )
        pairs += [(int(i), int(j), d) for (i, j), d in zip(room[:count], distances[:count].copy(), strict=True)]
    return pairs


@pytest.mark.parametrize("seed", range(3))
def test_products_find_exactly_the_pairs_within_both_limits(seed):
    rng = np.random.default_rng(seed)
    vectors, offsets = clustered(60, width=5, seed=seed), rng.uniform(0, 0.5, 60)
    limits = rng.uniform(0.5, 3, 60)
    expected = []
    for i in range(60):
        distances = distances_to(vectors, offsets, vectors[i].astype(np.float64)) + offsets[i]
        expected += [(i, j, distances[j]) for j in range(i + 1, 60) if distances[j] <= min(limits[i], limits[j])]
    found = close_pairs(vectors, offsets, limits, np.zeros(0, np.int64))
    assert len(expected) > 60
    assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
    np.testing.assert_allclose([pair[2] for pair in found], [pair[2] for pair in expected], rtol=1e-14)


def test_a_forest_of_pairs_connects_what_all_pairs_connect():
    vectors, offsets, limits = clustered(60, width=5), np.zeros(60), np.full(60, 2.0)
    trees, parents = close_pairs(vectors, offsets, limits, np.arange(60)), np.arange(60)
    for i, j, _ in close_pairs(vectors, offsets, limits, np.zeros(0, np.int64)):
        parents[parents == parents[j]] = parents[i]  # as a literal loop joins them
    joined = np.arange(60)
    for i, j, _ in trees:
        assert joined[i] != joined[j]
        joined[joined == joined[j]] = joined[i]
    groups = {frozenset(np.flatnonzero(parents == name).tolist()) for name in parents}
    assert groups == {frozenset(np.flatnonzero(joined == name).tolist()) for name in joined}
    assert 1 < len(groups) < 60
