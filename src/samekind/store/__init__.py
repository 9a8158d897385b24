"""Where the feature groups x^(k) lie, and how they are handed out: in panels of whole groups."""

from samekind.store.array import ArrayStore
from samekind.store.base import FeatureStore, centred, panels_of
from samekind.store.groups import FeatureGroups

__all__ = ["ArrayStore", "FeatureGroups", "FeatureStore", "centred", "panels_of"]
