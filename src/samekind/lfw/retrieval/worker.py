"""One fit in a process of its own, by whichever interpreter has the learner: a script, not a module of the package.

    python worker.py LEARNER FOLDER RESULT --options JSON [--limit SECONDS] [--memory BYTES] [--path] [--attached]

reads FOLDER/X.npy and y.npy and writes the file RESULT (.npz): components (m, r, D) as they stood after `seconds` (m,)
and `iterations` (m,), the last being the result and, without --path, the only ones; peak memory in MB over what the
process held before; facts of the learner as JSON; status, "finished" or "cut off" after --limit. A fit that goes on
from a checkpoint counts the seconds of the processes before. Prints `iteration total` for each iteration. The exit
status is 3 where --memory, or what the machine has, was too little, 4 where a file could not be read or written.
--attached: ends when its standard input does, as whoever started it has ended then.

Nothing but the standard library and NumPy is imported, except by the learner itself.
"""

import argparse
import json
import os
import resource
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np

OUT_OF_MEMORY, NOT_WRITTEN = 3, 4
SPENT = ".seconds"  # of the file beside a checkpoint: what its fit has taken so far
APART = 1.05  # of two moments whose components are noted
FEW_CLASSES = 20  # of a first fit, so that imports and first calls are not charged


class TimeIsUp(Exception):
    pass


class Trace:
    """Components of a metric during its fit: the latest, or (`whole`) those of moments at least 5 % apart as well.

    Time that is spent on noting them does not count; that of earlier processes, which `spent` (a file) tells, does.
    """

    def __init__(self, limit: float = np.inf, whole: bool = False, shown: bool = False, spent: str | None = None):
        self.limit = limit
        self.whole = whole
        self.shown = shown
        self.seconds: list[float] = []
        self.iterations: list[int] = []
        self.facts: dict[str, Any] = {}
        self._components: list[Any] = []
        self._spent = spent
        self._before = _seconds_in(spent)
        self._start = time.perf_counter()
        self._noting = 0.0

    @property
    def passed(self) -> float:
        return self._before + time.perf_counter() - self._start - self._noting

    def note(self, components: Any, iteration: int, total: int = 0) -> None:
        """`components` is an array, or a function that makes it, called when it is wanted.

        With a `total` it is an iteration, of so many at most: it is reported, and ends a fit that is out of time.
        """
        now, began = self.passed, time.perf_counter()
        if self.shown and total:
            sys.stdout.write(f"{iteration} {total}\n")
            sys.stdout.flush()
        if self.seconds and (not self.whole or (len(self.seconds) > 1 and now < APART * self.seconds[-2])):
            del self.seconds[-1], self.iterations[-1], self._components[-1]
        late = total > 0 and now > self.limit
        self.seconds.append(now)
        self.iterations.append(iteration)
        self._components.append(components() if callable(components) and (self.whole or late) else components)
        if self._spent is not None:
            _write_seconds(self._spent, now)
        self._noting += time.perf_counter() - began
        if late:
            raise TimeIsUp

    @property
    def components(self) -> np.ndarray:
        """(m, r, D); rows of zeros, which change no distance, where a rank was lower."""
        made = [np.asarray(each() if callable(each) else each, np.float32) for each in self._components]
        rank = max(len(each) for each in made)
        return np.stack([np.pad(each, ((0, rank - len(each)), (0, 0))) for each in made])


def _seconds_in(path: str | None) -> float:
    """What a fit has taken that goes on; 0 for a new one."""
    if path is None or not os.path.exists(path):
        return 0.0
    with open(path) as file:
        return float(file.read())


def _write_seconds(path: str, seconds: float) -> None:
    with open(f"{path}.new", "w") as file:
        file.write(f"{seconds}\n")
    os.replace(f"{path}.new", path)


