"""`(diag(degrees) - C) Z` for one feature group, C block diagonal over runs of samples: compiled, in one pass."""

from typing import Any

import numpy as np

from samekind.kernels.compiled import compiled


@compiled
def centred_and_weighted(
    X: Any, first: Any, mean: Any, degrees: Any, starts: Any, sizes: Any, offsets: Any, entries: Any
) -> Any:
    """Z, the columns of X from `first` on less their mean, and `(diag(degrees) - C) Z`."""
    n, d = X.shape[0], len(mean)
    Z, V = np.empty((n, d), np.float32), np.empty((n, d), np.float32)
    for i in range(n):
        for c in range(d):
            z = X[i, first + c] - mean[c]
            Z[i, c] = z
            V[i, c] = degrees[i] * z
    for b in range(len(starts)):
        start, size = starts[b], sizes[b]
        for i in range(size):
            for j in range(size):
                h = entries[offsets[b] + i * size + j]
                for c in range(d):
                    V[start + i, c] -= h * Z[start + j, c]
    return Z, V
