"""What the learners read, be it an array or a store: feature groups of labelled samples, whitened where asked for."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.estimators.validation import check_count, families_from
from samekind.groupcodes import GroupCodes
from samekind.kernels.lengths import Normalise
from samekind.kernels.spectral import Matrix
from samekind.kernels.types import Array, IntArray
from samekind.metric import Metric
from samekind.store import ArrayStore, FeatureGroups, FeatureStore, RowsOf, WhitenedStore, Whitening
from samekind.store.groups import GroupSpec

WHITENED_DIMS = 45  # per group of a store, as in the paper
ROWS_AT_ONCE = 2048  # whose selected features are held while they are encoded


def is_store(X: Any) -> bool:
    return hasattr(X, "panel") and hasattr(X, "group_sizes")


def checked_rows(rows: ArrayLike | None, n_samples: int) -> IntArray:
    """Sample numbers or a mask, as sample numbers; all samples where None."""
    if rows is None:
        return np.arange(n_samples)
    given = np.asarray(rows)
    if given.dtype == bool and given.shape == (n_samples,):
        return np.flatnonzero(given)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(
            f"rows must be sample numbers, or a mask of {n_samples} booleans, but is {given.dtype} of shape "
            f"{given.shape}."
        )
    if given.size and (given.min() < 0 or given.max() >= n_samples):
        raise ValueError(
            f"rows go from {given.min()} to {given.max()}, but there are {n_samples} samples: 0 to {n_samples - 1}."
        )
    return given.astype(np.intp)


@dataclass(frozen=True)
class TrainingData:
    """Labelled samples with their feature groups."""

    X: Any  # an array or a store, as given
    rows: IntArray  # the samples of X that count
    y: NDArray[Any]  # their labels
    groups: FeatureGroups  # names, and columns of X
    n_features: int  # of X
    store: FeatureStore  # these samples, whitened where asked for: what the solvers see
    whitening: Whitening | None

    @classmethod
    def of(cls, X: Any, y: NDArray[Any], rows: IntArray, feature_groups: GroupSpec) -> "TrainingData":
        """As they are, not whitened."""
        if is_store(X):
            groups, n_features = _groups_of(X, feature_groups), int(X.group_sizes.sum())
            return cls(X, rows, y, groups, n_features, RowsOf(X, rows), None)
        groups = FeatureGroups.parse(feature_groups, X.shape[1])
        return cls(X, rows, y, groups, X.shape[1], RowsOf(ArrayStore(X, groups), rows), None)

    def whitened(self, dims: int | None) -> "TrainingData":
        """Whitened on these samples; as it is where None."""
        if dims is None:
            return self
        if hasattr(self.store, "read_ahead"):
            self.store.read_ahead(range(len(self.store.group_sizes)))
        whitening = Whitening.learned(self.store, np.arange(len(self.rows)), dims=dims)
        return replace(self, store=WhitenedStore(self.store, whitening), whitening=whitening)

    def whitened_dims(self, whiten: Any) -> int | None:
        """What a learner's `whiten` says."""
        if isinstance(whiten, str) and whiten == "auto":
            return WHITENED_DIMS if is_store(self.X) else None
        return None if whiten is None else check_count("whiten", whiten)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.dtype

    def families(self, families: Any) -> dict[Hashable, list[int]]:
        """Those given, or else those of the store."""
        own = getattr(self.X, "families", None)
        if families is None and own is not None:
            return {family: list(members) for family, members in own.items()}
        return families_from(families, self.groups)

    def names(self, chosen: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.groups.names[k] for k in chosen)

    def everything(self, rows: IntArray, memory_budget: int) -> Array:
        """All the groups side by side, (len(rows), D)."""
        sizes = self.store.group_sizes
        needed = len(rows) * int(sizes.sum()) * self.dtype.itemsize
        if is_store(self.X) and needed > memory_budget:
            raise ValueError(
                f"All features of this store take {needed / 1e9:.1f} GB for {len(rows)} samples, more than "
                f"memory_budget allows ({memory_budget / 1e9:.1f} GB): raise it, or use EnsembleMetric, which picks "
                "feature groups first."
            )
        return self.store.panel(range(len(sizes)), rows)

    def over_columns(self, factors: Mapping[int, Matrix]) -> tuple[IntArray, Matrix]:
        """Factors of chosen groups, all of one width, as one factor over the columns of X, these in rising order."""
        if not factors:
            return np.zeros(0, dtype=np.intp), np.zeros((0, 0))
        columns, order = self._columns(list(factors))
        stacked = [factor if self.whitening is None else self._map(k) @ factor for k, factor in factors.items()]
        return columns, np.concatenate(stacked)[order]

    def columns_of(self, chosen: Sequence[int]) -> IntArray:
        """The columns of X of the chosen groups, in rising order."""
        return self._columns(chosen)[0]

    def group_codes(self, bases: Mapping[int, Matrix], normalise: Normalise) -> GroupCodes:
        """`U_k^T x_k` of chosen groups over the columns of X, these in rising order."""
        columns = self.columns_of(list(bases))
        number = np.empty(len(columns), dtype=np.intp)
        values, rows = [], []
        for at, (k, U) in enumerate(bases.items()):
            own = self.groups.columns[k]
            number[np.searchsorted(columns, own)] = at
            block = U if self.whitening is None else self._map(k) @ U
            values.append(block[np.argsort(own)].T.ravel())
            rows.append(np.full(U.shape[1], at))
        return GroupCodes(np.concatenate(values).astype(self.dtype), np.concatenate(rows), number, normalise)

    def whitening_mean(self, chosen: Sequence[int]) -> Array | None:
        """Of the columns of the chosen groups, in rising order, where there is whitening."""
        if self.whitening is None or not len(chosen):
            return None
        _, order = self._columns(chosen)
        return np.concatenate([self.whitening.of(k)[0] for k in chosen])[order].astype(self.dtype)

    def mean(self, columns: IntArray) -> Array:
        """Of some columns of X, over these samples."""
        sums = [part.sum(axis=0, dtype=np.float64) for part in _parts(self.X, self.rows, columns)]
        return (np.sum(sums, axis=0) / len(self.rows)).astype(self.dtype)

    def extractor(self, chosen: Sequence[int]) -> Mapping[str, Any] | None:
        """How the columns of the chosen groups come from a picture, where X is a store of pictures."""
        notes = getattr(self.X, "front_end", None)
        if not notes or not len(chosen):
            return None
        from samekind.images.extractor import Extractor

        numbers = getattr(self.X, "numbers", None)  # of the groups in the whole store, where X is a part of it
        return Extractor.from_json(notes).only(sorted(chosen if numbers is None else numbers[list(chosen)])).to_json()

    def _columns(self, chosen: Sequence[int]) -> tuple[IntArray, IntArray]:
        """The columns of the chosen groups in rising order, and the order that makes them so."""
        columns = np.concatenate([self.groups.columns[k] for k in chosen])
        order = np.argsort(columns)
        return columns[order], order

    def _map(self, k: int) -> Matrix:
        assert self.whitening is not None
        return self.whitening.of(k)[1].astype(np.float64)


