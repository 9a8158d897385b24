"""Where the feature groups x^(k) lie, and how they are handed out: in panels of whole groups.

    FeatureStore             what callers may ask of any store, with defaults (samekind.feature_store)
      ArrayStore    array    columns of an array in memory, in `groups.FeatureGroups`
      GroupArrays   array    an array in memory for each group
      DiskStore     disk     float16 shards in a folder, memory-mapped; `manifest` is its table of contents
      RowsOf, GroupsOf, RootsOf, MirrorMeansOf
                    views    some samples, some groups, roots of the numbers, means of mirror images; nothing is copied
      WhitenedStore whiten   groups whitened by PCA on the training samples (section 4 of arXiv:1212.6094)

    writer      makes a DiskStore shard by shard                 called by extraction, compaction
    compaction  makes one of another, with larger shards         called by cli.compact
    verifying   whether an array is as it was written            called by disk, writer
    base        panels_of: all groups, some side by side         called by solvers, estimators
    stripes     copies of a DiskStore's groups on another disk   opened by workers of a cluster (compute.packing)
    scan        many groups at once, stacked in one buffer       called by solvers.selection

`estimators.data` puts them together: RowsOf(store, rows), whitened where asked for, is what solvers see. `model` reads
the chosen groups of any store. Moments of a group are merged block by block of rows (Chan, Golub and LeVeque, 1979).
"""

from samekind.feature_store import FeatureStore
from samekind.store.array import ArrayStore, GroupArrays
from samekind.store.base import centred, panels_of
from samekind.store.disk import DiskStore, ReadOptions
from samekind.store.groups import FeatureGroups
from samekind.store.manifest import Family, StoreError
from samekind.store.stripes import StripedStore
from samekind.store.views import GroupsOf, RootsOf, RowsOf
from samekind.store.whiten import WhitenedStore, Whitening
from samekind.store.writer import Shard, StoreWriter, shard_rows_for

__all__ = [
    "ArrayStore",
    "DiskStore",
    "Family",
    "FeatureGroups",
    "FeatureStore",
    "GroupArrays",
    "GroupsOf",
    "ReadOptions",
    "RootsOf",
    "RowsOf",
    "Shard",
    "StoreError",
    "StoreWriter",
    "StripedStore",
    "WhitenedStore",
    "Whitening",
    "centred",
    "panels_of",
    "shard_rows_for",
]
