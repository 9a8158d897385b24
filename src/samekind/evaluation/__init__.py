"""How good are codes: verification of pairs, retrieval, plots of both, and a report on one page.

Plots and reports are imported when they are first asked for, and matplotlib and jinja2 with them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samekind.evaluation.retrieval import RetrievalResult, knn_error, mean_average_precision, retrieve
from samekind.evaluation.verification import (
    RocCurve,
    VerificationResult,
    accuracy,
    best_threshold,
    label_pairs,
    pair_distances,
    roc_curve,
    verify,
    verify_codes,
)
from samekind.kernels.flips import flip_free_codes, flip_free_distances, flip_free_queries

if TYPE_CHECKING:
    from samekind.evaluation.displays import (
        ConvergenceDisplay,
        CoverageDisplay,
        DistanceHistogramDisplay,
        RegionsDisplay,
        RocDisplay,
        SpectrumDisplay,
    )
    from samekind.evaluation.report import Section, Table, write_report

__all__ = [
    "ConvergenceDisplay",
    "CoverageDisplay",
    "DistanceHistogramDisplay",
    "RegionsDisplay",
    "RetrievalResult",
    "RocCurve",
    "RocDisplay",
    "Section",
    "SpectrumDisplay",
    "Table",
    "VerificationResult",
    "accuracy",
    "best_threshold",
    "flip_free_codes",
    "flip_free_distances",
    "flip_free_queries",
    "knn_error",
    "label_pairs",
    "mean_average_precision",
    "pair_distances",
    "retrieve",
    "roc_curve",
    "verify",
    "verify_codes",
    "write_report",
]

_LAZY = {
    "ConvergenceDisplay": "displays",
    "CoverageDisplay": "displays",
    "RegionsDisplay": "displays",
    "DistanceHistogramDisplay": "displays",
    "RocDisplay": "displays",
    "SpectrumDisplay": "displays",
    "Section": "report",
    "Table": "report",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
