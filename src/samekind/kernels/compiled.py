"""How functions are compiled by numba here: free of the GIL, kept on disk, with the floating point that is safe."""

from collections.abc import Callable
from typing import Any

from numba import njit

# `reassoc` is left out: it undoes rounding by a magic number, and makes sums depend on the machine.
SAFE = {"contract", "nsz", "nnan", "ninf"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled when first called and kept on disk, unless there is no place to keep it."""
    return _kept(function, {"fastmath": SAFE, "error_model": "numpy", "nogil": True})


def compiled_exactly(function: Callable[..., Any]) -> Any:
    """The same, with every operation rounded on its own: no multiply and add in one."""
    return _kept(function, {"error_model": "numpy", "nogil": True})


def _kept(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)
