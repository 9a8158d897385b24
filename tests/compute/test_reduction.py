"""The order of sums: a binary tree over leaves, the same however leaves are shared out."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.reduction import MOST_LEAVES, Node, even_runs, leaves_of, reduced, total_of


def joined(first, second):
    """Which sums were taken, as text."""
    return f"({first}{second})"


def leaves(run):
    return [Node(0, leaf, chr(ord("a") + leaf)) for leaf in run]


@pytest.mark.parametrize(
    ("n", "order"),
    [(1, "a"), (2, "(ab)"), (3, "((ab)c)"), (4, "((ab)(cd))"), (5, "(((ab)(cd))e)"), (7, "(((ab)(cd))((ef)g))")],
)
def test_leaves_are_joined_in_pairs(n, order):
    assert total_of(leaves(range(n)), joined) == order


@given(st.integers(1, 32), st.lists(st.integers(0, 32), max_size=5), st.randoms())
def test_the_order_does_not_depend_on_who_has_which_leaves(n, cuts, random):
    expected = total_of(leaves(range(n)), joined)
    edges = sorted({0, n, *(cut for cut in cuts if cut < n)})
    shares = [reduced(leaves(range(a, b)), joined) for a, b in pairwise(edges)]
    random.shuffle(shares)
    assert total_of([node for share in shares for node in share], joined) == expected


@given(st.integers(1, 32), st.integers(1, 4), st.integers(0, 1000))
def test_the_order_does_not_depend_on_shares_with_gaps(n, n_workers, seed):
    owner = np.random.default_rng(seed).integers(0, n_workers, n)
    shares = [reduced(leaves(np.flatnonzero(owner == worker).tolist()), joined) for worker in range(n_workers)]
    assert total_of([node for share in shares for node in share], joined) == total_of(leaves(range(n)), joined)


def test_another_order_gives_other_last_bits():
    """Why the order matters at all: a plain sum of the same numbers differs from the tree's."""
    numbers = np.random.default_rng(0).normal(size=(32, 1000)).astype(np.float32)

    def added(first, second):
        return first + second

    tree = total_of([Node(0, at, each) for at, each in enumerate(numbers)], added)
    plain = numbers[0]
    for each in numbers[1:]:
        plain = plain + each
    literal = numbers
    while len(literal) > 1:
        literal = literal[::2] + literal[1::2]
    assert np.array_equal(tree, literal[0])
    assert not np.array_equal(tree, plain)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=300))
def test_leaves_are_runs_that_cover_all_strips_once(costs):
    made = leaves_of(costs)
    assert [at for leaf in made for at in leaf] == list(range(len(costs)))
    assert all(len(leaf) for leaf in made)
    assert len(made) <= MOST_LEAVES


def test_runs_have_about_the_same_cost():
    costs = list(range(100, 0, -1))
    sums = [sum(costs[at] for at in run) for run in even_runs(costs, 8)]
    assert max(sums) - min(sums) <= max(costs)
