"""What a store of feature groups offers to those who learn from it or use a metric on it."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.types import Array, IntArray

WIDEST_PANEL = 1024  # columns: wide enough for BLAS to run at full speed


class FeatureStore(ABC):
    """N samples, each with K feature groups of any sizes.

    A store has at least a length, `group_sizes`, `dtype` and `panel`. Whatever else callers ask for has a default here,
    so that a store overrides only what it can answer or do better.
    """

    @abstractmethod
    def __len__(self) -> int:
        """N, the number of samples."""

    @property
    @abstractmethod
    def group_sizes(self) -> IntArray:
        """Numbers in each group, (K,)."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Of panels."""

    @abstractmethod
    def panel(self, groups: Sequence[int], rows: IntArray) -> Array:
        """Some groups side by side, for some samples in this order: (len(rows), sum of sizes), a copy."""

    @property
    def widest_panel(self) -> int:
        """Columns that those who go through all groups ask for at once, unless a group alone is wider."""
        return WIDEST_PANEL

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """What the numbers were rounded to."""
        return self.dtype

    @property
    def group_names(self) -> list[str]:
        return [str(k) for k in range(len(self.group_sizes))]

    @property
    def families(self) -> Mapping[str, Sequence[int]] | None:
        """The groups of each family; None where there are no families."""
        return None

    @property
    def front_end(self) -> Mapping[str, Any] | None:
        """How images became the descriptors of the whole store; None where they are not of images."""
        return None

    @property
    def numbers(self) -> IntArray | None:
        """Of the groups in the whole store, that is in its `front_end`; None where all are here."""
        return None

    @property
    def labels(self) -> NDArray[np.str_]:
        """Of the samples."""
        raise AttributeError(f"A {type(self).__name__} has no labels: give them beside it.")

    @property
    def image_ids(self) -> NDArray[np.str_]:
        """Of the samples."""
        raise AttributeError(f"A {type(self).__name__} has no image ids: its samples are known by their numbers.")

    def check_complete(self) -> None:  # noqa: B027 - a default: nothing is to come
        """Raise a `ValueError` where samples are still to come."""

    def content_digest(self) -> str | None:
        """A hash that changes with what the store holds; None where it would take reading all of it."""
        return None

    def read_ahead(self, groups: Sequence[int]) -> None:  # noqa: B027 - a default: nothing to prepare
        """Prepare for groups that will be needed again and again."""

    def copied_into(self, folder: str | os.PathLike[str]) -> "FeatureStore":
        """The same store, its groups copied into a folder of this machine when they are first read.

        Itself, where they are not on a disk that others share.
        """
        return self

    @property
    def can_stack(self) -> bool:
        """Whether there is a `stacked`."""
        return False

    def stacked(self, groups: Sequence[int], rows: IntArray, means: Array, out: Array) -> None:
        """Into out[j, i] the features of group j of row i less means[j], for some groups and rows in this order.

        `out` (len(groups), len(rows), w) may be wider than a group; zeros follow. One thread does it: others may do
        other groups.
        """
        raise NotImplementedError(f"A {type(self).__name__} hands out panels only: ask `can_stack` first.")
