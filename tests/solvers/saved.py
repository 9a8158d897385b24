"""States of a solver as a file gives them back, for tests of going on from them."""

import io
import json

import numpy as np


def written_and_read(state):
    """What `restored` makes of the state's arrays and facts, once these were files."""
    file = io.BytesIO()
    np.savez(file, **state.arrays())
    file.seek(0)
    facts = json.loads(json.dumps(state.facts(), allow_nan=False))
    return type(state).restored(np.load(file, allow_pickle=False), facts)


def assert_same_bits(one, other):
    assert one.facts() == other.facts()
    for name, array in one.arrays().items():
        assert array.tobytes() == other.arrays()[name].tobytes(), name


def assert_goes_on_from_any_iteration(watched, problem, start, options, assert_same_solution, reported):
    """From the state of any iteration all that follows is the same: what is `reported`, states, the solution.

    `watched(problem, start, **options)` gives the solution and the progress of each iteration, which come back.
    """
    solution, seen = watched(problem, start, **options)
    for k, progress in enumerate(seen):
        assert_same_bits(written_and_read(progress.state), progress.state)
        again, tail = watched(problem, None, resume=written_and_read(progress.state), **options)
        assert_same_solution(again, solution)
        assert len(tail) == len(seen) - 1 - k
        for one, other in zip(tail, seen[k + 1 :], strict=True):
            assert reported(one) == reported(other)
            assert_same_bits(one.state, other.state)
    return seen
