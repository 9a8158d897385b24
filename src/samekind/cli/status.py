"""The exit status of every command.

    0     done; `verify`: same
    1     an answer, not a failure (`verify`: different; `search`: no entry near enough; others: no picture was usable)
    2     no answer: wrong usage, or something that the message on stderr explains
    70    a bug of ours, with its traceback
    130   interrupted by Ctrl-C
    141   nobody reads stdout any more (as a process that SIGPIPE ends)

Nothing but an answer ends with 0 or 1.
"""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

import typer

from samekind.cli.output import say_error

CANNOT = 2
BUG = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130
NO_READER = 141


@contextlib.contextmanager
def errors_as_statuses() -> Iterator[None]:
    """Errors that a user can fix are printed as one line, without a traceback; each way to end has its status."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, where it is noticed that no one reads it
    except KeyboardInterrupt as error:
        _end("interrupted.", INTERRUPTED, error)
    except (OSError, EOFError, ValueError, MemoryError, ImportError) as error:
        if isinstance(error, ModuleNotFoundError):  # a bug of ours
            raise
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _silence(sys.stdout)
            raise typer.Exit(NO_READER) from error
        if isinstance(error, OSError) and error.filename is None:  # such as a full disk behind stdout
            _silence(sys.stdout)
        _end(error, CANNOT, error)


def run(command: Callable[[], object]) -> None:
    """Call what ends the process with a status; whatever it raises instead is a bug."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the one who started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we live
    try:
        command()
    except Exception:
        with contextlib.suppress(OSError):
            traceback.print_exc()
        sys.exit(BUG)


def _end(message: Exception | str, status: int, error: BaseException) -> NoReturn:
    with contextlib.suppress(OSError):  # stderr may be closed as well
        say_error(message)
    raise typer.Exit(status) from error


def _silence(stream: object) -> None:
    """What is still in its buffer goes nowhere, or Python would complain when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined]
