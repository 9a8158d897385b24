"""What a fit of both steps is going to do, with guesses of the seconds that each stage takes.

Only ratios matter, and these only until stages of the same kind are done (`time_left`): constants were measured on one
core for 130 to 9,525 samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from samekind.estimators.data import EVERYTHING, TrainingData
from samekind.estimators.steps import limited
from samekind.estimators.time_left import Stage
from samekind.estimators.tuning import JUDGED, Candidate
from samekind.estimators.validation import max_groups_from, search_from
from samekind.kernels.types import IntArray
from samekind.solvers.selection.search import LazyOptions

if TYPE_CHECKING:
    from samekind.estimators.two_steps import TwoSteps

FLOP = 2e-11  # seconds, of products of matrices
NUMBER = 3e-8  # seconds to read and project a number of the data
PAIR = 2e-9  # seconds of a loss for a pair of samples
ROUND = 0.04, 1.5e-4  # seconds of a round of step 1: in any case, and for a sample
EVALUATIONS = {"identity": 25, "zero": 60}  # of the objective of step 2 at the most, by its ridge's target
MANY_SAMPLES = 2_000  # from here on their number falls, by the root of that of the samples
DIMENSIONS_PER_EVALUATION = 3  # of what step 2 learns on: in few dimensions it ends sooner
SETUP, EVALUATION = 0.2, 0.01  # seconds of step 2 in any case, and of an evaluation
JUDGING = 0.008, 3e-7  # seconds of judging codes: in any case, and for a pair of samples left out
CALIBRATING = 0.3, 5e-7  # the same of calibrating
EIGENVECTORS = 60  # flops, for the cube of the dimension
SHORTENING = 25  # flops to cut codes to a length, for the cube of that of step 1's
FULL_SCANS = 10  # rounds of the fast search in which all groups are sketched
RANK = 0.6  # of the block of a group that step 1 chooses, as a share of the group's dimensions


Splits = Sequence[tuple[IntArray, IntArray]]


def stages_of_fit(steps: TwoSteps, splits: Splits, more: Splits = ()) -> list[Stage]:
    """All stages: step 1 on each fold, candidates on each fold, what is calibrated on more folds, and the final fit."""
    stages = []
    for number, (places, _) in enumerate(splits, 1):
        stages += _selection(steps, steps.data.part(places), f"fold {number}")
    candidates = steps.candidates.planned()
    total = len(candidates) * len(splits)
    for number in range(total):
        at, fold = divmod(number, len(splits))
        learned, held = (len(places) for places in splits[fold])
        work = _joint(steps, candidates[at], learned) + _judging(steps, min(held, JUDGED))
        stages.append(Stage("choice", f"fold {fold + 1}", None, work, number + 1, total, _solver(candidates[at])))
    likely = next((each for each in candidates if splits and each.target == "identity"), steps.candidates.by_rule())
    return [*stages, *stages_of_final_fit(steps, likely, splits, more)]


def stages_of_final_fit(steps: TwoSteps, candidate: Candidate, splits: Splits, more: Splits = ()) -> list[Stage]:
    """The candidate that was chosen on more folds, both steps on all samples with it, and the calibration."""
    stages, n = [], len(steps.data.y)
    for number, (places, held) in enumerate(more, len(splits) + 1):
        part = f"fold {number}"
        work = _joint(steps, candidate, len(places)) + _judging(steps, min(len(held), JUDGED))
        stages += _selection(steps, steps.data.part(places), part)
        stages.append(Stage("calibration", part, None, work, solver=_solver(candidate)))
    joint = Stage("joint", work=_joint(steps, candidate, n), solver=_solver(candidate))
    pairs = sum(min(len(held), JUDGED) ** 2 for _, held in [*splits, *more])
    calibration = Stage("calibration", work=_reading(steps, n) + CALIBRATING[0] + CALIBRATING[1] * pairs)
    return [*stages, *_selection(steps, steps.data, ""), joint, calibration]


def _selection(steps: TwoSteps, data: TrainingData, part: str) -> list[Stage]:
    """Step 1 on some samples, family by family; none where it was given."""
    if steps.estimator._given_basis() is not None:
        return []
    step = steps.estimator._selection
    n = len(limited(data.y, step.min_per_class, step.max_per_class))
    dims, stages = data.whitened_dims(step.whiten), []
    for family, members in steps.families.items():
        sizes = data.store.group_sizes[list(members)].astype(float)
        if dims is not None:
            stages.append(Stage("whitening", part, family, n * float((NUMBER * sizes + 2 * FLOP * sizes**2).sum())))
        numbers = float(np.minimum(sizes, sizes.max() if dims in (None, EVERYTHING) else dims).sum())
        exact = search_from(step.search, len(members)) == "exact"
        rounds = max_groups_from(step.max_groups, len(members), n)
        scoring = FLOP * (numbers * n**2 if exact else _fast_search(numbers / len(members), len(members), n, rounds))
        stages.append(Stage("selection", part, family, rounds * (ROUND[0] + ROUND[1] * n + PAIR * n**2 + scoring)))
    return stages


def _fast_search(dims: float, n_groups: int, n: int, n_rounds: int) -> float:
    """Flops of a round on average: sketched scores of some groups, now and then of all, exact ones of a few."""
    options = LazyOptions()
    some, share = sum(options.counts(n_groups)), min(1.0, FULL_SCANS / n_rounds)
    sketched = some + share * max(0, n_groups - some)
    return dims * n * (2 * options.rank * sketched + n * min(options.n_exact, n_groups))


def _solver(candidate: Candidate) -> str:
    """What takes the time."""
    return candidate.target if candidate.target != "none" or candidate.compare_by == "distance" else "similarity"


def _joint(steps: TwoSteps, candidate: Candidate, n: int) -> float:
    """Going on from step 1 on n samples: step 2, the two-covariance model, or both."""
    codes = _n_codes(steps)
    similarity = 0.0 if candidate.compare_by == "distance" else _similarity(steps, codes, n)
    if candidate.compare_by == "similarity":
        return _reading(steps, n) + similarity
    shortened = candidate.n_components is not None and candidate.n_components < codes and candidate.target != "zero"
    before = similarity + _reading(steps, n) + SHORTENING * FLOP * codes**3 * shortened
    if candidate.target == "none":
        return before
    most = steps.candidates.principal_directions(candidate.target) or n
    dims = min(most, n, codes)
    rank = min(candidate.n_components or dims, dims) if candidate.target == "zero" else dims
    evaluation = EVALUATION + n**2 * (PAIR + 4 * FLOP * rank) + 10 * FLOP * dims**2 * rank
    evaluations = min(EVALUATIONS[candidate.target], dims / DIMENSIONS_PER_EVALUATION)
    evaluations *= min(1.0, (MANY_SAMPLES / n) ** 0.5)
    return before + SETUP + evaluations * evaluation


def _similarity(steps: TwoSteps, codes: int, n: int) -> float:
    """Principal directions of the features, and rounds over class centres, here one for every two samples."""
    step = steps.candidates.similarity
    dims = min(step.principal or codes, codes, n)
    features = n * codes * (min(n, codes) + 2 * dims) + EIGENVECTORS * min(n, codes) ** 3
    rounds = step.max_iter * (3 * n * dims**2 + EIGENVECTORS * dims**3)
    return FLOP * (features + rounds)


def _judging(steps: TwoSteps, n: int) -> float:
    """Codes of n samples left out, with each normalisation."""
    return _reading(steps, n) + len(steps.candidates.normalise) * (JUDGING[0] + JUDGING[1] * n**2)


def _reading(steps: TwoSteps, n: int) -> float:
    """Codes of n samples."""
    sizes = steps.data.store.group_sizes
    numbers = sum(_rounds(steps, len(members)) * sizes[list(members)].mean() for members in steps.families.values())
    return float(NUMBER * n * numbers)


def _n_codes(steps: TwoSteps) -> int:
    """Length of step 1's codes."""
    sizes = steps.data.store.group_sizes
    dims = steps.data.whitened_dims(steps.estimator._selection.whiten)
    widths = sizes if dims in (None, EVERYTHING) else np.minimum(sizes, dims)
    return int(
        sum(_rounds(steps, len(members)) * RANK * widths[list(members)].mean() for members in steps.families.values())
    )


def _rounds(steps: TwoSteps, n_groups: int) -> int:
    return min(max_groups_from(steps.estimator._selection.max_groups, n_groups, len(steps.data.y)), n_groups)
