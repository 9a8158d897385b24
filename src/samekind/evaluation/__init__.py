"""How good are codes: verification of pairs, by folds or at once, retrieval, plots of both, and a report on one page.

matplotlib and jinja2 are imported when plots and reports are first asked for. LFW's protocol is in `samekind.lfw`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samekind.evaluation.folds import FoldsResult, compare_folds, verify_folds
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
    from samekind.evaluation._reliability import reliability
    from samekind.evaluation.calibrating import calibrate
    from samekind.evaluation.displays import (
        CalibrationDisplay,
        ConvergenceDisplay,
        CoverageDisplay,
        DistanceHistogramDisplay,
        FoldsDisplay,
        RegionsDisplay,
        RocDisplay,
        SpectrumDisplay,
    )
    from samekind.evaluation.evaluated import Evaluation
    from samekind.evaluation.evaluating import evaluate_codes
    from samekind.evaluation.model_selection import ClassKFold, mean_average_precision_score, pair_auc_score
    from samekind.evaluation.report import Section, Table, write_report

__all__ = [
    "CalibrationDisplay",
    "ClassKFold",
    "ConvergenceDisplay",
    "CoverageDisplay",
    "DistanceHistogramDisplay",
    "Evaluation",
    "FoldsDisplay",
    "FoldsResult",
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
    "calibrate",
    "compare_folds",
    "evaluate_codes",
    "flip_free_codes",
    "flip_free_distances",
    "flip_free_queries",
    "knn_error",
    "label_pairs",
    "mean_average_precision",
    "mean_average_precision_score",
    "pair_auc_score",
    "pair_distances",
    "reliability",
    "retrieve",
    "roc_curve",
    "verify",
    "verify_codes",
    "verify_folds",
    "write_report",
]

_LAZY = {
    "CalibrationDisplay": "displays",
    "Evaluation": "evaluated",
    "ClassKFold": "model_selection",
    "ConvergenceDisplay": "displays",
    "CoverageDisplay": "displays",
    "RegionsDisplay": "displays",
    "DistanceHistogramDisplay": "displays",
    "FoldsDisplay": "displays",
    "RocDisplay": "displays",
    "SpectrumDisplay": "displays",
    "Section": "report",
    "Table": "report",
    "calibrate": "calibrating",
    "evaluate_codes": "evaluating",
    "reliability": "_reliability",
    "mean_average_precision_score": "model_selection",
    "pair_auc_score": "model_selection",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
