"""Exact nearest neighbours by `||u - q||^2 + s`, most rows excluded by a lower bound from 8-bit copies.

A row u (r,) of a block is kept as integers c with one scale per dimension, x = scale * c, and with

    norm <= ||x||^2,    error >= ||u - x||,    offset = s,

rounded outward. The query is kept as 16-bit integers Q with a step t, `q_d scale_d = t Q_d + e_d`, so that

    <q, x> = t sum_d Q_d c_d + sum_d e_d c_d <= t I + E,        E = 127 sum_d |e_d|,   I exact in 32 bits
    ||q - x||^2 >= ||q||^2 + norm - 2 t I - 2 E  =: P
    ||q - u||   >= ||q - x|| - ||u - x|| >= sqrt(P) - error      (triangle inequality)

and `max(0, sqrt(P) - error)^2 + s` never exceeds the distance. Rounding of P in float64 is covered by a slack
relative to its largest terms; the last steps are monotone, so that their rounding cannot change the order. A row whose
bound exceeds the k-th smallest distance so far cannot be among the k nearest. All others are computed from float32
codes in float64. Equal distances are ordered by place.

The sums of a distance run in eight lanes: any caller gets the same number for the same row.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.compiled import compiled_exactly
from samekind.kernels.types import Array, BoolArray

LIMIT = 127  # largest 8-bit integer that is used
LANES_8 = 16  # integers that are multiplied at once: rows are padded to whole lanes
TAIL = 16  # bytes after the integers of a row: norm and error (float32), offset (float64)

_MOST_INT16 = 32767
_MOST_INT32 = 2**31 - 1
_RUN = 256  # rows whose integer products are held at once
_ROUNDING = 2.0**-40  # far above what float64 sums of up to 2^10 terms lose, far below what quantisation does


class QuantisedRows(NamedTuple):
    """`rows` (n, row_bytes) and `scales` (n_blocks, r) are quantised `codes` (n, >= r) in blocks of `block_rows`.

    The place of a row is `first_place` and its number.
    """

    rows: Any
    scales: Any
    block_rows: Any
    codes: Any
    first_place: Any


class NearestSoFar(NamedTuple):
    """The k smallest distances and their places (k,), in order.

    `shared` (1,) is a bound on the k-th smallest distance that several threads lower together: any value that one of
    them writes is valid, whichever is written last.
    """

    shared: Any
    distances: Any
    places: Any


def row_bytes(width: int) -> int:
    """Bytes of a quantised row of so many numbers."""
    return -(-width // LANES_8) * LANES_8 + TAIL


def quantised(vectors: Array, offsets: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A block's rows (n, row_bytes) and its scales (r,), of vectors (n, r); rows with NaN are never found."""
    absent: BoolArray = np.logical_or.reduce(np.isnan(vectors), axis=1)
    finite = np.where(absent[:, np.newaxis], np.float32(0), vectors).astype(np.float32, copy=False)
    scales = (np.abs(finite).max(axis=0, initial=0) / np.float32(LIMIT)).astype(np.float32)
    rows = np.zeros((len(vectors), row_bytes(vectors.shape[1])), np.int8)
    quantise(finite, scales, rows, rows.shape[1] - TAIL)
    rows[:, -8:] = np.where(absent, np.inf, offsets).view(np.int8).reshape(-1, 8)
    return rows, scales


def absent_row(width: int) -> bytes:
    """A quantised row that is never found and says nothing of what was there."""
    return bytes(row_bytes(width) - 8) + np.float64(np.inf).tobytes()


@compiled_exactly
def quantise(vectors: Any, scales: Any, rows: Any, padded: Any) -> None:
    """Integers, norms and errors of a block, into `rows`."""
    n, width = vectors.shape
    bounds = rows.view(np.float32)
    at = padded // 4
    for i in range(n):
        norm, error = 0.0, 0.0
        for d in range(width):
            scale, value = np.float64(scales[d]), np.float64(vectors[i, d])
            integer = 0.0
            if scale > 0:
                integer = min(max(np.rint(value / scale), -127.0), 127.0)
            x = scale * integer
            rows[i, d] = np.int8(integer)
            norm += x * x
            error += (value - x) * (value - x)
        bounds[i, at] = _down(norm * (1 - _ROUNDING))
        bounds[i, at + 1] = _up(np.sqrt(error) * (1 + _ROUNDING))


