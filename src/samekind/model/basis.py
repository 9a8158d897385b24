"""`Basis`: the features that step 1 selects for step 2, U_dagger of Algorithm 1, line 8.

    x  ->  the columns of the chosen groups, less their mean
       ->  z_k = U_k^T x_k of each group, whitening folded into U_k
       ->  z_k, z_k / sqrt(r_k) or z_k / r_k, r_k the root mean square of z_k        (`normalise`)
       ->  each feature times a power of its eigenvalue in step 1, lambda^(weigh / 2)  (`weigh`)

With `normalise="none"`, `weigh=0` these are the paper's intermediate features U_dagger^T x; with `weigh=1` they are
step 1's own codes, whose squared Euclidean distance is step 1's metric. A basis and components make a `Metric`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.feature_store import FeatureStore
from samekind.kernels.lengths import NORMALISATIONS, Normalise, normalised_blocks
from samekind.model.fields import (
    Floats,
    checked_choice,
    checked_columns,
    checked_feature_names,
    checked_mean,
    checked_n_features,
    checked_names,
    checked_power,
    finite_floats,
    read_only,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROWS_AT_ONCE = 2048  # whose selected features are held while they are transformed

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Basis:
    """The features that a metric is learned on: those of a few chosen groups, or plain columns.

    Parameters
    ----------
    columns : (n_columns,) array of int
        The features that are read, strictly increasing.
    n_features : int
        Length of the full feature vector.
    groups : tuple of str
        Names of the chosen feature groups, in order of choice.
    mean : (n_columns,) array or None
        Taken off the columns first.
    values : (m,) array or None
        The rows of all `U_k^T`, each over the columns of its group alone in rising order, one after the other. None:
        the columns themselves are the features, and there are no `rows`, `owners` and `eigenvalues`.
    rows : (n_codes,) array of int
        Group of each feature, by its place in `groups`; features of one group stand together.
    owners : (n_columns,) array of int
        Group of each column.
    eigenvalues : (n_codes,) array
        Lambda of step 1's metric `U Lambda U^T`.
    normalise : "none", "root" or "unit"
        Of the features of each group; lengths are measured from the mean, so "root" and "unit" need one.
    weigh : float
        Power of step 1's standard deviations, lambda^(1/2), by which features are multiplied.
    feature_names : tuple of str or None
        Names of all `n_features` features.
    """

    columns: Ints
    n_features: int
    groups: tuple[str, ...] = ()
    mean: Floats | None = None
    values: Floats | None = None
    rows: Ints | None = None
    owners: Ints | None = None
    eigenvalues: Floats | None = None
    normalise: Normalise = "none"
    weigh: float = 0.0
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n_features = checked_n_features(self.n_features)
        columns = checked_columns(self.columns, n_features)
        checked: dict[str, Any] = {
            "n_features": n_features,
            "columns": columns,
            "groups": checked_names("groups", self.groups),
            "mean": None if self.mean is None else checked_mean(self.mean, len(columns)),
            "normalise": checked_choice("normalise_groups", self.normalise, NORMALISATIONS),
            "weigh": checked_power(self.weigh),
            "feature_names": checked_feature_names(self.feature_names, n_features),
        }
        parts = (self.values, self.rows, self.owners, self.eigenvalues)
        if any(part is not None for part in parts):
            if any(part is None for part in parts):
                raise ValueError("values, rows, owners and eigenvalues of a basis go together: give all, or none.")
            checked |= _checked_blocks(self, len(columns))
        elif self.normalise != "none" or self.weigh:
            raise ValueError("Plain columns have no groups to normalise and no eigenvalues to weigh them by.")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_blocks()

    @classmethod
    def plain(cls, columns: ArrayLike, n_features: int, **fields: Any) -> Basis:
        """Some columns as they are."""
        return cls(np.asarray(columns), n_features, **fields)

    @classmethod
    def joined(cls, bases: Sequence[Basis]) -> Basis:
        """Of several families side by side: groups and features in the order of the bases, columns rising.

        All read the same feature vector, and no column twice; they are normalised and weighted alike.
        """
        first = bases[0]
        _check_joinable(bases)
        if len(bases) == 1:
            return first
        starts = np.cumsum([0, *(len(basis.groups) for basis in bases)])
        columns = np.concatenate([basis.columns for basis in bases])
        order = np.argsort(columns, kind="stable")
        shifted = list(zip(bases, starts, strict=False))
        return replace(
            first,
            columns=columns[order],
            groups=tuple(name for basis in bases for name in basis.groups),
            mean=None if first.mean is None else np.concatenate([basis.mean for basis in bases])[order],
            values=np.concatenate([basis.values for basis in bases]),
            rows=np.concatenate([basis.rows + start for basis, start in shifted]),
            owners=np.concatenate([basis.owners + start for basis, start in shifted])[order],
            eigenvalues=np.concatenate([basis.eigenvalues for basis in bases]),
        )

    def only(self, chosen: Sequence[int]) -> Basis:
        """The same with some of its groups, by their places, in this order."""
        self._check_has_groups()
        rows, owners, eigenvalues = self._rows, self._owners, self._eigenvalues
        place = np.full(len(self.groups), -1)
        place[list(chosen)] = np.arange(len(chosen))
        kept = place[owners] >= 0
        codes = np.concatenate([np.flatnonzero(rows == k) for k in chosen] or [np.zeros(0, np.intp)])
        ends = np.append(0, np.cumsum(self._row_sizes))
        values = [self._values[ends[code] : ends[code + 1]] for code in codes]
        return replace(
            self,
            columns=self.columns[kept],
            groups=tuple(self.groups[k] for k in chosen),
            mean=None if self.mean is None else self.mean[kept],
            values=np.concatenate(values) if values else self._values[:0],
            rows=place[rows[codes]],
            owners=place[owners[kept]],
            eigenvalues=eigenvalues[codes],
        )

    def scaled(self, X: Any, rows: ArrayLike | None = None) -> Basis:
        """The same with U_k divided by sqrt(l_k), l_k the root mean square length of group k's features over samples.

        The features are weighted but not normalised. Half-way between groups that count by their lengths
        and groups that all count alike.
        """
        self._check_has_groups()
        squares, n = np.zeros(self.n_codes), 0
        plain = replace(self, normalise="none")
        for part in plain.read(X, rows):
            squares += (plain(part).astype(np.float64) ** 2).sum(axis=0)
            n += len(part)
        lengths = np.sqrt(np.bincount(self._rows, squares / max(n, 1), minlength=len(self.groups)))
        lengths[lengths == 0] = 1
        each = np.repeat(np.sqrt(lengths[self._rows]), self._row_sizes)
        return replace(self, values=self._values / each.astype(self._values.dtype))

    @property
    def n_columns(self) -> int:
        """How many of the features are read."""
        return len(self.columns)

    @property
    def n_codes(self) -> int:
        """How many features come out."""
        return self.n_columns if self.rows is None else len(self.rows)

    @property
    def is_linear(self) -> bool:
        """Whether differences of vectors are all that matters."""
        return self.normalise == "none"

    @property
    def starts(self) -> Ints:
        """First feature of each group."""
        return np.flatnonzero(np.diff(self._rows, prepend=-1))

    @property
    def weights(self) -> NDArray[np.float64]:
        """What the features are multiplied by, (n_codes,)."""
        return self._eigenvalues.astype(np.float64) ** (self.weigh / 2)

    def transform(self, X: Any, rows: ArrayLike | None = None, *, at_once: int = ROWS_AT_ONCE) -> Floats:
        """The features (n, n_codes) of an array or of a store of feature groups; of some of its rows, or all.

        An array has all features, or the columns that are read alone. Of a store only the groups that are needed are
        read, `at_once` rows at a time.
        """
        parts = [self(part) for part in self.read(X, rows, at_once=at_once)]
        dtype = np.float32 if self._values is None else self._values.dtype
        return np.concatenate(parts) if parts else np.zeros((0, self.n_codes), dtype)

    def read(self, X: Any, rows: ArrayLike | None = None, *, at_once: int = ROWS_AT_ONCE) -> Iterator[Floats]:
        """The columns of an array or a store that this basis reads, `at_once` rows at a time."""
        if isinstance(X, FeatureStore):
            yield from self._read_store(X, np.arange(len(X)) if rows is None else np.asarray(rows), at_once)
            return
        selected = self.select(X, "X") if rows is None else X[np.asarray(rows)]
        for start in range(0, len(selected), at_once):
            yield self.select(selected[start : start + at_once], "X")

    def select(self, values: Floats, name: str) -> Floats:
        """The columns that are read, along the last axis, whichever of the two widths was given."""
        width = values.shape[-1]
        if width == self.n_columns:
            return values
        if width == self.n_features:
            return values[..., self.columns]
        raise ValueError(
            f"{name} has {width} columns, but this metric takes {self.n_features} (all features) "
            f"or {self.n_columns} (the selected columns alone)."
        )

    def __call__(self, selected: Floats) -> Floats:
        """(n, n_columns) -> (n, n_codes), in the precision of the data."""
        if self.mean is not None:
            selected = selected - self.mean.astype(selected.dtype, copy=False)
        return self.of_centred(selected)

    def of_centred(self, selected: Floats) -> Floats:
        """The same of what the mean was taken off, or of differences where the basis is linear."""
        if self.values is None:
            return selected
        Z = np.ascontiguousarray((self._matrix.astype(selected.dtype, copy=False) @ selected.T).T)
        Z = normalised_blocks(Z, self.starts, self.normalise)
        return Z * self.weights.astype(Z.dtype) if self.weigh else Z

    def over_columns(self, components: Floats | None) -> Floats:
        """A linear map (n, n_codes) of the features, None for all of them, as one of the columns: (n, n_columns)."""
        if not self.is_linear:
            raise ValueError(f"Features with normalise_groups={self.normalise!r} are not linear in the columns.")
        if self.values is None:
            return np.eye(self.n_columns) if components is None else components
        weighed = self._matrix.multiply(self.weights[:, np.newaxis].astype(self.values.dtype))
        dense: Floats = weighed.toarray() if components is None else np.asarray(components @ weighed)
        return dense

    def _read_store(self, store: FeatureStore, rows: Ints, at_once: int) -> Iterator[Floats]:
        ends = np.cumsum(store.group_sizes)
        if ends[-1] != self.n_features:
            raise ValueError(f"This store has {ends[-1]} features, but this metric takes {self.n_features}.")
        chosen = np.unique(np.searchsorted(ends, self.columns, side="right"))
        inside = np.concatenate([np.arange(ends[k] - store.group_sizes[k], ends[k]) for k in chosen])
        read = np.searchsorted(inside, self.columns)
        for start in range(0, len(rows), at_once):
            yield store.panel(chosen.tolist(), rows[start : start + at_once])[:, read]

    def _check_has_groups(self) -> None:
        if self.values is None:
            raise ValueError("Plain columns are of no groups: only a basis of chosen groups can be cut or scaled.")

    def _check_blocks(self) -> None:
        if self.normalise != "none" and self.mean is None:
            raise ValueError(
                f"normalise_groups={self.normalise!r} measures groups from the mean of the training samples, but there "
                "is none. Give mean=X_train[:, columns].mean(axis=0), or zeros to measure from the origin."
            )
        if self.values is None:
            return
        unknown = np.setdiff1d(self._rows, self._owners)
        if len(unknown):
            raise ValueError(f"The rows of groups name group {unknown[0]}, which has no columns.")
        if len(self.starts) > len(np.unique(self._rows)):
            raise ValueError("The rows of a group must stand together, but some group has rows in several places.")
        needed = int(self._row_sizes.sum())
        if self.values.shape != (needed,):
            raise ValueError(
                f"values must hold {needed} numbers, one for each row and each column of its group, but has shape "
                f"{self.values.shape}."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Basis):
            return NotImplemented
        return self.notes() == other.notes() and all(
            _equal_or_absent(self.arrays().get(name), other.arrays().get(name))
            for name in self.arrays().keys() | other.arrays().keys()
        )

    def __hash__(self) -> int:
        return hash((self.n_features, self.normalise, self.columns.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays would be writable: build anew.
        return _rebuilt, (self.arrays(), self.notes())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps as arrays."""
        names = ("columns", "mean", "values", "rows", "owners", "eigenvalues")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def notes(self) -> dict[str, Any]:
        """What a file keeps as JSON."""
        return {
            "n_features": self.n_features,
            "groups": list(self.groups),
            "normalise": self.normalise,
            "weigh": self.weigh,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
        }

    @property
    def _values(self) -> Floats:
        return np.zeros(0, np.float32) if self.values is None else self.values

    @property
    def _rows(self) -> Ints:
        return np.zeros(self.n_columns, np.int64) if self.rows is None else self.rows

    @property
    def _owners(self) -> Ints:
        return np.zeros(self.n_columns, np.int64) if self.owners is None else self.owners

    @property
    def _eigenvalues(self) -> Floats:
        return np.ones(self.n_columns) if self.eigenvalues is None else self.eigenvalues

    @cached_property
    def _row_sizes(self) -> Ints:
        """How many columns the group of each feature has."""
        groups, counts = np.unique(self._owners, return_counts=True)
        sizes: Ints = counts[np.searchsorted(groups, self._rows)]
        return sizes

    @cached_property
    def _matrix(self) -> csr_array:
        """All `U_k^T` side by side, (n_codes, n_columns)."""
        from scipy.sparse import csr_array

        in_order = np.argsort(self._owners, kind="stable")  # by groups, the columns of each in rising order
        first = np.searchsorted(self._owners[in_order], self._rows)
        ends = np.append(0, np.cumsum(self._row_sizes))
        places = np.repeat(first - ends[:-1], self._row_sizes) + np.arange(ends[-1])
        return csr_array((self._values, in_order[places], ends), shape=(self.n_codes, self.n_columns))


