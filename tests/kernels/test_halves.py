"""float16 rows gathered to float32 are NumPy's, bit by bit."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from samekind.kernels import halves

ROOT = Path(__file__).parents[2]
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)
EXACT = EVERY_HALF.view(np.float16).astype(np.float32)


def assert_exact(floats):
    """Every bit as in NumPy, the sign of zero too; of what is no number, only that it is none."""
    numbers = ~np.isnan(EXACT)
    np.testing.assert_array_equal(np.isnan(floats), ~numbers)
    np.testing.assert_array_equal(floats[numbers].view(np.uint32), EXACT[numbers].view(np.uint32))


def gathered(source, groups, rows, places, starts, shape):
    out = np.full(shape, -1, np.float32)
    numbers = [np.array(indices, dtype=np.intp) for indices in (groups, rows, places, starts)]
    halves.gather(source.view(np.uint16), *numbers, out)
    return out


def test_every_float16_is_converted_exactly():
    source = EVERY_HALF.reshape(1, 1, -1)
    out = gathered(source, [0], [0], [0], [0], (1, source.size))
    assert_exact(out[0])


@pytest.mark.parametrize("size", [1, 7, 8, 45, 59])
def test_short_groups_are_converted_whole_and_nothing_beside_them(size):
    source = EVERY_HALF[: 2 * 3 * size].reshape(2, 3, size).view(np.float16)
    out = gathered(source, [1, 0], [2, 0, 2], [3, 0, 1], [1, size + 3], (4, 2 * size + 5))
    expected = np.full_like(out, -1)
    for row, place in zip([2, 0, 2], [3, 0, 1], strict=True):
        expected[place, 1 : 1 + size] = source[1, row]
        expected[place, size + 3 : 2 * size + 3] = source[0, row]
    np.testing.assert_array_equal(out, expected)


@given(st.lists(st.integers(0, 6), max_size=20), st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_rows_and_groups_in_any_number_and_order(rows, groups):
    source = np.random.default_rng(0).normal(size=(5, 7, 9)).astype(np.float16)
    out = gathered(source, groups, rows, range(len(rows)), np.arange(len(groups)) * 9, (len(rows), 9 * len(groups)))
    expected = source[groups][:, rows].transpose(1, 0, 2).reshape(out.shape).astype(np.float32)
    np.testing.assert_array_equal(out, expected)


def test_a_processor_without_the_instruction_has_a_table():
    @njit
    def by_table(bits, out):
        for at in range(len(bits)):
            out[at] = halves._by_table(bits[at])

    out = np.zeros(EVERY_HALF.shape, np.float32)
    by_table(EVERY_HALF, out)
    assert_exact(out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, {"NUMBA_ENABLE_AVX": "0"}],
)
def test_a_processor_made_out_to_be_plain_gets_the_table(tmp_path, setting):
    code = "from tests.kernels.test_halves import *; test_every_float16_is_converted_exactly()"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **setting}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", {"f16c": True}, True),
        ("AMD64", {"f16c": False}, False),
        ("x86_64", {}, False),
        ("arm64", {}, True),
        ("riscv64", {}, False),
    ],
)
def test_the_instruction_is_used_where_it_is_known_to_be(monkeypatch, machine, features, expected):
    monkeypatch.setattr(halves.platform, "machine", lambda: machine)
    monkeypatch.setattr(halves.binding, "get_host_cpu_features", lambda: features)
    assert halves._has_instruction() is expected


@pytest.mark.parametrize("setting", [{"CPU_NAME": "generic"}, {"CPU_FEATURES": ""}, {"ENABLE_AVX": 0}])
def test_numba_told_of_another_processor_uses_the_table(monkeypatch, setting):
    """By the setting alone: with features taken away but the host's name, LLVM may use what a virtual machine hides."""
    monkeypatch.setattr(halves.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(halves.binding, "get_host_cpu_features", lambda: {"f16c": True})
    as_it_is = {"CPU_NAME": None, "CPU_FEATURES": None, "ENABLE_AVX": 1}
    assert halves._has_instruction(SimpleNamespace(**as_it_is))
    assert not halves._has_instruction(SimpleNamespace(**as_it_is | setting))
