"""Checksums of runs are the same however rows were appended, and notice any change."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from samekind.gallery.checksums import RUN_ROWS, extended, matches, renewed

ROW = 3
ROWS = np.random.default_rng(0).integers(256, size=(3 * RUN_ROWS + 10, ROW)).astype(np.uint8).tobytes()


@given(st.lists(st.integers(0, 3 * RUN_ROWS + 10), max_size=5))
def test_checksums_do_not_depend_on_how_rows_were_appended(cuts):
    found, start = b"", 0
    for stop in [*sorted(cuts), len(ROWS) // ROW]:
        found = extended(found, start, ROWS[start * ROW : stop * ROW], ROW)
        start = stop
    assert found == extended(b"", 0, ROWS, ROW)
    assert matches(memoryview(ROWS), ROW, found)


@given(st.integers(0, len(ROWS) - 1))
def test_a_changed_byte_is_noticed_and_one_run_is_renewed(at):
    changed = bytearray(ROWS)
    changed[at] ^= 1
    found = extended(b"", 0, ROWS, ROW)
    assert not matches(memoryview(changed), ROW, found)
    run = at // ROW // RUN_ROWS
    part = bytes(changed[run * RUN_ROWS * ROW : (run + 1) * RUN_ROWS * ROW])
    assert renewed(found, run, part) == extended(b"", 0, bytes(changed), ROW)
