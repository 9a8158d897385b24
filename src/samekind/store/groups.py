"""Which columns make a feature group: what a user may write, checked and made plain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from samekind.kernels.types import IntArray

Columns: TypeAlias = ArrayLike | slice
GroupSpec: TypeAlias = int | Sequence[Columns] | Mapping[str, Columns]


@dataclass(frozen=True)
class FeatureGroups:
    """Disjoint sets of columns with names."""

    names: tuple[str, ...]
    columns: tuple[IntArray, ...]

    @classmethod
    def parse(cls, spec: GroupSpec, n_features: int) -> "FeatureGroups":
        """An int (contiguous groups of that size, the last one smaller if need be), column sets, or name -> columns."""
        named = _named_columns(spec, n_features)
        groups = cls(
            tuple(str(name) for name in named),
            tuple(_column_indices(columns, name, n_features) for name, columns in named.items()),
        )
        groups._check_disjoint(n_features)
        return groups

    @property
    def sizes(self) -> IntArray:
        return np.array([len(columns) for columns in self.columns], dtype=np.intp)

    def __len__(self) -> int:
        return len(self.names)

    def _check_disjoint(self, n_features: int) -> None:
        owner = np.full(n_features, -1)
        for k, columns in enumerate(self.columns):
            taken = columns[owner[columns] >= 0]
            if len(taken):
                raise ValueError(
                    f"Column {taken[0]} stands in group {self.names[owner[taken[0]]]!r} and in {self.names[k]!r}: "
                    "feature groups must not overlap. For overcomplete features, repeat the columns in X and give "
                    "each group its own copy."
                )
            owner[columns] = k


def _named_columns(spec: GroupSpec, n_features: int) -> Mapping[str, Columns]:
    if isinstance(spec, Mapping):
        named: Mapping[str, Columns] = spec
    elif isinstance(spec, Integral) and not isinstance(spec, bool):
        size = int(spec)
        if size < 1:
            raise ValueError(f"feature_groups={size} is no group size: give a positive number of columns.")
        starts = range(0, n_features, size)
        named = {str(k): slice(start, min(start + size, n_features)) for k, start in enumerate(starts)}
    elif _is_sequence(spec):
        named = {str(k): columns for k, columns in enumerate(spec)}
    else:
        raise TypeError(
            f"feature_groups={spec!r} is of type {type(spec).__name__}: give an int (contiguous groups of that size), "
            "a sequence of column indices or slices, or a mapping of name -> columns."
        )
    if not named:
        raise ValueError("feature_groups is empty: give at least one group of columns.")
    return named


def _is_sequence(spec: object) -> TypeGuard[Sequence[Columns]]:
    if isinstance(spec, np.ndarray):
        return spec.ndim > 0
    return isinstance(spec, Sequence) and not isinstance(spec, str | bytes)


def _column_indices(columns: Columns, name: str, n_features: int) -> IntArray:
    if isinstance(columns, slice):
        indices = np.arange(n_features)[columns]
    else:
        try:
            given = np.atleast_1d(np.asarray(columns))
        except ValueError:  # ragged
            given = np.empty((0, 0))
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            raise ValueError(
                f"Feature group {name!r} must be a slice or a 1-d array of integer column indices, not {columns!r}."
            )
        indices = given.astype(np.intp)
    if not len(indices):
        raise ValueError(f"Feature group {name!r} has no columns: leave it out, or give it at least one.")
    outside = indices[(indices < 0) | (indices >= n_features)]
    if len(outside):
        raise ValueError(
            f"Feature group {name!r} has column {outside[0]}, but X has {n_features} features (columns 0 to "
            f"{n_features - 1})."
        )
    if len(np.unique(indices)) < len(indices):
        raise ValueError(f"Feature group {name!r} names a column twice: each column may stand in a group once.")
    return indices
