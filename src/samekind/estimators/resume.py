"""Resuming a fit from its checkpoint: what identifies the fit, and what its steps write to a file."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samekind.checkpoint import Checkpoint, NoCheckpoint, Snapshot, Snapshots, fingerprint
from samekind.estimators.data import TrainingData, is_store
from samekind.estimators.progress import Listeners
from samekind.model.basis import Basis
from samekind.store import panels_of

# A state that takes long to write is written seldom: writing takes at most this share of the time, but for the first.
WRITING_SHARE = 0.05
QUICK = 1.0  # seconds: what is written so fast is written whenever a solver offers it

FREE = {
    *("n_jobs", "verbose", "callback", "checkpoint", "memory_budget", "random_state", "feature_groups", "families"),
    "compute",
    "normalise",  # done to what was learned
}


class ResumableState(Protocol):
    """What a solver can go on from."""

    def arrays(self) -> dict[str, NDArray[Any]]: ...

    def facts(self) -> dict[str, Any]: ...


class StepRecord:
    """One step of a fit as its checkpoint has it: the solver's state, and the history so far."""

    def __init__(self, snapshots: Snapshots, name: str, listeners: Listeners, family: Hashable | None, part: str = ""):
        self.snapshots = snapshots
        self.name = name
        self.listeners = listeners
        self.family = family
        self.first = len(listeners.history)
        self.next_at = -math.inf  # when a state is written again, on the monotonic clock
        self.observer = listeners.observer(family, part)

    def recalled(self) -> Snapshot | None:
        """What was written down last; its history is taken over."""
        snapshot = self.snapshots.load(self.name)
        if snapshot is not None:
            named = {} if self.family is None else {"family": self.family}
            self.listeners.history += [record | named for record in snapshot.facts["history"]]
        return snapshot

    def keep(self, state: ResumableState) -> None:
        began = time.monotonic()
        if isinstance(self.snapshots, NoCheckpoint) or began < self.next_at:
            return
        history = self.listeners.history[self.first :]
        # A family may be anything: it is known by the number of its step.
        plain = [{name: value for name, value in record.items() if name != "family"} for record in history]
        self.snapshots.save(self.name, Snapshot(state.arrays(), state.facts() | {"history": plain}))
        ended = time.monotonic()
        self.next_at = ended + (ended - began) / WRITING_SHARE if ended - began > QUICK else ended


def snapshots_for(estimator: Any, data: TrainingData, families: Mapping[Hashable, Sequence[int]] | None) -> Snapshots:
    """Where the estimator's `checkpoint` says, or nowhere."""
    folder = estimator.checkpoint
    if folder is None:
        return NoCheckpoint()
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise ValueError(f"checkpoint={folder!r} must be None or the path of a folder.")
    identity = {
        "estimator": type(estimator).__name__,
        "settings": _settings(estimator),
        "random_state": int(estimator.random_state) if isinstance(estimator.random_state, Integral) else None,
        "samples": len(data.rows),
        "features": data.n_features,
        "labels": fingerprint(np.unique(data.y, return_inverse=True)[1]),
        "feature groups": fingerprint(np.concatenate([*data.groups.columns, data.groups.sizes])),
        "families": None if families is None else [fingerprint(np.array(members)) for members in families.values()],
        "data": _fingerprint_of(data),
    }
    return Checkpoint(Path(folder), identity)


def _settings(estimator: Any) -> dict[str, Any]:
    """Those that change what is learned; those of a step inside another estimator below its name."""
    settings = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in FREE:
            continue
        settings[name] = _settings(value) if hasattr(value, "get_params") else _plain(value)
    return settings


def _plain(value: Any) -> Any:
    if isinstance(value, Basis):
        return {name: fingerprint(array) for name, array in value.arrays().items()} | value.notes()
    return value.item() if isinstance(value, np.generic) else value


def _fingerprint_of(data: TrainingData) -> str:
    """Of every number that is learned from; a store that knows checksums of its files answers by them."""
    known = data.X.content_digest() if is_store(data.X) else None
    if known is not None:
        return f"{known} {fingerprint(data.rows)}"
    sizes, digest = data.store.group_sizes, hashlib.blake2b(digest_size=16)
    for panel in panels_of(data.store, range(len(sizes)), np.arange(len(data.rows)), centre=False):
        digest.update(fingerprint(panel.Z).encode())
    return digest.hexdigest()
