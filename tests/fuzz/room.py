"""Cases in processes of their own: whatever a case does, the next one is run.

A child works through some seeds. Its memory is bounded by 1 GB over what it has when it begins, each case by seconds of
CPU time and, for those that wait, of time. Where a signal ends it, the seed that it worked on is what was found, and
another child goes on behind it.
"""

import contextlib
import io
import mmap
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.models import Models
from tests.fuzz.pictures import Pictures
from tests.fuzz.stores import Listings, Stores

KINDS = {"models": Models, "pictures": Pictures, "stores": Stores, "listings": Listings}
REFUSALS = (OSError, ValueError)  # which a command prints as one line
MEMORY = 1_000_000_000  # bytes over the idle process
CPU_SECONDS, SECONDS = 10, 600
AT_ONCE = 1000  # cases of a child


@dataclass
class Outcome:
    """Of many cases: how many were accepted and refused, and what was found."""

    kind: str
    cases: int = 0
    accepted: int = 0
    refused: int = 0
    found: list[tuple[int, str]] = field(default_factory=list)  # seed, what happened
    reasons: Counter = field(default_factory=Counter)
    most_memory: int = 0  # bytes over the idle process
    longest: float = 0.0  # seconds of CPU time of a case
    cpu_seconds: float = 0.0

    def add(self, other):
        for name in ("cases", "accepted", "refused", "found", "reasons", "cpu_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.most_memory = max(self.most_memory, other.most_memory)
        self.longest = max(self.longest, other.longest)


def run(kind, first, n_cases, seconds=None, progress=lambda outcome: None):
    """Cases `first` to `first + n_cases`, or as many as fit the seconds."""
    started, outcome = time.monotonic(), Outcome(kind)
    folder = Path(tempfile.mkdtemp(prefix="samekind-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        room = KINDS[kind](folder)
        warm_up(room)
        at, end = first, first + n_cases
        while at < end and (seconds is None or time.monotonic() - started < seconds):
            stop = min(at + AT_ONCE, end)
            outcome.add(_in_child(kind, room, at, stop))
            at = first + outcome.cases
            progress(outcome)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def warm_up(room):
    """Import and compile before memory and time are counted."""
    import cv2

    cv2.setNumThreads(1)
    for seed in range(40):
        _case(room, -1 - seed)


def _in_child(kind, room, first, stop):
    current = mmap.mmap(-1, 8)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        status = 1
        with contextlib.suppress(BaseException):
            outcome = _work(kind, room, first, stop, current)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(outcome, pipe)
            status = 0
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if content and not status:
        return pickle.loads(content)  # what our own child wrote
    seed = int.from_bytes(current[:8], "little")
    done = Outcome(kind, cases=seed - first)  # their findings are lost with the child: run them again
    if seed > first:
        done = _in_child(kind, room, first, seed)
    what = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"ended with status {status}"
    done.add(Outcome(kind, cases=1, found=[(seed, what)]))
    return done


def _work(kind, room, first, stop, current):
    outcome, idle = Outcome(kind), _memory()
    limit = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    begun = time.process_time()
    for seed in range(first, stop):
        current[:8] = seed.to_bytes(8, "little")
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # both end the process
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        reason = _case(room, seed)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        outcome.longest = max(outcome.longest, time.process_time() - started)
        outcome.cases += 1
        if reason is None:
            outcome.accepted += 1
        elif isinstance(reason, REFUSALS):
            outcome.refused += 1
            outcome.reasons[type(reason).__name__] += 1
        else:
            outcome.found.append((seed, reason))
    outcome.cpu_seconds = time.process_time() - begun
    outcome.most_memory = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - idle)
    return outcome


def _case(room, seed):
    """None where it was accepted, the error where it was refused, else a text: what must not happen."""
    rng, said = random.Random(seed), io.StringIO()
    try:
        room.make(rng)
    except Exception:
        return f"The case could not be made:\n{traceback.format_exc()}"
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            warnings.simplefilter("error", RuntimeWarning)
            room.use(rng)
    except REFUSALS as error:
        return error
    except BaseException:
        return traceback.format_exc()
    return None


def _memory():
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _address_space():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def report(outcome, file=sys.stdout):
    """A line of figures, and what was found."""
    for seed, what in outcome.found[:20]:
        print(f"-- {outcome.kind} seed {seed}:\n{what}", file=file)
    print(
        f"fuzz kind={outcome.kind} cases={outcome.cases} accepted={outcome.accepted} refused={outcome.refused} "
        f"found={len(outcome.found)} most_memory_mb={outcome.most_memory / 1e6:.0f} "
        f"longest_case_s={outcome.longest:.2f} cpu_s={outcome.cpu_seconds:.0f}",
        file=file,
        flush=True,
    )