@compiled_exactly
def _down(value: Any) -> Any:
    """A float32 that is not above a value from 0 on."""
    rounded = np.float32(value)
    return rounded if np.float64(rounded) <= value else np.nextafter(rounded, np.float32(-1))


@compiled_exactly
def _up(value: Any) -> Any:
    """A float32 that is not below a value from 0 on."""
    rounded = np.float32(value)
    return np.nextafter(rounded, np.float32(np.inf)) if np.float64(rounded) < value else rounded


@compiled_exactly
def _distance(codes: Any, row: Any, query: Any, lanes: Any) -> Any:
    """`||u - q||^2` of the leading numbers of a code, in eight lanes."""
    width = len(query)
    lanes[:] = 0.0
    whole = width // 8 * 8
    for start in range(0, whole, 8):
        for lane in range(8):
            difference = np.float64(codes[row, start + lane]) - query[start + lane]
            lanes[lane] += difference * difference
    for d in range(whole, width):
        difference = np.float64(codes[row, d]) - query[d]
        lanes[d - whole] += difference * difference
    total = 0.0
    for lane in range(8):
        total += lanes[lane]
    return total


@compiled_exactly
def distances_to(codes: Any, offsets: Any, query: Any) -> Any:
    """`||u - q||^2 + s` of every row, float64: codes (n, >= r), offsets (n,), query (r,) -> (n,)."""
    found, lanes = np.empty(len(codes)), np.empty(8)
    for row in range(len(codes)):
        found[row] = _distance(codes, row, query, lanes) + offsets[row]
    return found


@compiled_exactly
def _insert(distances: Any, places: Any, distance: Any, place: Any) -> None:
    """Into lists in order of (distance, place), the last of which is dropped; nothing where it is the last."""
    at = len(distances) - 1
    if not (distance < distances[at] or (distance == distances[at] and place < places[at])):
        return
    while at > 0 and (distance < distances[at - 1] or (distance == distances[at - 1] and place < places[at - 1])):
        distances[at], places[at] = distances[at - 1], places[at - 1]
        at -= 1
    distances[at], places[at] = distance, place


@compiled_exactly
def nearest_of_rows(
    codes: Any, offsets: Any, rows: Any, first_place: Any, query: Any, distances: Any, places: Any
) -> None:
    """Some rows, computed one by one, into the lists of the nearest; `offsets` goes with `rows`."""
    lanes = np.empty(8)
    for at in range(len(rows)):
        distance = _distance(codes, rows[at], query, lanes) + offsets[at]
        _insert(distances, places, distance, first_place + rows[at])


