"""What views of a store make of the groups of a stack, each in one pass: array operations would take one pass each."""

from typing import Any

import numpy as np

from samekind.kernels.compiled import compiled_exactly

_HALF = np.float32(0.5)


@compiled_exactly
def roots_less(Z: Any, size: Any, mean: Any) -> None:
    """`Z[i, t] = sqrt(Z[i, t]) - mean[t]` for t < size, Z (N, w) in float32."""
    for i in range(len(Z)):
        for t in range(size):
            Z[i, t] = np.sqrt(Z[i, t]) - mean[t]


@compiled_exactly
def mirror_means_less(Z: Any, others: Any, places: Any, signs: Any, mean: Any) -> None:
    """`Z[i, t] = (Z[i, t] + signs[t] others[i, places[t]]) / 2 - mean[t]` for the d places, Z (N, w) in float32."""
    moved = np.empty(len(places), np.float32)
    for i in range(len(Z)):
        for t in range(len(places)):
            moved[t] = others[i, places[t]]
        for t in range(len(places)):
            Z[i, t] = (Z[i, t] + signs[t] * moved[t]) * _HALF - mean[t]
