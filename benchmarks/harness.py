"""What the benchmarks share: arguments, timing, peak memory, environments, the last line. Standard library only."""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

MB = 1e6


def parser(doc: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="smaller sizes, within a minute")
    return made


class Report:
    """Numbers held against their targets; ends with the one line that a script may read."""

    def __init__(self, name: str):
        self.name = name
        self.numbers: dict[str, float] = {}
        self.short = False

    def note(self, key: str, value: float) -> None:
        self.numbers[key] = value

    def hold(self, key: str, value: float, *, at_most: float = float("inf"), at_least: float = float("-inf")) -> None:
        self.note(key, value)
        kept = at_least <= value <= at_most
        self.short |= not kept
        target = f"at most {at_most:g}" if at_most < float("inf") else f"at least {at_least:g}"
        print(f"{key}: {value:.4g}, target {target}: {'ok' if kept else 'short'}")

    def end(self) -> NoReturn:
        print(self.name, *(f"{key}={value:.4g}" for key, value in self.numbers.items()))
        sys.exit(1 if self.short else 0)


def environment(name: str, *requirements: str) -> str:
    """The interpreter of an environment of its own, made once below the user's cache folder and then reused."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "samekind-benchmarks" / name
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    if not (folder / "installed").exists():
        print(f"making an environment: {', '.join(requirements)}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *requirements], check=True)
        (folder / "installed").touch()
    return python


def seconds_of(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleaved(functions: Sequence[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """Seconds of each function in each round, all of them taking turns, so that a busy minute hits all alike."""
    rounds = [[seconds_of(function) for function in functions] for _ in range(repeats)]
    return [list(times) for times in zip(*rounds, strict=True)]


def best_of(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    return [min(times) for times in interleaved(functions, repeats)]


def median_of(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    return [statistics.median(times) for times in interleaved(functions, repeats)]


class PeakMemory:
    """The largest resident set inside a `with` block over that at its start, in MB: `extra`, measured as `how` says.

    The kernel's high-water mark, set back at the start; where it cannot be set back, samples every millisecond.
    """

    def __enter__(self) -> "PeakMemory":
        self._over = threading.Event()
        self.how = "high-water mark" if _reset_high_water() else "samples"
        self._start = self._highest = _status("VmRSS")
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        if self.how == "samples":
            self._sampler.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self.how == "samples":
            self._sampler.join()
        else:
            self._highest = _status("VmHWM")
        self.extra = max(0, self._highest - self._start) / MB

    def _sample(self) -> None:
        while not self._over.wait(0.001):
            self._highest = max(self._highest, _status("VmRSS"))


def _reset_high_water() -> bool:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmHWM") <= 1.02 * _status("VmRSS")
    return False


def _status(field: str) -> int:
    """Bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}: memory can be measured on Linux only.")
