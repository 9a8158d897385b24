"""What the tests of galleries share: small blocks, codes, and what a gallery must hold."""

import numpy as np

from samekind.gallery import Layout
from samekind.kernels.nearest import distances_to

SMALL = Layout(block_rows=8, segment_blocks=3)
LENGTH = 4


def code_of(number):
    """A code that belongs to a number and to no other."""
    return np.random.default_rng(number).standard_normal(LENGTH).astype(np.float32)


def codes_of(numbers):
    return np.array([code_of(number) for number in numbers], np.float32).reshape(len(numbers), LENGTH)


def check_holds(gallery, expected, query_seed=10**6, k=5):
    """Exactly the records of a mapping id -> (number of its code, label), and searches as by sorting."""
    records = {record.id: record for record in gallery.find()}
    assert sorted(records) == sorted(expected)
    assert {at: record.label for at, record in records.items()} == {at: label for at, (_, label) in expected.items()}
    ids = sorted(expected)
    codes = codes_of([expected[at][0] for at in ids])
    assert np.array_equal(gallery.codes(ids), codes)
    query = code_of(query_seed)
    distances = distances_to(codes, np.zeros(len(codes)), query.astype(np.float64))
    nearest = sorted(distances)[:k]
    for answer in (gallery.search(query, k), gallery.search_many([query], k)[0]):
        assert [hit.distance for hit in answer.hits] == nearest
        assert answer.n_searched == len(expected)
        for hit in answer.hits:
            assert hit.distance == distances[ids.index(hit.record.id)]


def all_bytes(gallery):
    return b"".join(path.read_bytes() for path in sorted(gallery.path.iterdir()) if path.suffix != ".sqlite-shm")
