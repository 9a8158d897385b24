"""A small disk of one's own, which really fills up and really becomes read-only: a tmpfs, which only root may mount."""

import contextlib
import os
import subprocess

import pytest

PAGE = 4096
PLENTY = 200_000_000  # bytes


@contextlib.contextmanager
def small_disk(folder, home):
    """A folder with links to all that the targets read, on a disk of its own; gives a function that sets its size."""
    folder.mkdir()
    made = _mount("-t", "tmpfs", "-o", f"size={PLENTY}", "tmpfs", str(folder))
    if made.returncode:
        pytest.skip(f"no disk can be mounted here, which takes root: {made.stderr.strip()[:100]}")
    try:
        for path in home.iterdir():
            if not path.name.startswith("new."):
                os.symlink(path, folder / path.name)
        yield lambda *options: _remount(folder, options)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def size(n_bytes):
    """An option of a mount."""
    return f"size={max(PAGE, n_bytes // PAGE * PAGE)}"


def used(folder):
    """Bytes of the disk."""
    known = os.statvfs(folder)
    return (known.f_blocks - known.f_bfree) * known.f_frsize


def _mount(*arguments):
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(arguments, 1, "", str(error))


def _remount(folder, options):
    made = _mount("-o", ",".join(("remount", *options)), str(folder))
    assert made.returncode == 0, made.stderr
