"""What a comparison and a search say, as JSON: for the commands and the service alike."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samekind.gallery import Answer, Size
    from samekind.model.metric import Metric

WANTED_CHANCE = 0.01  # of any false match, for which a threshold is looked up


def threshold_of(metric: Metric, far: float | None) -> float | None:
    """The threshold of a false match rate, or the metric's own."""
    if far is None:
        return metric.threshold
    if metric.calibration is None:
        raise ValueError("The model is not calibrated, so it knows no false match rates: fit it again (samekind fit).")
    return float(metric.calibration.threshold_at(far))


def verify_answer(metric: Metric, distance: float, threshold: float | None, prior: float) -> dict[str, Any]:
    """Same or different, the probability of "same", and what the threshold means."""
    calibration = metric.calibration
    return {
        "same": None if threshold is None else distance <= threshold,
        "probability": None if calibration is None else float(calibration.probability([distance], prior)[0]),
        "prior": prior,
        "distance": distance,
        "threshold": threshold,
        "false_match_rate": None if threshold is None else _false_match_rate(metric, threshold),
        "mirror": metric.mirror,
    }


def search_answer(answer: Answer, size: Size, metric: Metric, threshold: float | None, prior: float) -> dict[str, Any]:
    """The hits with probabilities, and what the threshold means for a gallery of this size."""
    from samekind.gallery.chances import false_match_chance

    calibration = metric.calibration
    distances = [hit.distance for hit in answer.hits]
    probabilities = (
        [None] * len(distances) if calibration is None else calibration.probability(distances, prior).tolist()
    )
    chance = None if threshold is None else false_match_chance(calibration, threshold, size)
    return {
        "hits": [
            {
                **hit.record.to_json(),
                "distance": hit.distance,
                "probability": probability,
                "same": None if threshold is None else hit.distance <= threshold,
            }
            for hit, probability in zip(answer.hits, probabilities, strict=True)
        ],
        "threshold": threshold,
        "prior": prior,
        "false_match": None if chance is None else asdict(chance),
        "false_match_in_words": "" if chance is None else chance.describe(),
        "advice": _advice(metric, size),
        "people": size.n_people,
        "searched": answer.n_searched,
        "computed": answer.n_computed,
        "excluded": answer.n_excluded,
    }


def _false_match_rate(metric: Metric, threshold: float) -> float | None:
    """What the threshold means, where that is known."""
    calibration = metric.calibration
    if calibration is None or calibration.smallest_rate is None or math.isnan(threshold):
        return None
    return float(calibration.false_match_rate(threshold))


def _advice(metric: Metric, size: Size) -> str:
    """Which rate keeps the chance low whatever the entries of a person do, and whether the calibration supports it."""
    from samekind.gallery.chances import rate_for_chance

    calibration = metric.calibration
    if not size.n_entries:
        return "There was no entry to search: the gallery is empty, or no entry has a label that was asked for."
    if calibration is None or calibration.smallest_rate is None:
        return "The model's calibration supports no false match rate, so that nothing can be said of false matches."
    rate = rate_for_chance(WANTED_CHANCE, size.n_entries)
    entries = f"{size.n_entries:,} {'entry needs' if size.n_entries == 1 else 'entries need'}"
    wanted = f"For a chance of at most {WANTED_CHANCE:.0%} of any false match, {entries} --far {rate:.2g}"
    if rate < calibration.smallest_rate:
        return f"{wanted}, but the calibration supports rates from {calibration.smallest_rate:.2g} only."
    return f"{wanted}: a threshold of {calibration.threshold_at(rate):.6g}."
