"""samekind learns, from labelled examples, when two things are of the same kind.

The estimators follow scikit-learn; `Metric` is what they leave behind, to be saved, loaded and used alone.
Everything is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samekind._version import __version__

if TYPE_CHECKING:
    from samekind.estimators import EnsembleMetric, JointMetric, SparseBlockMetric
    from samekind.metric import Metric, ModelFileError

__all__ = ["EnsembleMetric", "JointMetric", "Metric", "ModelFileError", "SparseBlockMetric", "__version__"]

_ROOMS = {
    "EnsembleMetric": "estimators",
    "JointMetric": "estimators",
    "SparseBlockMetric": "estimators",
    "Metric": "metric",
    "ModelFileError": "metric",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
