"""One harness for every verb that writes: run it in a child, let something go wrong, run it again, compare the bytes.

A child is a fork that calls the command line; a fault is what is done in it first. Whatever the fault, what was written
before stays readable, the exit status is no answer, and the same command, run again, ends with the same bytes.
"""

import builtins
import contextlib
import errno
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from samekind.cli.main import app, main
from samekind.gallery import Gallery
from samekind.model.metric import Metric
from samekind.store import DiskStore
from tests.lfw import small
from tests.picture_folders import write_pictures

FEW = ("--max-groups", "2", "--components", "4", "--set", "cv=none", "--set", "compare_by=distance", "--jobs", "1")
SHARD_BYTES = 3 * 2 * 8 * (45 + 59)  # three pictures
REGIONS = ("--size", "40x56", "--regions", "8", "--jobs", "1")
EXPERIMENT = ("people", "protocol", "--families", "cov", "--work", "new.work", *small.OPTIONS, "--jobs", "1", "--quiet")


@dataclass(frozen=True)
class Target:
    """A verb, and what it leaves behind in a folder."""

    name: str
    arguments: tuple[str, ...]
    left: Callable[[Path], object]  # what is compared, of the folder


def bytes_of(*names):
    """Digests of the files, or of all files of the folders, that have these names."""

    def digests(folder):
        found = {}
        for name in names:
            for path in sorted([folder / name, *(folder / name).glob("*")]):
                if path.is_file() and not path.name.startswith("."):
                    found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    return digests


def records_of(name):
    """Names, labels and codes of a gallery, whose bytes depend on what was added when."""

    def records(folder):
        with Gallery.open(folder / name, read_only=True) as gallery:
            return gallery.names(), len(gallery)

    return records


def learned_in(name):
    """Models, distances and components of a work folder; its reports and figures have times in them."""

    def learned(folder):
        found = {file: hashlib.sha256(content).hexdigest() for file, content in small.kept(folder / name).items()}
        for path in sorted((folder / name / "retrieval" / "fits").glob("*.npz")):
            with np.load(path, allow_pickle=False) as kept:
                found[path.name] = str(kept["status"]), kept["components"].tobytes()
        return found

    return learned


TARGETS = {
    target.name: target
    for target in (
        Target("store", ("extract", "faces", "new.store", *REGIONS), bytes_of("new.store")),
        Target(
            "joined",
            ("compact", "store", "new.joined", "--shard-bytes", f"{2 * SHARD_BYTES}B"),
            bytes_of("new.joined"),
        ),
        Target("model", ("fit", "store", "new.model", *FEW, "--quiet"), bytes_of("new.model")),
        Target(
            "checkpoint",
            ("fit", "store", "new.model", *FEW, "--quiet", "--checkpoint", "new.fit"),
            bytes_of("new.model"),
        ),
        Target(
            "codes", ("encode", "model", "faces", "--out", "new.npy", "--jobs", "1"), bytes_of("new.npy", "new.csv")
        ),
        Target("gallery", ("index", "model", "faces", "new.gallery", "--jobs", "1"), records_of("new.gallery")),
        Target("lfw", ("lfw", *EXPERIMENT), learned_in("new.work")),
        Target(
            "retrieval",
            ("retrieval", *EXPERIMENT, "--query-images", "3", "--parts", "trace"),
            learned_in("new.work"),
        ),
    )
}


def prepare(folder):
    """Pictures, a protocol, a store and a model that all targets read."""
    write_pictures(folder / "faces", n_labels=4, per_label=3)
    small.write_images(folder / "people")
    small.write_protocol(folder / "protocol")
    run_here(folder, ("extract", "faces", "store", *REGIONS))
    run_here(folder, ("fit", "store", "model", *FEW, "--quiet"))


