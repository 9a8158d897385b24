"""Rows of float16 groups to one float32 panel or stack, at the speed of memory.

numba has no float16, and NumPy converts it number by number. The processor has an instruction for eight at once, which
LLVM uses when the 16 bits are declared as a half.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.extending import intrinsic

from samekind.kernels.compiled import compiled_exactly
from samekind.kernels.types import LANES

# Few rows at a time, or too many lines are written at once; but then each group's first touch would wait for memory,
# so its first two lines are asked for some groups ahead.
_ROWS, _AHEAD, _LINE = 5, 4, 32

_TABLE = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _has_instruction(settings: Any = config) -> bool:
    """Without it LLVM would call a function that no library here brings, and end the process."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        as_it_is = settings.CPU_NAME is None and settings.CPU_FEATURES is None and settings.ENABLE_AVX
        return bool(as_it_is and binding.get_host_cpu_features().get("f16c"))
    return platform.machine().lower() in ("arm64", "aarch64")


def _extension(context: Any, bits: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


def _line_request(context: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        reading, keep, not_code = (ir.Constant(number, setting) for setting in (0, 3, 1))
        builder.call(prefetch, [place, reading, keep, not_code])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


_by_instruction: Any = intrinsic(_extension)  # float16 in 16 bits -> float32
_prefetch: Any = intrinsic(_line_request)  # asks for the line of a flat array that holds an element


@compiled_exactly
def _by_table(bits: Any) -> Any:
    return _TABLE[bits]


_converted = _by_instruction if _has_instruction() else _by_table


@compiled_exactly
def gather(source: Any, groups: Any, rows: Any, places: Any, starts: Any, out: Any) -> None:
    """`out[places[i], starts[j] : starts[j] + d] = source[groups[j], rows[i]]`, source (K, n, d) float16 as uint16."""
    _, n, d = source.shape
    flat = source.reshape(-1)
    for first in range(0, len(rows), _ROWS):
        last = min(first + _ROWS, len(rows))
        for j in range(len(groups)):
            k, start = groups[j], starts[j]
            coming = groups[min(j + _AHEAD, len(groups) - 1)] * n
            for i in range(first, last):
                place = (coming + rows[i]) * d
                _prefetch(flat, place)
                _prefetch(flat, place + _LINE)
                halves = source[k, rows[i]]
                floats = out[places[i], start : start + d]
                for t in range(d):
                    floats[t] = _converted(halves[t])


@compiled_exactly
def gather_stacked(source: Any, groups: Any, rows: Any, places: Any, at: Any, means: Any, out: Any) -> None:
    """`out[at[j], places[i]] = source[groups[j], rows[i]] - means[at[j]]`, source (K, n, d) float16 as uint16.

    Zeros follow where `out` is wider than d. Whole lanes are read, beyond d too, as single numbers take longer.
    """
    _, n, d = source.shape
    flat, width = source.reshape(-1), out.shape[2]
    lanes = min(width, -(-d // LANES) * LANES)
    for j in range(len(groups)):
        k, mean = groups[j], means[at[j]]
        for i in range(len(rows)):
            place = (k * n + rows[min(i + _AHEAD, len(rows) - 1)]) * d
            _prefetch(flat, place)
            _prefetch(flat, place + _LINE)
            start = (k * n + rows[i]) * d
            floats = out[at[j], places[i]]
            halves = flat[start : start + lanes]
            for t in range(len(halves)):
                value = _converted(halves[t]) - mean[t]
                floats[t] = value if t < d else np.float32(0)
        if lanes < width or k == len(source) - 1:  # where the source ends, lanes may end with it
            for i in range(len(rows)):
                out[at[j], places[i], d:] = 0
