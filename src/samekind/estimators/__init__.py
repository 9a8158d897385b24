"""scikit-learn estimators: step 1 (`SparseBlockMetric`), step 2 (`JointMetric`), and both (`EnsembleMetric`)."""

from samekind.estimators.block import SparseBlockMetric
from samekind.estimators.ensemble import EnsembleMetric
from samekind.estimators.joint import JointMetric

__all__ = ["EnsembleMetric", "JointMetric", "SparseBlockMetric"]
