"""Fits in processes of their own: timed, limited in time and memory, and kept for a run that goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import samekind
from samekind.files import write_array, write_whole
from samekind.kernels.types import Array, IntArray
from samekind.lfw.reporter import ProgressReporter
from samekind.lfw.retrieval.worker import NOT_WRITTEN, OUT_OF_MEMORY, SPENT

WORKER = Path(__file__).with_name("worker.py")

UNLIMITED = 1e9  # minutes
SCRATCH = "scratch"  # folder of the fit under way: one process at a time works in a folder of work

Samples = tuple[Array, IntArray]


@dataclass(frozen=True, eq=False)
class Fit:
    """What a learner did: components (m, r, D) as they stood after seconds and iterations (m,), the last its result.

    `status` is "finished", "cut off" after its time, or says why there are no components. `facts` are the learner's
    own.
    """

    status: str
    components: Array
    seconds: Array
    iterations: IntArray
    peak_mb: float
    facts: Mapping[str, Any]

    @classmethod
    def failed(cls, status: str) -> Fit:
        return cls(status, np.zeros((0, 0, 0)), np.zeros(0), np.zeros(0, np.int64), np.nan, {})

    @classmethod
    def load(cls, path: Path) -> Fit:
        with np.load(path, allow_pickle=False) as kept:
            return cls(
                str(kept["status"]),
                kept["components"],
                kept["seconds"],
                kept["iterations"],
                float(kept["peak_mb"]),
                json.loads(str(kept["facts"])),
            )

    @property
    def has_metric(self) -> bool:
        return len(self.components) > 0

    @property
    def metric(self) -> Array:
        """Components (r, D) at the end, those of zeros left out."""
        last = self.components[-1]
        return np.asarray(last[last.any(axis=1)])


@dataclass(frozen=True)
class Fits:
    """A folder of fits: NAME.json says how one ended, NAME.npz has what it learned."""

    folder: Path
    reporter: ProgressReporter
    memory_limit: int | None = None  # bytes that a process may hold
    lmnn_python: str | None = None  # an interpreter that has metric-learn; None: LMNN is not run

    def fitted(
        self,
        name: str,
        learner: str,
        samples: Callable[[], Samples],
        options: Mapping[str, Any],
        *,
        title: str,
        minutes: float = np.inf,
        path: bool = False,
        resumable: bool = False,
    ) -> Fit:
        """The fit of this name, made where it is not there yet, or was cut off and has more time now."""
        if learner == "lmnn" and self.lmnn_python is None:
            return Fit.failed("not run: give --lmnn, an interpreter that has metric-learn")
        known, given = self._known(name), min(minutes, UNLIMITED)
        if known is None or (known["status"] != "finished" and given > known["minutes"]):
            checkpoint = self.folder / f"{name}.checkpoint"
            made_with = dict(options) | ({"checkpoint": str(checkpoint)} if resumable else {})
            status = self._run(name, learner, samples(), made_with, title, minutes, path)
            known = {"status": status, "minutes": given, "options": dict(options)}
            write_whole(self.folder / f"{name}.json", json.dumps(known) + "\n")
            shutil.rmtree(checkpoint, ignore_errors=True)
            checkpoint.with_name(checkpoint.name + SPENT).unlink(missing_ok=True)
        file = self.folder / f"{name}.npz"
        return Fit.load(file) if file.exists() else Fit.failed(known["status"])

    def _known(self, name: str) -> dict[str, Any] | None:
        path = self.folder / f"{name}.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def _run(
        self, name: str, learner: str, samples: Samples, options: dict[str, Any], title: str, minutes: float, path: bool
    ) -> str:
        """How it ended; its result is moved into the folder."""
        scratch = self.folder / SCRATCH
        shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            for what, array in zip("Xy", samples, strict=True):
                write_array(scratch / f"{what}.npy", array)
            result = scratch / "result.npz"
            status = self._process(learner, scratch, result, options, title, minutes, path)
            if result.exists():
                write_whole(self.folder / f"{name}.npz", result.read_bytes())
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return status

    def _process(
        self,
        learner: str,
        scratch: Path,
        result: Path,
        options: dict[str, Any],
        title: str,
        minutes: float,
        path: bool,
    ) -> str:
        """How the worker ended; an error where it was no fault of the learner, so that it is to be run again."""
        python = self.lmnn_python if learner == "lmnn" else sys.executable
        command = [str(python), "-W", "ignore", str(WORKER), learner, str(scratch), str(result)]
        command += [f"--options={json.dumps(options)}", "--attached", *(["--path"] if path else [])]
        command += [f"--limit={60 * minutes}"] if np.isfinite(minutes) else []
        command += [f"--memory={self.memory_limit}"] if self.memory_limit else []
        errors, pipe = scratch / "errors", subprocess.PIPE
        with (
            errors.open("w") as log,
            self.reporter.counting(title) as count,
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=_environment(learner)) as run,
        ):
            assert run.stdout is not None, "it is a pipe"
            try:
                for line in run.stdout:
                    done, total = map(int, line.split())
                    count(done, total)
            except BaseException:
                run.kill()
                raise
        if run.returncode == 0:
            return Fit.load(result).status
        if run.returncode == OUT_OF_MEMORY:
            limit = f"{self.memory_limit:,} bytes of memory" if self.memory_limit else "the memory that there is"
            return f"failed: more than {limit} needed"
        last = (errors.read_text(errors="replace").strip().splitlines() or [""])[-1]
        if run.returncode == NOT_WRITTEN:
            raise OSError(f"{title}: {last or 'a file could not be written; there is no space left for more'}")
        if run.returncode < 0:
            raise ChildProcessError(
                f"{title}: the process of this fit was ended by signal {-run.returncode}, as the system does where "
                "memory runs out. The same command begins it again."
            )
        return f"failed: {last or f'exit status {run.returncode}'}"


def _environment(learner: str) -> dict[str, str]:
    """Our own learner is imported from where this package is; another interpreter must not find our packages."""
    here = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if learner == "lmnn":
        return here
    return here | {"PYTHONPATH": str(Path(samekind.__file__).parents[1])}
