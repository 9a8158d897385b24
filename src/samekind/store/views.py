"""Views of a store: some samples, some feature groups, a copy in memory, roots of numbers, means of mirror images."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.feature_store import FeatureStore
from samekind.kernels.types import Array, BoolArray, IntArray
from samekind.store.array import GroupArrays


class _View(FeatureStore):
    """What any view has from the store."""

    store: FeatureStore

    def __len__(self) -> int:
        return len(self.store)

    @property
    def group_sizes(self) -> IntArray:
        return self.store.group_sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.dtype

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return self.store.stored_dtype

    @property
    def widest_panel(self) -> int:
        return self.store.widest_panel

    @property
    def can_stack(self) -> bool:
        return self.store.can_stack

    @property
    def numbers(self) -> IntArray | None:
        return self.store.numbers

    def read_ahead(self, groups: Sequence[int]) -> None:
        self.store.read_ahead(groups)

    def content_digest(self) -> str | None:
        """A hash of what the whole store holds and how this view changes it; None where the store has none."""
        whole = self.store.content_digest()
        return None if whole is None else f"{whole} {type(self).__name__} {self._view_digest()}"

    def _view_digest(self) -> str:
        """What tells this view from others of the same store: the arrays that define it."""
        defining = [value for _, value in sorted(vars(self).items()) if isinstance(value, np.ndarray)]
        digest = hashlib.blake2b(digest_size=16)
        for array in defining:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


class RowsOf(_View):
    """A view of a store that has only some of its samples, in the order given; nothing is copied."""

    def __init__(self, store: FeatureStore, rows: IntArray):
        self.store = store
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        return self.store.panel(groups, self.rows[rows])

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        self.store.stacked(groups, self.rows[rows], means, out)


class _AllSamples(_View):
    """What a view of all samples has from the store."""

    @property
    def front_end(self) -> Mapping[str, Any] | None:
        return self.store.front_end

    @property
    def labels(self) -> NDArray[np.str_]:
        return self.store.labels

    @property
    def image_ids(self) -> NDArray[np.str_]:
        return self.store.image_ids


class GroupsOf(_AllSamples):
    """A view of a store that has only some of its groups, numbered anew in rising order; nothing is copied."""

    def __init__(self, store: FeatureStore, groups: Sequence[int] | IntArray):
        chosen = np.unique(np.asarray(groups, dtype=np.intp))
        if not len(chosen):
            raise ValueError("No feature groups are left: name at least one.")
        if chosen[0] < 0 or chosen[-1] >= len(store.group_sizes):
            raise ValueError(
                f"groups go from {chosen[0]} to {chosen[-1]}, but the store has {len(store.group_sizes)}: "
                f"0 to {len(store.group_sizes) - 1}."
            )
        self.store = store
        self.chosen = chosen  # by their numbers in `store`, which may itself be a view

    @classmethod
    def of_families(cls, store: FeatureStore, names: Sequence[str]) -> "GroupsOf":
        """The groups of some families."""
        return cls(store, [k for name in names for k in _family(store, name)])

    @property
    def numbers(self) -> IntArray:
        """Of the groups in the whole store, also where this is a view of a view."""
        within = self.store.numbers
        return self.chosen if within is None else within[self.chosen]

    @property
    def group_sizes(self) -> IntArray:
        return self.store.group_sizes[self.chosen]

    @property
    def group_names(self) -> list[str]:
        names = self.store.group_names
        return [names[k] for k in self.chosen]

    @property
    def families(self) -> Mapping[str, list[int]] | None:
        """The groups of each family that has any left, by their new numbers; None where the store has none."""
        own = self.store.families
        if own is None:
            return None
        left = {name: np.flatnonzero(np.isin(self.chosen, list(members))).tolist() for name, members in own.items()}
        return {name: members for name, members in left.items() if members}

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        return self.store.panel(self.chosen[list(groups)].tolist(), rows)

    def read_ahead(self, groups: Sequence[int]) -> None:
        super().read_ahead(self.chosen[list(groups)].tolist())

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        self.store.stacked(self.chosen[list(groups)].tolist(), rows, means, out)


class AllGroups(_AllSamples):
    """What a view that changes numbers, not groups, has from the store."""

    @property
    def group_names(self) -> list[str]:
        return self.store.group_names

    @property
    def families(self) -> Mapping[str, Sequence[int]] | None:
        return self.store.families


class CopyOf(AllGroups):
    """A store with a copy of some samples in memory, for few that are read again and again; no others are read."""

    def __init__(self, store: FeatureStore, rows: IntArray):
        self.store = store
        self._copy = GroupArrays.copied(RowsOf(store, rows))
        self._places = np.full(len(store), -1, dtype=np.intp)
        self._places[rows] = np.arange(len(rows))

    @property
    def can_stack(self) -> bool:
        return False

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        places = self._places[rows]
        return self.store.panel(groups, rows) if (places < 0).any() else self._copy.panel(groups, places)

    def read_ahead(self, groups: Sequence[int]) -> None:
        return None

    def content_digest(self) -> str | None:
        return self.store.content_digest()


class RootsOf(AllGroups):
    """A view of a store in which the numbers of some families, none negative, are their square roots.

    `families` names them, None means all; the others stay as they are. `front_end` says how images become such numbers.
    """

    def __init__(
        self, store: FeatureStore, front_end: Mapping[str, Any] | None = None, *, families: Sequence[str] | None = None
    ):
        self.store = store
        self._front_end = front_end
        self._rooted = np.full(len(store.group_sizes), families is None)
        for name in families or ():
            self._rooted[list(_family(store, name))] = True

    @property
    def front_end(self) -> Mapping[str, Any] | None:
        return self._front_end

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        panel = self.store.panel(groups, rows)
        chosen = np.asarray(groups, dtype=np.intp)
        if self._rooted[chosen].all():
            return np.sqrt(panel, out=panel)
        for columns in _columns(self.group_sizes[chosen], self._rooted[chosen]):
            np.sqrt(panel[:, columns], out=panel[:, columns])
        return panel

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        from samekind.kernels.stacks import roots_less  # loads a compiler

        chosen = np.asarray(groups, dtype=np.intp)
        rooted = self._rooted[chosen]
        self.store.stacked(groups, rows, np.where(rooted[:, np.newaxis], np.zeros_like(means), means), out)
        for j, size in zip(np.flatnonzero(rooted), self.group_sizes[chosen[rooted]], strict=True):
            roots_less(out[j], size, means[j])


class MirrorMeansOf(AllGroups):
    """A view of a store whose rows are means of the descriptors of a picture and of its mirror image.

    Group k is `(x_k + mirrored(x_m)) / 2` with m = mirror_groups[k], the group that shows the mirror image of k's
    region; `mirrored` maps a family's name to the function that makes descriptors (n, size) those of the mirror image.
    It moves numbers and changes signs, no more: groups k and m hold the same information, in other coordinates.
    """

    def __init__(self, store: FeatureStore, mirror_groups: IntArray, mirrored: Mapping[str, Callable[[Array], Array]]):
        n_groups = len(store.group_sizes)
        if mirror_groups.shape != (n_groups,):
            raise ValueError(f"mirror_groups has shape {mirror_groups.shape}, but the store has {n_groups} groups.")
        self.store = store
        self.mirror_groups = mirror_groups
        self._mirrored = {k: mirrored[name] for name, members in (store.families or {}).items() for k in members}

    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        chosen = self._with_mirror(groups)
        # Groups near each other are often each other's mirror images: each is read once.
        read = np.unique([chosen, self.mirror_groups[chosen]])
        source = self.store.panel(read.tolist(), rows)
        columns = dict(zip(read.tolist(), _columns(self.group_sizes[read]), strict=True))
        panel = np.empty((len(source), int(self.group_sizes[chosen].sum())), source.dtype)
        for k, out in zip(chosen.tolist(), _columns(self.group_sizes[chosen]), strict=True):
            there = source[:, columns[int(self.mirror_groups[k])]]
            np.add(source[:, columns[k]], self._mirrored[k](there), out=panel[:, out])
        panel *= 0.5
        return panel

    def read_ahead(self, groups: Sequence[int]) -> None:
        chosen = self._with_mirror(groups)
        super().read_ahead(np.unique([chosen, self.mirror_groups[chosen]]).tolist())

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        from samekind.kernels.stacks import mirror_means_less  # loads a compiler

        chosen = self._with_mirror(groups)
        own, other = np.zeros_like(means), np.empty_like(out[:1])
        self.store.stacked(chosen.tolist(), rows, own, out)
        for k, size, mean, Z in zip(chosen.tolist(), self.group_sizes[chosen], means, out, strict=True):
            self.store.stacked(self.mirror_groups[[k]].tolist(), rows, own[:1], other)
            moved = self._mirrored[k](np.arange(1, size + 1, dtype=np.float32)[np.newaxis])[0]
            mirror_means_less(Z, other[0], (np.abs(moved) - 1).astype(np.uintp), np.sign(moved), mean)

    def _with_mirror(self, groups: Sequence[int]) -> IntArray:
        chosen = np.asarray(groups, dtype=np.intp)
        alone = chosen[self.mirror_groups[chosen] < 0]
        if len(alone):
            raise ValueError(
                f"Group {alone[0]} ({self.store.group_names[alone[0]]}) has no mirror image in the store, and "
                f"{len(alone)} of {len(chosen)} groups asked for have none: leave such groups out first (GroupsOf), or "
                "extract the pictures anew."
            )
        return chosen


def _columns(sizes: IntArray, wanted: BoolArray | None = None) -> Iterator[slice]:
    """Of each group, or of those wanted, where groups of these sizes stand side by side."""
    ends = np.cumsum(sizes).tolist()
    for at, (end, size) in enumerate(zip(ends, sizes.tolist(), strict=True)):
        if wanted is None or wanted[at]:
            yield slice(end - size, end)


def _family(store: FeatureStore, name: str) -> Sequence[int]:
    """The groups of a family."""
    families = store.families or {}
    if name not in families:
        raise ValueError(f"The store has no family {name!r}; it has {', '.join(families) or 'none'}.")
    return families[name]
