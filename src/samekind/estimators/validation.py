"""Parameters checked before any work is done: what was given, what is needed."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

from samekind.losses import Loss, PairwiseLoss, TripletLoss
from samekind.losses.pairwise import Balance
from samekind.store import FeatureGroups

FEW_GROUPS = 100  # up to so many, all are scored exactly in every round
AROUND_IDENTITY = 0.1  # ridge of step 2 around the identity
MANY_SAMPLES = 8_000  # from so many on, the factored solver of step 2 starts on a sample
# With more dimensions than this a convex step costs as much as its eigendecomposition, unless samples are many.
LARGEST_CONVEX = 600
SAMPLES_PER_DIMENSION = 5  # with more samples than this per dimension, their pairs cost more than that


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(map(repr, choices))}.")


def check_number(name: str, value: Any, *, above: float = -np.inf, at_least: float = -np.inf) -> float:
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if np.isfinite(number) and number > above and number >= at_least:
            return number
    bound = f" above {above:g}" if above > -np.inf else f" of at least {at_least:g}" if at_least > -np.inf else ""
    raise ValueError(f"{name}={value!r} must be a finite number{bound}.")


def check_count(name: str, value: Any, most: int | None = None, why: str = "") -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        count = int(value)
        if 1 <= count <= (most or count):
            return count
    bound = f"from 1 to {most}{why}" if most else "of at least 1"
    raise ValueError(f"{name}={value!r} must be a whole number {bound}.")


def check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback={callback!r} must be None or a function of one event.")


def loss_from(loss: Any, threshold: Any, pair_balance: Any, beta: Any) -> Loss:
    """The loss from an estimator's parameters; those of the other loss are checked as well."""
    check_choice("loss", loss, ["pairwise", "triplet"])
    check_choice("pair_balance", pair_balance, get_args(Balance))
    check_number("beta", beta, above=0), check_number("threshold", threshold, above=0)
    return TripletLoss(float(beta)) if loss == "triplet" else PairwiseLoss(float(threshold), pair_balance)


def ridge_from(ridge: Any, n_dimensions: float, around_identity: bool = False) -> float:
    """`"auto"` is min(1, D / 1600): the paper's 1 belongs to 1,600 dimensions, and on few it swamps the loss.

    A ridge around the identity does not pull distances to 0, and serves over decades: `AROUND_IDENTITY`.
    """
    if isinstance(ridge, str) and ridge == "auto":
        return AROUND_IDENTITY if around_identity else min(1.0, n_dimensions / 1600)
    if isinstance(ridge, str):
        raise ValueError(f'ridge={ridge!r} must be "auto" or a number of at least 0.')
    return check_number("ridge", ridge, at_least=0)


def trace_bound_from(trace_bound: Any) -> float:
    """None and infinity, the paper's nu, mean no bound."""
    if trace_bound is None or (isinstance(trace_bound, Real) and trace_bound == np.inf):
        return np.inf
    return check_number("trace_bound", trace_bound, above=0)


def max_groups_from(max_groups: Any, n_groups: int, n_samples: int) -> int:
    """Rounds of selection: a group may be chosen again, so there may be more rounds than groups.

    "auto" follows the samples, a round for six of them, from 20 to 200.
    """
    if isinstance(max_groups, str) and max_groups == "auto":
        return min(n_groups, int(np.clip(n_samples // 6, 20, 200)))
    return min(n_groups, 400) if max_groups is None else check_count("max_groups", max_groups)


def search_from(search: Any, n_groups: int) -> Literal["exact", "fast"]:
    """`"auto"` is fast for more than a few hundred groups."""
    check_choice("search", search, ["auto", "fast", "exact"])
    if search == "auto":
        return "fast" if n_groups > FEW_GROUPS else "exact"
    return "fast" if search == "fast" else "exact"


def solver_from(
    solver: Any, n_features: int, n_components: int | None, n_samples: int
) -> Literal["convex", "factored"]:
    """`"auto"`: factored where the factor is narrow, as its gradient is then cheaper, or where the matrix is large."""
    check_choice("solver", solver, ["auto", "convex", "factored"])
    if solver == "auto":
        rank = n_features if n_components is None else n_components
        large = n_features > LARGEST_CONVEX and n_samples < SAMPLES_PER_DIMENSION * n_features
        return "factored" if 2 * rank < n_features or large else "convex"
    return "factored" if solver == "factored" else "convex"


def anchors_from(anchors: Any, n_samples: int) -> int | Literal["all", "grow"]:
    """`"auto"` grows samples where there are many rows."""
    if isinstance(anchors, str):
        check_choice("anchors", anchors, ["auto", "all", "grow"])
        grows = anchors == "grow" or (anchors == "auto" and n_samples >= MANY_SAMPLES)
        return "grow" if grows else "all"
    if isinstance(anchors, Integral) and not isinstance(anchors, bool):
        return check_count("anchors", anchors)
    raise ValueError(f'anchors={anchors!r} must be "auto", "all", "grow" or a number of samples.')


def families_from(families: Any, groups: FeatureGroups) -> dict[Hashable, list[int]]:
    """Family -> its groups, in order of first mention; one nameless family where none are given."""
    if families is None:
        return {None: list(range(len(groups)))}
    if isinstance(families, Mapping):
        named = {str(name): label for name, label in families.items()}
        missing = [name for name in groups.names if name not in named]
        if missing:
            raise ValueError(f"families has no label for feature group {missing[0]!r}: give every group one.")
        labels: list[Hashable] = [named[name] for name in groups.names]
    elif isinstance(families, Iterable) and not isinstance(families, str):
        labels = list(families)
    else:
        raise ValueError(f"families={families!r} must be None, one label per feature group, or name -> label.")
    if len(labels) != len(groups):
        raise ValueError(
            f"families has {len(labels)} labels for {len(groups)} feature groups: give one label per group."
        )
    members: dict[Hashable, list[int]] = {}
    for k, label in enumerate(labels):
        members.setdefault(label, []).append(k)
    return members


def check_cv(cv: Any) -> None:
    """Folds of classes: "auto", how many, a share, or none."""
    if cv is None or (isinstance(cv, str) and cv == "auto"):
        return
    if isinstance(cv, Integral) and not isinstance(cv, bool) and int(cv) >= 2:
        return
    if isinstance(cv, Real) and not isinstance(cv, Integral) and 0 < float(cv) <= 0.5:
        return
    raise ValueError(
        f'cv={cv!r} must be "auto", None, a number of folds from 2 on, or a share of the classes up to 0.5.'
    )


def checked_groups(groups: Any, n_groups: int) -> list[int]:
    """Numbers of feature groups, each once; all where None."""
    if groups is None:
        return list(range(n_groups))
    chosen = [int(k) for k in groups]
    if not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0 or max(chosen) >= n_groups:
        raise ValueError(
            f"groups must be numbers of feature groups from 0 to {n_groups - 1}, each once and at least one."
        )
    return chosen
