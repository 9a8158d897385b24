"""Evaluate codes of classes that a model has not learned from: verification, retrieval and calibration at once."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_codes, check_labels, check_same_length
from samekind.evaluation._reliability import Tenth, reliability
from samekind.evaluation._search import Ids, listed_ids
from samekind.evaluation.class_bootstrap import class_weights, false_match_rates, interval, pair_weights
from samekind.evaluation.class_pairs import BothKinds, class_pairs
from samekind.evaluation.evaluated import Evaluation, Measure, RealisedRate
from samekind.evaluation.pairs import Distance
from samekind.evaluation.query_figures import QueryFigures, query_figures
from samekind.evaluation.retrieval import DEFAULT_MEMORY_BUDGET
from samekind.evaluation.verification import RATES, RocCurve, best_threshold, roc_curve
from samekind.model.calibration import smallest_supported_rate

if TYPE_CHECKING:
    from samekind.model.calibration import Calibration

N_NEIGHBORS = 3
MAX_PAIRS = 300_000
N_DRAWS = 200

FloatArray = NDArray[np.float64]


def evaluate_codes(
    codes: ArrayLike,
    labels: ArrayLike,
    *,
    distance: Distance | None = None,
    calibration: "Calibration | None" = None,
    threshold: float | None = None,
    ids: Ids | None = None,
    random_state: int = 0,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    max_pairs: int = MAX_PAIRS,
) -> Evaluation:
    """All figures of a model on labelled samples of classes that it has not learned from, with 95 % intervals.

    Parameters
    ----------
    codes, labels : (n, r) and (n,) arrays
        What the model makes of the samples, and their classes.
    distance : function or None
        Maps two arrays of codes (m, r), paired row by row, to squared distances (m,); None is squared Euclidean.
    calibration : Calibration or None
        The model's, to be compared with what is observed here.
    threshold : float or None
        The model's, on squared distances; by default the calibration's.
    ids : sequence of hashable values, or None
        Which samples are of one thing, such as one picture. These are never compared: a query does not find its own
        thing, and pairs are formed of the first sample of each.
    random_state : int
        For the pairs drawn and for the bootstrap over classes.
    memory_budget : int
        Bytes for tiles of distances in retrieval.
    max_pairs : int
        Of either kind; drawn evenly where there are more.
    """
    codes, labels = check_codes(codes), check_labels(labels)
    check_same_length(codes, "codes", labels, "labels")
    if threshold is None and calibration is not None:
        threshold = calibration.threshold
    if threshold is not None and np.isnan(threshold):
        raise ValueError("threshold is NaN. Give a squared distance, or None to use the calibration's.")
    figures = query_figures(
        codes, labels, distance=distance, ids=ids, n_neighbors=N_NEIGHBORS, memory_budget=memory_budget
    )
    kept = _one_of_each(ids, len(labels))
    rng = np.random.default_rng(random_state)
    pairs = class_pairs([(codes[kept], labels[kept])], distance=distance, max_pairs=max_pairs, random_state=rng)
    weights = class_weights(pairs.n_classes, N_DRAWS, rng)
    distances = np.concatenate([pairs.same.distances, pairs.other.distances])
    same = np.repeat([True, False], [len(pairs.same), len(pairs.other)])
    curve = _WeightedCurve(pairs, threshold)
    return Evaluation(
        measures={**_verification(pairs, curve, threshold, weights), **_retrieval(figures, rng)},
        threshold=None if threshold is None else float(threshold),
        best_threshold=best_threshold(distances, same, strategy="balanced"),
        tenths=() if calibration is None else _tenths(pairs, calibration),
        false_match_rates=() if calibration is None else _realised(pairs, calibration, weights),
        n_classes=pairs.n_classes,
        n_samples=len(labels),
        n_same=len(pairs.same),
        n_other=len(pairs.other),
        n_queries=int(np.isfinite(figures.average_precision).sum()),
        roc=roc_curve(distances, same),
        distances=distances,
        same=same,
    )


class _WeightedCurve:
    """The ROC curve under any weights of the classes, at its corners: just below and at each same-class distance."""

    def __init__(self, pairs: BothKinds, threshold: float | None) -> None:
        self.same, self.other = pairs.same.by_distance(), pairs.other.by_distance()
        corners = np.unique(self.same.distances if threshold is None else np.append(self.same.distances, threshold))
        self.n_same, self.n_other = (
            np.concatenate([[0], _both_sides(kind.distances, corners), [len(kind)]]) for kind in (self.same, self.other)
        )
        sides = np.stack([np.nextafter(corners, -np.inf), corners], axis=1).ravel()
        self.thresholds = np.concatenate([[-np.inf], sides, [max(sides[-1], self.other.distances[-1])]])

    def __call__(self, weights: FloatArray) -> RocCurve | None:
        """None where the drawn classes have pairs of one kind only."""
        true = np.append(0.0, np.cumsum(pair_weights(self.same, weights, same=True)))
        false = np.append(0.0, np.cumsum(pair_weights(self.other, weights, same=False)))
        if not (true[-1] and false[-1]):
            return None
        return RocCurve(false[self.n_other] / false[-1], true[self.n_same] / true[-1], self.thresholds)


def _both_sides(ordered: FloatArray, values: FloatArray) -> NDArray[np.int64]:
    """For each value the number of entries below it, then the number up to it."""
    return np.stack([ordered.searchsorted(values, side) for side in ("left", "right")], axis=1).ravel()


def _verification(
    pairs: BothKinds, curve: _WeightedCurve, threshold: float | None, weights: FloatArray
) -> dict[str, Measure]:
    smallest = smallest_supported_rate(len(pairs.other), pairs.n_classes)
    rates = [rate for rate in RATES if smallest is not None and rate >= smallest]

    def figures(roc: RocCurve) -> dict[str, float]:
        found = {} if threshold is None else {"accuracy": _accuracy_at(roc, threshold)}
        found["best_accuracy"] = float(np.max(1 + roc.true_match_rate - roc.false_match_rate) / 2)
        found |= {"auc": roc.auc, "eer": roc.eer}
        return found | {f"true_match_rate_at_{rate:g}": roc.true_match_rate_at(rate) for rate in rates}

    roc = curve(np.ones(pairs.n_classes))
    assert roc is not None, "class_pairs gives pairs of both kinds"
    drawn = [figures(other) for other in map(curve, weights) if other is not None]
    return {
        name: Measure(value, *interval(np.array([draw[name] for draw in drawn])))
        for name, value in figures(roc).items()
    }


def _accuracy_at(roc: RocCurve, threshold: float) -> float:
    place = np.searchsorted(roc.thresholds, threshold, "right") - 1
    return float(1 + roc.true_match_rate[place] - roc.false_match_rate[place]) / 2


def _retrieval(figures: QueryFigures, rng: np.random.Generator) -> dict[str, Measure]:
    weights = class_weights(int(figures.classes.max()) + 1, N_DRAWS, rng)
    named = {
        "mean_average_precision": figures.average_precision,
        "knn_error": figures.wrong,
        "recall_at_1": figures.recall_at_1,
        "r_precision": figures.r_precision,
    }
    return {name: _mean(values, figures.classes, weights) for name, values in named.items()}


def _mean(values: FloatArray, classes: NDArray[np.int64], weights: FloatArray) -> Measure:
    """Over the queries that have a value; a class drawn twice counts twice."""
    defined = np.isfinite(values)
    sums, counts = (
        weights @ np.bincount(classes[defined], of, minlength=weights.shape[1])
        for of in (values[defined], np.ones(defined.sum()))
    )
    return Measure(float(values[defined].mean()), *interval(sums[counts > 0] / counts[counts > 0]))


def _tenths(pairs: BothKinds, calibration: "Calibration") -> tuple[Tenth, ...]:
    """Tenths of predicted probability, pairs weighted as when the calibration was fitted."""
    distances = np.concatenate([pairs.same.distances, pairs.other.distances])
    same = np.repeat([True, False], [len(pairs.same), len(pairs.other)])
    weights = np.concatenate([pairs.same_weights(), np.ones(len(pairs.other))])
    return tuple(reliability(calibration.probability(distances), same, weights))


def _realised(pairs: BothKinds, calibration: "Calibration", weights: FloatArray) -> tuple[RealisedRate, ...]:
    found = []
    for point in calibration.thresholds:
        here = float(np.mean(pairs.other.distances <= point.threshold))
        limits = interval(false_match_rates(pairs, point.threshold, weights))
        found.append(RealisedRate(point.false_match_rate, point.threshold, Measure(here, *limits)))
    return tuple(found)


def _one_of_each(ids: Ids | None, n_samples: int) -> NDArray[np.int64]:
    """The first sample of each id."""
    if ids is None:
        return np.arange(n_samples)
    first: dict[Hashable, int] = {}
    for place, name in enumerate(listed_ids(ids, "ids", n_samples)):
        first.setdefault(name, place)
    return np.array(list(first.values()))