def codes_of(X: Any, rows: IntArray, metric: Metric) -> Array:
    """Codes of some samples of an array or a store; of a store only the groups that the metric reads are touched."""
    if not is_store(X):
        return metric.transform(X[rows])
    parts = [metric.transform(part) for part in _parts(X, rows, metric.columns)]
    return np.concatenate(parts) if parts else np.empty((0, metric.n_components), X.dtype)


def _parts(X: Any, rows: IntArray, columns: IntArray) -> Iterator[Array]:
    """Some columns of some samples, `ROWS_AT_ONCE` at a time."""
    some_rows = [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE)]
    if not is_store(X):
        yield from (X[np.ix_(some, columns)] for some in some_rows)
        return
    ends = np.cumsum(X.group_sizes)
    chosen = np.unique(np.searchsorted(ends, columns, side="right"))
    inside = np.concatenate([np.arange(ends[k] - X.group_sizes[k], ends[k]) for k in chosen])
    read = np.searchsorted(inside, columns)
    yield from (X.panel(chosen.tolist(), some)[:, read] for some in some_rows)


def _groups_of(store: FeatureStore, feature_groups: GroupSpec) -> FeatureGroups:
    if not (isinstance(feature_groups, int) and feature_groups == 1):
        raise ValueError("A store brings its own feature groups: leave feature_groups at its default.")
    sizes = store.group_sizes
    ends = np.cumsum(sizes)
    columns = tuple(np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True))
    names = getattr(store, "group_names", None) or [str(k) for k in range(len(sizes))]
    return FeatureGroups(tuple(names), columns)
