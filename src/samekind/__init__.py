"""samekind learns, from labelled examples, when two things are of the same kind.

The estimators follow scikit-learn; `Metric` is what they leave behind, to be saved, loaded and used alone. `extract`
makes feature groups of pictures, in a `DiskStore` that the estimators learn from.
Everything is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING

from samekind._version import __version__
from samekind.lazy import lazy_names

if TYPE_CHECKING:
    from samekind.compute.cluster import cluster
    from samekind.estimators import EnsembleMetric, JointMetric, SparseBlockMetric, TwoCovariance
    from samekind.extraction import extract
    from samekind.images.extractor import Extractor
    from samekind.images.listing import list_images
    from samekind.images.load import ImageError
    from samekind.model.metric import Metric, ModelFileError
    from samekind.store import DiskStore, StoreError

__all__ = [
    "DiskStore",
    "EnsembleMetric",
    "Extractor",
    "ImageError",
    "JointMetric",
    "Metric",
    "ModelFileError",
    "SparseBlockMetric",
    "StoreError",
    "TwoCovariance",
    "__version__",
    "cluster",
    "extract",
    "list_images",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "compute.cluster": ["cluster"],
        "estimators": ["EnsembleMetric", "JointMetric", "SparseBlockMetric", "TwoCovariance"],
        "extraction": ["extract"],
        "images.extractor": ["Extractor"],
        "images.listing": ["list_images"],
        "images.load": ["ImageError"],
        "model.metric": ["Metric", "ModelFileError"],
        "store": ["DiskStore", "StoreError"],
    },
)
