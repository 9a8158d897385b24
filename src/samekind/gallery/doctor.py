"""What looks wrong among the entries of a gallery: duplicates, labels that are one, labels that are several, outliers.

All of it from distances of codes, exactly, over all pairs in tiles.

- Duplicates: codes whose vectors are nearly equal, measured against the mean over all pairs.
- Labels are compared by the mean distance between their entries (average linkage), which needs only the mean and the
  variance of each. Two labels are reported up to the distance that the calibration gives for a false match rate at
  which a share `wrong` of all labels would be reported by chance (or the lowest rate that it supports), or where the
  evidence of "same" outweighs how rare it is a priori: the calibration's log-odds of the mean distance, as often as
  the smaller label has entries (`MOST_EVIDENCE` at most, because pictures of one person are alike).
- A label's entries are joined by average linkage. A join is undone where the evidence of "different" outweighs how rare
  it is a priori (`wrong`); log-odds count as often as the harmonic mean of both sizes says. A single entry that is left
  over is an outlier, several groups are several people.
- Isolated: an entry whose nearest other one is beyond Tukey's outer fence of all nearest distances.

Nothing here is a proof. Findings are ordered, the clearest first, to be reviewed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.errors import GalleryError
from samekind.gallery.pairs import nearest_others, pairs_within
from samekind.gallery.records import Record
from samekind.model.calibration import Calibration

if TYPE_CHECKING:
    from samekind.gallery.backend import Progress
    from samekind.gallery.gallery import Gallery

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_EVIDENCE = 4  # pairs of two groups that count as independent, at most
MOST_OF_A_LABEL = 4096  # entries whose distances to each other are held at once
FENCE = 3.0  # interquartile ranges above the third quartile: Tukey's outer fence


@dataclass(frozen=True)
class Duplicates:
    """Entries whose codes are nearly equal; `distance` is the largest squared one that connects them."""

    records: tuple[Record, ...]
    distance: float


@dataclass(frozen=True)
class LabelPair:
    """Two labels that look like one, by the mean distance between their entries; `nearest` is the nearest pair."""

    labels: tuple[str, str]
    sizes: tuple[int, int]
    distance: float
    nearest: tuple[Record, Record]


@dataclass(frozen=True)
class MixedLabel:
    """A label that looks like several, largest group first; `distance` is the mean one between the first two."""

    label: str
    groups: tuple[tuple[Record, ...], ...]
    distance: float


@dataclass(frozen=True)
class Outlier:
    """An entry unlike its label ("label": mean distance to its label's largest group) or unlike all ("isolated").

    `nearest` is the nearest entry of another label; for an isolated one, the nearest of all.
    """

    record: Record
    kind: str
    distance: float
    nearest: Record | None
    nearest_distance: float


@dataclass(frozen=True)
class Diagnosis:
    """Findings, the clearest first, up to a number of each kind; `counts` says how many there are in all."""

    n_records: int
    n_labels: int
    duplicates: tuple[Duplicates, ...]
    same: tuple[LabelPair, ...]
    mixed: tuple[MixedLabel, ...]
    outliers: tuple[Outlier, ...]
    counts: dict[str, int]
    not_split: tuple[str, ...] = ()  # labels with too many entries to look for groups in them

    @property
    def healthy(self) -> bool:
        return not any(self.counts.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "records": self.n_records,
            "labels": self.n_labels,
            "counts": self.counts,
            "duplicates": [
                {"records": [record.to_json() for record in each.records], "distance": each.distance}
                for each in self.duplicates
            ],
            "same": [
                {
                    "labels": list(each.labels),
                    "sizes": list(each.sizes),
                    "distance": each.distance,
                    "nearest": [record.to_json() for record in each.nearest],
                }
                for each in self.same
            ],
            "mixed": [
                {
                    "label": each.label,
                    "groups": [[record.to_json() for record in group] for group in each.groups],
                    "distance": each.distance,
                }
                for each in self.mixed
            ],
            "outliers": [
                {
                    "record": each.record.to_json(),
                    "kind": each.kind,
                    "distance": each.distance,
                    "nearest": None if each.nearest is None else each.nearest.to_json(),
                    "nearest_distance": each.nearest_distance,
                }
                for each in self.outliers
            ],
            "not_split": list(self.not_split),
        }


def examine(
    gallery: Gallery,
    *,
    calibration: Calibration | None,
    wrong: float,
    duplicate: float,
    most: int,
    n_jobs: int | None,
    progress: Progress,
) -> Diagnosis:
    """`Gallery.doctor`."""
    calibration = calibration or (None if gallery.model is None else gallery.model.calibration)
    if calibration is None or len(calibration.distances) < 2:
        raise GalleryError(
            "The gallery's model has no calibration that tells same from different. Give one: "
            "calibration=samekind.evaluation.calibrate(codes, labels)."
        )
    if not 0 < wrong < 0.5:
        raise GalleryError(f"wrong={wrong}: give the share of labels that may be wrong, above 0 and below 0.5.")
    if not 0 < duplicate < 1:
        raise GalleryError(f"duplicate={duplicate}: give a share of the mean squared distance, between 0 and 1.")
    patient = _Patient.from_gallery(gallery)
    n = len(patient.records)
    n_labels = len(patient.rows_of)
    # Passes over both orders of entries, over pairs of them where these say more, and over pairs of labels.
    weights = np.array([n * n, n * n / 2 if patient.offsets.any() else 0, n_labels**2 / 2]) + 1
    steps = [_Step(progress, weights, at) for at in range(3)]
    evidence = _Evidence(calibration, wrong, n_labels)
    nearest, _ = nearest_others(patient.vectors, patient.offsets, steps[0], n_jobs)
    duplicates = patient.duplicates(duplicate, nearest, steps[1])
    same = patient.same(evidence, steps[2])
    mixed, lonely, not_split = patient.groups(evidence)
    outliers = lonely + patient.isolated({each.row for each in lonely}, nearest)
    return Diagnosis(
        n,
        n_labels,
        tuple(duplicates[:most]),
        tuple(patient.label_pair(*each) for each in same[:most]),
        tuple(mixed[:most]),
        tuple(patient.outlier(each) for each in outliers[:most]),
        {"duplicates": len(duplicates), "same": len(same), "mixed": len(mixed), "outliers": len(outliers)},
        tuple(not_split),
    )


class _Step:
    """Progress of one pass as part of all of them."""

    def __init__(self, progress: Progress, weights: Floats, at: int) -> None:
        self.progress, self.total = progress, round(float(weights.sum()))
        self.before, self.own = float(weights[:at].sum()), float(weights[at])

    def __call__(self, done: int, total: int) -> None:
        self.progress(round(self.before + self.own * done / max(total, 1)), self.total)


class _Evidence:
    """What distances say, by a calibration, against what is expected a priori."""

    def __init__(self, calibration: Calibration, wrong: float, n_labels: int) -> None:
        self.calibration = calibration
        self.wrong, self.n_labels = wrong, n_labels

    def same_limits(self, sizes: Ints) -> Floats:
        """Mean distances up to which a label of so many entries is reported with one of at least as many."""
        chance = 2 * self.wrong / max(self.n_labels - 1, 1)  # of so many pairs of labels as many as wrong labels
        lowest = self.calibration.smallest_rate
        by_rate = -math.inf if lowest is None else self.calibration.threshold_at(min(max(chance, lowest), 1.0))
        needed = -math.log(min(chance, 0.5))
        by_odds = [self._distance_at(needed / count) for count in range(1, MOST_EVIDENCE + 1)]
        limits: Floats = np.maximum(np.array(by_odds)[np.minimum(sizes, MOST_EVIDENCE) - 1], by_rate)
        return limits

    def different(self, distance: float, m: int, n: int) -> bool:
        """Groups of m and n entries at this mean distance."""
        counted = min(2 * m * n / (m + n), MOST_EVIDENCE)
        needed = math.log((1 - self.wrong) / self.wrong)
        return -float(self.calibration.log_odds_at(distance)) * counted >= needed

    def _distance_at(self, log_odds: float) -> float:
        """Where the calibration's falling log-odds have a value; before the first knot they go on linearly."""
        knots, values = np.array(self.calibration.distances), np.array(self.calibration.log_odds)
        if log_odds <= values[0]:
            return float(np.interp(-log_odds, -values, knots))
        slope = (values[1] - values[0]) / (knots[1] - knots[0])
        return float(knots[0] + (log_odds - values[0]) / slope) if slope < 0 else -math.inf


@dataclass(frozen=True)
class _Lonely:
    row: int
    kind: str
    distance: float


@dataclass(frozen=True, eq=False)
class _Patient:
    """All entries of a gallery in memory, and the rows of each label."""

    records: list[Record]
    vectors: NDArray[np.float32]
    offsets: Floats
    rows_of: dict[str, Ints] = field(repr=False)

    @classmethod
    def from_gallery(cls, gallery: Gallery) -> _Patient:
        records: list[Record] = []
        codes = [np.zeros((0, gallery.length), np.float32)]
        for part, their in gallery.iterate():
            records += part
            codes.append(their)
        rows: dict[str, list[int]] = {}
        for row, record in enumerate(records):
            if record.label is not None:
                rows.setdefault(record.label, []).append(row)
        both = np.concatenate(codes)
        form = gallery.form
        vectors = np.ascontiguousarray(both[:, : form.width])
        return cls(records, vectors, form.offsets(both), {label: np.array(their) for label, their in rows.items()})

    def duplicates(self, share: float, nearest: Floats, progress: _Step) -> list[Duplicates]:
        """Groups, the most alike first; offsets are left out, as equal codes have no distance then.

        `nearest` (n,) are the distances of the nearest others: without offsets, they say which rows have a duplicate.
        """
        n = len(self.records)
        if n < 2:
            return []
        mean = 2 * float(self.vectors.var(axis=0, dtype=np.float64).sum()) * n / (n - 1)
        limit = share * mean
        rows = np.arange(n) if self.offsets.any() else np.flatnonzero(nearest <= limit)
        zeros, limits = np.zeros(len(rows)), np.full(len(rows), limit)
        pairs, distances = pairs_within(self.vectors[rows], zeros, limits, progress, forest=True)
        pairs = rows[pairs]
        groups = _components(n, pairs)
        largest: dict[int, float] = {}
        for (first, _), distance in zip(pairs.tolist(), distances.tolist(), strict=True):
            largest[groups[first]] = max(largest.get(groups[first], 0.0), distance)
        members: dict[int, list[int]] = {group: [] for group in largest}
        for row in np.unique(pairs):
            members[groups[row]].append(int(row))
        found = [Duplicates(self._records(members[group]), largest[group]) for group in members]
        return sorted(found, key=lambda each: (each.distance, each.records[0].id))

    def same(self, evidence: _Evidence, progress: _Step) -> list[tuple[str, str, float]]:
        """Labels that look like one, the nearest first."""
        labels = list(self.rows_of)
        if len(labels) < 2:
            return []
        sizes = np.array([len(rows) for rows in self.rows_of.values()])
        means = np.array([self.vectors[rows].mean(axis=0, dtype=np.float64) for rows in self.rows_of.values()])
        # mean_ij ||u_i - u_j||^2 + s_i + s_j = ||m - m'||^2 + (v + s) + (v' + s'), v the variance, s the mean offset
        numbers = np.array(
            [
                self.vectors[rows].var(axis=0, dtype=np.float64).sum() + self.offsets[rows].mean()
                for rows in self.rows_of.values()
            ]
        )
        pairs, distances = pairs_within(means, numbers, evidence.same_limits(sizes), progress)
        order = np.argsort(distances, kind="stable")
        return [(labels[pairs[at, 0]], labels[pairs[at, 1]], float(distances[at])) for at in order]

    def label_pair(self, first: str, second: str, distance: float) -> LabelPair:
        rows = self.rows_of[first], self.rows_of[second]
        between = self._distances(*rows)
        a, b = np.unravel_index(int(between.argmin()), between.shape)
        nearest = self.records[rows[0][a]], self.records[rows[1][b]]
        return LabelPair((first, second), (len(rows[0]), len(rows[1])), distance, nearest)

    def groups(self, evidence: _Evidence) -> tuple[list[MixedLabel], list[_Lonely], list[str]]:
        """Labels that fall apart, single entries that do, each the farthest first, and labels that are too large."""
        mixed: list[MixedLabel] = []
        lonely: list[_Lonely] = []
        too_large = [label for label, rows in self.rows_of.items() if len(rows) > MOST_OF_A_LABEL]
        for label, rows in self.rows_of.items():
            if not 2 <= len(rows) <= MOST_OF_A_LABEL:
                continue
            distances = self._distances(rows, rows)
            parts = _groups(distances, evidence)
            several = [part for part in parts if len(part) > 1]
            if several:
                lonely += [
                    _Lonely(int(rows[part[0]]), "label", float(distances[part[0], several[0]].mean()))
                    for part in parts
                    if len(part) == 1
                ]
            kept = several or parts
            if len(kept) > 1:
                apart = float(distances[np.ix_(kept[0], kept[1])].mean())
                mixed.append(MixedLabel(label, tuple(self._records(rows[part]) for part in kept), apart))
        mixed.sort(key=lambda each: -each.distance)
        lonely.sort(key=lambda each: -each.distance)
        return mixed, lonely, too_large

    def isolated(self, known: set[int], nearest: Floats) -> list[_Lonely]:
        """Entries that are far from every other one, the farthest first."""
        if len(self.records) < 4:
            return []
        first, third = np.quantile(nearest, [0.25, 0.75])
        rows = np.flatnonzero(nearest > third + FENCE * (third - first))
        found = [_Lonely(int(row), "isolated", float(nearest[row])) for row in rows if int(row) not in known]
        return sorted(found, key=lambda each: -each.distance)

    def outlier(self, found: _Lonely) -> Outlier:
        record = self.records[found.row]
        distances = self._distances(np.array([found.row]), np.arange(len(self.records)))[0]
        left_out = np.array([found.row]) if found.kind == "isolated" else self.rows_of[record.label or ""]
        distances[left_out] = np.inf
        nearest = int(distances.argmin())
        if not distances[nearest] < np.inf:
            return Outlier(record, found.kind, found.distance, None, found.distance)
        return Outlier(record, found.kind, found.distance, self.records[nearest], float(distances[nearest]))

    def _records(self, rows: Sequence[int] | Ints) -> tuple[Record, ...]:
        return tuple(self.records[row] for row in rows)

    def _distances(self, first: Ints, second: Ints) -> Floats:
        """Between rows, (m, n), in float64."""
        from samekind.kernels.nearest import distances_to

        among, offsets = self.vectors[second], self.offsets[second]
        return np.array(
            [distances_to(among, offsets, self.vectors[row].astype(np.float64)) + self.offsets[row] for row in first]
        )


def _components(n: int, pairs: Ints) -> list[int]:
    """Which connected component each of n rows belongs to."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    found: list[int] = connected_components(graph, directed=False)[1].tolist()
    return found


def _groups(distances: Floats, evidence: _Evidence) -> list[list[int]]:
    """Entries of a label that belong together, the largest group first: average linkage, joins undone from the top."""
    from scipy.cluster.hierarchy import average, to_tree
    from scipy.spatial.distance import squareform

    condensed = squareform(distances, checks=False)
    lowest = float(condensed.min())  # linkage takes distances from 0 on; similarities may be below
    tree = to_tree(average(condensed - lowest))
    parts, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if node.is_leaf():
            parts.append([node.id])
            continue
        first, second = node.get_left(), node.get_right()
        if evidence.different(node.dist + lowest, first.count, second.count):
            waiting += [first, second]
        else:
            parts.append(sorted(node.pre_order()))
    return sorted(parts, key=lambda part: (-len(part), part[0]))
