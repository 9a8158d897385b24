"""Parts of a store: some of its samples, some of its feature groups."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.types import Array, IntArray
from samekind.store.base import FeatureStore


class _Part:
    """What a part of a store has from the whole."""

    store: FeatureStore

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.dtype

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """What the numbers were rounded to."""
        return np.dtype(getattr(self.store, "stored_dtype", self.store.dtype))

    @property
    def can_stack(self) -> bool:
        return bool(getattr(self.store, "can_stack", False))

    def read_ahead(self, groups: Sequence[int]) -> None:
        """As the store's own, where it has one."""
        if hasattr(self.store, "read_ahead"):
            self.store.read_ahead(groups)


class RowsOf(_Part):
    """A view of a store that has only some of its samples, in the order given; nothing is copied."""

    def __init__(self, store: FeatureStore, rows: IntArray):
        self.store = store
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def group_sizes(self) -> IntArray:
        return self.store.group_sizes

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        return self.store.panel(groups, self.rows[rows])

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        """As the store's own, where it has one (`can_stack`)."""
        self.store.stacked(groups, self.rows[rows], means, out)  # type: ignore[attr-defined]


class GroupsOf(_Part):
    """A view of a store that has only some of its groups, numbered anew in rising order; nothing is copied."""

    def __init__(self, store: FeatureStore, groups: Sequence[int] | IntArray):
        numbers = np.unique(np.asarray(groups, dtype=np.intp))
        if not len(numbers):
            raise ValueError("No feature groups are left: name at least one.")
        if numbers[0] < 0 or numbers[-1] >= len(store.group_sizes):
            raise ValueError(
                f"groups go from {numbers[0]} to {numbers[-1]}, but the store has {len(store.group_sizes)}: "
                f"0 to {len(store.group_sizes) - 1}."
            )
        self.store = store
        self.numbers = numbers

    @classmethod
    def of_families(cls, store: Any, names: Sequence[Hashable]) -> "GroupsOf":
        """The groups of some families."""
        missing = [name for name in names if name not in store.families]
        if missing:
            raise ValueError(
                f"The store has no family {missing[0]!r}; it has {', '.join(map(str, store.families)) or 'none'}."
            )
        return cls(store, [k for name in names for k in store.families[name]])

    def __len__(self) -> int:
        return len(self.store)  # type: ignore[arg-type]

    @property
    def group_sizes(self) -> IntArray:
        return self.store.group_sizes[self.numbers]

    @property
    def group_names(self) -> list[str]:
        names = getattr(self.store, "group_names", None) or [str(k) for k in range(len(self.store.group_sizes))]
        return [names[k] for k in self.numbers]

    @property
    def families(self) -> Mapping[str, list[int]] | None:
        """The groups of each family that has any left, by their new numbers; None where the store has none."""
        own = getattr(self.store, "families", None)
        if own is None:
            return None
        left = {name: np.flatnonzero(np.isin(self.numbers, list(members))).tolist() for name, members in own.items()}
        return {name: members for name, members in left.items() if members}

    @property
    def front_end(self) -> Mapping[str, Any] | None:
        """How images became the descriptors of the whole store; `numbers` are its groups."""
        return getattr(self.store, "front_end", None)

    @property
    def labels(self) -> NDArray[np.str_]:
        labels: NDArray[np.str_] = self.store.labels  # type: ignore[attr-defined]
        return labels

    @property
    def image_ids(self) -> NDArray[np.str_]:
        image_ids: NDArray[np.str_] = self.store.image_ids  # type: ignore[attr-defined]
        return image_ids

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        return self.store.panel(self.numbers[list(groups)].tolist(), rows)

    def read_ahead(self, groups: Sequence[int]) -> None:
        """As the store's own, where it has one."""
        super().read_ahead(self.numbers[list(groups)].tolist())

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        """As the store's own, where it has one (`can_stack`)."""
        self.store.stacked(self.numbers[list(groups)].tolist(), rows, means, out)  # type: ignore[attr-defined]


class RootsOf(_Part):
    """A view of a store whose numbers, none negative, are replaced by their square roots; nothing is kept."""

    def __init__(self, store: Any, front_end: Mapping[str, Any] | None = None):
        self.store = store
        self.front_end = front_end  # how images become such numbers
        self.group_names: list[str] = store.group_names
        self.families: Mapping[str, Sequence[int]] = store.families
        self.labels: NDArray[np.str_] = store.labels
        self.image_ids: NDArray[np.str_] = store.image_ids

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def group_sizes(self) -> IntArray:
        return self.store.group_sizes

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        panel = self.store.panel(groups, rows)
        return np.sqrt(panel, out=panel)

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        """As the store's own, where it has one (`can_stack`)."""
        self.store.stacked(groups, rows, np.zeros_like(means), out)  # type: ignore[attr-defined]
        for Z, mean, size in zip(out, means, self.group_sizes[list(groups)].tolist(), strict=True):
            np.sqrt(Z[:, :size], out=Z[:, :size])
            Z[:, :size] -= mean[:size]
