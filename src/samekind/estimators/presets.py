"""Named sets of settings for learning from pictures, and how single ones are changed.

A setting is a parameter of `EnsembleMetric` by its (nested) name, such as `joint__ridge`, or `roots`: whether square
roots of the histograms of soft LBP are learned from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samekind.estimators.block import SparseBlockMetric
from samekind.estimators.ensemble import EnsembleMetric
from samekind.estimators.joint import JointMetric
from samekind.estimators.similarity import TwoCovariance

Settings = dict[str, Any]

PICTURES: Settings = {
    "roots": True,
    "mirror": "none",
    "max_groups": "auto",
    "n_components": "auto",
    "normalise_groups": "auto",
    "weigh": "auto",
    "principal": "auto",
    "normalise": "auto",
    "cv": "auto",
    "selection__ridge": 1.0,
    "selection__pair_balance": "samples",
    "selection__min_per_class": 2,
    "selection__max_per_class": 10,
    "joint__target": "auto",
    "joint__ridge": "auto",
    "joint__pair_balance": "samples",
    "compare_by": "auto",
    "similarity__shrinkage": "auto",
}

PRESETS: dict[str, Settings] = {
    # Follows the data: what is "auto" is chosen on labels left out.
    "pictures": PICTURES,
    # The same, a picture and its mirror image counting as one.
    "faces": PICTURES | {"mirror": "mean"},
    # Section 4.1 as printed, except for the balance of pairs.
    "paper": {
        "roots": False,
        "mirror": "distances",
        "max_groups": 400,
        "n_components": None,
        "normalise_groups": "none",
        "weigh": 0.0,
        "principal": None,
        "normalise": "none",
        "cv": "auto",
        "selection__ridge": 1.0,
        "selection__threshold": 14.0,
        "selection__pair_balance": "equal",
        "selection__whiten": 45,
        "joint__target": "zero",
        "joint__ridge": 1.0,
        "joint__threshold": 14.0,
        "joint__pair_balance": "equal",
        "compare_by": "distance",
    },
}

# Chosen on LFW's View 1, for thousands of faces: docs/reports/lfw-view1.md.
MANY_FACES: Settings = PICTURES | {
    "mirror": "mean",
    "n_components": 300,  # 150 of each part of the sum
    "normalise_groups": "unit",
    "weigh": 0.5,
    "principal": 600,
    "normalise": "root",
    "cv": None,
    "selection__whiten": 45,
    "joint__target": "zero",
    "joint__ridge": 1.0,
    "compare_by": "sum",
    "similarity__shrinkage": 0.3,
}

_RUN = {"memory_budget", "random_state", "checkpoint", "n_jobs", "verbose", "callback", "compute"}
_NONE_IS_A_WORD = {"normalise", "normalise_groups", "mirror", "selection__normalise", "joint__normalise"}


def names() -> list[str]:
    """Every setting that can be changed."""
    learner = EnsembleMetric(selection=SparseBlockMetric(), joint=JointMetric(), similarity=TwoCovariance())
    known = learner.get_params(deep=True)
    inner = {"selection", "joint", "similarity", "feature_groups", "families", "selection__feature_groups"}
    return [*sorted(name for name in known if name not in inner and name.rsplit("__", 1)[-1] not in _RUN), "roots"]


def changed(settings: Mapping[str, Any], changes: Sequence[str]) -> Settings:
    """With some `name=value`, as texts; checked as the learner checks them."""
    made = dict(settings)
    known = names()
    for change in changes:
        name, equals, text = change.partition("=")
        name = name.strip()
        if not equals or name not in known:
            raise ValueError(
                f"--set {change!r} changes no setting: give name=value with a name out of {', '.join(known)}."
            )
        made[name] = _value(name, text.strip())
    learner(made)._check_parameters()
    return made


def learner(settings: Mapping[str, Any], **more: Any) -> EnsembleMetric:
    """The learner with these settings, `roots` aside, which is the store's."""
    given = {name: value for name, value in settings.items() if name != "roots"}
    if not isinstance(settings.get("roots", False), bool):
        raise ValueError(f"roots={settings['roots']!r} must be true or false.")
    made = EnsembleMetric(
        selection=SparseBlockMetric(), joint=JointMetric(target="auto"), similarity=TwoCovariance(shrinkage="auto")
    )
    made.set_params(**given)
    return made.set_params(**more)


def _value(name: str, text: str) -> Any:
    if text.lower() == "none":
        return "none" if name in _NONE_IS_A_WORD else None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