def _rebuilt(arrays: dict[str, Any], notes: dict[str, Any]) -> Basis:
    return Basis(**arrays, **notes)


def _checked_blocks(basis: Basis, n_columns: int) -> dict[str, Any]:
    values = finite_floats(basis.values, "values")  # type: ignore[arg-type]
    n_groups = len(basis.groups) or n_columns  # where they have no names, each has a column at least
    rows = _checked_numbers("rows", basis.rows, n_groups)  # type: ignore[arg-type]
    owners = _checked_numbers("owners", basis.owners, n_groups)  # type: ignore[arg-type]
    if owners.shape != (n_columns,):
        raise ValueError(
            f"owners must name the group of each of the {n_columns} columns, but has shape {owners.shape}."
        )
    eigenvalues = finite_floats(basis.eigenvalues, "eigenvalues")  # type: ignore[arg-type]
    if eigenvalues.shape != rows.shape or (eigenvalues <= 0).any():
        raise ValueError(f"eigenvalues must be {len(rows)} positive numbers, one for each row of the groups.")
    return {
        "values": read_only(values, values.dtype.type),
        "rows": rows,
        "owners": owners,
        "eigenvalues": read_only(eigenvalues, eigenvalues.dtype.type),
    }


def _checked_numbers(name: str, numbers: ArrayLike, most: int) -> Ints:
    array = np.asarray(numbers)
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or not 0 <= array.min() <= array.max() < most)):
        raise ValueError(
            f"The {name} of groups must be numbers from 0 to {most - 1} in one dimension, but are {array.dtype} of "
            f"shape {array.shape}" + (f", from {array.min()} to {array.max()}." if array.size else ".")
        )
    own: Ints = read_only(array, np.int64)
    return own


def _check_joinable(bases: Sequence[Basis]) -> None:
    first = bases[0]
    for basis in bases[1:]:
        if basis.values is None or first.values is None:
            raise ValueError("Plain columns cannot be joined: only bases of chosen groups can.")
        for name in ("n_features", "normalise", "weigh", "feature_names"):
            mine, other = getattr(first, name), getattr(basis, name)
            if mine != other:
                raise ValueError(f"Bases with {name} = {mine!r:.60} and {other!r:.60} cannot be joined.")
        if (first.mean is None) != (basis.mean is None):
            raise ValueError("Bases can be joined where all have a mean, or none has.")
    every = np.concatenate([basis.columns for basis in bases])
    if len(np.unique(every)) < len(every):
        raise ValueError("Bases that read the same column cannot be joined: each needs groups of its own.")


def _equal_or_absent(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b)
