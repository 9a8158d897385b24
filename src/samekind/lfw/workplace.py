"""A folder of work, and in it one of each split: its results, stage by stage, and what they were made with.

made-with.json            settings, descriptors, training images and pairs; other ones are refused
STAGE.checkpoint/         of a stage that is running
STAGE.json                figures of a stage: rank, chosen regions, seconds
STAGE.safetensors         its metric, written last: the stage is finished
STAGE.distances.npy       distances of the protocol's pairs
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.checkpoint.folder import entries
from samekind.files import lock_folder, write_array, write_whole
from samekind.lfw.stages import Stage
from samekind.model.metric import Metric

MADE_WITH, LOCK = "made-with.json", ".lock"
PER_FAMILY = "descriptors."  # entries that are compared for the families that both have

Distances = NDArray[np.float32]


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make the folder of an experiment, in which one process works at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "The work needs a folder; this is a file", str(folder)) from error
    busy = f"{folder}: another samekind is at work here. Wait until it ends, or give another folder with --work."
    lock = lock_folder(folder, LOCK, ValueError(busy))
    try:
        yield
    finally:
        lock.release()


class Workplace:
    """The folder of one split."""

    def __init__(self, folder: Path, made_with: Mapping[str, Any]) -> None:
        self.folder = folder
        self._made_with = dict(entries(json.loads(json.dumps(made_with))))

    def check(self) -> None:
        """A ValueError where the folder has results that were made with something else."""
        kept = self._kept()
        for entry in [*self._made_with, *kept] if kept else ():
            shared = entry in kept and entry in self._made_with
            if kept.get(entry) != self._made_with.get(entry) and (shared or not entry.startswith(PER_FAMILY)):
                raise ValueError(
                    f"{self.folder} was made with {entry} = {kept.get(entry)!r:.80}, but now it is "
                    f"{self._made_with.get(entry)!r:.80}. Run it as it was begun, or give another folder with --work."
                )

    def begin(self) -> None:
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        entries = self._kept() | self._made_with
        write_whole(self.folder / MADE_WITH, json.dumps(entries, indent=1) + "\n")

    def checkpoint(self, stage: Stage) -> Path:
        return self.folder / f"{stage.name}.checkpoint"

    def has(self, stage: Stage) -> bool:
        return self._model(stage).exists()

    def finish(self, stage: Stage, metric: Metric, facts: Mapping[str, Any]) -> None:
        write_whole(self.folder / f"{stage.name}.json", json.dumps(facts) + "\n")
        metric.save(self._model(stage))
        self.tidy([stage])

    def tidy(self, finished: Iterable[Stage]) -> None:
        """Finished stages need their checkpoints no more."""
        for stage in finished:
            shutil.rmtree(self.checkpoint(stage), ignore_errors=True)

    def metric(self, stage: Stage) -> Metric:
        return Metric.load(self._model(stage))

    @property
    def model_bytes(self) -> int:
        """Of all finished stages."""
        return sum(path.stat().st_size for path in self.folder.glob("*.safetensors"))

    def facts(self, stage: Stage) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.folder / f"{stage.name}.json").read_text(encoding="utf-8"))
        return facts

    def keep_distances(self, stage: Stage, distances: Distances) -> None:
        write_array(self._distances(stage), distances)

    def has_distances(self, stage: Stage) -> bool:
        return self._distances(stage).exists()

    def distances(self, stage: Stage) -> Distances:
        distances: Distances = np.load(self._distances(stage), allow_pickle=False)
        return distances

    def _model(self, stage: Stage) -> Path:
        return self.folder / f"{stage.name}.safetensors"

    def _distances(self, stage: Stage) -> Path:
        return self.folder / f"{stage.name}.distances.npy"

    def _kept(self) -> dict[str, Any]:
        path = self.folder / MADE_WITH
        if not path.exists():
            return {}
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path} is damaged ({error}), so it is not known what {self.folder} was made with. Delete the "
                "folder, or give another with --work."
            ) from error


def digest(content: Any) -> str:
    """A short hash of what JSON can hold."""
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()