@compiled_exactly
def _quantise_query(query: Any, scales: Any, integers: Any) -> Any:
    """Integers of a query for a block; the step, and how far <q, x> may be from step x sum."""
    width = len(query)
    most = np.float64(min(_MOST_INT16, _MOST_INT32 // (LIMIT * width)))
    largest = 0.0
    for d in range(width):
        largest = max(largest, abs(query[d] * scales[d]))
    step = largest / most
    missing = 0.0
    for d in range(width):
        wanted = query[d] * np.float64(scales[d])
        integer = 0.0
        if step > 0:
            integer = min(max(np.rint(wanted / step), -most), most)
        integers[d] = np.int16(integer)
        missing += abs(wanted - step * integer) + _ROUNDING * abs(wanted)
    return step, LIMIT * missing * (1 + _ROUNDING)


@compiled_exactly
def _squared_length(vector: Any) -> Any:
    total = 0.0
    for d in range(len(vector)):
        total += vector[d] * vector[d]
    return total


@compiled_exactly
def _lower_bound(length: Any, norm: Any, error: Any, offset: Any, step: Any, product: Any, missing: Any) -> Any:
    """Of a row's distance to a query of squared length `length`, from the integer product of both."""
    twice = 2.0 * step * np.float64(product)
    slack = _ROUNDING * (length + norm + abs(twice)) + 2.0 * missing
    apart = np.sqrt(max(length + norm - twice - slack, 0.0)) * (1 - _ROUNDING)
    apart = max(apart - error, 0.0)
    return apart * apart * (1 - _ROUNDING) + offset


@compiled_exactly
def nearest_in_blocks(blocks: Any, allowed: Any, quantised: Any, query: Any, nearest: Any) -> Any:
    """The nearest rows of some blocks of `QuantisedRows`, into `NearestSoFar`; returns how many were computed.

    `allowed` (n,) bool leaves rows out, or is empty.
    """
    rows, scales, block_rows, codes, first_place = quantised
    shared, distances, places = nearest
    padded = rows.shape[1] - TAIL
    bounds, offsets = rows.view(np.float32), rows.view(np.float64)
    at_norm, at_offset = padded // 4, padded // 8 + 1
    integers = np.zeros(padded, np.int16)
    products, lower = np.empty(_RUN, np.int32), np.empty(_RUN)
    lanes = np.empty(8)
    length = _squared_length(query)
    computed, last = 0, len(distances) - 1
    for block in blocks:
        step, missing = _quantise_query(query, scales[block], integers)
        stop = min((block + 1) * block_rows, len(rows))
        for start in range(block * block_rows, stop, _RUN):
            n = min(_RUN, stop - start)
            for i in range(n):
                row, product = rows[start + i], np.int32(0)
                for d in range(padded):
                    product += np.int32(row[d]) * np.int32(integers[d])
                products[i] = product
            for i in range(n):
                norm, error = np.float64(bounds[start + i, at_norm]), np.float64(bounds[start + i, at_norm + 1])
                offset = offsets[start + i, at_offset]
                lower[i] = _lower_bound(length, norm, error, offset, step, products[i], missing)
            limit = min(shared[0], distances[last])
            for i in range(n):
                if lower[i] <= limit and (len(allowed) == 0 or allowed[start + i]):
                    row_at = start + i
                    distance = _distance(codes, row_at, query, lanes) + offsets[row_at, at_offset]
                    _insert(distances, places, distance, first_place + row_at)
                    computed += 1
                    limit = min(limit, distances[last])
            if distances[last] < shared[0]:
                shared[0] = distances[last]
    return computed


@compiled_exactly
def nearest_in_rows(chosen: Any, quantised: Any, query: Any, nearest: Any) -> Any:
    """The same for some rows, wherever they are."""
    rows, scales, block_rows, codes, first_place = quantised
    shared, distances, places = nearest
    padded = rows.shape[1] - TAIL
    bounds, offsets = rows.view(np.float32), rows.view(np.float64)
    at_norm, at_offset = padded // 4, padded // 8 + 1
    integers = np.zeros((len(scales), padded), np.int16)
    steps, missing = np.empty(len(scales)), np.empty(len(scales))
    for block in range(len(scales)):
        steps[block], missing[block] = _quantise_query(query, scales[block], integers[block])
    lanes = np.empty(8)
    length = _squared_length(query)
    computed, last = 0, len(distances) - 1
    for row in chosen:
        block, product = row // block_rows, np.int32(0)
        own, of_query = rows[row], integers[block]
        for d in range(padded):
            product += np.int32(own[d]) * np.int32(of_query[d])
        norm, error = np.float64(bounds[row, at_norm]), np.float64(bounds[row, at_norm + 1])
        offset = offsets[row, at_offset]
        lower = _lower_bound(length, norm, error, offset, steps[block], product, missing[block])
        if lower <= min(shared[0], distances[last]):
            distance = _distance(codes, row, query, lanes) + offset
            _insert(distances, places, distance, first_place + row)
            computed += 1
    if distances[last] < shared[0]:
        shared[0] = distances[last]
    return computed


@compiled_exactly
def batch_norms(codes: Any, offsets: Any, width: Any, least: Any, spread: Any) -> None:
    """What a row's distance to any query is at least, less products: `least` = ||u||^2 + s, `spread` = ||u||."""
    for i in range(len(codes)):
        norm = 0.0
        for d in range(width):
            norm += np.float64(codes[i, d]) * np.float64(codes[i, d])
        if norm == norm:
            least[i] = norm * (1 - _ROUNDING) + offsets[i] - _ROUNDING * abs(offsets[i])
            spread[i] = np.sqrt(norm) * (1 + _ROUNDING)
        else:
            least[i], spread[i] = np.inf, 0.0


@compiled_exactly
def nearest_in_products(
    products: Any,
    least: Any,
    spread: Any,
    codes: Any,
    offsets: Any,
    allowed: Any,
    first_place: Any,
    queries: Any,
    error: Any,
    distances: Any,
    places: Any,
) -> Any:
    """The same for many queries, from `products` (m, n) = -2 <q, u> of a float32 matrix product.

    Such a product is off by at most gamma ||q|| ||u||, gamma = r 2^-24 / (1 - r 2^-24) and a little for rounding the
    query, in any order of summation (Higham, 2002, section 3.1), which `error` covers. Products that overflow, to
    infinity or NaN, exclude nothing.
    """
    lanes, computed = np.empty(8), 0
    last = distances.shape[1] - 1
    lower = np.empty(len(codes))
    for i in range(len(queries)):
        length = _squared_length(queries[i])
        scaled = 2.0 * error * np.sqrt(length) * (1 + _ROUNDING)
        least_length = length * (1 - _ROUNDING)
        tiny = _ROUNDING * length + 2.0**-100
        for j in range(len(codes)):
            product = np.float64(products[i, j])
            bound = least[j] + product - spread[j] * scaled + least_length - (tiny + _ROUNDING * abs(product))
            lower[j] = bound if abs(product) < np.inf else -np.inf
        limit = distances[i, last]
        for j in range(len(codes)):
            if lower[j] <= limit and (len(allowed) == 0 or allowed[j]):
                distance = _distance(codes, j, queries[i], lanes) + offsets[j]
                _insert(distances[i], places[i], distance, first_place + j)
                computed += 1
                limit = distances[i, last]
    return computed


@compiled_exactly
def pairs_in_products(
    products: Any,
    first: Any,
    second: Any,
    start: Any,
    vectors: Any,
    offsets: Any,
    norms: Any,
    limits: Any,
    error: Any,
    parents: Any,
    pairs: Any,
    distances: Any,
) -> Any:
    """Pairs i < j with `||u_i - u_j||^2 + s_i + s_j <= min(limits_i, limits_j)`, from float32 products of a tile.

    `products` (m, n) are <u_i, u_j> of rows from `first` and from `second` on; `norms` are ||u||^2, and `error` covers
    what a product may be off, as in `nearest_in_products`. `parents` (n_rows,), where not empty, is a union-find
    forest: pairs that are connected by others are left out. Fills `pairs` (most, 2) and `distances` from row `start` of
    the tile on, as long as a whole row fits in; returns the row to go on from, and how many pairs there are.
    """
    m, n = products.shape
    lanes, lower, found = np.empty(8), np.empty(n), 0
    for i in range(start, m):
        if found + n > len(pairs):
            return i, found
        a = first + i
        spread = 2.0 * error * np.sqrt(norms[a]) * (1 + _ROUNDING)
        base = norms[a] + offsets[a]
        slack = _ROUNDING * (norms[a] + abs(offsets[a])) + 2.0**-100
        for j in range(n):
            b = second + j
            twice = 2.0 * np.float64(products[i, j])
            tiny = slack + _ROUNDING * (norms[b] + abs(offsets[b]) + abs(twice))
            bound = base + norms[b] + offsets[b] - twice - spread * np.sqrt(norms[b]) - tiny
            lower[j] = bound if abs(twice) < np.inf else -np.inf
        for j in range(max(0, a + 1 - second), n):
            b = second + j
            limit = min(limits[a], limits[b])
            if lower[j] <= limit and (len(parents) == 0 or _root(parents, a) != _root(parents, b)):
                distance = _distance(vectors, b, vectors[a], lanes) + offsets[a] + offsets[b]
                if distance <= limit:
                    pairs[found, 0], pairs[found, 1], distances[found] = a, b, distance
                    found += 1
                    if len(parents):
                        parents[_root(parents, b)] = _root(parents, a)
    return m, found


@compiled_exactly
def _root(parents: Any, at: Any) -> Any:
    """The root of a union-find tree, whose paths are halved on the way."""
    while parents[at] != at:
        parents[at] = parents[parents[at]]
        at = parents[at]
    return at
