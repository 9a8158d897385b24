"""How far apart pairs of both kinds are: for a drawing of where one distance lies among them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from samekind.gallery import Gallery
    from samekind.model.calibration import Calibration
    from samekind.model.metric import Metric

N_BINS = 36
MOST_LABELS, MOST_ENTRIES = 120, 600  # of a gallery, whose pairs are compared
LEAST_PAIRS = 20  # of either kind
GRID = 400

Floats = NDArray[np.float64]


def pair_distribution(metric: Metric, gallery: Gallery | None) -> dict[str, Any] | None:
    """Shares of pairs in bins of the distance, by kind; of the gallery's entries, or by the model's calibration.

    None where neither has enough pairs.
    """
    found = None if gallery is None else _of_gallery(metric, gallery)
    return found or (None if metric.calibration is None else _of_calibration(metric.calibration))


def _of_gallery(metric: Metric, gallery: Gallery) -> dict[str, Any] | None:
    counts = {label: n for label, n in gallery.labels().items() if label is not None}
    # Evenly among all labels; those with one entry have no pairs of their own.
    several = sorted(label for label, n in counts.items() if n > 1)
    chosen = several[:: max(1, len(several) // MOST_LABELS)][:MOST_LABELS]
    if not chosen:
        return None
    each = MOST_ENTRIES // len(chosen)
    records = [record for label in chosen for record in gallery.find(label=label)[:each]]
    codes = gallery.codes([record.id for record in records]).astype(np.float64)
    labels = np.array([record.label for record in records])
    first, second = np.array(list(combinations(range(len(records)), 2)), np.intp).reshape(-1, 2).T
    distances = metric.code_distance(codes[first], codes[second])
    same = labels[first] == labels[second]
    if min(same.sum(), (~same).sum()) < LEAST_PAIRS:
        return None
    edges = np.linspace(distances.min(), np.quantile(distances, 0.999), N_BINS + 1)
    shares = {
        kind: (np.histogram(np.minimum(distances[which], edges[-1]), edges)[0] / which.sum()).tolist()
        for kind, which in (("same", same), ("other", ~same))
    }
    return {"source": "gallery", "edges": edges.tolist(), **shares}


def _of_calibration(calibration: Calibration) -> dict[str, Any] | None:
    """Of different pairs by their quantiles; of same pairs by these and the odds, p_same = p_other * odds."""
    if not calibration.tail_rates:
        return None
    thresholds, rates = np.array(calibration.tail_thresholds), np.array(calibration.tail_rates)
    low = min(calibration.distances[0], thresholds[0])
    thresholds, rates = np.append(low, thresholds), np.append(0.0, rates)
    grid = np.linspace(low, thresholds[-1], GRID + 1)
    other = np.diff(np.interp(grid, thresholds, rates))
    probability = calibration.probability((grid[:-1] + grid[1:]) / 2)
    same = other * probability / np.maximum(1 - probability, 1e-6)
    edges = np.linspace(low, thresholds[-1], N_BINS + 1)
    shares = {
        kind: (np.histogram(grid[:-1], edges, weights=values / values.sum())[0]).tolist()
        for kind, values in (("same", same), ("other", other))
        if values.sum() > 0
    }
    return {"source": "calibration", "edges": edges.tolist(), **shares} if len(shares) == 2 else None
