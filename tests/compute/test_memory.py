"""Memory budgets: what is handed out is never more than there is."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.memory import MemoryBudget, Shares


@given(st.integers(0, 10**13))
def test_shares_together_take_at_most_the_whole(total):
    budget = MemoryBudget(total)
    handed_out = [getattr(budget, share.name) for share in fields(Shares)]
    assert all(isinstance(part, int) and part >= 0 for part in handed_out)
    assert total - len(handed_out) <= sum(handed_out) <= total


@pytest.mark.parametrize("share", fields(Shares), ids=lambda share: share.name)
def test_more_than_the_whole_is_refused(share):
    with pytest.raises(ValueError, match=r"all together at most 1"):
        Shares(**{share.name: share.default + 0.01})
    with pytest.raises(ValueError, match=r"each must be at least 0"):
        Shares(**{share.name: -0.01})
    assert getattr(MemoryBudget(1000, Shares(**{share.name: 0.01})), share.name) == 10


def test_a_budget_of_no_bytes_has_none_to_give():
    assert np.all([getattr(MemoryBudget(0), share.name) == 0 for share in fields(Shares)])
