"""Which worker has which leaves."""

from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.owners import Owners, striped

NAMES = ("a", "b", "c", "d", "e")


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), min_size=1, max_size=6), st.integers(1, 32))
def test_each_leaf_has_one_owner_that_is_there(states, n_leaves):
    owners = Owners([1.0] * n_leaves)
    for workers in states:
        shares = owners.shares(workers)
        assert set(shares) <= set(workers)
        assert sorted(leaf for share in shares.values() for leaf in share) == list(range(n_leaves))
        loads = [len(shares.get(worker, [])) for worker in workers]
        assert max(loads) - min(loads) <= 1


def test_a_loss_moves_only_the_leaves_of_the_lost():
    owners = Owners([1.0] * 32)
    before = owners.shares(["a", "b", "c", "d"])
    after = owners.shares(["a", "b", "d"])
    for worker in "abd":
        assert set(before[worker]) <= set(after[worker])


def test_one_that_comes_takes_a_fair_part_and_no_more():
    owners = Owners([1.0] * 32)
    before = owners.shares(["a", "b", "c"])
    after = owners.shares(["a", "b", "c", "d"])
    assert len(after["d"]) in (7, 8)
    assert all(set(after[worker]) <= set(before[worker]) for worker in "abc")


def test_groups_are_striped():
    groups = [0, 1, 17, 40, 41, 70]
    assert striped(groups, ["a", "b"]) == {"a": [0, 1, 3, 4, 5], "b": [2]}