def lmnn(X: np.ndarray, y: np.ndarray, options: dict[str, Any], trace: Trace) -> None:
    """metric-learn's. It tries each L in `_loss_grad` and moves on to those that lower its objective."""
    from metric_learn import LMNN

    class Watched(LMNN):  # type: ignore[misc,unused-ignore]
        lowest = np.inf
        best: np.ndarray
        accepted = 0

        def _loss_grad(self, X: np.ndarray, L: np.ndarray, *rest: Any) -> Any:
            made = super()._loss_grad(X, L, *rest)
            if made[1] <= self.lowest:
                self.lowest, self.best = made[1], L.copy()
                self.accepted += 1
            trace.note(self.best, self.accepted, self.max_iter)
            return made

    Watched(**options).fit(X, y)


def joint(X: np.ndarray, y: np.ndarray, options: dict[str, Any], trace: Trace) -> None:
    from samekind import JointMetric

    def hear(event: Any) -> None:
        trace.note(event.components, event.iteration, event.total)

    made = JointMetric(**options, callback=hear).fit(X, y)
    trace.note(made.components_, made.n_iter_)
    trace.facts |= {
        "converged": bool(made.converged_),
        "objective": float(made.objective_),
        "objective_error": float(made.objective_error_),
        "relative_gap": float(made.certificate_.relative_gap),
        "solver": made.solver_,
    }


LEARNERS = {"joint": joint, "lmnn": lmnn}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learner", choices=LEARNERS)
    parser.add_argument("folder")
    parser.add_argument("result")
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds")
    parser.add_argument("--memory", type=int, help="bytes that the process may hold")
    parser.add_argument("--path", action="store_true", help="components on their way, not only the last")
    parser.add_argument("--attached", action="store_true", help="end when the standard input does")
    given = parser.parse_args()
    if given.attached:
        threading.Thread(target=_end_with_input, daemon=True).start()
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here]  # its modules are no top-level ones
    if given.memory:
        resource.setrlimit(resource.RLIMIT_DATA, (given.memory, given.memory))
    try:
        _fit(given)
    except MemoryError as error:
        _end(OUT_OF_MEMORY, f"out of memory: {error}")
    except OSError as error:
        _end(NOT_WRITTEN, str(error))


def _end(status: int, reason: str) -> None:
    """At once: on a full disk there is no place for the reason, and the status must be right all the same."""
    with suppress(OSError):
        os.write(2, f"{reason}\n".encode())
    os._exit(status)


def _end_with_input() -> None:
    """Somebody may begin the same fit again, in the same folder, once the one who waits for this one was killed."""
    while os.read(0, 1024):
        pass
    os._exit(1)


def _fit(given: argparse.Namespace) -> None:
    X, y = (np.load(os.path.join(given.folder, f"{name}.npy"), allow_pickle=False) for name in "Xy")
    learn, few = LEARNERS[given.learner], np.isin(y, np.unique(y)[:FEW_CLASSES])
    once = {name: value for name, value in given.options.items() if name != "checkpoint"} | {"max_iter": 2}
    learn(X[few, :20], y[few], once | ({"n_components": 2} if given.options.get("n_components") else {}), Trace())
    checkpoint = given.options.get("checkpoint")
    spent = checkpoint and f"{checkpoint}{SPENT}"
    if spent and os.path.exists(spent) and not os.path.exists(checkpoint):
        os.remove(spent)  # the fit begins anew
    trace, status = Trace(given.limit, given.path, shown=True, spent=spent), "finished"
    before = _reset_peak()
    try:
        learn(X, y, given.options, trace)
    except TimeIsUp:
        status = "cut off"
    seconds = trace.passed
    peak = max(0.0, _memory("VmHWM") - before)
    np.savez(
        given.result,
        components=trace.components,
        seconds=np.append(trace.seconds[:-1], seconds),
        iterations=np.array(trace.iterations),
        peak_mb=peak / 1e6,
        status=status,
        facts=json.dumps(trace.facts),
    )


def _reset_peak() -> float:
    """Bytes that the process holds now; where the system can, its peak is set back to these."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _memory("VmRSS")


def _memory(field: str) -> float:
    """Bytes, of the kernel's figures for this process; elsewhere than on Linux the peak since its start."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024.0
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    main()
