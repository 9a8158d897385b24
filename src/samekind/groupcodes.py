"""What a joint metric may read instead of features: those of each group by themselves, divided by their length.

A region that is covered, or out of focus, is far from all others; divided by its length it counts for no more than any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.kernels.lengths import NORMALISATIONS, Normalise, normalised_blocks
from samekind.metricfields import Floats, checked_choice, finite_floats, read_only

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class GroupCodes:
    """`z_k = U_k^T x_k`, then z_k, z_k / sqrt(r_k) or z_k / r_k, r_k being the root mean square of z_k.

    Parameters
    ----------
    values : (m,) array
        The rows of all `U_k^T`, over the columns of their groups alone, one after the other.
    rows : (n_codes,) array of int
        Group of each row; rows of one group stand together.
    columns : (n_columns,) array of int
        Group of each column that is read.
    normalise : "none", "root" or "unit"
    """

    values: Floats
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    normalise: Normalise

    def __post_init__(self) -> None:
        values = finite_floats(self.values, "values")
        checked = {
            "values": read_only(values, values.dtype.type),
            "rows": _checked_numbers("rows", self.rows),
            "columns": _checked_numbers("columns", self.columns),
            "normalise": checked_choice("normalise_groups", self.normalise, NORMALISATIONS),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        unknown = np.setdiff1d(self.rows, self.columns)
        if len(unknown):
            raise ValueError(f"The rows of groups name group {unknown[0]}, which has no columns.")
        if len(self._starts) > len(np.unique(self.rows)):
            raise ValueError("The rows of a group must stand together, but some group has rows in several places.")
        needed = int(self._row_sizes.sum())
        if self.values.shape != (needed,):
            raise ValueError(
                f"values must hold {needed} numbers, one for each row and each column of its group, but has shape "
                f"{self.values.shape}."
            )

    @classmethod
    def of(cls, components: Floats, columns: ArrayLike, normalise: Normalise) -> GroupCodes:
        """From a matrix (n_codes, n_columns) each row of which is zero but for the columns of one group."""
        groups = _checked_numbers("columns", columns)
        rows = groups[np.abs(components).argmax(axis=1)]
        inside = rows[:, np.newaxis] == groups
        if components[~inside].any():
            raise ValueError("A row of components must have the columns of one group only, but one has several.")
        return cls(components[inside], rows, groups, normalise)

    @classmethod
    def together(cls, parts: Sequence[GroupCodes]) -> GroupCodes:
        """Of columns side by side; all are normalised as the first ones are."""
        before = np.cumsum([0, *(1 + part.columns.max(initial=-1) for part in parts)])
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.rows + first for part, first in zip(parts, before, strict=False)]),
            np.concatenate([part.columns + first for part, first in zip(parts, before, strict=False)]),
            parts[0].normalise,
        )

    @property
    def n_codes(self) -> int:
        return len(self.rows)

    def __call__(self, X: Floats) -> Floats:
        """(n, n_columns), less their mean -> (n, n_codes)."""
        Z = np.ascontiguousarray((self._matrix.astype(X.dtype, copy=False) @ X.T).T)
        return normalised_blocks(Z, self._starts, self.normalise)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """As a model file keeps them."""
        return {"group_values": self.values, "group_rows": self.rows, "group_columns": self.columns}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupCodes):
            return NotImplemented
        return self.normalise == other.normalise and all(
            mine.dtype == its.dtype and np.array_equal(mine, its)
            for mine, its in zip(self.arrays.values(), other.arrays.values(), strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.normalise, self.rows.tobytes(), self.columns.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays would be writable: build anew.
        return type(self), (self.values, self.rows, self.columns, self.normalise)

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        """First row of each group."""
        return np.flatnonzero(np.diff(self.rows, prepend=-1))

    @cached_property
    def _row_sizes(self) -> NDArray[np.int64]:
        """How many columns the group of each row has."""
        groups, counts = np.unique(self.columns, return_counts=True)
        sizes: NDArray[np.int64] = counts[np.searchsorted(groups, self.rows)]
        return sizes

    @cached_property
    def _matrix(self) -> csr_array:
        """All `U_k^T` side by side, (n_codes, n_columns)."""
        from scipy.sparse import csr_array

        in_order = np.argsort(self.columns, kind="stable")  # by groups, the columns of each in rising order
        first = np.searchsorted(self.columns[in_order], self.rows)
        ends = np.append(0, np.cumsum(self._row_sizes))
        places = np.repeat(first - ends[:-1], self._row_sizes) + np.arange(ends[-1])
        return csr_array((self.values, in_order[places], ends), shape=(len(self.rows), len(self.columns)))


def _checked_numbers(name: str, numbers: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(numbers)
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise ValueError(
            f"The {name} of groups must be numbers from 0 on in one dimension, but are {array.dtype} of shape "
            f"{array.shape}."
        )
    own: NDArray[np.int64] = read_only(array, np.int64)
    return own
