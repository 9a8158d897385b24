"""Where the feature groups x^(k) lie, and how they are handed out: in panels of whole groups."""

from samekind.feature_store import FeatureStore
from samekind.store.array import ArrayStore
from samekind.store.base import centred, panels_of
from samekind.store.disk import DiskStore
from samekind.store.groups import FeatureGroups
from samekind.store.manifest import Family, StoreError
from samekind.store.views import GroupsOf, RootsOf, RowsOf
from samekind.store.whiten import WhitenedStore, Whitening
from samekind.store.writer import Shard, StoreWriter, shard_rows_for

__all__ = [
    "ArrayStore",
    "DiskStore",
    "Family",
    "FeatureGroups",
    "FeatureStore",
    "GroupsOf",
    "RootsOf",
    "RowsOf",
    "Shard",
    "StoreError",
    "StoreWriter",
    "WhitenedStore",
    "Whitening",
    "centred",
    "panels_of",
    "shard_rows_for",
]
