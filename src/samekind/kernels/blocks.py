"""What a sketched Laplacian needs of one feature group, compiled: its centred features, weighted sample by sample."""

from typing import Any

from samekind.kernels.compiled import compiled


@compiled
def centred_and_weighted(X: Any, mean: Any, degrees: Any, Z: Any, V: Any) -> None:
    """Into Z the columns of X less their mean, and into V `diag(degrees) Z`; Z's further columns are 0.

    V may be wider than Z. All are contiguous: a slice of columns would not vectorise.
    """
    n, width, d = X.shape[0], Z.shape[1], len(mean)
    for i in range(n):
        for c in range(d):
            z = X[i, c] - mean[c]
            Z[i, c] = z
            V[i, c] = degrees[i] * z
        for c in range(d, width):
            Z[i, c] = 0
            V[i, c] = 0


@compiled
def subtract_small_blocks(starts: Any, sizes: Any, offsets: Any, entries: Any, Z: Any, V: Any) -> None:
    """`V -= C Z`, C block diagonal over runs of samples."""
    width = Z.shape[1]
    for b in range(len(starts)):
        start, size = starts[b], sizes[b]
        for i in range(size):
            for j in range(size):
                h = entries[offsets[b] + i * size + j]
                for c in range(width):
                    V[start + i, c] -= h * Z[start + j, c]
