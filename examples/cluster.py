"""A fit on two worker processes, one of which is killed: the model is the same, bit by bit.

    python examples/cluster.py

Starts a scheduler and two workers as separate processes, as one would on several machines, and trains from the command
line: once with threads, once on the cluster. While the cluster trains, one of its workers is killed; the other takes
over its share. At the end both model files are compared. Needs `pip install 'samekind[cluster]'`.
"""

import hashlib
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from samekind.store import Family, StoreWriter

CLASSES, PER_CLASS, GROUPS, SIZE = 130, 10, 60, 8
FIT = ("--max-groups", "8", "--components", "12", "--set", "cv=none", "--quiet", "--jobs", "1")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_store(work / "things.store")
        began = time.monotonic()
        samekind("fit", work / "things.store", work / "threads.safetensors", *FIT)
        print(f"threads: {time.monotonic() - began:.1f} s", flush=True)

        address = f"tcp://127.0.0.1:{free_port()}"
        scheduler = started("dask scheduler", [sys.executable, "-m", "distributed.cli.dask_scheduler", *at(address)])
        workers = [
            started(f"samekind worker {address}", [*SAMEKIND, "worker", address, "--jobs", "1", "--name", name])
            for name in ("first", "second")
        ]
        try:
            time.sleep(8)  # both are there: with one alone it would work as well
            fit = [*SAMEKIND, "fit", work / "things.store", work / "cluster.safetensors", *FIT]
            training = started(
                f"samekind fit ... --scheduler {address}",
                [*fit, "--scheduler", address, "--checkpoint", str(work / "checkpoint")],
            )
            wait_for_rounds(work / "checkpoint", training)
            workers[1].kill()
            print("the second worker is killed", flush=True)
            if training.wait() != 0:
                sys.exit("the fit failed")
        finally:
            for process in [*workers, scheduler]:
                process.kill()
                process.wait()
        digests = [
            hashlib.sha256((work / f"{name}.safetensors").read_bytes()).hexdigest() for name in ("threads", "cluster")
        ]
        print("the same model, bit by bit:", digests[0] == digests[1], digests[0][:16])
        if digests[0] != digests[1]:
            sys.exit(1)


SAMEKIND = [sys.executable, "-m", "samekind"]


def samekind(*arguments: object) -> None:
    subprocess.run([*SAMEKIND, *map(str, arguments)], check=True)


def started(words: str, command: list[object]) -> subprocess.Popen[bytes]:
    print("$", words, flush=True)
    return subprocess.Popen([str(each) for each in command], stderr=subprocess.DEVNULL)


def at(address: str) -> list[str]:
    host, port = address.removeprefix("tcp://").split(":")
    return ["--host", host, "--port", port, "--no-dashboard"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_rounds(checkpoint: Path, training: subprocess.Popen[bytes]) -> None:
    """Until the fit has finished a round or two."""
    while training.poll() is None and not list(checkpoint.glob("*step1*")):
        time.sleep(0.05)


def write_store(path: Path) -> None:
    """Things of many kinds, each described by groups of numbers, some of which tell the kinds apart."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(CLASSES), PER_CLASS)
    strength = np.repeat(rng.uniform(0, 1.2, GROUPS) ** 3, SIZE)
    X = strength * rng.normal(size=(CLASSES, GROUPS * SIZE))[kinds] + rng.normal(size=(len(kinds), GROUPS * SIZE))
    family = Family("part", SIZE, [f"number {k}" for k in range(GROUPS)])
    images = [(f"thing {i}", f"kind {kind}") for i, kind in enumerate(kinds)]
    with StoreWriter.open(path, families=[family], front_end={}, images=images, shard_rows=len(kinds)) as writer:
        (shard,) = writer.pending()
        array = X.astype(np.float16).reshape(len(kinds), GROUPS, SIZE).transpose(1, 0, 2)
        rows = list(range(len(kinds)))
        writer.write(shard, {"part": array}, rows=rows, skipped={}, notes={}, digests=[f"{i:032x}" for i in rows])


if __name__ == "__main__":
    main()
