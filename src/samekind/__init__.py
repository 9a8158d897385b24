"""samekind learns, from labelled examples, when two things are of the same kind.

The estimators follow scikit-learn; `Metric` is what they leave behind, to be saved, loaded and used alone. `extract`
makes feature groups of pictures, in a `DiskStore` that the estimators learn from.
Everything is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samekind._version import __version__

if TYPE_CHECKING:
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
    "extract",
    "list_images",
]

_ROOMS = {
    "DiskStore": "store",
    "EnsembleMetric": "estimators",
    "Extractor": "images.extractor",
    "ImageError": "images.load",
    "StoreError": "store",
    "extract": "extraction",
    "list_images": "images.listing",
    "JointMetric": "estimators",
    "SparseBlockMetric": "estimators",
    "TwoCovariance": "estimators",
    "Metric": "model.metric",
    "ModelFileError": "model.metric",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
