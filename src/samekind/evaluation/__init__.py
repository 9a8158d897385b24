"""How good are codes: verification of pairs, by folds or at once, retrieval, plots of both, and a report on one page.

    verification  one threshold on the distances of pairs: accuracy, ROC       verify, verify_codes, roc_curve
      folds         by folds of pairs, each at a threshold from the others     verify_folds, compare_folds
    retrieval     all distances of a query, sorted: mAP, k-NN error            retrieve, knn_error
    ranks         the same and more by counting, for large galleries           count_ranks -> Ranks -> RankFigures
      query_figures, retrieving   figures of each query; all of them with intervals
    calibrating   a `model.Calibration` from codes of classes left out         calibrate
    evaluating    verification, retrieval and calibration at once              evaluate_codes -> Evaluation
    model_selection  folds over classes, and scorers, for scikit-learn         ClassKFold
    pairs, class_pairs, class_bootstrap   pairs from labels, with their classes, and intervals by drawing classes anew
    displays, report   plots of computed values, and a page of them

Arrays come in, figures go out: `estimators`, `lfw` and `cli` call this with the codes of a model.
matplotlib and jinja2 are imported when plots and reports are first asked for. LFW's protocol is in `samekind.lfw`.
"""

from typing import TYPE_CHECKING

from samekind.evaluation.folds import FoldsResult, compare_folds, verify_folds
from samekind.evaluation.pairs import label_pairs, pair_distances
from samekind.evaluation.ranks import RankFigures, Ranks, count_ranks
from samekind.evaluation.retrieval import RetrievalResult, knn_error, mean_average_precision, retrieve
from samekind.evaluation.verification import (
    RocCurve,
    VerificationResult,
    accuracy,
    best_threshold,
    roc_curve,
    verify,
    verify_codes,
)
from samekind.kernels.flips import flip_free_codes, flip_free_distances, flip_free_queries
from samekind.lazy import lazy_names

if TYPE_CHECKING:
    from samekind.evaluation._reliability import reliability
    from samekind.evaluation.calibrating import calibrate
    from samekind.evaluation.displays import (
        CalibrationDisplay,
        ConvergenceDisplay,
        CoverageDisplay,
        DistanceHistogramDisplay,
        ExplanationDisplay,
        FoldsDisplay,
        LinesDisplay,
        RegionsDisplay,
        RocDisplay,
        SpectrumDisplay,
    )
    from samekind.evaluation.evaluated import Evaluation
    from samekind.evaluation.evaluating import evaluate_codes
    from samekind.evaluation.model_selection import (
        ClassKFold,
        mean_average_precision_score,
        pair_auc_score,
        true_match_rate_score,
    )
    from samekind.evaluation.report import Picture, PictureRow, Section, Table, write_report
    from samekind.evaluation.retrieving import RetrievalEvaluation, evaluate_retrieval

__all__ = [
    "CalibrationDisplay",
    "ClassKFold",
    "ConvergenceDisplay",
    "CoverageDisplay",
    "DistanceHistogramDisplay",
    "Evaluation",
    "ExplanationDisplay",
    "FoldsDisplay",
    "FoldsResult",
    "LinesDisplay",
    "Picture",
    "PictureRow",
    "RankFigures",
    "Ranks",
    "RegionsDisplay",
    "RetrievalEvaluation",
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
    "count_ranks",
    "evaluate_codes",
    "evaluate_retrieval",
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
    "true_match_rate_score",
    "verify",
    "verify_codes",
    "verify_folds",
    "write_report",
]

_DISPLAYS = (
    "Calibration",
    "Convergence",
    "Coverage",
    "DistanceHistogram",
    "Explanation",
    "Folds",
    "Lines",
    "Regions",
    "Roc",
    "Spectrum",
)
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "displays": [f"{name}Display" for name in _DISPLAYS],
        "evaluated": ["Evaluation"],
        "model_selection": ["ClassKFold", "mean_average_precision_score", "pair_auc_score", "true_match_rate_score"],
        "report": ["Picture", "PictureRow", "Section", "Table", "write_report"],
        "calibrating": ["calibrate"],
        "evaluating": ["evaluate_codes"],
        "retrieving": ["RetrievalEvaluation", "evaluate_retrieval"],
        "_reliability": ["reliability"],
    },
)