def undisturbed(folder):
    """What each target leaves, and the seconds that it takes.

    In this process, so that it imports and compiles once what all children need.
    """
    results = {}
    for name, target in TARGETS.items():
        started = time.monotonic()
        run_here(folder, target.arguments)
        results[name] = target.left(folder), time.monotonic() - started
        forget(folder)
    return results


def forget(folder):
    """Remove what targets have left."""
    for path in folder.glob("new.*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def run_here(folder, arguments):
    with contextlib.chdir(folder), small_shards():
        result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output


@contextlib.contextmanager
def small_shards():
    """So that a store has several."""
    from samekind.extraction import extract

    before = extract.__kwdefaults__["shard_bytes"]
    extract.__kwdefaults__["shard_bytes"] = SHARD_BYTES
    try:
        yield
    finally:
        extract.__kwdefaults__["shard_bytes"] = before


def run(folder, arguments, fault=lambda: None):
    """Exit status, negative for a signal, and what was printed."""
    with tempfile.TemporaryFile() as said:
        child = start(folder, arguments, fault, said.fileno())
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode("utf-8", "replace")


def start(folder, arguments, fault=lambda: None, output=None):
    """A child that calls the command line: its process id."""
    child = os.fork()
    if not child:
        _call(folder, arguments, fault, os.open(os.devnull, os.O_WRONLY) if output is None else output)
    return child


def _call(folder, arguments, fault, output):
    """In the child; does not return."""
    status = 99
    try:
        os.chdir(folder)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["samekind", *arguments]
        with small_shards():
            fault()
            main()
    except SystemExit as ended:
        status = ended.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


# -- faults ------------------------------------------------------------------------------------------------------------


def kill_after(seconds):
    """An end without warning at some moment."""

    def fault():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process at once, in compiled code too, as SIGKILL does
        signal.setitimer(signal.ITIMER_REAL, seconds)

    return fault


def _at_call(name, number, act):
    """Do something instead of the so-manieth call of a function of `os`."""

    def fault():
        original, calls = getattr(os, name), []

        def wrapped(*given, **named):
            calls.append(1)
            if len(calls) == number:
                act()
            return original(*given, **named)

        setattr(os, name, wrapped)

    return fault


def kill_at(name, number):
    """kill -9 just before a file is synchronised, or takes its name."""
    return _at_call(name, number, lambda: os.kill(os.getpid(), signal.SIGKILL))


def full_at(number):
    """The disk is full from one write to the next."""

    def no_space():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return _at_call("fsync", number, no_space)


def read_only():
    """Nothing can be opened for writing."""
    opened, descriptor = builtins.open, os.open

    def refuse(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))

    def open_file(file, mode="r", *given, **named):
        if not isinstance(file, int) and set(mode) & set("wxa+"):
            refuse(file)
        return opened(file, mode, *given, **named)

    def open_descriptor(path, flags, *given, **named):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and os.fspath(path) != os.devnull:
            refuse(path)
        return descriptor(path, flags, *given, **named)

    builtins.open, os.open = open_file, open_descriptor


def random_kill(rng: random.Random, longest: float):
    """One of the ways to be killed."""
    kind = rng.random()
    if kind < 0.5:
        return kill_after(rng.uniform(0.001, longest))
    return kill_at(rng.choice(["fsync", "replace"]), rng.randrange(1, 12))


def readable(folder):
    """Whoever reads what is written meanwhile sees whole shards, models, distances and records, and no errors."""
    for name in ("new.store", "new.joined", "new.work/store"):
        if (folder / name / "manifest.json").exists():
            store = DiskStore.open(folder / name, n_jobs=1)
            if len(store):
                store.panel([0, len(store.group_sizes) - 1], range(len(store)))
    for path in (folder / "new.work").glob("*/*.safetensors"):
        Metric.load(path)
    for path in (folder / "new.work").glob("*/*.distances.npy"):
        np.load(path, allow_pickle=False)
    if (folder / "new.gallery").exists():
        records_of("new.gallery")(folder)
