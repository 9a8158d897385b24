"""What a sketched Laplacian makes of the features of one group, all but the last matrix product: compiled."""

from typing import Any

import numpy as np

from samekind.kernels.compiled import compiled

BIG = 32  # samples from which on a class is worth a matrix product of its own


@compiled
def weighted(X: Any, degrees: Any, sides: Any, starts: Any, sizes: Any, offsets: Any, entries: Any, out: Any) -> None:
    """`out = [(diag(degrees) - C) X, sides]`, X (N, w) and sides (N, r), all contiguous.

    C is block diagonal over runs of samples: their starts and sizes, and where their entries begin.
    """
    n, width = X.shape
    for i in range(n):
        for c in range(width):
            out[i, c] = degrees[i] * X[i, c]
        for c in range(sides.shape[1]):
            out[i, width + c] = sides[i, c]
    for b in range(len(starts)):
        start, size, at = starts[b], sizes[b], offsets[b]
        if size >= BIG:
            CX = np.dot(entries[at : at + size * size].reshape(size, size), X[start : start + size])
            for i in range(size):
                for c in range(width):
                    out[start + i, c] -= CX[i, c]
        else:
            for i in range(size):
                for j in range(size):
                    h = entries[at + i * size + j]
                    for c in range(width):
                        out[start + i, c] -= h * X[start + j, c]
