"""Files that are either written whole or not at all, and folders that one process at a time writes to."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from filelock import FileLock
    from numpy.typing import NDArray

LEFTOVERS = ".samekind-*.tmp"  # of `whole_file`, when its process is killed


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8) to ``path``; a failure leaves an older file as it was."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    with whole_file(path) as file:
        file.write(data)


def write_array(path: str | os.PathLike[str], array: NDArray[Any]) -> None:
    """Write a .npy file; a failure leaves an older one as it was."""
    with whole_file(path) as file:
        write_array_into(file, array)


def write_array_into(file: BinaryIO, array: NDArray[Any]) -> None:
    """As .npy, by `write` alone: NumPy's own way into a file does not say that the disk is full."""
    import numpy as np

    np.lib.format.write_array(_Plain(file), np.ascontiguousarray(array), allow_pickle=False)


class _Plain:
    """A file that NumPy does not know for one."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a temporary binary file that takes the place of ``path`` when the block ends without an error."""
    # A symbolic link stays a link: the file that it names is the one to replace.
    target = Path(os.path.realpath(path))
    _check_replaceable(target)
    # The same folder, because a rename is atomic only within one file system.
    temporary = target.with_name(f".samekind-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # what happened first is what is said
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            _blame_target(error, temporary, target)
        raise


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where the system can: a rename that is not on disk may be undone by a crash."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # not every file system knows how
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_folder(folder: Path, name: str, busy: Exception) -> FileLock:
    """A lock that no other process holds, let go when it is released and when the process ends, however.

    Raises `busy` where another holds it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / name, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise busy from error
    except NotImplementedError:  # a file system without locks
        pass
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise OSError(error.errno, f"Nothing can be written here ({error.strerror})", str(folder)) from error
    return lock


def _check_replaceable(target: Path) -> None:
    """Refuse what a rename would fail on late, or would replace although a plain write could not."""
    if not target.parent.is_dir():
        problem = "There is no such folder to write into; make it first"
        raise FileNotFoundError(errno.ENOENT, problem, str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder; give the name of a file", str(target))
    if target.exists() and not target.is_file():
        problem = "This is a device or a pipe; give the name of a plain file"
        raise OSError(errno.EINVAL, problem, str(target))
    if target.exists() and not os.access(target, os.W_OK):
        problem = "This file is write-protected; choose another name or allow writing to it"
        raise PermissionError(errno.EACCES, problem, str(target))


def _blame_target(error: OSError, temporary: Path, target: Path) -> None:
    """Name the file that was asked for: a full disk names none, and nobody knows the temporary."""
    if error.filename in (None, str(temporary)) and error.filename2 is None:
        error.filename = str(target)
