"""Signatures tell angles apart, and their differing bits are counted rightly."""

import numpy as np

from samekind.kernels.signatures import N_BITS, N_WORDS, differing_bits, members_within, signatures_of


def bits_of(words):
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").reshape(len(words), -1)


def test_differing_bits_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**63, (50, N_WORDS), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    words[3] = 0
    words[4] = np.uint64(2**64 - 1)
    own = words[7]
    starts, cells = np.array([0, 10, 10, 30, 50]), np.array([3, 1, 0])
    found, counts = np.zeros(30, np.uint8), np.zeros(N_BITS + 1, np.int64)
    assert differing_bits(cells, starts, words, own, found, counts) == 30
    rows = [*range(30, 50), *range(10)]
    expected = (bits_of(words[rows]) != bits_of(own[np.newaxis])).sum(axis=1)
    assert found.tolist() == expected.tolist()
    assert counts.tolist() == np.bincount(expected, minlength=N_BITS + 1).tolist()
    assert expected[27] == 0

    members = np.arange(100, 150)
    members[35] = -1
    chosen = np.empty(30, np.int64)
    n = members_within(cells, starts, members, found, 64, chosen)
    kept = [members[row] for row, bits in zip(rows, expected, strict=True) if bits <= 64 and members[row] >= 0]
    assert chosen[:n].tolist() == kept


def test_the_share_of_differing_bits_is_the_angle():
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((3, N_BITS))
    one, other = np.array([[1.0, 0.0, 0.0]]), np.array([[np.cos(1.0), np.sin(1.0), 0.0]])
    shares = [
        (bits_of(signatures_of(one @ turn, directions)) != bits_of(signatures_of(other @ turn, directions))).mean()
        for turn in (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(200))
    ]
    np.testing.assert_allclose(np.mean(shares), 1 / np.pi, atol=0.02)
