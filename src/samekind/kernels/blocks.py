"""What a sketched Laplacian makes of the features of one group, all but the last matrix product: compiled."""

from typing import Any

import numpy as np

from samekind.kernels.compiled import compiled


@compiled
def weighted(X: Any, degrees: Any, panels: Any, entries: Any, out: Any) -> None:
    """`(diag(degrees) - C) X` into the first columns of `out`, X (N, w), both contiguous.

    C is made of panels: (sample of the first row, of the first column, rows, columns, where its entries begin) each,
    these by rows.
    """
    width = X.shape[1]
    for i in range(X.shape[0]):
        for c in range(width):
            out[i, c] = degrees[i] * X[i, c]
    for p in range(panels.shape[0]):
        row, col, n, m, at = panels[p, 0], panels[p, 1], panels[p, 2], panels[p, 3], panels[p, 4]
        if n == 1:
            for j in range(m):
                h = entries[at + j]
                for c in range(width):
                    out[row, c] -= h * X[col + j, c]
        else:
            CX = np.dot(entries[at : at + n * m].reshape(n, m), X[col : col + m])
            for i in range(n):
                for c in range(width):
                    out[row + i, c] -= CX[i, c]
