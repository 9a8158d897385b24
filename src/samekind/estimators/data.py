"""What the learners read, be it an array or a store: feature groups of labelled samples, whitened where asked for."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.compute.executor import Executor
from samekind.estimators.on_store import whitened_by
from samekind.estimators.validation import check_count, families_from
from samekind.kernels.spectral import Matrix
from samekind.kernels.types import Array, IntArray
from samekind.model.basis import ROWS_AT_ONCE, Basis
from samekind.store import (
    ArrayStore,
    FeatureGroups,
    FeatureStore,
    GroupArrays,
    GroupsOf,
    RowsOf,
    WhitenedStore,
    Whitening,
)
from samekind.store.groups import GroupSpec

WHITENED_DIMS = 45  # per group of a store at the most, as in the paper
FEWEST_WHITENED = 10
EVERYTHING = -1  # whitened dimensions: all that are not noise

Progress = Callable[[int, int], None]


def is_store(X: Any) -> TypeGuard[FeatureStore]:
    return isinstance(X, FeatureStore)


def checked_rows(rows: ArrayLike | None, n_samples: int, *, once: bool = True) -> IntArray:
    """Sample numbers or a mask, as sample numbers; all samples where None. `once`: no sample may come twice."""
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
    if len(np.unique(given)) < len(given):
        mask = given.shape == (n_samples,) and np.isin(given, (0, 1)).all()
        if mask:
            raise ValueError(
                "rows holds only 0 and 1, as a mask would: give booleans, rows.astype(bool), to choose by a mask."
            )
        if once:
            raise ValueError("rows names a sample twice: give each sample number once.")
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
    def from_samples(cls, X: Any, y: NDArray[Any], rows: IntArray, feature_groups: GroupSpec) -> "TrainingData":
        """As they are, not whitened."""
        if is_store(X):
            groups, n_features = _groups_of(X, feature_groups), int(X.group_sizes.sum())
            return cls(X, rows, y, groups, n_features, RowsOf(X, rows), None)
        groups = FeatureGroups.parse(feature_groups, X.shape[1])
        return cls(X, rows, y, groups, X.shape[1], RowsOf(ArrayStore(X, groups), rows), None)

    def whitened(
        self,
        dims: int | None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
        executor: Executor | None = None,
    ) -> "TrainingData":
        """Whitened on these samples, `dims` directions of a group at the most; as it is where None."""
        if dims is None:
            return self
        self.store.read_ahead(range(len(self.store.group_sizes)))
        kept = None if dims == EVERYTHING else dims
        if executor is not None and executor.is_remote:
            whitening = whitened_by(executor, self.store, kept, progress)
        else:
            whitening = Whitening.learned(
                self.store, np.arange(len(self.rows)), dims=kept, n_jobs=n_jobs, progress=progress
            )
        return replace(self, store=WhitenedStore(self.store, whitening, n_jobs), whitening=whitening)

    def copied(self, most: int) -> "TrainingData":
        """With a copy of the solvers' features in memory, where it takes at most so many bytes and is not there yet.

        Descriptors of few pictures are then whitened once, and not whenever a group is scored.
        """
        needed = len(self.rows) * int(self.store.group_sizes.sum()) * self.dtype.itemsize
        if self.whitening is None or needed > most:
            return self
        return replace(self, store=GroupArrays.copied(self.store))

    def whitened_dims(self, whiten: Any) -> int | None:
        """What a learner's `whiten` says. "auto" follows the samples: few cannot show many directions of a group."""
        if isinstance(whiten, str) and whiten == "auto":
            followed = int(np.clip(2 * np.sqrt(len(self.rows)), FEWEST_WHITENED, WHITENED_DIMS))
            return followed if is_store(self.X) else None
        if whiten is None or isinstance(whiten, bool | np.bool_):
            return EVERYTHING if whiten else None
        return check_count("whiten", whiten)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.dtype

    def families(self, families: Any) -> dict[Hashable, list[int]]:
        """Those given, or else those of the store."""
        own = self.X.families if is_store(self.X) else None
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

    def basis(self, factors: Mapping[int, Matrix]) -> Basis:
        """U_dagger of chosen groups over the columns of X, and Lambda, from factors with orthogonal columns.

        `factors[k]` is L_k of `A_k = L_k L_k^T = U_k Lambda_k U_k^T` (Algorithm 1, line 8).
        """
        columns, order = self._columns(list(factors))
        owners = np.repeat(np.arange(len(factors)), [len(self.groups.columns[k]) for k in factors])
        lengths = {k: np.linalg.norm(L, axis=0) for k, L in factors.items()}
        blocks = [self._raw_block(k, L / lengths[k]) for k, L in factors.items()]
        return Basis(
            columns,
            self.n_features,
            groups=self.names(list(factors)),
            mean=self.mean(list(factors)),
            values=np.concatenate([block.T.ravel() for block in blocks]).astype(self.dtype),
            rows=np.repeat(np.arange(len(factors)), [L.shape[1] for L in factors.values()]),
            owners=owners[order],
            eigenvalues=np.concatenate([length**2 for length in lengths.values()]),
        )

    def plain_basis(self) -> Basis:
        """All groups as they are, or whitened, side by side in their order: what a joint metric alone learns on."""
        every = range(len(self.groups))
        if self.whitening is None and np.array_equal(np.concatenate(self.groups.columns), np.arange(self.n_features)):
            return Basis.plain(np.arange(self.n_features), self.n_features, mean=self.mean(list(every)))
        sizes = self.store.group_sizes
        return self.basis({k: np.eye(int(sizes[k])) for k in every})

    def mean(self, chosen: Sequence[int], *, at_once: int = ROWS_AT_ONCE) -> NDArray[np.float64]:
        """Of the columns of chosen groups, in rising order: that of whitening, or of the samples."""
        columns, order = self._columns(chosen)
        if self.whitening is not None:
            return np.concatenate([self.whitening.of(k)[0] for k in chosen])[order].astype(np.float64)
        parts = Basis.plain(columns, self.n_features).read(self.X, self.rows, at_once=at_once)
        sums = [part.sum(axis=0, dtype=np.float64) for part in parts]
        mean: NDArray[np.float64] = np.sum(sums, axis=0) / len(self.rows)
        return mean

    def only(self, numbers: Sequence[int]) -> "TrainingData":
        """Some of the feature groups, numbered anew; not whitened."""
        assert self.whitening is None
        assert isinstance(self.store, RowsOf)
        chosen = sorted(numbers)
        if chosen == list(range(len(self.groups))):
            return self
        groups = FeatureGroups(self.names(chosen), tuple(self.groups.columns[k] for k in chosen))
        return replace(self, groups=groups, store=RowsOf(GroupsOf(self.store.store, chosen), self.rows))

    def part(self, places: IntArray) -> "TrainingData":
        """Some of these samples, by their places among them; not whitened."""
        raw = self.store.raw if isinstance(self.store, WhitenedStore) else self.store
        assert isinstance(raw, RowsOf)
        rows = self.rows[places]
        return replace(self, rows=rows, y=self.y[places], store=RowsOf(raw.store, rows), whitening=None)

    def extractor(self, chosen: Sequence[int]) -> Mapping[str, Any] | None:
        """How the columns of the chosen groups come from a picture, where X is a store of pictures."""
        if not is_store(self.X) or not self.X.front_end or not len(chosen):
            return None
        from samekind.images.extractor import Extractor

        numbers = chosen if self.X.numbers is None else self.X.numbers[list(chosen)]
        return Extractor.from_json(self.X.front_end).only(sorted(numbers)).to_json()

    def _columns(self, chosen: Sequence[int]) -> tuple[IntArray, IntArray]:
        """The columns of the chosen groups in rising order, and the order that makes them so."""
        columns = np.concatenate([self.groups.columns[k] for k in chosen])
        order = np.argsort(columns)
        return columns[order], order

    def _raw_block(self, k: int, U: Matrix) -> Matrix:
        """U_k over the columns of X, these in rising order."""
        block = U if self.whitening is None else self.whitening.of(k)[1].astype(np.float64) @ U
        in_order: Matrix = block[np.argsort(self.groups.columns[k])]
        return in_order


def _groups_of(store: FeatureStore, feature_groups: GroupSpec) -> FeatureGroups:
    if not (isinstance(feature_groups, int) and feature_groups == 1):
        raise ValueError("A store brings its own feature groups: leave feature_groups at its default.")
    sizes = store.group_sizes
    ends = np.cumsum(sizes)
    columns = tuple(np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True))
    return FeatureGroups(tuple(store.group_names), columns)
